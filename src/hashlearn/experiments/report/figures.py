"""Drawings for a page: curves (matplotlib, as inline SVG), retrieved images, codes as strips of bits.

Colours are names that the page's style sheet resolves, so that one drawing is right in light and in dark mode.
"""

import base64
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.experiments.report.html import Html, element, markup, void_element
from hashlearn.extras import require

N_COLOURS = 8
DASHES = ((1.0, 0.0), (5.0, 2.0), (1.2, 1.8), (6.0, 1.6, 1.2, 1.6))

# matplotlib wants colours it knows; these stand for the style sheet's and are replaced in the SVG.
_INK, _GRID, _SERIES = "#010101", "#020202", "#0303{:02x}"


@dataclass(frozen=True)
class Style:
    """How one method is drawn in every figure of a page."""

    colour: int | None
    dashes: tuple[float, ...] = DASHES[0]
    width: float = 1.6

    @property
    def css(self) -> str:
        return "currentColor" if self.colour is None else f"var(--series-{self.colour})"


@dataclass(frozen=True)
class Curve:
    """A named line."""

    name: str
    x: ArrayLike
    y: ArrayLike


def styles_for(names: Sequence[str], strong: Sequence[str] = (), reference: str | None = None) -> dict[str, Style]:
    """A style for every name, none like another: the strong ones thick, the reference in the colour of the text.

    The first of the strong is on top of the others, and they are thicker, so that they show where they coincide.
    """
    ordered = [name for name in strong if name in names] + [name for name in names if name not in strong]
    styles = {
        name: Style(i % N_COLOURS, DASHES[i // N_COLOURS % len(DASHES)], 2.2 + 0.8 * i if name in strong else 1.5)
        for i, name in enumerate(ordered)
    }
    if reference is not None:
        styles[reference] = Style(None, DASHES[2], 1.5)
    return styles


def line_figure(
    curves: Iterable[Curve],
    styles: Mapping[str, Style],
    *,
    title: str,
    x_label: str,
    y_label: str,
    x_ticks: Sequence[int] | None = None,
    x_names: Sequence[str] | None = None,
    log_x: bool = False,
    markers: bool = False,
    y_range: tuple[float | None, float | None] = (0.0, 1.02),
) -> Html:
    """Curves on one pair of axes, as SVG without a legend: :func:`legend` makes one for all figures of a page.

    ``x_names`` are what the ticks are called, where that is not their value.
    """
    axes_figure = _new_figure()
    axes = axes_figure.add_subplot()
    for curve in curves:
        style = styles[curve.name]
        axes.plot(
            np.asarray(curve.x),
            np.asarray(curve.y),
            color=_INK if style.colour is None else _SERIES.format(style.colour),
            linewidth=style.width,
            linestyle="-" if style.dashes == DASHES[0] else (0, style.dashes),
            marker="o" if markers else None,
            markersize=3 + style.width / 2,
            zorder=3 - (style.colour or 0) / N_COLOURS + (style.width > 2),
        )
    _dress(axes, title, x_label, y_label)
    if log_x:
        axes.set_xscale("log", base=2)
    if x_ticks is not None:
        axes.set_xticks(x_ticks, [str(tick) for tick in x_ticks] if x_names is None else x_names)
        axes.minorticks_off()
    axes.set_ylim(*y_range)
    if y_range[0] is not None and y_range[1] is None:
        axes.set_ylim(top=axes.get_ylim()[0] + 1.08 * (axes.dataLim.y1 - axes.get_ylim()[0]))
    return _svg(axes_figure, title)


def precision_recall_figure(
    evaluations: Mapping[str, Any], styles: Mapping[str, Style], title: str = "Precision and recall over radii"
) -> Html:
    """Precision against recall: over Hamming radii for codes, over the first N results where there are no radii."""
    curves = [Curve(name, *_precision_recall(evaluation)) for name, evaluation in evaluations.items()]
    return line_figure(curves, styles, title=title, x_label="recall", y_label="precision")


def precision_at_figure(
    evaluations: Mapping[str, Any], styles: Mapping[str, Style], title: str = "Precision among the first N"
) -> Html:
    """Precision@N against N."""
    curves = [Curve(name, result.positions, result.precision_at) for name, result in evaluations.items()]
    return line_figure(
        curves, styles, title=title, x_label="N, results looked at", y_label="precision@N", y_range=(0.0, None)
    )


def by_bits_figure(
    values: Mapping[str, Mapping[int, float]],
    styles: Mapping[str, Style],
    *,
    title: str = "mAP against bits",
    y_label: str = "mAP",
    reference: tuple[str, float] | None = None,
) -> Html:
    """A number of each method against the length of its codes; the reference is a level line."""
    lengths = sorted({n_bits for of_method in values.values() for n_bits in of_method})
    curves = [Curve(name, sorted(of), [of[n_bits] for n_bits in sorted(of)]) for name, of in values.items()]
    if reference is not None and lengths:
        curves.append(Curve(reference[0], [lengths[0], lengths[-1]], [reference[1]] * 2))
    return line_figure(
        curves, styles, title=title, x_label="bits", y_label=y_label, x_ticks=lengths, log_x=True, markers=True,
        y_range=(0.0, None),
    )  # fmt: skip


def legend(styles: Mapping[str, Style]) -> Html:
    """Names and how they are drawn."""
    return element("ul", *(_legend_entry(name, style) for name, style in styles.items()), class_="legend")


def image_grid(
    queries: Sequence[NDArray], found: Sequence[Sequence[NDArray]], is_match: Sequence[Sequence[bool]], **names: Any
) -> Html:
    """Queries at the left of each row, then what was found for them, framed by whether it is right.

    Parameters
    ----------
    queries : images, grey of shape (h, w) or colour of shape (h, w, 3)
    found : for each query its images, nearest first
    is_match : for each query and image, whether it has the query's label
    query_names, found_names : like ``queries`` and ``found``, optional
        Words for those who do not see the pictures.
    """
    query_names = names.get("query_names", [""] * len(queries))
    found_names = names.get("found_names", [[""] * len(row) for row in found])
    cells = []
    for query, name, row, row_names, matches in zip(queries, query_names, found, found_names, is_match):
        cells.append(element("div", _image(query, f"query {name}"), class_="query"))
        for image, word, match in zip(row, row_names, matches):
            cells.append(element("div", _image(image, str(word)), class_="hit" if match else "miss"))
    columns = f"grid-template-columns: 1.22fr repeat({max((len(row) for row in found), default=0)}, 1fr)"
    return element("div", *cells, class_="retrieval", style=columns)


def bit_strips(groups: Mapping[str, NDArray]) -> Html:
    """Codes drawn as rows of bits, group by group; a column that is plain within a group is a bit the group agrees on.

    Parameters
    ----------
    groups : name -> 0/1 matrix of shape (n, n_bits)
    """
    rows = []
    for name, bits in groups.items():
        rows += [element("div", name, class_="name"), _strip(np.asarray(bits, bool), f"codes of {name}")]
    return element("div", *rows, class_="strips")


def png_uri(image: ArrayLike) -> str:
    """An image as a data URI: grey (h, w) from 0 (dark) to its maximum, or colour (h, w, 3) as uint8 or in [0, 1]."""
    need_matplotlib()
    from matplotlib.image import imsave

    pixels, buffer = np.asarray(image), io.BytesIO()
    imsave(buffer, pixels, format="png", cmap="gray", vmin=0)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _precision_recall(evaluation: Any) -> tuple[NDArray, NDArray]:
    if evaluation.radius_curve is None:
        return evaluation.recall_at, evaluation.precision_at
    curve = evaluation.radius_curve
    found = curve.recall > 0  # the smallest radii may retrieve nothing, and have no precision
    return curve.recall[found], curve.precision[found]


def _strip(bits: NDArray[np.bool_], words: str) -> Html:
    """One path for all ones: a rectangle for every run of them."""
    n, width = bits.shape
    padded = np.pad(bits.astype(np.int8), ((0, 0), (1, 1)))
    steps = np.diff(padded, axis=1)
    rows, starts = np.nonzero(steps == 1)
    stops = np.nonzero(steps == -1)[1]
    path = "".join(f"M{a} {y}h{b - a}v1h{a - b}z" for y, a, b in zip(rows, starts, stops))
    height = 10 * n / width
    return Html(
        f'<svg viewBox="0 0 {width} {n}" preserveAspectRatio="none" style="aspect-ratio: 10 / {height:.3g}" role="img" '
        f'aria-label="{markup(words)}"><rect width="{width}" height="{n}" fill="var(--bit-off)"/>'
        f'<path d="{path}" fill="var(--bit-on)"/></svg>'
    )


def _image(image: NDArray, words: str) -> Html:
    return void_element("img", src=png_uri(image), alt=words, title=words)


def _legend_entry(name: str, style: Style) -> Html:
    dashes = "none" if style.dashes == DASHES[0] else " ".join(f"{2 * dash:g}" for dash in style.dashes)
    line = Html(
        f'<svg viewBox="0 0 30 10" aria-hidden="true"><path d="M0 5h30" stroke="{style.css}" '
        f'stroke-width="{style.width + 0.8:g}" stroke-dasharray="{dashes}"/></svg>'
    )
    return element("li", line, name)


def need_matplotlib() -> None:
    """Raise an error that says how to install it, before long work is done in vain."""
    require("matplotlib", "report")


def _new_figure() -> Any:
    """A figure of its own, without the global state of pyplot."""
    need_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(4.6, 3.4), layout="constrained")


def _dress(axes: Any, title: str, x_label: str, y_label: str) -> None:
    axes.set_title(title, color=_INK, fontsize=11, fontweight="bold", loc="left")
    axes.set_xlabel(x_label, color=_INK)
    axes.set_ylabel(y_label, color=_INK)
    axes.grid(color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_INK, length=0, labelsize=9)
    axes.patch.set_visible(False)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_GRID)


def _svg(drawing: Any, title: str) -> Html:
    """The figure as an SVG element with the style sheet's colours and ids that no other figure has."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        drawing.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    opening = re.search(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', svg)
    assert opening is not None
    svg = f'<svg viewBox="{opening[1]}" role="img" aria-label="{markup(title)}">' + svg[opening.end() :]
    svg = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = svg.replace("xlink:href", "href")
    svg = svg.replace(_INK, "currentColor").replace(_GRID, "var(--line)")
    svg = re.sub(r"#0303([0-9a-f]{2})", lambda found: f"var(--series-{int(found[1], 16)})", svg)
    return Html(svg.strip())
