"""Run an experiment: plan the tasks, skip those that are stored, do the others on all cores, store each result at once.

A task is done by :func:`execute`: fit, encode, judge. Tasks are done by several processes, each on one thread, that end
when the process that started them ends.
"""

import base64
import os
import signal
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from hashlearn.checks import check_integer
from hashlearn.codes import pack, unpack
from hashlearn.experiments.cache import (
    AnchoredPart,
    AnchorSet,
    CachedData,
    anchored_parts,
    anchors_of,
    fit_from_sums,
    make_sums,
    shared_anchors,
    sums_path,
)
from hashlearn.experiments.define.experiment import Experiment
from hashlearn.experiments.define.measures import STABLE_MEASURES
from hashlearn.experiments.define.settings import hasher_class
from hashlearn.experiments.define.tasks import Task, key_of, tasks_of
from hashlearn.experiments.judge import (
    DIGITS,
    Line,
    estimate_vectors,
    judge_codes,
    judge_real_queries,
    judge_vectors,
    rounded,
)
from hashlearn.experiments.results import ResultFolder, provenance
from hashlearn.hashers.base import Hasher
from hashlearn.hashers.union import HasherUnion
from hashlearn.linalg.moments import KnownMoments, knowing_moments
from hashlearn.progress import track

CACHE = "cache"
MOST_WARNINGS = 3
ZERO_WEIGHT = 1e-3
"""A feature is drawn as one without weight if its weights are below this share of the largest feature's weights. The
reweighting of eq. 11 moves rows toward zero but never reaches it."""

Result = TypeVar("Result")
Do = Callable[[list[Callable[[], Result]]], Iterator[Result]]
"""Does jobs and yields their results as they come."""


@dataclass(frozen=True)
class Outcome:
    """The result of a run: new lines, lines that were stored before, and the problems among the new ones."""

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
    """Do the tasks of an experiment that are not stored yet.

    You can interrupt or kill it at any time. Started again, it continues with the remaining tasks.

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
    """Whether an earlier line has the measures that only some experiments need. Without labels nothing is missing."""
    measures = line.get("measures", {})
    return "mAP" not in measures or all(name in measures for name in STABLE_MEASURES)


def _done(do: Do, tasks: list[Task], cached: dict[str, CachedData], stable: bool) -> Iterator[tuple[Task, Line]]:
    """The jobs in their order: for each dataset first the data that its tasks share, then the tasks."""
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


class EncodedData(NamedTuple):
    """Codes of the database, as the method's authors make them, and of the queries; and the seconds of every step."""

    codes: NDArray[np.uint8]
    query_codes: NDArray[np.uint8]
    seconds: dict[str, float]


def execute(task: Task, folder: str | Path, stable: bool = True) -> Line:
    """Do a task on the data cached in ``folder``. If the method cannot use the data, the result is a ``problem``.

    ``stable`` adds the measures that rank equal distances in the order of the database.
    """
    data = _opened(str(folder))
    line: Line = {
        "key": key_of(task.config, data.digest),
        "config": task.config,
        "data": data.facts,
        **provenance(),
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            line |= judge_vectors(data, stable) if task.method is None else _result(task, data, stable)
        except ValueError as error:
            line["problem"] = str(error).partition("\n")[0]
    said = list(dict.fromkeys(" ".join(str(warning.message).split())[:200] for warning in caught))[:MOST_WARNINGS]
    return line | ({"warnings": said} if said else {})


@lru_cache(maxsize=1)
def _opened(folder: str) -> CachedData:
    return CachedData(folder)


@lru_cache(maxsize=1)
def _moments_of(folder: str) -> KnownMoments:
    return KnownMoments(_opened(folder).database)


def _result(task: Task, data: CachedData, stable: bool) -> Line:
    assert task.method is not None
    hasher: Any = task.hasher()
    for name in task.method.registered:
        _warm_up(name, str(data.folder))
    encoded = _encoded(task, hasher, data)
    if task.method.ranks_real_queries(hasher):
        line = judge_real_queries(estimate_vectors(hasher, encoded.codes, data.database, data.queries), data, stable)
    else:
        line = judge_codes(encoded.query_codes, encoded.codes, hasher.n_bits, data, stable)
    line["seconds"] = {name: round(value, 4) for name, value in encoded.seconds.items()}
    if hasattr(hasher, "objective_"):
        line["objective"] = rounded(hasher.objective_, DIGITS)
    if hasattr(hasher, "personalized_weights_"):
        line["weights"] = weight_signs(hasher.personalized_weights_[0])
    return line


def _encoded(task: Task, hasher: Any, data: CachedData) -> EncodedData:
    moments = _moments_of(str(data.folder))
    n_uses, known_seconds = moments.n_uses, moments.seconds
    with knowing_moments(moments):
        codes, seconds = _fit(hasher, task.run, data)
    if moments.n_uses > n_uses:
        seconds["moments"] = known_seconds  # if this task made them, "fit" includes the time
    start = time.perf_counter()
    query_codes = hasher.transform(data.queries)
    seconds["encode"] += time.perf_counter() - start
    return EncodedData(codes, query_codes, seconds)


def _fit(hasher: Any, seed: int, data: CachedData) -> tuple[NDArray[np.uint8], dict[str, float]]:
    """Fit a hasher, and return the codes of the database and the seconds of every step."""
    if isinstance(hasher, HasherUnion):
        return _fit_union(hasher, seed, data)
    wanted = anchors_of(hasher, seed, len(data.database))
    start = time.perf_counter()
    if type(hasher).fit_codes is not Hasher.fit_codes:  # the method learns the codes of the training rows
        codes = hasher.fit_codes(data.database)
        return codes, {"fit": time.perf_counter() - start, "encode": 0.0}
    seconds = _fitted(hasher, data) if wanted is None else fit_from_sums(hasher, data, wanted)
    start = time.perf_counter()
    codes = hasher.transform(data.database)
    return codes, {**seconds, "encode": time.perf_counter() - start}


def _fit_union(union: HasherUnion, seed: int, data: CachedData) -> tuple[NDArray[np.uint8], dict[str, float]]:
    parts = [clone(part) for part in union.hashers]
    fitted = [_fit(part, seed, data) for part in parts]
    union.n_features_in_, union.hashers_ = data.database.shape[1], parts
    bits = [unpack(codes, part.n_bits) for part, (codes, _) in zip(parts, fitted)]
    total: dict[str, float] = defaultdict(float)
    for _, seconds in fitted:
        for step, value in seconds.items():
            total[step] += value
    return pack(np.hstack(bits)), dict(total)


def _fitted(hasher: Any, data: CachedData) -> dict[str, float]:
    start = time.perf_counter()
    hasher.fit(data.database)
    return {"fit": time.perf_counter() - start}


@cache
def _warm_up(method: str, folder: str) -> None:
    """Compile the loops of a method, which happens once in a process and does not belong to the time of a fit."""
    with suppress(ValueError):
        rows = np.array(_opened(folder).database[:200])
        make: Any = hasher_class(method)
        make(n_bits=8, random_state=0).fit(rows).transform(rows)


def weight_signs(weights: NDArray) -> dict[str, Any]:
    """The signs of one cluster's weights (d x b), packed: bits of the b x d matrix, and the features without weight."""
    norms = np.linalg.norm(weights, axis=1)
    zero = np.flatnonzero(norms <= ZERO_WEIGHT * norms.max())
    positive = np.packbits((weights.T > 0).ravel())
    return {
        "shape": [weights.shape[1], weights.shape[0]],
        "positive": base64.b64encode(positive.tobytes()).decode(),
        "zero_features": zero.tolist(),
    }


@contextmanager
def processes(workers: int) -> Iterator[Do]:
    """A function that does jobs in the given number of processes; with one, in this process and in order."""
    if workers == 1:
        with threadpool_limits(limits=1):
            yield lambda jobs: (job() for job in jobs)
        return
    others = set(active_children())
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker)
    try:
        yield partial(_in_pool, pool)
    except BaseException:
        # Jobs that have begun are not waited for: the next run does them again.
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
    """Use one thread for matrices, and end this process when its parent ends for any reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    globals()["_limits"] = threadpool_limits(limits=1)
    parent: Any = parent_process()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)
