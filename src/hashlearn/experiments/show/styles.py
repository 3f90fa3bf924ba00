"""How methods are drawn: one style each, the same in every figure of a page.

Colors are names of the page's style sheet, so one drawing fits light and dark mode.
"""

from collections.abc import Sequence
from dataclasses import dataclass

N_COLORS = 8
SOLID = (1.0, 0.0)
DASHES = (SOLID, (5.0, 2.0), (1.2, 1.8), (6.0, 1.6, 1.2, 1.6))
DOTTED = DASHES[2]


@dataclass(frozen=True)
class Style:
    """How one method is drawn; without a color, it has the color of the text."""

    color: int | None
    dashes: tuple[float, ...] = SOLID
    width: float = 1.6

    @property
    def css(self) -> str:
        """The color as the style sheet calls it."""
        return "currentColor" if self.color is None else f"var(--series-{self.color})"

    @property
    def dash_array(self) -> str:
        """The dashes as SVG writes them."""
        return "none" if self.dashes == SOLID else " ".join(f"{2 * dash:g}" for dash in self.dashes)


def styles_for(names: Sequence[str], strong: Sequence[str] = (), reference: str | None = None) -> dict[str, Style]:
    """A different style for every name: thick lines for the strong ones, the color of the text for the reference.

    The first strong line is drawn last. The other strong lines are thicker, so that they are visible where lines
    coincide.
    """
    ordered = [name for name in strong if name in names] + [name for name in names if name not in strong]
    styles = {
        name: Style(i % N_COLORS, DASHES[i // N_COLORS % len(DASHES)], 2.2 + 0.8 * i if name in strong else 1.5)
        for i, name in enumerate(ordered)
    }
    if reference is not None:
        styles[reference] = Style(None, DOTTED, 1.5)
    return styles
