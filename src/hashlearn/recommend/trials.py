"""Recommendation of a method, a length and a search for some vectors, from trials on a sample of them.

Two jobs are judged separately. *By meaning*: do the results have the query's label? This needs labels. *By
neighborhood*: are the results the query's nearest vectors? For each job one method is recommended, with its shortest
length that is nearly as good as its best. The search recommended by neighborhood is then built on the sample, by the
same line of Python that is printed. Its recall is measured by codes alone, and after reranking by the kept vectors.
"""

import json
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_choice, check_integer
from hashlearn.experiments.define.tasks import REFERENCE
from hashlearn.experiments.judge import (
    N_NEIGHBORS,
    Line,
    estimate_vectors,
    has_real_queries,
    judge_by_labels,
    judge_codes,
    judge_real_queries,
    judge_vectors,
)
from hashlearn.hashers.base import Hasher
from hashlearn.hashers.lengths import fit_lengths
from hashlearn.hashers.registry import METHODS
from hashlearn.linalg.projections import unit_rows
from hashlearn.metrics import recall_of_ids, true_neighbors
from hashlearn.progress import track
from hashlearn.rows import RowBlocks, plain_rows
from hashlearn.rows.blocks import dense
from hashlearn.search import SimilaritySearch
from hashlearn.search.rerank import METRICS

SAMPLE_ROWS = 10_000
MOST_QUERIES = 500
CANDIDATES_PER_RESULT = 4
"""Codes reranked for each result: the default of a search."""

NEARLY = 0.005
"""A shorter code is recommended if it loses at most this much against the best."""

CLEARLY_ABOVE = 1.15
"""Codes are above the float vectors by meaning if they have this many times their mAP, and their precision@100."""

KEEP_VECTORS = "float16"
"""The type of the vectors kept for reranking. It halves the memory and hardly changes the order."""

BY_COSINE = f"{REFERENCE}, cosine"
BY_MEANING = "mAP"
BY_NEIGHBORHOOD = "recall_at_10"
SHOWN = {
    "mAP": "mAP",
    "precision_at_100": "precision@100",
    "recall_at_10": "10@10",
    "recall_at_100": "10@100",
}


class Candidate(NamedTuple):
    """A method to try, and whether its results are ranked by real queries instead of codes."""

    method: str
    real_queries: bool = False

    @property
    def title(self) -> str:
        name = METHODS[self.method].__name__
        return f"{name}, real queries" if self.real_queries else name

    @property
    def correction_bytes(self) -> int:
        """Bytes that a row needs beside its bits."""
        return 1 if has_real_queries(METHODS[self.method]) else 0

    def lengths(self, n_bytes: int) -> list[int]:
        """The lengths of codes, in bits, that fill half of the given bytes and all of them, where such codes exist."""
        return [8 * (size - self.correction_bytes) for size in (n_bytes // 2, n_bytes) if size > self.correction_bytes]


def candidates() -> list[Candidate]:
    """The sensible methods: those by meaning, and those by neighborhood."""
    own_queries = [Candidate(name, True) for name in METHODS if has_real_queries(METHODS[name])]
    return [Candidate("jpsh"), Candidate("sah"), Candidate("itq"), Candidate("itq", True), *own_queries]


@dataclass(frozen=True)
class Trial:
    """The measurements of a method at one length.

    Attributes
    ----------
    title, method : those of the candidate real_queries : bool
        Whether the results were ranked by real queries against codes, instead of by the Hamming distance.
    n_bits, n_bytes : int
        Length of a code, and bytes of a row, including the byte of a correction.
    measures : dict
        The measures of :data:`hashlearn.experiments.define.measures.MEASURES` that could be judged.
    seconds : float
        The time to fit all lengths of the method to the sample.
    metric : {"euclidean", "cosine", "dot"}
        What is near.
    seed : int
        The ``random_state`` of the method.
    """

    title: str
    method: str
    real_queries: bool
    n_bits: int
    n_bytes: int
    measures: dict[str, float | None]
    seconds: float
    metric: str = "euclidean"
    seed: int = 0

    def commands(self, vectors: str = "vectors.npy") -> list[str]:
        """The commands that make a model and the codes of all the vectors; only for the Euclidean distance."""
        fit = f"hashlearn fit {vectors} --method {self.method} --bits {self.n_bits} --out model/"
        return [fit, f"hashlearn encode model/ {vectors} --out codes.npy"]

    @property
    def search(self) -> str:
        """The search by codes alone, in Python; ``.fit(X).add(X)`` makes it."""
        return self._line({})

    @property
    def reranked_search(self) -> str:
        """The search that also keeps vectors and reranks the results of the codes by them, in Python."""
        return self._line({"keep_vectors": KEEP_VECTORS})

    def built(self, X: Any) -> SimilaritySearch:
        """The search of :attr:`reranked_search` over these rows."""
        settings = self._settings({"keep_vectors": KEEP_VECTORS})
        hasher = METHODS[self.method](self.n_bits, random_state=self.seed)
        return SimilaritySearch(hasher, **settings).fit(X).add(X)

    def _settings(self, others: dict[str, str]) -> dict[str, Any]:
        queries = {"query": "real"} if self.real_queries else {}
        return {"metric": self.metric, **queries, **others}

    def _line(self, others: dict[str, str]) -> str:
        settings = "".join(f', {name}="{value}"' for name, value in self._settings(others).items())
        return f"SimilaritySearch({METHODS[self.method].__name__}({self.n_bits}, random_state={self.seed}){settings})"


class Reached(NamedTuple):
    """The recall of the 10 nearest of the recommended search, measured on the sample.

    Attributes
    ----------
    codes : float
        Of the 10 nearest by codes alone.
    reranked : float
        Of the 10 nearest of the candidates by their kept vectors.
    candidates : int
        How many codes were reranked.
    """

    codes: float
    reranked: float
    candidates: int


@dataclass(frozen=True)
class Recommendation:
    """The recommendation for some vectors.

    Attributes
    ----------
    by_meaning : Trial or None
        None without labels.
    by_neighborhood : Trial
    above_floats : Trial or None
        The shortest code with at least 1.15 times the mAP of the float vectors and at least their precision@100. The
        better of their two orders counts. None if there is no such code, or no labels.
    trials : tuple of Trial
        All measurements.
    floats : dict
        The measures of the float vectors, ranked by Euclidean distance.
    floats_by_cosine : dict
        The measures by labels, ranked by cosine. The true neighbors are the Euclidean ones, so these are left out.
        Empty for another metric.
    problems : tuple of str
        Methods that cannot work on these data, with the reason.
    n_rows, n_features, n_queries : int
        Of the sample.
    metric : {"euclidean", "cosine", "dot"}
        What is near.
    reached : Reached
        The recall of the search that is recommended by neighborhood.
    """

    by_meaning: Trial | None
    by_neighborhood: Trial
    above_floats: Trial | None
    trials: tuple[Trial, ...]
    floats: dict[str, float | None]
    floats_by_cosine: dict[str, float | None]
    problems: tuple[str, ...]
    n_rows: int
    n_features: int
    n_queries: int
    metric: str
    reached: Reached

    def table(self) -> str:
        """The measurements as plain text."""
        shown = [name for name in SHOWN if self.floats.get(name) is not None]
        floats = {REFERENCE: self.floats}
        if self.floats_by_cosine[BY_MEANING] is not None:
            floats[BY_COSINE] = self.floats_by_cosine
        width = max(len(title) for title in (*floats, *(trial.title for trial in self.trials)))
        head = f"{'':<{width}}  {'bits':>5}  {'bytes':>5}" + "".join(f"  {SHOWN[name]:>13}" for name in shown)
        lines = [
            f"{title:<{width}}  {'':>5}  {4 * self.n_features:>5}" + _numbers(measures, shown)
            for title, measures in floats.items()
        ]
        lines += [
            f"{trial.title:<{width}}  {trial.n_bits:>5}  {trial.n_bytes:>5}" + _numbers(trial.measures, shown)
            for trial in self.trials
        ]
        return "\n".join([head, *lines])

    def of_floats(self, measure: str) -> float:
        """A measure of the float vectors, ranked by Euclidean distance or by cosine, whichever is better."""
        return _better(measure, self.floats, self.floats_by_cosine)

    def to_json(self, indent: int | None = 2) -> str:
        """Everything as JSON."""
        return json.dumps(asdict(self), indent=indent, allow_nan=False)


class TrialData:
    """Some rows of the data, split into a database and queries."""

    def __init__(self, vectors: Any, labels: NDArray | None, n_rows: int, seed: int, metric: str = "euclidean"):
        n = vectors.shape[0]
        chosen = np.random.RandomState(seed).permutation(n)[: min(n, n_rows)]
        n_queries = max(1, min(MOST_QUERIES, len(chosen) // 10))
        queries, database = np.sort(chosen[:n_queries]), np.sort(chosen[n_queries:])
        self.metric = metric
        self.database, self.queries = _rows(vectors, database), _rows(vectors, queries)
        self.labels = None if labels is None else labels[database]
        self.query_labels = None if labels is None else labels[queries]

    def of_unit_length(self) -> "TrialData":
        """The same rows with length one, whose Euclidean order is that of the cosine."""
        unit = copy(self)
        unit.database, unit.queries = unit_rows(self.database), unit_rows(self.queries)
        return unit

    def as_distances(self) -> "TrialData":
        """Rows whose Euclidean order is that of the metric.

        For inner products every row gets one additional number, so that all rows are as long as the longest.
        """
        if self.metric == "euclidean":
            return self
        if self.metric == "cosine":
            return self.of_unit_length()
        squares = np.einsum("ij,ij->i", self.database, self.database)
        longer = copy(self)
        longer.database = np.column_stack([self.database, np.sqrt(squares.max() - squares)])
        longer.queries = np.column_stack([self.queries, np.zeros(len(self.queries), np.float32)])
        return longer

    def neighbors(self) -> NDArray[np.int64]:
        """The nearest vectors of every query."""
        return self._neighbors

    @cached_property
    def _neighbors(self) -> NDArray[np.int64]:
        return true_neighbors(self.database, self.queries, N_NEIGHBORS, self.metric)


def recommend(
    vectors: Any,
    labels: ArrayLike | None = None,
    *,
    n_bytes: int = 16,
    sample: int = SAMPLE_ROWS,
    seed: int = 0,
    metric: str = "euclidean",
) -> Recommendation:
    """Try the sensible methods on a sample of vectors, and say which to take.

    Parameters
    ----------
    vectors : array of shape (n, n_features), frame, column of vectors, sparse matrix, path, or another source of rows
        At least 100 rows; see :func:`hashlearn.rows.as_rows`.
    labels : array-like of shape (n,) or (n, n_labels), optional
        Classes, or a 0/1 matrix. Without them only neighborhoods are judged.
    n_bytes : int, default=16
        The largest size of a row's code. Codes of this size and of half of it are tried.
    sample : int, default=10000
        Number of rows for the trials, at least 100. A tenth of them, at most 500, are the queries.
    seed : int, default=0
        Determines the sample and the codes.
    metric : {"euclidean", "cosine", "dot"}
        What is near: a small distance, a small angle, a large inner product. With "cosine" the methods get rows of
        length one, as in :class:`hashlearn.SimilaritySearch`.

    Returns
    -------
    Recommendation
        The best method for each job, and the measurements of every method.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> recommend(X, y, n_bytes=2, sample=300).by_meaning.method in ("jpsh", "sah")
    True
    """
    check_integer("n_bytes", n_bytes, low=1)
    check_integer("sample", sample, low=100)
    check_choice("metric", metric, METRICS)
    vectors = plain_rows(vectors, name="vectors")
    if vectors.shape[0] < 100:
        raise ValueError(f"vectors must have at least 100 rows, got {vectors.shape[0]}")
    known = None if labels is None else np.asarray(labels)
    if known is not None and len(known) != vectors.shape[0]:
        raise ValueError(f"labels must be as many as the vectors, got {len(known)} for {vectors.shape[0]}")

    data = TrialData(vectors, known, sample, seed, metric)
    judged, seen = data.as_distances(), data.of_unit_length() if metric == "cosine" else data
    trials: list[Trial] = []
    problems: list[str] = []
    for candidate in track(candidates(), "trying methods"):
        lengths = candidate.lengths(n_bytes)
        if not lengths:
            problems.append(f"{candidate.title}: a code takes at least {1 + candidate.correction_bytes} bytes")
            continue
        for tried in (lengths, lengths[:1]):  # only the short code, if the method has none of the longer length
            try:
                trials += _tried(candidate, seen, tried, seed)
                break
            except ValueError as error:
                problems.append(f"{candidate.title}: {error}")
    if not trials:
        raise ValueError(f"no method can work on these vectors: {'; '.join(problems)}")
    chosen = shortest_of_best(trials, BY_NEIGHBORHOOD)
    by_cosine = _shown_of(judge_by_labels(data.of_unit_length())["measures"] if metric == "euclidean" else {})
    floats = _shown_of(judge_vectors(judged)["measures"])
    return Recommendation(
        by_meaning=None if known is None else shortest_of_best(trials, BY_MEANING),
        by_neighborhood=chosen,
        above_floats=None if known is None else shortest_above(trials, floats, by_cosine),
        trials=tuple(trials),
        floats=floats,
        floats_by_cosine=by_cosine,
        problems=tuple(dict.fromkeys(problems)),
        n_rows=len(data.database),
        n_features=data.database.shape[1],
        n_queries=len(data.queries),
        metric=metric,
        reached=_reached(chosen, data),
    )


def _reached(trial: Trial, data: TrialData) -> Reached:
    search = trial.built(data.database)
    by_codes = search.search(data.queries, N_NEIGHBORS, rerank=False)
    candidates = min(CANDIDATES_PER_RESULT * N_NEIGHBORS, len(data.database))
    reranked = search.search(data.queries, N_NEIGHBORS, candidates=candidates)
    return Reached(_recall(by_codes.ids, data), _recall(reranked.ids, data), candidates)


def _recall(ids: NDArray[np.int64], data: TrialData) -> float:
    return float(recall_of_ids(ids, data.neighbors(), N_NEIGHBORS, [N_NEIGHBORS])[0])


def shortest_of_best(trials: Sequence[Trial], measure: str) -> Trial:
    """The method with the best value, at its shortest length that is nearly as good."""
    best = max(trials, key=lambda trial: _value(trial, measure))
    same = [trial for trial in trials if trial.title == best.title]
    good = [trial for trial in same if _value(trial, measure) >= _value(best, measure) - NEARLY]
    return min(good, key=lambda trial: trial.n_bits)


def shortest_above(trials: Sequence[Trial], *floats: dict[str, float | None]) -> Trial | None:
    """The shortest code above the float vectors by mAP and precision@100. Of several, the one with the best mAP."""
    mean, precise = CLEARLY_ABOVE * _better("mAP", *floats), _better("precision_at_100", *floats)
    above = [t for t in trials if _value(t, "mAP") >= mean > 0 and _value(t, "precision_at_100") >= precise]
    return min(above, key=lambda trial: (trial.n_bytes, -_value(trial, BY_MEANING)), default=None)


def _better(measure: str, *floats: dict[str, float | None]) -> float:
    return max((value for order in floats if (value := order[measure]) is not None), default=0.0)


def _tried(candidate: Candidate, data: TrialData, lengths: Sequence[int], seed: int) -> list[Trial]:
    cls: Any = METHODS[candidate.method]
    start = time.perf_counter()
    settings = {"metric": data.metric} if "metric" in cls().get_params() else {}
    fitted = fit_lengths(cls(random_state=seed, **settings), data.database, lengths)
    seconds = time.perf_counter() - start
    return [
        Trial(
            candidate.title,
            candidate.method,
            candidate.real_queries,
            hasher.n_bits,
            hasher.n_bits // 8 + candidate.correction_bytes,
            _shown_of(_judged(candidate, hasher, data)["measures"]),
            round(seconds, 2),
            data.metric,
            seed,
        )
        for hasher in fitted
    ]


def _judged(candidate: Candidate, hasher: Hasher, data: TrialData) -> Line:
    codes = hasher.transform(data.database)
    if candidate.real_queries:
        return judge_real_queries(estimate_vectors(hasher, codes, data.database, data.queries), data)
    return judge_codes(hasher.transform(data.queries), codes, hasher.n_bits, data)


def _rows(vectors: Any, rows: NDArray) -> NDArray[np.float32]:
    taken = vectors.take(rows) if isinstance(vectors, RowBlocks) else dense(vectors[rows])
    return np.asarray(taken, np.float32)


def _value(trial: Trial, measure: str) -> float:
    value = trial.measures.get(measure)
    return -1.0 if value is None else value


def _shown_of(measures: dict[str, float | None]) -> dict[str, float | None]:
    return {name: measures.get(name) for name in SHOWN}


def _numbers(measures: dict[str, float | None], shown: Sequence[str]) -> str:
    texts = ["-" if measures[name] is None else f"{measures[name]:.3f}" for name in shown]
    return "".join(f"  {text:>13}" for text in texts)
