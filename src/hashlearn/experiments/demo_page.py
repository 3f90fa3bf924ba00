"""The demo's results as a page: the table, the curves, and what retrieval looks like."""

import platform
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import hashlearn
from hashlearn.codes import unpack
from hashlearn.experiments.demo import MEASURE_NOTES, MEASURES, REFERENCE, Codes, Demo, K, Run
from hashlearn.experiments.report.figures import (
    Style,
    bit_strips,
    by_bits_figure,
    image_grid,
    legend,
    precision_at_figure,
    precision_recall_figure,
    styles_for,
)
from hashlearn.experiments.report.html import Cell, Group, Html, figure, page, section, side_by_side, subsection, table

STRONG = ("JPSH", "SAH")
COLUMNS = ("method", *MEASURES.values(), "fit", "search")
QUERIES_SHOWN = 10
CODES_SHOWN = 12
IMAGE_SHAPE = (8, 8)
_UNITS = (("µs", 1e6), ("ms", 1e3), ("s", 1.0))


def demo_page(demo: Demo) -> str:
    """The whole report as one HTML document."""
    names = list(dict.fromkeys(run.method for run in demo.runs))
    styles = styles_for(names, STRONG, REFERENCE)
    sections = [
        section("All methods", _table(demo), intro=_headline(demo)),
        _curves_section(demo, styles),
    ]
    shown = _shown_codes(demo)
    if shown is not None:
        sections += [_retrieval_section(demo, shown), _strips_section(demo, shown)]
    n, d = demo.split.vectors.shape
    return page(
        "hashlearn: short codes for handwritten digits",
        *sections,
        subtitle=f"{n} images of {d} pixels as codes of {_listed(demo.lengths)} bits; "
        f"{len(demo.split.query_labels)} other images look for their like among them.",
        footer=f"hashlearn {hashlearn.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"{platform.machine()}; scikit-learn's digits, seed {demo.seed}, default parameters; "
        f"measured in {demo.seconds:.0f} s on one thread a fit. Made by: hashlearn demo",
    )


def cells(run: Run) -> list[str]:
    """The row of a run, as text."""
    numbers = [_number(run.measure(name)) for name in MEASURES]
    return [run.method, *numbers, _duration(run.fit_seconds), _duration(run.search_seconds)]


def problems(demo: Demo) -> list[str]:
    """Why some cells are empty, a line each."""
    return [f"{run.method} at {run.n_bits} bits: {run.problem}" for run in demo.runs if run.problem]


def is_best(demo: Demo, run: Run, measure: str) -> bool:
    """Whether no method has a higher value at this length, to the digits shown."""
    best = None if run.n_bits is None else demo.best(run.n_bits, measure)
    return best is not None and run.measure(measure) is not None and _number(run.measure(measure)) == _number(best)


def _table(demo: Demo) -> Html:
    groups = [Group("reference", [cells(demo.reference)])]
    for n_bits in demo.lengths:
        rows = [_marked(demo, run) for run in demo.at(n_bits)]
        times = demo.split.vectors.shape[1] * 32 / n_bits
        groups.append(Group(f"{n_bits} bits, {times:.0f} times smaller than float32 vectors", rows))
    return table(COLUMNS, groups, [*MEASURE_NOTES, *problems(demo)])


def _marked(demo: Demo, run: Run) -> list[str | Cell]:
    row: list[str | Cell] = list(cells(run))
    for column, name in enumerate(MEASURES, start=1):
        row[column] = Cell(str(row[column]), is_best(demo, run, name))
    return row


def _headline(demo: Demo) -> str:
    n_bits = demo.lengths[-1]
    ranked = sorted((run for run in demo.at(n_bits) if run.evaluation), key=lambda run: -(run.measure("mAP") or 0))
    if not ranked:
        return ""
    best, floats = ranked[0].measure("mAP"), demo.reference.measure("mAP")
    return (
        f"At {n_bits} bits {ranked[0].method} reaches a mAP of {_number(best)}; ranking by the Euclidean distance of "
        f"the float vectors themselves gives {_number(floats)}. The best of each length is marked."
    )


def _curves_section(demo: Demo, styles: dict[str, Style]) -> Html:
    at = {
        n_bits: {run.method: run.evaluation for run in [*demo.at(n_bits), demo.reference] if run.evaluation}
        for n_bits in demo.lengths
    }
    by_bits = [_by_bits(demo, styles, name) for name in ("mAP", "precision_at_100", "neighbour_recall")]
    recall = [precision_recall_figure(found, styles, f"{n_bits} bits") for n_bits, found in at.items()]
    precision = [precision_at_figure(found, styles, f"{n_bits} bits") for n_bits, found in at.items()]
    return section(
        "Curves",
        legend(styles),
        _row("By the length of the codes", by_bits),
        _row("Precision and recall", recall, "Codes at every Hamming radius; float vectors by the first N results."),
        _row("Precision among the first N", precision, "The share of the first N results with the query's label."),
        intro="Higher is better everywhere. A method is drawn alike in all figures.",
    )


def _by_bits(demo: Demo, styles: dict[str, Style], name: str) -> Html:
    values: dict[str, dict[int, float]] = {}
    for run in demo.runs:
        if run.n_bits is not None and (value := run.measure(name)) is not None:
            values.setdefault(run.method, {})[run.n_bits] = value
    floats = demo.reference.measure(name)
    reference = None if floats is None else (REFERENCE, floats)
    return by_bits_figure(values, styles, title=MEASURES[name], y_label=MEASURES[name], reference=reference)


def _row(heading: str, drawings: Sequence[Html], intro: str = "") -> Html:
    return subsection(heading, side_by_side(*(figure(drawing) for drawing in drawings)), intro=intro)


def _shown_codes(demo: Demo) -> Codes | None:
    """The codes that are pictured: the longest of JPSH, or of the first method there is."""
    done = [run.codes for run in demo.runs if run.codes is not None]
    return max(done, key=lambda codes: (codes.method == STRONG[0], codes.n_bits), default=None)


def _retrieval_section(demo: Demo, codes: Codes) -> Html:
    split = demo.split
    chosen = _one_of_each(split.query_labels)[:QUERIES_SHOWN]
    nearest = codes.index().search(codes.queries[chosen], K).ids
    grid = image_grid(
        _images(split.query_vectors[chosen]),
        [_images(split.vectors[row]) for row in nearest],
        [split.labels[row] == split.query_labels[query] for query, row in zip(chosen, nearest)],
        query_names=split.query_labels[chosen],
        found_names=[split.labels[row] for row in nearest],
    )
    caption = "First column: the query. Solid frame: same digit; dashed frame: another one."
    return section(
        f"What {codes.method} finds with {codes.n_bits} bits",
        figure(grid, caption, is_narrow=True),
        intro=f"One query of each digit, drawn by the seed, and the {K} images whose codes are nearest.",
    )


def _strips_section(demo: Demo, codes: Codes) -> Html:
    labels = demo.split.labels
    bits = unpack(codes.database, codes.n_bits)
    groups = {str(label): bits[labels == label][:CODES_SHOWN] for label in np.unique(labels)}
    return section(
        f"The codes of {codes.method}",
        figure(bit_strips(groups), f"{CODES_SHOWN} images a digit, one row each; a column is a bit.", is_narrow=True),
        intro="A column that is plain within a digit is a bit its images agree on; digits differ in which these are.",
    )


def _one_of_each(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.unique(labels, return_index=True)[1]


def _images(vectors: NDArray) -> list[NDArray]:
    return [vector.reshape(IMAGE_SHAPE) for vector in vectors]


def _listed(values: Sequence[int]) -> str:
    words = [str(value) for value in values]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    unit, factor = next((unit, factor) for unit, factor in _UNITS if seconds * factor < 1000 or unit == "s")
    value = seconds * factor
    return f"{value:.{0 if value >= 10 else 1}f} {unit}"
