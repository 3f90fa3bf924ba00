"""Run an experiment: plan, leave out what is stored, do the rest on all cores, store every line as it comes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hashlearn.checks import check_integer
from hashlearn.experiments.anchor_cache import (
    AnchoredPart,
    AnchorSet,
    anchored_parts,
    make_sums,
    shared_anchors,
    sums_path,
)
from hashlearn.experiments.data_cache import CachedData
from hashlearn.experiments.execute import execute
from hashlearn.experiments.experiment import Experiment
from hashlearn.experiments.measures import STABLE_MEASURES
from hashlearn.experiments.processes import Do, processes
from hashlearn.experiments.result_lines import Line, ResultFolder
from hashlearn.experiments.tasks import Task, key_of, tasks_of
from hashlearn.progress import track

CACHE = "cache"


@dataclass(frozen=True)
class Outcome:
    """What a run did: lines that are new, lines that were there, and the problems among the new ones."""

    n_new: int
    n_stored: int
    problems: tuple[str, ...]


def run_experiment(
    experiment: Experiment,
    out: str | Path,
    *,
    workers: int = 2,
    on_line: Callable[[Task, Line], None] | None = None,
) -> Outcome:
    """Do what is not yet stored of an experiment.

    It may be interrupted or killed at any time; started again, it goes on where it was.

    Parameters
    ----------
    experiment : Experiment
    out : str or Path
        Folder of the results; made if it is not there.
    workers : int, default=2
        Processes, each on one thread; 1 works in this process.
    on_line : function of a task and its line, optional
        Called for every line after it is stored.

    Returns
    -------
    Outcome

    Examples
    --------
    >>> from hashlearn.experiments import read_experiment
    >>> run_experiment(read_experiment("shop.toml"), "shop-results").n_new  # doctest: +SKIP
    30
    """
    check_integer("workers", workers, low=1)
    results, tasks = ResultFolder(out), tasks_of(experiment)
    lines = results.lines(dataset.name for dataset in experiment.datasets)
    stored = {line["key"] for line in lines if not experiment.needs_stable or _has_stable(line)}
    cached = {
        dataset.name: CachedData.of(dataset, results.folder / CACHE)
        for dataset in track(experiment.datasets, "load data")
    }
    pending = [task for task in tasks if key_of(task.config, cached[task.dataset.name].digest) not in stored]
    problems: list[str] = []
    with processes(workers if len(pending) > 1 else 1) as do:
        for task, line in track(_done(do, pending, cached, experiment.needs_stable), experiment.name, len(pending)):
            results.append(task.dataset.name, line)
            if "problem" in line:
                problems.append(f"{task}: {line['problem']}")
            if on_line is not None:
                on_line(task, line)
    return Outcome(len(pending), len(tasks) - len(pending), tuple(dict.fromkeys(problems)))


def _has_stable(line: Line) -> bool:
    """Whether the line of an earlier run has what only some experiments ask for; without labels nothing is missing."""
    measures = line.get("measures", {})
    return "mAP" not in measures or all(name in measures for name in STABLE_MEASURES)


def _done(do: Do, tasks: list[Task], cached: dict[str, CachedData], stable: bool) -> Iterator[tuple[Task, Line]]:
    """Dataset by dataset: first what its tasks share, then the tasks, in the order they are done."""
    for name in dict.fromkeys(task.dataset.name for task in tasks):
        data, here = cached[name], [task for task in tasks if task.dataset.name == name]
        parts = [part for task in here for part in anchored_parts(task, len(data.database))]
        for what, shared in (("anchors and neighbors", _anchor_jobs), ("sums over the data", _sum_jobs)):
            jobs = list(shared(parts, data))
            for _ in track(do(jobs), f"{name}: {what}", len(jobs)):
                pass
        yield from do([partial(_answered, task, str(data.folder), stable) for task in here])


def _answered(task: Task, folder: str, stable: bool) -> tuple[Task, Line]:
    return task, execute(task, folder, stable)


def _anchor_jobs(parts: Iterable[AnchoredPart], data: CachedData) -> Iterator[Callable[[], None]]:
    if not data.has_neighbors:
        yield partial(_make_neighbors, str(data.folder))
    for anchors in sorted({part.anchors for part in parts}):
        if not data.has(anchors.name):
            yield partial(_make_anchors, str(data.folder), anchors)


def _sum_jobs(parts: Iterable[AnchoredPart], data: CachedData) -> Iterator[Callable[[], None]]:
    """One job for all lengths of a method with anchors, for every seed and setting."""
    first: dict[Path, AnchoredPart] = {}
    for part in parts:
        if not (path := sums_path(part, data)).is_file():
            first.setdefault(path, part)
    for part in first.values():
        yield partial(_make_sums, str(data.folder), part)


def _make_sums(folder: str, part: AnchoredPart) -> None:
    make_sums(part, CachedData(folder))


def _make_neighbors(folder: str) -> None:
    CachedData(folder).neighbors()


def _make_anchors(folder: str, wanted: AnchorSet) -> None:
    shared_anchors(CachedData(folder), wanted)
