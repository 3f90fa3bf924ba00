"""The measurements of ``hashlearn demo``: the experiment ``demo.toml``, with codes and search times for its page.

The runs are few and small. They are done here and not stored. The page also shows codes and their search results.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from hashlearn.experiments.define.experiment import Experiment, read_experiment
from hashlearn.experiments.define.tasks import REFERENCE, tasks_of_part
from hashlearn.experiments.judge import estimate_vectors, has_real_queries
from hashlearn.index import HammingIndex
from hashlearn.metrics import Evaluation, evaluate, evaluate_vectors, true_neighbors
from hashlearn.progress import track

N_QUERIES = 200
K = 10
DEMO_MEASURES = {
    "mAP": "mAP",
    "precision_at_100": "precision@100",
    "pre100_of_the_paper": "paper's Pre@100",
    "neighbor_recall": f"recall@{K}",
}
"""Names of the numbers of an Evaluation that the demo shows, and their titles."""
MEASURE_NOTES = (
    "mAP: mean average precision over the whole ranking; equal distances count as if shuffled.",
    "The paper's Pre@100 is the mAP of the 100 queries that went best, not the precision among 100 results.",
    f"recall@{K}: share of the {K} nearest neighbors by Euclidean distance that are among the {K} nearest codes.",
    "fit: time of learning and of encoding the database.",
    f"search: time of a query for its {K} nearest among all database items, the best of three times.",
)


@dataclass(frozen=True, eq=False)
class DigitsSplit:
    """Vectors and labels of the database, which is also the training set, and of the queries."""

    vectors: NDArray[np.float64]
    labels: NDArray[np.int64]
    query_vectors: NDArray[np.float64]
    query_labels: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DigitCodes:
    """The packed codes of a split by one method."""

    method: str
    n_bits: int
    database: NDArray[np.uint8]
    queries: NDArray[np.uint8]

    def index(self) -> HammingIndex:
        """The database, ready to be searched."""
        return HammingIndex(self.n_bits).add(self.database)


@dataclass(frozen=True, eq=False)
class DemoRun:
    """One method at one length; ``problem`` is the reason if there is no evaluation."""

    method: str
    n_bits: int | None
    evaluation: Evaluation | None = None
    fit_seconds: float | None = None
    search_seconds: float | None = None
    codes: DigitCodes | None = None
    problem: str | None = None

    def measure(self, name: str) -> float | None:
        """A number of :data:`DEMO_MEASURES`, if there is one."""
        return None if self.evaluation is None else getattr(self.evaluation, name)


@dataclass(frozen=True, eq=False)
class Demo:
    """All runs, and the Euclidean ranking of the float vectors for comparison."""

    split: DigitsSplit
    runs: tuple[DemoRun, ...]
    reference: DemoRun
    seed: int
    seconds: float

    def at(self, n_bits: int) -> list[DemoRun]:
        """The runs of one length, in the order of the registry."""
        return [run for run in self.runs if run.n_bits == n_bits]

    @property
    def lengths(self) -> list[int]:
        return sorted({run.n_bits for run in self.runs if run.n_bits is not None})

    def best(self, n_bits: int, measure: str) -> float | None:
        """The highest value of a measure among the runs of one length."""
        values = [value for run in self.at(n_bits) if (value := run.measure(measure)) is not None]
        return max(values, default=None)


def digits_split(seed: int = 0, n_queries: int = N_QUERIES) -> DigitsSplit:
    """1797 images of 8 x 8 pixels, ten digits; a seeded draw of queries, the rest is the database."""
    X, y = load_digits(return_X_y=True)
    order = np.random.RandomState(seed).permutation(len(X))
    queries, database = order[:n_queries], order[n_queries:]
    return DigitsSplit(X[database], y[database].astype(np.int64), X[queries], y[queries].astype(np.int64))


def demo_experiment() -> Experiment:
    """The experiment that the demo runs.

    >>> demo_experiment().title
    'hashlearn: short codes for handwritten digits'
    """
    return read_experiment(Path(__file__).with_name("demo.toml"))


def run_demo(methods: Sequence[str] | None = None, bits: Sequence[int] | None = None, seed: int = 0) -> Demo:
    """Fit and judge methods on the digits.

    Parameters
    ----------
    methods : names, optional
        All of the registry if None.
    bits : lengths of the codes, optional
        Those of the experiment if None.
    seed : int
        Of the split and of every method.
    """
    start = time.perf_counter()
    experiment = demo_experiment().restricted(methods=methods, bits=bits)
    tasks = [task for part in experiment.parts for task in tasks_of_part(part) if task.method is not None]
    jobs = [replace(task, run=seed).hasher() for task in tasks]
    classes = dict.fromkeys(map(type, jobs))
    split = digits_split(seed)
    # For matrices of this size one thread is faster than many, above all on a busy machine.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        neighbors, reference = _reference(split)
        for cls in track(classes, "first use"):
            _warm_up(cls, split)
        runs = tuple(_run(hasher, split, neighbors) for hasher in track(jobs, "demo"))
    return Demo(split, runs, reference, seed, time.perf_counter() - start)


def _reference(split: DigitsSplit) -> tuple[NDArray[np.int64], DemoRun]:
    neighbors = true_neighbors(split.vectors, split.query_vectors, K)
    seconds = _fastest(lambda: true_neighbors(split.vectors, split.query_vectors, K)) / len(split.query_vectors)
    evaluation = evaluate_vectors(
        split.vectors, split.query_vectors, query_labels=split.query_labels, labels=split.labels, k=K
    )
    return neighbors, DemoRun(REFERENCE, None, evaluation, search_seconds=seconds)


def _warm_up(cls: Any, split: DigitsSplit) -> None:
    """Compile the loops of a method, which happens once on a machine and does not belong to the time of a fit."""
    with suppress(ValueError):
        cls(n_bits=8, random_state=0).fit(split.vectors[:200])


def _run(hasher: Any, split: DigitsSplit, neighbors: NDArray[np.int64]) -> DemoRun:
    """Fit, encode, search, judge. If a method cannot use the data, that is a result too."""
    title, n_bits = type(hasher).__name__, hasher.n_bits
    start = time.perf_counter()
    try:
        database = hasher.fit_codes(split.vectors)
    except ValueError as error:
        return DemoRun(title, n_bits, problem=str(error).partition("\n")[0])
    fit_seconds = time.perf_counter() - start
    if has_real_queries(hasher):
        return DemoRun(title, n_bits, _of_real_queries(hasher, database, split, neighbors), fit_seconds)
    codes = DigitCodes(title, n_bits, database, hasher.transform(split.query_vectors))
    evaluation = evaluate(
        codes.database,
        codes.queries,
        n_bits,
        query_labels=split.query_labels,
        labels=split.labels,
        neighbors=neighbors,
        k=K,
    )
    return DemoRun(title, n_bits, evaluation, fit_seconds, _search_seconds(codes), codes)


def _of_real_queries(
    hasher: Any, codes: NDArray[np.uint8], split: DigitsSplit, neighbors: NDArray[np.int64]
) -> Evaluation:
    """The evaluation of a method that ranks codes by real queries."""
    estimates = estimate_vectors(hasher, codes, split.vectors, split.query_vectors)
    evaluation = evaluate_vectors(*estimates, query_labels=split.query_labels, labels=split.labels, k=K)
    found = true_neighbors(*estimates, K)
    recall = (found[:, :, None] == neighbors[:, None, :]).any(axis=2).mean()
    return replace(evaluation, neighbor_recall=float(recall))


def _search_seconds(codes: DigitCodes) -> float:
    """Seconds for each query in the fastest of a few searches.

    The first search is not counted, because it may compile.
    """
    index = codes.index()
    index.search(codes.queries, K)
    return _fastest(lambda: index.search(codes.queries, K)) / len(codes.queries)


def _fastest(work: Callable[[], object], times: int = 3) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
