"""The figures of an experiment, drawn from stored lines."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.experiments.define.experiment import Experiment, RunGrid
from hashlearn.experiments.define.measures import Measure, PublishedPlace
from hashlearn.experiments.define.tasks import REFERENCE, Task, tasks_of_part
from hashlearn.experiments.judge import Line
from hashlearn.experiments.results import MeasureTable, Results, by_dataset, number, stat
from hashlearn.experiments.show.pages import Drawing, DrawingGroup, DrawingRow
from hashlearn.experiments.show.pictures import sign_picture
from hashlearn.experiments.show.plots import (
    FigureAxes,
    PlotLine,
    by_bits_figure,
    line_figure,
    precision_at_figure,
    precision_recall_figure,
)
from hashlearn.experiments.show.styles import DOTTED, Style, styles_for
from hashlearn.metrics import Evaluation, RadiusCurve

_PUBLISHED = " (published)"
_GREEK = {"lambda1": "λ1", "lambda2": "λ2", "lambda3": "λ3", "n_neighbors": "k", "n_anchors": "m"}


def figures_of(experiment: Experiment, results: Results) -> list[DrawingGroup]:
    """The figures of an experiment, those without results left out."""
    sweeps = [part for part in experiment.parts if part.figure == "sweeps"]
    found = [_sweeps(sweeps, experiment.measures[0], results)]
    for part in experiment.parts:
        if part.figure == "curves":
            found.append(_curves(part, results))
        elif part.figure == "by-bits":
            found.append(_by_bits(part, experiment, results))
        elif part.figure == "weights":
            found.append(_weights(part, results))
        elif part.figure == "convergence":
            found.append(_convergence(part, results))
    return [group for group in found if group.rows]


def drawn_tables(experiment: Experiment, tables: Sequence[MeasureTable]) -> list[DrawingGroup]:
    """The first measure of every dataset against the length: the picture of an experiment that has only tables."""
    styles: dict[str, Style] = {}
    for part in experiment.parts:
        styles |= _styles(part, REFERENCE if part.reference else None)
    drawings, seen = [], set()
    for table in tables:
        values = {
            row.title: {bits: cell.ours.mean for bits, cell in zip(table.bits, row.cells) if cell.ours}
            for row in table.rows
            if row.title in styles
        }
        if table.dataset.name in seen or not any(values.values()):
            continue
        seen.add(table.dataset.name)
        reference = None if table.reference is None or REFERENCE not in styles else (REFERENCE, table.reference)
        drawn = by_bits_figure(
            {title: of for title, of in values.items() if of},
            styles,
            title=f"{table.dataset.title}: {table.measure.title}",
            y_label=table.measure.title,
            reference=reference,
        )
        drawings.append(Drawing(drawn))
    if all(len(table.bits) == 1 for table in tables):  # bars have their names beside them
        styles = {name: style for name, style in styles.items() if name == REFERENCE}
    return [DrawingGroup(styles, [DrawingRow(drawings)])] if drawings else []


def mean_curves(lines: Iterable[Line]) -> Evaluation:
    """Curves averaged over runs of one length, point by point."""
    lines = list(lines)
    first, curves = lines[0], [line["curves"] for line in lines]

    def mean(name: str) -> NDArray[np.float64]:
        return np.mean([np.array(of[name], np.float64) for of in curves], axis=0)

    radius_curve = None
    if "radius_recall" in curves[0]:
        precision = mean("radius_precision")
        radius_curve = RadiusCurve(np.arange(len(precision)), precision, mean("radius_recall"))
    return Evaluation(
        first["data"]["n_queries"],
        first["data"]["n_database"],
        n_bits=first["config"]["bits"],
        ties="expected",
        positions=np.array(curves[0]["positions"]),
        precision_at=mean("precision_at"),
        recall_at=mean("recall_at"),
        radius_curve=radius_curve,
    )


def signs_of(line: Line) -> NDArray[np.int8]:
    """Signs of one cluster's weights, shape (bits, features): -1, +1, and 0 in the columns without weight."""
    stored = line["weights"]
    n_bits, n_features = stored["shape"]
    packed = np.frombuffer(base64.b64decode(stored["positive"]), np.uint8)
    positive = np.unpackbits(packed, count=n_bits * n_features).reshape(n_bits, n_features)
    signs = np.where(positive == 1, 1, -1).astype(np.int8)
    signs[:, stored["zero_features"]] = 0
    return signs


def _curves(part: RunGrid, results: Results) -> DrawingGroup:
    """Precision and recall, three figures for every dataset and length."""
    styles = _styles(part, REFERENCE if part.reference else None)
    rows = []
    for tasks in by_dataset([part]):
        for bits in part.bits:
            lines = _lines_by_title([task for task in tasks if task.bits in (bits, None)], results)
            curves = {title: mean_curves(of) for title, of in lines.items()}
            if curves:
                heading = f"{tasks[0].dataset.title}, {bits} bits"
                rows.append(DrawingRow(_three_curves(curves, styles, heading), heading))
    return DrawingGroup(styles, rows)


def _three_curves(curves: dict[str, Evaluation], styles: Mapping[str, Style], title: str) -> list[Drawing]:
    at: dict[str, Any] = curves
    recall = line_figure(
        [PlotLine(name, of.positions, of.recall_at) for name, of in at.items()],
        styles,
        FigureAxes(f"{title}: recall among the first N", "N, results looked at", "recall@N", y_range=(0.0, None)),
    )
    return [
        Drawing(precision_recall_figure(at, styles, f"{title}: precision and recall")),
        Drawing(precision_at_figure(at, styles, f"{title}: precision among the first N")),
        Drawing(recall),
    ]


def _by_bits(part: RunGrid, experiment: Experiment, results: Results) -> DrawingGroup:
    """Measures against the length, with the published numbers dotted where they can be compared."""
    styles, rows = _styles(part), []
    for tasks in by_dataset([part]):
        dataset, drawings = tasks[0].dataset, []
        for measure in part.draws or experiment.measures[:2]:
            values = _means(tasks, measure, results)
            if not values:
                continue
            if results.has_published_features(dataset):
                known = _published(part, experiment, dataset.published_as, measure)
                values |= known
                styles |= {name: replace(styles[name.removesuffix(_PUBLISHED)], dashes=DOTTED) for name in known}
            title = f"{dataset.title}: {measure.title}"
            drawings.append(Drawing(by_bits_figure(values, styles, title=title, y_label=measure.title)))
        if drawings:
            rows.append(DrawingRow(drawings, dataset.title))
    return DrawingGroup(styles, rows)


def _published(part: RunGrid, experiment: Experiment, dataset: str, measure: Measure) -> dict[str, dict[int, float]]:
    """The published numbers of the methods that have the publication's settings."""
    found = {}
    for method in part.methods:
        places = {bits: PublishedPlace(dataset, measure.published_as, bits, method.published_as) for bits in part.bits}
        known = {bits: experiment.published[place] for bits, place in places.items() if place in experiment.published}
        if known and not method.is_variant:
            found[f"{method.title}{_PUBLISHED}"] = known
    return found


def _weights(part: RunGrid, results: Results) -> DrawingGroup:
    """The signs of one cluster's weights, a picture for every length."""
    rows = []
    for task in tasks_of_part(part):
        line = results.line(task)
        if line is None or "weights" not in line or task.run > 0:
            continue
        signs = signs_of(line)
        zero = int((signs == 0).all(axis=0).sum())
        caption = (
            f"{task.dataset.title}, {signs.shape[0]} bits: {zero} of {signs.shape[1]} features have no weight (green); "
            "dark is plus, light is minus."
        )
        rows.append(DrawingRow([Drawing(sign_picture(signs, caption), caption)]))
    return DrawingGroup({}, rows)


def _sweeps(parts: list[RunGrid], measure: Measure, results: Results) -> DrawingGroup:
    """A measure against each parameter that is varied, with a line for every dataset."""
    titles = list(dict.fromkeys(tasks[0].dataset.title for tasks in by_dataset(parts)))
    styles = styles_for(titles, titles[:1])
    drawings = []
    for part in parts:
        parameter, values = next(iter(part.vary.items()))
        curves = [
            PlotLine(tasks[0].dataset.title, *zip(*points))
            for tasks in by_dataset([part])
            if (points := _points(tasks, values, measure, results))
        ]
        if curves:
            name = _GREEK.get(parameter, parameter)
            axes = FigureAxes(
                title=f"{measure.title} against {name}",
                x_label=name,
                y_label=measure.title,
                x_ticks=range(len(values)),
                x_names=[_tick(value) for value in values],
                markers=True,
                y_range=(0.0, None),
            )
            drawings.append(Drawing(line_figure(curves, styles, axes)))
    return DrawingGroup(styles, [DrawingRow(drawings)] if drawings else [])


def _points(tasks: list[Task], values: tuple[Any, ...], measure: Measure, results: Results) -> list[tuple[int, float]]:
    """Place and mean of every value that has results."""
    points = []
    for place, value in enumerate(values):
        lines = [results.line(task) for task in tasks if task.variation and task.variation.value == value]
        found = stat(number(line, measure) for line in lines if line is not None)
        if found is not None:
            points.append((place, found.mean))
    return points


def _tick(value: Any) -> str:
    return f"{value:g}".replace("e+0", "e") if isinstance(value, (int, float)) else str(value)


def _convergence(part: RunGrid, results: Results) -> DrawingGroup:
    """The objective after every round of the first run, a figure for every dataset."""
    drawings = []
    for tasks in by_dataset([part]):
        title = tasks[0].dataset.title
        lines = [line for task in tasks if (line := results.line(task)) is not None and "objective" in line]
        for line in lines[:1]:
            n_rounds = len(line["objective"])
            drawing = line_figure(
                [PlotLine(title, np.arange(1, n_rounds + 1), line["objective"])],
                styles_for([title], [title]),
                FigureAxes(
                    title=f"{title}, {line['config']['bits']} bits: the objective",
                    x_label="round",
                    y_label="objective (eq. 7)",
                    x_ticks=[1, *range(5, n_rounds + 1, 5)],
                    markers=True,
                    y_range=(None, None),
                ),
            )
            drawings.append(Drawing(drawing))
    return DrawingGroup({}, [DrawingRow(drawings, "Convergence")] if drawings else [])


def _styles(part: RunGrid, reference: str | None = None) -> dict[str, Style]:
    titles = list(dict.fromkeys(task.title for task in tasks_of_part(part) if task.method is not None))
    strong = {task.title for task in tasks_of_part(part) if task.method is not None and task.method.highlight}
    return styles_for(titles, [title for title in titles if title in strong], reference)


def _lines_by_title(tasks: list[Task], results: Results) -> dict[str, list[Line]]:
    """Lines with curves; empty if only the float vectors have results."""
    found: dict[str, list[Line]] = {}
    for task in tasks:
        line = results.line(task)
        if line is not None and "curves" in line:
            found.setdefault(task.title, []).append(line)
    return found if found.keys() - {REFERENCE} else {}


def _means(tasks: list[Task], measure: Measure, results: Results) -> dict[str, dict[int, float]]:
    values: dict[str, dict[int, list[float | None]]] = {}
    for task in tasks:
        line = results.line(task)
        if line is not None and task.bits is not None:
            values.setdefault(task.title, {}).setdefault(task.bits, []).append(number(line, measure))
    means = {
        title: {bits: found.mean for bits, of in by_bits.items() if (found := stat(of))}
        for title, by_bits in values.items()
    }
    return {title: by_bits for title, by_bits in means.items() if by_bits}
