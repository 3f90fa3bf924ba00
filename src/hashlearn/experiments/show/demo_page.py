"""The demo's results as a page: the table, the curves, and examples of retrieval."""

import platform
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import hashlearn
from hashlearn.codes import unpack
from hashlearn.experiments.define.tasks import REFERENCE
from hashlearn.experiments.demo import DEMO_MEASURES, MEASURE_NOTES, Demo, DemoRun, DigitCodes, K, demo_experiment
from hashlearn.experiments.results import processor
from hashlearn.experiments.show.pages import (
    Cell,
    Drawing,
    DrawingGroup,
    DrawingRow,
    ReportPage,
    ReportTable,
    RowGroup,
    Section,
    render_page,
)
from hashlearn.experiments.show.pictures import Picture, Retrieval, bit_strips, retrieval_grid
from hashlearn.experiments.show.plots import by_bits_figure, precision_at_figure, precision_recall_figure
from hashlearn.experiments.show.styles import Style, styles_for

STRONG = ("JPSH", "SAH")
COLUMNS = ("method", *DEMO_MEASURES.values(), "fit", "search")
QUERIES_SHOWN = 10
CODES_SHOWN = 12
IMAGE_SHAPE = (8, 8)
_UNITS = (("µs", 1e6), ("ms", 1e3), ("s", 1.0))


def demo_page(demo: Demo) -> str:
    """The whole report as one HTML document."""
    shown = _shown_codes(demo)
    pictures = [] if shown is None else [_retrieval_section(demo, shown), _strips_section(demo, shown)]
    sections = [*pictures[:1], _methods_section(demo), *pictures[1:], _curves_section(demo)]
    n, d = demo.split.vectors.shape
    page = ReportPage(
        demo_experiment().title,
        f"{_headline(demo)} {n} images of {d} pixels were hashed; {len(demo.split.query_labels)} other images are the "
        "queries.",
        sections,
        [
            f"hashlearn {hashlearn.__version__}, Python {platform.python_version()}, NumPy {np.__version__}; "
            f"{processor()}; scikit-learn's digits, seed {demo.seed}, default parameters; measured in "
            f"{demo.seconds:.0f} s, every fit on one thread. Made by:"
        ],
        ["hashlearn demo"],
    )
    return render_page(page)


def cells(run: DemoRun) -> list[str]:
    """The row of a run, as text."""
    numbers = [_number(run.measure(name)) for name in DEMO_MEASURES]
    return [run.method, *numbers, _duration(run.fit_seconds), _duration(run.search_seconds)]


def problems(demo: Demo) -> list[str]:
    """Why some cells are empty, a line each."""
    return [f"{run.method} at {run.n_bits} bits: {run.problem}" for run in demo.runs if run.problem]


def is_best(demo: Demo, run: DemoRun, measure: str) -> bool:
    """Whether this is the highest value at this length, in the digits that are shown."""
    best = None if run.n_bits is None else demo.best(run.n_bits, measure)
    return best is not None and run.measure(measure) is not None and _number(run.measure(measure)) == _number(best)


def _methods_section(demo: Demo) -> Section:
    """One picture of all methods, and the table that it is drawn from."""
    names = list(dict.fromkeys(run.method for run in demo.runs))
    styles = styles_for(names, STRONG, REFERENCE)
    drawing = DrawingGroup(styles, [DrawingRow([_by_bits(demo, styles, "mAP")])])
    groups = [RowGroup("reference", [_row(demo, demo.reference)])]
    for n_bits in demo.lengths:
        times = demo.split.vectors.shape[1] * 32 / n_bits
        heading = f"{n_bits} bits, {times:.0f} times smaller than float32 vectors"
        groups.append(RowGroup(heading, [_row(demo, run) for run in demo.at(n_bits)]))
    notes = [*MEASURE_NOTES, *problems(demo)]
    intro = "Mean average precision against the length of the codes. Higher is better."
    return Section("All methods", intro, [ReportTable(COLUMNS, groups)], [drawing], notes, "All numbers as a table")


def _row(demo: Demo, run: DemoRun) -> tuple[str, list[Cell]]:
    name, *texts = cells(run)
    best = [is_best(demo, run, measure) for measure in DEMO_MEASURES]
    return name, [Cell(text, bool(mark)) for text, mark in zip(texts, [*best, False, False])]


def _headline(demo: Demo) -> str:
    n_bits = demo.lengths[-1]
    ranked = sorted((run for run in demo.at(n_bits) if run.evaluation), key=lambda run: -(run.measure("mAP") or 0))
    if not ranked:
        return ""
    best, floats = ranked[0].measure("mAP"), demo.reference.measure("mAP")
    return (
        f"Codes of {n_bits} bits by {ranked[0].method} find the same digit with a mAP of {_number(best)}; the float "
        f"vectors themselves, {demo.split.vectors.shape[1] * 32 // n_bits} times larger, reach {_number(floats)}."
    )


def _curves_section(demo: Demo) -> Section:
    names = list(dict.fromkeys(run.method for run in demo.runs))
    styles = styles_for(names, STRONG, REFERENCE)
    at = {
        n_bits: {run.method: run.evaluation for run in [*demo.at(n_bits), demo.reference] if run.evaluation}
        for n_bits in demo.lengths
    }
    rows = [
        DrawingRow(
            [_by_bits(demo, styles, name) for name in ("precision_at_100", "neighbor_recall")],
            "By the length of the codes",
        ),
        DrawingRow(
            [Drawing(precision_recall_figure(found, styles, f"{n_bits} bits")) for n_bits, found in at.items()],
            "Precision and recall",
            "Codes at every Hamming radius; float vectors by the first N results.",
        ),
        DrawingRow(
            [Drawing(precision_at_figure(found, styles, f"{n_bits} bits")) for n_bits, found in at.items()],
            "Precision among the first N",
            "The share of the first N results with the query's label.",
        ),
    ]
    intro = "Higher is better everywhere. A method has the same color and dashes in all figures."
    return Section("Curves", intro, drawings=[DrawingGroup(styles, rows)])


def _by_bits(demo: Demo, styles: dict[str, Style], name: str) -> Drawing:
    values: dict[str, dict[int, float]] = {}
    for run in demo.runs:
        if run.n_bits is not None and (value := run.measure(name)) is not None:
            values.setdefault(run.method, {})[run.n_bits] = value
    floats = demo.reference.measure(name)
    reference = None if floats is None else (REFERENCE, floats)
    title = DEMO_MEASURES[name]
    return Drawing(by_bits_figure(values, styles, title=title, y_label=title, reference=reference))


def _shown_codes(demo: Demo) -> DigitCodes | None:
    """The codes to draw: the longest codes of JPSH, or of the first method."""
    done = [run.codes for run in demo.runs if run.codes is not None]
    return max(done, key=lambda codes: (codes.method == STRONG[0], codes.n_bits), default=None)


def _retrieval_section(demo: Demo, codes: DigitCodes) -> Section:
    chosen = _one_of_each(demo.split.query_labels)[:QUERIES_SHOWN]
    nearest = codes.index().search(codes.queries[chosen], K).ids
    grid = retrieval_grid([_retrieval(demo, query, found) for query, found in zip(chosen, nearest)])
    caption = "First column: the query. Solid frame: same digit; dashed frame: another one."
    return Section(
        f"What {codes.method} finds with {codes.n_bits} bits",
        f"One query of each digit, drawn by the seed, and the {K} images whose codes are nearest.",
        drawings=[_one_drawing(Drawing(grid, caption, is_narrow=True))],
    )


def _retrieval(demo: Demo, query: int, found: NDArray[np.int64]) -> Retrieval:
    split = demo.split
    label = split.query_labels[query]
    images = [Picture(_image(split.vectors[i]), str(split.labels[i]), bool(split.labels[i] == label)) for i in found]
    return Retrieval(Picture(_image(split.query_vectors[query]), str(label)), images)


def _strips_section(demo: Demo, codes: DigitCodes) -> Section:
    labels = demo.split.labels
    bits = unpack(codes.database, codes.n_bits)
    groups = {str(label): bits[labels == label][:CODES_SHOWN] for label in np.unique(labels)}
    caption = f"{CODES_SHOWN} images of each digit, one row each; a column is a bit."
    return Section(
        f"The codes of {codes.method}",
        "A column of one color within a digit is a bit that its images agree on. The digits agree on different bits.",
        drawings=[_one_drawing(Drawing(bit_strips(groups), caption, is_narrow=True))],
    )


def _one_drawing(drawing: Drawing) -> DrawingGroup:
    return DrawingGroup({}, [DrawingRow([drawing])])


def _one_of_each(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.unique(labels, return_index=True)[1]


def _image(vector: NDArray) -> NDArray:
    return vector.reshape(IMAGE_SHAPE)


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
