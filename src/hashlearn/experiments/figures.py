"""The paper's figures, drawn from stored lines."""

import base64
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hashlearn.experiments.experiment import Experiment, Part, row_named
from hashlearn.experiments.published import Entry, published
from hashlearn.experiments.report.figures import (
    Curve,
    Style,
    by_bits_figure,
    legend,
    line_figure,
    png_uri,
    precision_at_figure,
    precision_recall_figure,
    styles_for,
)
from hashlearn.experiments.report.html import Html, figure, joined, markup, side_by_side, subsection
from hashlearn.experiments.store import Line
from hashlearn.experiments.summary import QUALITY, Results, number, stat
from hashlearn.experiments.tasks import REFERENCE, Task, tasks_of_part
from hashlearn.metrics import Evaluation, RadiusCurve

STRONG = ("JPSH", "JPSH (ours)", "SAH")
PAPER = "JPSH (paper)"
# Signs are pictures, and have their colours in them: plus, minus, and the features without weight.
_PLUS, _MINUS, _ZERO = (36, 71, 107), (214, 224, 236), (46, 160, 67)
_ROUND = {"lambda1": "λ1", "lambda2": "λ2", "lambda3": "λ3", "n_neighbors": "k", "n_anchors": "m"}


def drawn(experiment: Experiment, results: Results) -> Html | None:
    """The figures of an experiment, or None where nothing of it has been run."""
    parts = [part for part in experiment.parts if part.figure]
    sweeps = [part for part in parts if part.figure == "sweeps"]
    found = [_DRAWERS[part.figure](part, results) for part in parts if part.figure != "sweeps"]
    whole = [drawing for drawing in [_sweeps(sweeps, results), *found] if drawing]
    return joined(whole) if whole else None


def _curves(part: Part, results: Results) -> Html:
    """Figure 4: a row of three a dataset."""
    found = [(tasks, _by_title(tasks, results)) for tasks in _by_dataset(part)]
    styles = _styles((title for _, lines in found for title in lines), REFERENCE.title)
    rows = []
    for tasks, lines_of in found:
        at = {title: mean_curves(lines) for title, lines in lines_of.items()}
        if at:
            title, with_recall = tasks[0].dataset.title, list(at.items())
            recall = line_figure(
                [Curve(name, curves.positions, curves.recall_at) for name, curves in with_recall],  # type: ignore[arg-type]
                styles,
                title=f"{title}: recall among the first N",
                x_label="N, results looked at",
                y_label="recall@N",
                y_range=(0.0, None),
            )
            drawings = (
                precision_recall_figure(at, styles, f"{title}: precision and recall"),
                precision_at_figure(at, styles, f"{title}: precision among the first N"),
                recall,
            )
            rows.append(subsection(title, side_by_side(*map(figure, drawings))))
    return joined([legend(styles), *rows]) if rows else Html("")


def _by_bits(part: Part, results: Results) -> Html:
    """Figures 5 and 6: mAP and Pre@100 against the length, with the paper's own JPSH where it can be compared."""
    styles = _styles((row_named(name).title for name in part.methods), PAPER)
    rows = []
    for tasks in _by_dataset(part):
        dataset, drawings = tasks[0].dataset, []
        for measure in QUALITY[:2]:
            values = _means(tasks, results, measure.name)
            if not values:
                continue
            if results.is_of_the_paper(dataset):
                known = published("table-2")
                values[PAPER] = {
                    bits: known[place]
                    for bits in part.bits
                    if (place := Entry(dataset.in_paper, str(measure.in_paper), bits, "JPSH")) in known
                }
            title = f"{dataset.title}: {measure.title}"
            drawings.append(figure(by_bits_figure(values, styles, title=title, y_label=measure.title)))
        if drawings:
            rows.append(subsection(dataset.title, side_by_side(*drawings)))
    return joined([legend(styles), *rows]) if rows else Html("")


def _weights(part: Part, results: Results) -> Html:
    """Figure 7: a picture a length."""
    pictures = []
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
        pictures.append(figure(_picture(signs, caption), caption))
    return joined(pictures)


def _sweeps(parts: list[Part], results: Results) -> Html:
    """Figure 8 (a-d): mAP against each parameter, a line a dataset."""
    drawings = []
    titles = [tasks[0].dataset.title for part in parts for tasks in _by_dataset(part)]
    styles = styles_for(list(dict.fromkeys(titles)), titles[:1])
    for part in parts:
        parameter, values = next(iter(part.vary.items()))
        curves = []
        for tasks in _by_dataset(part):
            at = {value: stat(_numbers(tasks, results, value)) for value in values}
            points = [(place, found.mean) for place, value in enumerate(values) if (found := at[value])]
            if points:
                curves.append(Curve(tasks[0].dataset.title, *zip(*points)))
        if curves:
            name = _ROUND.get(parameter, parameter)
            drawings.append(
                figure(
                    line_figure(
                        curves,
                        styles,
                        title=f"mAP against {name}",
                        x_label=name,
                        y_label="mAP",
                        x_ticks=range(len(values)),
                        x_names=[f"{value:g}".replace("e+0", "e") for value in values],
                        markers=True,
                        y_range=(0.0, None),
                    )
                )
            )
    return joined([legend(styles), side_by_side(*drawings)]) if drawings else Html("")


def _convergence(part: Part, results: Results) -> Html:
    """Figure 8 (e, f): eq. 7 after every round, a figure a dataset."""
    drawings = []
    for tasks in _by_dataset(part):
        title = tasks[0].dataset.title
        for task in tasks:
            line = results.line(task)
            if line is None or "objective" not in line:
                continue
            rounds = np.arange(1, len(line["objective"]) + 1)
            drawings.append(
                figure(
                    line_figure(
                        [Curve(title, rounds, line["objective"])],
                        styles_for([title], [title]),
                        title=f"{title}, {task.bits} bits: the objective",
                        x_label="round",
                        y_label="objective (eq. 7)",
                        markers=True,
                        y_range=(None, None),
                    )
                )
            )
            break
    return subsection("Convergence", side_by_side(*drawings)) if drawings else Html("")


_DRAWERS = {"curves": _curves, "by-bits": _by_bits, "weights": _weights, "convergence": _convergence}


def mean_curves(lines: Iterable[Line]) -> Evaluation:
    """Curves averaged over runs, point by point."""
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


def _picture(signs: NDArray[np.int8], words: str) -> Html:
    n_bits, n_features = signs.shape
    pixels = np.array([_ZERO, _PLUS, _MINUS], np.uint8)[signs]  # 0, 1 and, from the end, -1
    height = 3 * n_bits
    image = Html(
        f'<image href="{png_uri(pixels)}" width="{n_features}" height="{height}" preserveAspectRatio="none" '
        'style="image-rendering: pixelated"/>'
    )
    return Html(
        f'<svg class="signs" viewBox="0 0 {n_features} {height}" role="img" aria-label="{markup(words)}">{image}</svg>'
    )


def _styles(titles: Iterable[str], reference: str) -> dict[str, Style]:
    return styles_for(list(dict.fromkeys(title for title in titles if title != reference)), STRONG, reference)


def _by_dataset(part: Part) -> list[list[Task]]:
    groups: dict[str, list[Task]] = {}
    for task in tasks_of_part(part):
        groups.setdefault(task.dataset.name, []).append(task)
    return list(groups.values())


def _by_title(tasks: list[Task], results: Results) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for task in tasks:
        line = results.line(task)
        if line is not None:
            found.setdefault(task.row.title, []).append(line)
    return found


def _means(tasks: list[Task], results: Results, name: str) -> dict[str, dict[int, float]]:
    values: dict[str, dict[int, list[float | None]]] = {}
    for task in tasks:
        line = results.line(task)
        if line is not None and task.bits is not None:
            values.setdefault(task.row.title, {}).setdefault(task.bits, []).append(number(line, name))
    return {
        title: {bits: found.mean for bits, of in by_bits.items() if (found := stat(of))}
        for title, by_bits in values.items()
    }


def _numbers(tasks: list[Task], results: Results, value: object) -> list[float | None]:
    lines = (results.line(task) for task in tasks if task.at == value)
    return [number(line, "mAP_stable") for line in lines if line is not None]
