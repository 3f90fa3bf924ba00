"""The results of an experiment: their storage, their origin, and their means.

Each run is a JSON line; each dataset has a file of lines. A line is appended in one write and synced. If a process is
killed, the rest of its line has no line end. Readers skip such a rest, and the next writer removes it.
"""

import json
import os
import platform
import shutil
import statistics
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import hashlearn
from hashlearn.durable.files import check_regular, naming, parsed_json
from hashlearn.durable.locks import exclusive
from hashlearn.experiments.define.experiment import Experiment, RunGrid
from hashlearn.experiments.define.measures import Measure, PublishedPlace
from hashlearn.experiments.define.settings import DatasetSettings, MethodSettings
from hashlearn.experiments.define.tasks import Task, key_of, tasks_of_part
from hashlearn.experiments.judge import Line

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


class ResultFolder:
    """Lines in ``folder/DATASET.jsonl``."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def lines(self, datasets: Iterable[str]) -> Iterator[Line]:
        """All whole lines of these datasets, oldest first. A dataset without a file has none."""
        for path in map(self._path, datasets):
            if path.is_file():
                yield from read_lines(path)

    def append(self, dataset: str, line: Line) -> None:
        """Add a line, on the disk when this returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        written = json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        path = self._path(dataset)
        with exclusive(path), naming(path), path.open("a+b") as file:
            _cut_torn_end(file)
            file.write(written)
            file.flush()
            os.fsync(file.fileno())

    def _path(self, dataset: str) -> Path:
        return self.folder / f"{dataset}.jsonl"


def read_lines(path: Path) -> Iterator[Line]:
    """The whole lines of a file.

    A damaged line before the last is an error, because no interrupted write leaves one.
    """
    with check_regular(path).open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                return
            try:
                line = parsed_json(raw)
            except ValueError:
                raise ValueError(f"{path} line {number} is not JSON: repair or delete it") from None
            if not isinstance(line, dict) or not {"key", "config", "data"} <= line.keys():
                raise ValueError(f"{path} line {number} is no result of an experiment")
            yield line


def _cut_torn_end(file: BinaryIO) -> None:
    """Remove everything after the last line end, so that appending starts a new line."""
    size = file.seek(0, os.SEEK_END)
    end = size
    while end > 0:
        start = max(0, end - 65536)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        file.truncate(end)
    file.seek(0, os.SEEK_END)


def provenance(packages: Sequence[str] = PACKAGES) -> dict[str, Any]:
    """The origin of a result, as JSON values.

    Parameters
    ----------
    packages : names of distributions whose versions matter; those that are not installed are left out

    Returns
    -------
    dict
        ``versions``, ``commit`` (None outside a git checkout), ``processor``, ``cores`` and ``date``.
    """
    return {
        "versions": {"hashlearn": hashlearn.__version__, "python": platform.python_version(), **_installed(*packages)},
        "commit": commit(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "date": datetime.now(UTC).date().isoformat(),
    }


@cache
def commit() -> str | None:
    """The commit of the checkout that the package is imported from, with "-dirty" where its source differs from it."""
    root = Path(hashlearn.__file__).parents[2]
    if not (root / ".git").exists() or shutil.which("git") is None:
        return None
    name = _git(root, "rev-parse", "--short=12", "HEAD")
    changed = _git(root, "status", "--porcelain", "--", "src")
    return f"{name}-dirty" if name and changed else name or None


def _git(root: Path, *arguments: str) -> str:
    """The output of git; an empty text if git fails."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()


@cache
def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@cache
def _installed(*packages: str) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


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
    """Stored lines, found by task.

    If there are runs on several versions of a dataset, only those on the last stored version count.
    """

    def __init__(self, lines: Iterable[Line]):
        lines = list(lines)
        self._data = {(line["config"]["dataset"], line["config"]["scale"]): line["data"] for line in lines}
        current = {data["digest"] for data in self._data.values()}
        self._lines = {key_of(line["config"]): line for line in lines if line["data"]["digest"] in current}

    def line(self, task: Task) -> Line | None:
        """The line of a task, if it has been done and has a result."""
        line = self._lines.get(task.key)
        return None if line is None or "problem" in line else line

    def problem(self, task: Task) -> str | None:
        """The reason why a finished task has no result."""
        return self._lines.get(task.key, {}).get("problem")

    def data(self, dataset: DatasetSettings) -> dict[str, Any] | None:
        """The size of the data that a dataset's lines were made with."""
        return self._data.get((dataset.name, dataset.scale))

    def origins(self, tasks: Iterable[Task]) -> dict[str, str]:
        """The origins of the lines of these tasks, by their keys."""
        lines = [line for task in tasks if (line := self._lines.get(task.key))]
        return {line["key"]: _origin(line) for line in lines}

    def has_published_features(self, dataset: DatasetSettings) -> bool:
        """Whether the number of features is that of the publication."""
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
    """Notes on these numbers: data other than the published, gaps and their reasons, missing runs."""
    return [text for tasks in by_dataset(experiment.parts) for text in _remarks(tasks, results)]


def agreement(experiment: Experiment, results: Results) -> list[str]:
    """The mean difference from the published numbers, one sentence for every dataset and measure."""
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
    """Mean, sample standard deviation and range of the values that exist."""
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
    """The tasks of these parts, one list for every dataset. A task of several parts is listed once."""
    groups: dict[str, dict[tuple[str, str], Task]] = {}
    for part in parts:
        for task in tasks_of_part(part):
            groups.setdefault(task.dataset.name, {}).setdefault((task.title, task.key), task)
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
    """How many runs the means are made of, the most frequent number first; empty if every mean is one run."""
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
