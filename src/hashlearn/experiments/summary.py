"""Stored lines as means over the runs, each beside the number the paper has for it."""

import statistics
from collections.abc import Iterable
from typing import Any, NamedTuple

from hashlearn.experiments.experiment import DatasetSettings, Experiment, Row
from hashlearn.experiments.published import TABLES, Entry, published
from hashlearn.experiments.store import Line
from hashlearn.experiments.tasks import Task, key_of, tasks_of_part

BASELINES = ("lsh", "sh", "itq", "sp", "sgh", "oeh", "och", "jsh", "ch", "rssh")


class Measure(NamedTuple):
    """A number of a line: its title, and what the paper calls it (None where the paper does not have it)."""

    name: str
    title: str
    in_paper: str | None
    note: str


QUALITY = (
    Measure(
        "mAP_stable",
        "mAP",
        "mAP",
        "mAP: mean average precision over the whole ranking; equal distances in the order of the database, as in the "
        "paper's evaluation.",
    ),
    Measure(
        "pre100_stable",
        "Pre@100",
        "Pre@100",
        "Pre@100: what the paper prints under this name, the mAP of the 100 queries that went best. It is not the "
        "precision among 100 results.",
    ),
    Measure(
        "precision_at_100",
        "precision@100",
        None,
        "precision@100: share of the first 100 results with the query's label; equal distances count as if shuffled.",
    ),
    Measure(
        "recall_at_10",
        "recall@10",
        None,
        "recall@10: share of the 10 nearest vectors that are among the 10 nearest codes; equal distances count as if "
        "shuffled.",
    ),
)
SECONDS = (
    Measure(
        "seconds",
        "seconds",
        "seconds",
        "seconds: k-means, training, and encoding the data, on one thread of this machine. The paper's are MATLAB's on "
        "another machine: compare the methods' order, not the seconds.",
    ),
)


class Stat(NamedTuple):
    """Mean and standard deviation over the runs."""

    mean: float
    std: float
    n: int


class Comparison(NamedTuple):
    """Our number and the paper's; either may be missing."""

    ours: Stat | None
    paper: float | None

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.ours is None or self.paper is None else self.ours.mean - self.paper


class Block(NamedTuple):
    """One measure on one dataset: a row a method, a column a length.

    Attributes
    ----------
    rows : (title, a Comparison a length)
    reference : the float vectors' number, if there is one
    """

    dataset: DatasetSettings
    measure: Measure
    bits: tuple[int, ...]
    rows: list[tuple[str, list[Comparison]]]
    reference: float | None


class Results:
    """Stored lines, found by task. Of runs on several versions of a dataset, those on the one stored last count."""

    def __init__(self, lines: Iterable[Line]):
        lines = list(lines)
        current = {line["config"]["dataset"]: line["data"]["digest"] for line in lines}
        self._lines = {
            key_of(line["config"]): line
            for line in lines
            if line["data"]["digest"] == current[line["config"]["dataset"]]
        }
        self._data = {line["config"]["dataset"]: line["data"] for line in lines}

    def line(self, task: Task) -> Line | None:
        """The line of a task, if it has been done and has a result."""
        line = self._lines.get(key_of(task.config))
        return None if line is None or "problem" in line else line

    def problem(self, task: Task) -> str | None:
        """Why a task that was done has no result."""
        return self._lines.get(key_of(task.config), {}).get("problem")

    def data(self, dataset: DatasetSettings) -> dict[str, Any] | None:
        """Size of the data a dataset's lines come from."""
        return self._data.get(dataset.name)

    def is_of_the_paper(self, dataset: DatasetSettings) -> bool:
        """Whether the features are, by their number, those the paper used."""
        data = self.data(dataset)
        return data is not None and data["n_features"] == dataset.paper_features

    def versions(self) -> list[dict[str, str]]:
        """The different versions the lines were made with."""
        return list({str(line["versions"]): line["versions"] for line in self._lines.values()}.values())

    def __len__(self) -> int:
        return len(self._lines)


def blocks(experiment: Experiment, results: Results) -> list[Block]:
    """The tables of an experiment, as far as there are results."""
    found = []
    for group in _by_dataset(experiment):
        for measure in SECONDS if experiment.measure == "seconds" else QUALITY:
            block = _block(experiment, group, measure, results)
            if any(cell.ours for _, cells in block.rows for cell in cells):
                found.append(block)
    return found


def remarks(experiment: Experiment, results: Results) -> list[str]:
    """What a reader must know of these numbers: other data than the paper's, gaps and why, runs still missing."""
    said = []
    for group in _by_dataset(experiment):
        dataset, data = group[0].dataset, results.data(group[0].dataset)
        if data is None:
            continue
        if dataset.paper_features and not results.is_of_the_paper(dataset):
            said.append(
                f"{dataset.title} here has {data['n_features']} features a row where the paper's have "
                f"{dataset.paper_features}: other data, so only our own rows can be compared with each other."
            )
        problems = {f"{task.row.title} at {task.bits} bits on {dataset.title}: {results.problem(task)}"
                    for task in group if results.problem(task)}  # fmt: skip
        said += sorted(problems)
        warned = [line for task in group if (line := results.line(task)) and "warnings" in line]
        if warned:
            first = warned[0]["warnings"][0].rstrip(".")
            said.append(f"{dataset.title}: {len(warned)} of {len(group)} runs warned, one of them: {first}.")
        missing = sum(results.line(task) is None and results.problem(task) is None for task in group)
        if missing:
            said.append(f"{dataset.title}: {missing} of {len(group)} runs are still to be done.")
    return said


def agreement(experiment: Experiment, results: Results) -> list[str]:
    """How far our baselines are from the paper's on average, a sentence a dataset."""
    titles = _titles(experiment, BASELINES)
    said = []
    for block in blocks(experiment, results):
        if block.measure.name != "mAP_stable":
            continue
        apart = [
            abs(cell.difference)
            for title, cells in block.rows
            if title in titles
            for cell in cells
            if cell.difference is not None
        ]
        if apart:
            said.append(
                f"{block.dataset.title}: the baselines' mAP is {statistics.fmean(apart):.3f} from the paper's on "
                f"average over {len(apart)} numbers."
            )
    return said


def stat(values: Iterable[float | None]) -> Stat | None:
    """Mean and sample standard deviation of the values there are."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Stat(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else 0.0, len(known))


def number(line: Line, name: str) -> float | None:
    """A measure of a line; "seconds" are all that training took."""
    if name == "seconds":
        return sum(line["seconds"].values()) if "seconds" in line else None
    return line["measures"].get(name)


def row_title(task: Task) -> str:
    """The method, and the value of the parameter that is varied."""
    if task.at is None:
        return task.row.title
    parameter = next(name for name, value in reversed(task.changes.items()) if value == task.at)
    return f"{task.row.title} {parameter}={task.at:g}"


def _titles(experiment: Experiment, names: Iterable[str]) -> set[str]:
    tasks = (task for part in experiment.parts for task in tasks_of_part(part))
    return {task.row.title for task in tasks if task.row.name in names}


def _by_dataset(experiment: Experiment) -> list[list[Task]]:
    groups: dict[str, list[Task]] = {}
    for part in experiment.parts:
        for task in tasks_of_part(part):
            groups.setdefault(task.dataset.name, []).append(task)
    return list(groups.values())


def _block(experiment: Experiment, tasks: list[Task], measure: Measure, results: Results) -> Block:
    values: dict[tuple[str, int], list[float | None]] = {}
    rows: dict[str, Row] = {}
    reference = None
    for task in tasks:
        line = results.line(task)
        if line is None:
            continue
        value = number(line, measure.name)
        if task.bits is None:
            reference = value
            continue
        rows.setdefault(row_title(task), task.row)
        values.setdefault((row_title(task), task.bits), []).append(value)
    bits = tuple(sorted({n for _, n in values}))
    dataset = tasks[0].dataset
    cells = {
        title: [
            Comparison(stat(values.get((title, n), ())), _published(experiment, dataset, measure, row, n, results))
            for n in bits
        ]
        for title, row in rows.items()
    }
    return Block(dataset, measure, bits, list(cells.items()), reference)


def _published(
    experiment: Experiment, dataset: DatasetSettings, measure: Measure, row: Row, bits: int, results: Results
) -> float | None:
    if experiment.name not in TABLES or measure.in_paper is None or not results.is_of_the_paper(dataset):
        return None
    return published(experiment.name).get(Entry(dataset.in_paper, measure.in_paper, bits, row.against or row.title))
