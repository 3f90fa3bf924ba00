"""Stored lines as means over the runs, each beside the number that was published for it."""

import statistics
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from hashlearn.experiments.experiment import Experiment, RunGrid
from hashlearn.experiments.measures import Measure
from hashlearn.experiments.published import PublishedPlace
from hashlearn.experiments.result_lines import Line
from hashlearn.experiments.settings import DatasetSettings, MethodSettings
from hashlearn.experiments.tasks import Task, key_of, tasks_of_part


class Stat(NamedTuple):
    """Mean, standard deviation and range over the runs."""

    mean: float
    std: float
    n: int
    least: float
    most: float


class Comparison(NamedTuple):
    """Our number and the published one; either may be missing."""

    ours: Stat | None
    published: float | None

    @property
    def difference(self) -> float | None:
        """Ours less the published."""
        return None if self.ours is None or self.published is None else self.ours.mean - self.published


class TableRow(NamedTuple):
    """A method's numbers, one for every length of the table."""

    title: str
    method: MethodSettings
    cells: list[Comparison]


class MeasureTable(NamedTuple):
    """One measure on one dataset: methods in rows, lengths in columns.

    Attributes
    ----------
    reference : the float vectors' number, if there is one
    """

    dataset: DatasetSettings
    measure: Measure
    bits: tuple[int, ...]
    rows: list[TableRow]
    reference: float | None

    @property
    def is_compared(self) -> bool:
        """Whether it has a published number."""
        return any(cell.published is not None for row in self.rows for cell in row.cells)

    def best(self) -> list[float | None]:
        """The best of our means, column by column."""
        pick = min if self.measure.is_cost else max
        columns = zip(*(row.cells for row in self.rows))
        return [pick((cell.ours.mean for cell in column if cell.ours), default=None) for column in columns]


class Results:
    """Stored lines, found by task. Of runs on several versions of a dataset, those on the one stored last count."""

    def __init__(self, lines: Iterable[Line]):
        lines = list(lines)
        self._data = {(line["config"]["dataset"], line["config"]["scale"]): line["data"] for line in lines}
        current = {data["digest"] for data in self._data.values()}
        self._lines = {key_of(line["config"]): line for line in lines if line["data"]["digest"] in current}

    def line(self, task: Task) -> Line | None:
        """The line of a task, if it has been done and has a result."""
        line = self._lines.get(key_of(task.config))
        return None if line is None or "problem" in line else line

    def problem(self, task: Task) -> str | None:
        """Why a task that was done has no result."""
        return self._lines.get(key_of(task.config), {}).get("problem")

    def data(self, dataset: DatasetSettings) -> dict[str, Any] | None:
        """Size of the data a dataset's lines come from."""
        return self._data.get((dataset.name, dataset.scale))

    def origins(self, tasks: Iterable[Task]) -> dict[str, str]:
        """What the lines of these tasks were made with, by their keys."""
        lines = [line for task in tasks if (line := self._lines.get(key_of(task.config)))]
        return {line["key"]: _origin(line) for line in lines}

    def has_published_features(self, dataset: DatasetSettings) -> bool:
        """Whether the features are, by their number, those of the publication."""
        data = self.data(dataset)
        return data is not None and data["n_features"] == dataset.published_features


def measure_tables(experiment: Experiment, results: Results) -> list[MeasureTable]:
    """The tables of an experiment, as far as there are results."""
    tables = [
        _measure_table(experiment, tasks, measure, results)
        for tasks in by_dataset(experiment.parts)
        for measure in experiment.measures
    ]
    return [table for table in tables if any(cell.ours for row in table.rows for cell in row.cells)]


def remarks(experiment: Experiment, results: Results) -> list[str]:
    """What a reader must know of these numbers: other data than the published, gaps and why, runs still missing."""
    return [text for tasks in by_dataset(experiment.parts) for text in _remarks(tasks, results)]


def agreement(experiment: Experiment, results: Results) -> list[str]:
    """How far our numbers are from the published on average, a sentence for every dataset and compared measure."""
    said = []
    for table in measure_tables(experiment, results):
        apart = distances(table)
        if apart and not table.measure.is_cost:
            said.append(
                f"{table.dataset.title}: with the publication's settings {table.measure.title} is "
                f"{statistics.fmean(apart):.3f} from the published on average over {len(apart)} numbers."
            )
    return said


def distances(table: MeasureTable) -> list[float]:
    """How far our means are from the published numbers, of the rows that have the publication's settings."""
    cells = [cell for row in table.rows if not row.method.is_variant for cell in row.cells]
    return [abs(cell.difference) for cell in cells if cell.difference is not None]


def stat(values: Iterable[float | None]) -> Stat | None:
    """Mean, sample standard deviation and range of the values there are."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    deviation = statistics.stdev(known) if len(known) > 1 else 0.0
    return Stat(statistics.fmean(known), deviation, len(known), min(known), max(known))


def number(line: Line, measure: Measure) -> float | None:
    """A measure of a line; "seconds" are all that training took."""
    if measure.name == "seconds":
        return sum(line["seconds"].values()) if "seconds" in line else None
    return line["measures"].get(measure.name)


def by_dataset(parts: Iterable[RunGrid]) -> list[list[Task]]:
    """The tasks of these parts, a list for every dataset; one that belongs to several parts is there once."""
    groups: dict[str, dict[tuple[str, str], Task]] = {}
    for part in parts:
        for task in tasks_of_part(part):
            groups.setdefault(task.dataset.name, {}).setdefault((task.title, key_of(task.config)), task)
    return [list(tasks.values()) for tasks in groups.values()]


def _origin(line: Line) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in line["versions"].items())
    where = [f"commit {line['commit']}"] if line.get("commit") else []
    where += [line["processor"]] if line.get("processor") else []
    return "; ".join([versions, *where])


def _remarks(tasks: list[Task], results: Results) -> list[str]:
    dataset, data = tasks[0].dataset, results.data(tasks[0].dataset)
    if data is None:
        return []
    said = []
    if dataset.published_features and not results.has_published_features(dataset):
        said.append(
            f"{dataset.title} here has {data['n_features']} features a row where the published numbers were made with "
            f"{dataset.published_features}: other data, so only our own rows can be compared with each other."
        )
    said += sorted({f"{task}: {results.problem(task)}" for task in tasks if results.problem(task)})
    warned = [line for task in tasks if (line := results.line(task)) and "warnings" in line]
    if warned:
        first = warned[0]["warnings"][0].rstrip(".")
        said.append(f"{dataset.title}: {len(warned)} of {len(tasks)} runs warned, one of them: {first}.")
    missing = sum(results.line(task) is None and results.problem(task) is None for task in tasks)
    if missing:
        said.append(f"{dataset.title}: {missing} of {len(tasks)} runs are still to be done.")
        said += [f"{dataset.title}: {runs}" for runs in _runs_there_are(tasks, results)]
    return said


def _runs_there_are(tasks: list[Task], results: Results) -> list[str]:
    """Which numbers are means over how many runs, the most first; none where all are single runs."""
    done = Counter((task.title, task.bits) for task in tasks if task.method is not None and results.line(task))
    counts = sorted(set(done.values()), reverse=True)
    if counts in ([], [1]):
        return []
    titles = {n: dict.fromkeys(title for (title, _), count in done.items() if count == n) for n in counts}
    return [f"means over {n} {'run' if n == 1 else 'runs'}: {', '.join(titles[n])}." for n in counts]


def _measure_table(experiment: Experiment, tasks: list[Task], measure: Measure, results: Results) -> MeasureTable:
    values: dict[tuple[str, int], list[float | None]] = {}
    methods: dict[str, MethodSettings] = {}
    reference = None
    for task in tasks:
        line = results.line(task)
        if line is None:
            continue
        if task.method is None or task.bits is None:
            reference = number(line, measure)
            continue
        methods.setdefault(task.title, task.method)
        values.setdefault((task.title, task.bits), []).append(number(line, measure))
    dataset, bits = tasks[0].dataset, tuple(sorted({n for _, n in values}))
    published = experiment.published if results.has_published_features(dataset) else {}
    rows = [
        TableRow(
            title,
            method,
            [
                Comparison(
                    stat(values.get((title, n), ())),
                    published.get(PublishedPlace(dataset.published_as, measure.published_as, n, method.published_as)),
                )
                for n in bits
            ],
        )
        for title, method in methods.items()
    ]
    return MeasureTable(dataset, measure, bits, rows, reference)
