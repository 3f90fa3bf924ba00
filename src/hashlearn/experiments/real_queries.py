"""Ranking by real queries: the codes of the database are bits, the query is not encoded.

With weights t_j of a query and one correction c a code, the distance of a query to a code is estimated::

    c + sum_j t_j b_j

where b_j are the signs of the code, or, with 16 weights for each four bits, a one for each weight that they choose.
That is the order of the Euclidean distances between ``(-t / 2, 0)`` and ``(b, sqrt(c - min c))``, so whatever judges
vectors judges this ranking too.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import unpack
from hashlearn.linalg.abh.words import coefficients_of
from hashlearn.metrics import Evaluation, evaluate_vectors, recall_of_ids, true_neighbors
from hashlearn.metrics.ties import Ties, check_ties
from hashlearn.search.code_search import hasher_and_rows


class EstimateVectors(NamedTuple):
    """Vectors whose Euclidean distances have the order of the estimates."""

    database: NDArray[np.float32]
    queries: NDArray[np.float32]


def has_real_queries(hasher: Any) -> bool:
    """Whether a hasher, or the last of a pipeline, is made for real queries."""
    return hasattr(hasher_and_rows(hasher)[0], "query_weights")


def estimate_vectors(hasher: Any, codes: NDArray[np.uint8], database: NDArray, queries: NDArray) -> EstimateVectors:
    """The vectors of the estimates of a fitted hasher.

    A method without weights of its own for queries gets minus its scores: a bit counts the more, the farther the query
    is from changing it.
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
