"""Curves, drawn by matplotlib as SVG in the colors of the page's style sheet."""

import html
import io
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.experiments.show.styles import N_COLORS, SOLID, Style
from hashlearn.extras import require

# matplotlib accepts only real colors: these are replaced by those of the style sheet in the SVG.
_INK, _GRID, _SERIES = "#010101", "#020202", "#0303{:02x}"
_WIDEST_NAME = 28
"""Characters of a method's name on one line beside its bar."""


@dataclass(frozen=True)
class PlotLine:
    """A named line."""

    name: str
    x: ArrayLike
    y: ArrayLike


class FigureAxes(NamedTuple):
    """The axes of a figure; ``x_names`` are what the ticks are called, where that is not their value."""

    title: str
    x_label: str
    y_label: str
    x_ticks: Sequence[int] | None = None
    x_names: Sequence[str] | None = None
    log_x: bool = False
    markers: bool = False
    y_range: tuple[float | None, float | None] = (0.0, 1.02)


def line_figure(curves: Iterable[PlotLine], styles: Mapping[str, Style], axes_of: FigureAxes) -> str:
    """Curves on one pair of axes, as SVG without a legend: a page has one for all its figures."""
    title, x_label, y_label, x_ticks, x_names, log_x, markers, y_range = axes_of
    axes_figure = _new_figure()
    axes = axes_figure.add_subplot()
    for curve in curves:
        style = styles[curve.name]
        axes.plot(
            np.asarray(curve.x),
            np.asarray(curve.y),
            color=_color(style),
            linewidth=style.width,
            linestyle="-" if style.dashes == SOLID else (0, style.dashes),
            marker="o" if markers else None,
            markersize=3 + style.width / 2,
            zorder=3 - (style.color or 0) / N_COLORS + (style.width > 2),
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
) -> str:
    """Precision against recall: over Hamming radii for codes, over the first N results where there are no radii."""
    curves = [PlotLine(name, *_precision_recall(evaluation)) for name, evaluation in evaluations.items()]
    return line_figure(curves, styles, FigureAxes(title, "recall", "precision"))


def precision_at_figure(
    evaluations: Mapping[str, Any], styles: Mapping[str, Style], title: str = "Precision among the first N"
) -> str:
    """Precision@N against N."""
    curves = [PlotLine(name, result.positions, result.precision_at) for name, result in evaluations.items()]
    return line_figure(curves, styles, FigureAxes(title, "N, results looked at", "precision@N", y_range=(0.0, None)))


def by_bits_figure(
    values: Mapping[str, Mapping[int, float]],
    styles: Mapping[str, Style],
    *,
    title: str = "mAP against bits",
    y_label: str = "mAP",
    reference: tuple[str, float] | None = None,
) -> str:
    """A number of each method against the length of its codes; the reference is a level line. Bars for one length."""
    lengths = sorted({n_bits for of_method in values.values() for n_bits in of_method})
    if len(lengths) == 1:
        of_length = {name: of[lengths[0]] for name, of in values.items()}
        return bars_figure(of_length, styles, title, f"{y_label}, {lengths[0]} bits", reference)
    curves = [PlotLine(name, sorted(of), [of[n_bits] for n_bits in sorted(of)]) for name, of in values.items()]
    if reference is not None and lengths:
        curves.append(PlotLine(reference[0], [lengths[0], lengths[-1]], [reference[1]] * 2))
    axes = FigureAxes(title, "bits", y_label, x_ticks=lengths, log_x=True, markers=True, y_range=(0.0, None))
    return line_figure(curves, styles, axes)


def bars_figure(
    values: Mapping[str, float],
    styles: Mapping[str, Style],
    title: str,
    x_label: str,
    reference: tuple[str, float] | None = None,
) -> str:
    """A bar for each method, the first on top; the reference is an upright line. Long names take several lines."""
    names = [textwrap.fill(name, _WIDEST_NAME) for name in values]
    n_lines = sum(1 + name.count("\n") for name in names)
    figure = _new_figure(height=1.2 + max(0.17 * n_lines + 0.1 * len(names), 2.2))
    axes = figure.add_subplot()
    axes.barh(range(len(names)), list(values.values()), color=[_color(styles[name]) for name in values], height=0.6)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    if reference is not None:
        style = styles[reference[0]]
        axes.axvline(reference[1], color=_color(style), linewidth=style.width, linestyle=(0, style.dashes))
    _dress(axes, "", x_label, "")
    figure.suptitle(title, color=_INK, fontsize=11, fontweight="bold", x=0.02, ha="left")  # beside the names, too
    return _svg(figure, title)


def _color(style: Style) -> str:
    return _INK if style.color is None else _SERIES.format(style.color)


def _precision_recall(evaluation: Any) -> tuple[NDArray, NDArray]:
    if evaluation.radius_curve is None:
        return evaluation.recall_at, evaluation.precision_at
    curve = evaluation.radius_curve
    found = curve.recall > 0  # the smallest radii may retrieve nothing, and have no precision
    return curve.recall[found], curve.precision[found]


def _new_figure(height: float = 3.4) -> Any:
    """A figure without the global state of pyplot."""
    figures: Any = require("matplotlib.figure", "report")
    return figures.Figure(figsize=(4.6, height), layout="constrained")


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


def _svg(drawing: Any, title: str) -> str:
    """The figure as an SVG element with the style sheet's colors and ids that no other figure has."""
    matplotlib: Any = require("matplotlib", "report")
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        drawing.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    opening = re.search(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', svg)
    assert opening is not None
    svg = f'<svg viewBox="{opening[1]}" role="img" aria-label="{html.escape(title)}">' + svg[opening.end() :]
    svg = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = svg.replace("xlink:href", "href")
    svg = svg.replace(_INK, "currentColor").replace(_GRID, "var(--line)")
    svg = re.sub(r"#0303([0-9a-f]{2})", lambda found: f"var(--series-{int(found[1], 16)})", svg)
    return svg.strip()
