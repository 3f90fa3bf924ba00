"""Run an experiment: plan, leave out what is stored, do the rest on all cores, store every line as it comes."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from hashlearn.checks import check_integer
from hashlearn.experiments.experiment import Experiment, dataset_settings
from hashlearn.experiments.prepared import AnchorSet, Prepared
from hashlearn.experiments.store import Line, Store
from hashlearn.experiments.tasks import Task, key_of, tasks_of
from hashlearn.experiments.worker import anchors_of, execute, make_view, view_path
from hashlearn.progress import track

CACHE = "cache"

Result = TypeVar("Result")
Doer = Callable[[list[Callable[[], Result]]], Iterator[Result]]


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
    out : folder of the results; made if it is not there
    workers : processes, each on one thread; 1 works in this process
    on_line : called with every task and its line after it is stored
    """
    check_integer("workers", workers, low=1)
    store = Store(out)
    stored = {line["key"] for line in store.lines()}
    tasks = tasks_of(experiment)
    prepared = {
        name: Prepared.of(dataset_settings(name), store.folder / CACHE)
        for name in track(experiment.datasets, "load data")
    }
    pending = [task for task in tasks if key_of(task.config, prepared[task.dataset.name].digest) not in stored]
    problems: list[str] = []
    with _doer(workers if len(pending) > 1 else 1) as do:
        for task, line in track(_done(do, pending, prepared), experiment.name, len(pending)):
            store.append(task.dataset.name, line)
            if "problem" in line:
                problems.append(f"{task.row.title} at {task.bits} bits on {task.dataset.title}: {line['problem']}")
            if on_line is not None:
                on_line(task, line)
    return Outcome(len(pending), len(tasks) - len(pending), tuple(dict.fromkeys(problems)))


def _done(do: Doer, tasks: list[Task], prepared: dict[str, Prepared]) -> Iterator[tuple[Task, Line]]:
    """Dataset by dataset: first what its tasks share, then the tasks, in the order they are done."""
    for name in dict.fromkeys(task.dataset.name for task in tasks):
        data, here = prepared[name], [task for task in tasks if task.dataset.name == name]
        for what, shared in (("anchors and neighbours", _anchors), ("sums over the data", _sums)):
            jobs = list(shared(here, data))
            for _ in track(do(jobs), f"{name}: {what}", len(jobs)):
                pass
        yield from do([partial(_answered, task, str(data.folder)) for task in here])


def _answered(task: Task, folder: str) -> tuple[Task, Line]:
    return task, execute(task, folder)


def _anchors(tasks: Iterable[Task], data: Prepared) -> Iterator[Callable[[], None]]:
    if not data.has_neighbours:
        yield partial(_make_neighbours, str(data.folder))
    wanted = {anchors_of(task, len(data.database)) for task in tasks}
    for anchors in sorted(anchors for anchors in wanted if anchors is not None):
        if not data.has_anchors(anchors):
            yield partial(_make_anchors, str(data.folder), anchors)


def _sums(tasks: Iterable[Task], data: Prepared) -> Iterator[Callable[[], None]]:
    """One job for all lengths of a method with anchors, for every seed and setting."""
    first: dict[Path, Task] = {}
    for task in tasks:
        if (path := view_path(task, data)) is not None and not path.is_file():
            first.setdefault(path, task)
    for task in first.values():
        yield partial(_make_sums, str(data.folder), task)


def _make_sums(folder: str, task: Task) -> None:
    make_view(task, Prepared(folder))


def _make_neighbours(folder: str) -> None:
    Prepared(folder).neighbours()


def _make_anchors(folder: str, wanted: AnchorSet) -> None:
    Prepared(folder).anchors(wanted)


@contextmanager
def _doer(workers: int) -> Iterator[Doer]:
    """A function that does jobs and yields their results as they come."""
    if workers == 1:
        with threadpool_limits(limits=1):
            yield lambda jobs: (job() for job in jobs)
        return
    others = set(active_children())
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker)
    try:
        yield partial(_in_pool, pool)
    except BaseException:
        # Nobody waits for what is under way: it is done again by the next run.
        for child in set(active_children()) - others:
            child.terminate()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def _in_pool(pool: ProcessPoolExecutor, jobs: list[Callable[[], Result]]) -> Iterator[Result]:
    try:
        futures: list[Future] = [pool.submit(job) for job in jobs]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise ChildProcessError(
            "a worker process died, perhaps for lack of memory; what is done is stored: run again, or with --workers 1"
        ) from None


def _start_worker() -> None:
    """One thread for the matrices, and an end when the parent ends, however that happens."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    globals()["_limits"] = threadpool_limits(limits=1)
    parent: Any = parent_process()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)
