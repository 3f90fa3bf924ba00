"""The quality of a ranking by meaning (labels) and by neighborhood, as the numbers and curves that a result keeps.

Results may be ranked by real queries: the codes of the database are bits, the query is not encoded. With weights t_j of
a query and one correction c a code, the distance of a query to a code is estimated::

    c + sum_j t_j b_j

where b_j are the signs of the code. With 16 weights for each four bits, b has a one for each weight that the bits
choose. The Euclidean distances between ``(-t / 2, 0)`` and ``(b, sqrt(c - min c))`` have the same order. So the
functions that judge rankings of vectors also judge this ranking.
"""

from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import unpack
from hashlearn.linalg.abh.words import coefficients_of
from hashlearn.metrics import (
    Evaluation,
    TrueNeighbor,
    evaluate,
    evaluate_vectors,
    recall_of_ids,
    score_codes,
    true_neighbors,
)
from hashlearn.metrics.ties import Ties, check_ties
from hashlearn.search.code_search import hasher_and_rows

Line = dict[str, Any]
"""The stored numbers of a run, as JSON values."""

N_NEIGHBORS = 10
"""Number of true neighbors of a query that recall counts."""

DIGITS = 6
CURVE_DIGITS = 4
RECALL_POSITIONS = (10, 100)


class LabeledData(Protocol):
    """Vectors to judge by: with labels or without."""

    @property
    def database(self) -> NDArray: ...
    @property
    def queries(self) -> NDArray: ...
    @property
    def labels(self) -> NDArray | None: ...
    @property
    def query_labels(self) -> NDArray | None: ...
    def neighbors(self) -> NDArray[np.int64]:
        """The rows of the 10 nearest vectors of every query, nearest first."""
        ...


class EstimateVectors(NamedTuple):
    """Vectors whose Euclidean distances have the order of the estimates."""

    database: NDArray[np.float32]
    queries: NDArray[np.float32]


def judge_codes(
    query_codes: NDArray[np.uint8], codes: NDArray[np.uint8], n_bits: int, data: LabeledData, stable: bool = False
) -> Line:
    """Judge the ranking by Hamming distance; ``stable`` by both rules for equal distances."""
    line: Line = {"measures": {}}
    if data.labels is not None:
        of_labels: dict[str, Any] = {"query_labels": data.query_labels, "labels": data.labels}
        line = by_meaning(evaluate(codes, query_codes, n_bits, **of_labels))
        if stable:
            ranked = evaluate(codes, query_codes, n_bits, ties="stable", positions=[100], **of_labels)
            line["measures"] |= of_stable_ranking(ranked)
    neighbors = TrueNeighbor(data.neighbors(), len(codes))
    hits = score_codes(codes, query_codes, n_bits, neighbors, RECALL_POSITIONS).hits.mean(axis=0)
    line["measures"] |= by_neighborhood(hits)
    return line


def judge_real_queries(estimates: EstimateVectors, data: LabeledData, stable: bool = False) -> Line:
    """Judge the ranking by estimates of the distances between real queries and codes."""
    line = _by_meaning_of_vectors(*estimates, data, stable)
    depth = min(max(RECALL_POSITIONS), len(estimates.database))
    hits = neighbor_hits(true_neighbors(*estimates, depth), data.neighbors())
    line["measures"] |= by_neighborhood(hits)
    return line


def judge_vectors(data: LabeledData, stable: bool = False) -> Line:
    """Judge the Euclidean ranking of the vectors themselves; its first results are the true neighbors."""
    line = judge_by_labels(data, stable)
    line["measures"] |= by_neighborhood(np.full(len(RECALL_POSITIONS), N_NEIGHBORS))
    return line


def judge_by_labels(data: LabeledData, stable: bool = False) -> Line:
    """Judge the Euclidean ranking of the vectors themselves by meaning; nothing is measured without labels."""
    return _by_meaning_of_vectors(data.database, data.queries, data, stable)


def neighbor_hits(ranked: NDArray[np.int64], neighbors: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many true neighbors are among the first 10 and the first 100 ranked ids, mean over the queries."""
    found = (ranked[:, :, None] == neighbors[:, None, :]).any(axis=2)
    return np.array([found[:, :n].sum(axis=1).mean() for n in RECALL_POSITIONS])


def _by_meaning_of_vectors(database: NDArray, queries: NDArray, data: LabeledData, stable: bool) -> Line:
    if data.labels is None:
        return {"measures": {}}
    of_labels: dict[str, Any] = {"query_labels": data.query_labels, "labels": data.labels}
    line = by_meaning(evaluate_vectors(database, queries, **of_labels))
    if stable:
        line["measures"] |= of_stable_ranking(evaluate_vectors(database, queries, ties="stable", **of_labels))
    return line


def of_stable_ranking(stable: Evaluation) -> dict[str, float | None]:
    """The measures that are also kept with equal distances in the order of the database."""
    return {"mAP_stable": short(stable.mAP), "pre100_stable": short(stable.pre100_of_the_paper)}


def by_meaning(expected: Evaluation) -> Line:
    """The measures by labels, and the curves; equal distances count as if shuffled."""
    assert expected.positions is not None
    assert expected.precision_at is not None
    measures = {
        "mAP": expected.mAP,
        "pre100": expected.pre100_of_the_paper,
        "precision_at_1": expected.precision_at[0],
        "precision_at_100": expected.precision_at_100,
    }
    if expected.lookup is not None:
        plain = expected.to_dict()["lookup"]
        measures |= {f"radius2_{name}": plain[name] for name in ("precision", "recall", "f_measure", "empty_fraction")}
    curves = {
        "positions": [int(n) for n in expected.positions],
        "precision_at": rounded(expected.precision_at),
        "recall_at": rounded(expected.recall_at),
    }
    if expected.radius_curve is not None:
        curves |= {
            "radius_precision": rounded(expected.radius_curve.precision),
            "radius_recall": rounded(expected.radius_curve.recall),
        }
    return {"measures": {name: short(value) for name, value in measures.items()}, "curves": curves}


def by_neighborhood(hits: NDArray) -> dict[str, float | None]:
    """The measures by true neighbors, from their mean number among the first 10 and 100 results."""
    return {f"recall_at_{n}": short(mean / N_NEIGHBORS) for n, mean in zip(RECALL_POSITIONS, hits)}


def rounded(values: Any, digits: int = CURVE_DIGITS) -> list[float | None]:
    """Numbers of a curve, rounded to the digits that results keep."""
    return [short(value, digits) for value in values]


def short(value: float | None, digits: int = DIGITS) -> float | None:
    """Numbers rounded to the digits that results keep; undefined numbers become null."""
    if value is None or not np.isfinite(value):
        return None
    return float(f"{float(value):.{digits}g}")


def has_real_queries(hasher: Any) -> bool:
    """Whether a hasher, or the last of a pipeline, is made for real queries."""
    return hasattr(hasher_and_rows(hasher)[0], "query_weights")


def estimate_vectors(hasher: Any, codes: NDArray[np.uint8], database: NDArray, queries: NDArray) -> EstimateVectors:
    """The vectors of the estimates of a fitted hasher.

    For a method without query weights, minus the scores are the weights. A bit counts more if the query's score is
    farther from zero.
    """
    if has_real_queries(hasher):
        corrections = hasher.corrections(database, codes).numbers()
        return vectors_of_estimates(hasher.query_weights(queries), codes, hasher.n_bits, corrections)
    return vectors_of_estimates(-hasher.decision_function(queries), codes, hasher.n_bits, np.zeros(len(codes)))


def evaluate_real_queries(
    hasher: Any,
    codes: NDArray[np.uint8],
    *,
    vectors: Any,
    query_vectors: Any,
    labels: Any = None,
    query_labels: Any = None,
    k: int = 10,
    ties: Ties = "expected",
) -> Evaluation:
    """As :func:`hashlearn.metrics.evaluate`, of codes that are ranked by the estimates of real queries."""
    last, seen = hasher_and_rows(hasher, vectors)
    estimates = estimate_vectors(last, codes, seen, hasher_and_rows(hasher, query_vectors)[1])
    if labels is None and query_labels is None:
        result = Evaluation(len(estimates.queries), len(codes), hasher.n_bits, check_ties(ties))
    else:
        result = evaluate_vectors(*estimates, labels=labels, query_labels=query_labels, ties=ties)
    ranked = true_neighbors(*estimates, min(max(k, 100), len(codes)))
    recalls = recall_of_ids(ranked, true_neighbors(vectors, query_vectors, k), k, [k, 100])
    return replace(
        result,
        n_bits=hasher.n_bits,
        n_neighbors=k,
        neighbor_recall=float(recalls[0]),
        neighbor_recall_at_100=float(recalls[1]),
    )


def vectors_of_estimates(
    weights: NDArray, codes: NDArray[np.uint8], n_bits: int, corrections: NDArray
) -> EstimateVectors:
    """The vectors of the estimates ``corrections + coefficients @ weights``."""
    coefficients = coefficients_of(unpack(codes, n_bits), np.shape(weights)[1], np.dtype(np.float32))
    height = np.sqrt(corrections - np.min(corrections)).astype(np.float32)
    level = np.zeros((len(weights), 1), np.float32)
    return EstimateVectors(
        np.hstack([coefficients, height[:, None]]), np.hstack([np.asarray(weights, np.float32) / -2, level])
    )
