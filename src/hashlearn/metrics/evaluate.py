"""All measures in one call: judge codes, or the float vectors behind them, by labels and by true neighbors."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer
from hashlearn.codes import check_codes
from hashlearn.metrics.curves import curve_positions, pooled_precision, pooled_recall, radius_curve
from hashlearn.metrics.evaluation import Evaluation
from hashlearn.metrics.lookup import EmptyBalls, radius_lookup
from hashlearn.metrics.neighbors import check_depth, neighbor_recalls, score_vectors, true_neighbors
from hashlearn.metrics.ranking import RankingScores, check_not_empty, ranking_histograms, score_codes, top_query_map
from hashlearn.metrics.relevance import Relevance, relevance_of_labels
from hashlearn.metrics.ties import Ties, check_positions, check_ties
from hashlearn.rows import plain_rows

_LAST_POSITION = 1000


def evaluate(
    codes: ArrayLike,
    query_codes: ArrayLike,
    n_bits: int | None = None,
    *,
    labels: ArrayLike | None = None,
    query_labels: ArrayLike | None = None,
    vectors: ArrayLike | None = None,
    query_vectors: ArrayLike | None = None,
    neighbors: ArrayLike | None = None,
    k: int = 10,
    positions: ArrayLike | None = None,
    radius: int = 2,
    ties: Ties = "expected",
    empty: EmptyBalls = "zero",
) -> Evaluation:
    """Judge codes by labels, by the true neighbors of the vectors, or by both.

    Parameters
    ----------
    codes, query_codes : array-like of uint8, shape (n, ceil(n_bits / 8))
        Packed codes.
    n_bits : int, optional
        Length of a code; by default 8 times the width of the codes.
    labels, query_labels : array-like of shape (n,) or (n, n_labels), optional
        Classes, or 0/1 matrices of labels of which one shared is enough. They bring mAP, precision, recall, the curves
        and the look-up.
    vectors, query_vectors : array-like of shape (n, n_features), optional
        The vectors behind the codes. They bring recall k@k and k@100 of the true Euclidean neighbors.
    neighbors : array-like of int, shape (n_queries, at least k), optional
        Those neighbors, nearest first, instead of the vectors.
    k : int, default=10
        How many neighbors count, at least 1.
    positions : array-like of int, optional
        The N of precision@N and recall@N; by default 1, 31, 61, 91, 100, 200, ... up to 1000 or the database's size.
    radius : int, default=2
        Radius of the look-up, inclusive.
    ties : {"expected", "stable", "optimistic", "pessimistic"}
        How equal distances are ranked; see :mod:`hashlearn.metrics.ties`.
    empty : {"zero", "skip"}
        How the look-up counts queries that find nothing.

    Returns
    -------
    Evaluation
        All numbers that the given arguments allow.

    Examples
    --------
    >>> codes = np.array([[0b00000000], [0b00000001], [0b11111110], [0b11111111]], np.uint8)
    >>> result = evaluate(codes, codes, query_labels=[0, 0, 1, 1], labels=[0, 0, 1, 1])
    >>> result.mAP, result.lookup.recall
    (1.0, 1.0)
    """
    if n_bits is None:
        n_bits = 8 * np.shape(codes)[-1]
    queries = check_codes(query_codes, n_bits, "query_codes")
    database = check_codes(codes, n_bits, "codes")
    sizes = len(queries), len(database)
    check_not_empty(*sizes)
    ties = check_ties(ties)
    where = _positions(positions, len(database))
    relevance = _label_relevance(query_labels, labels, *sizes)
    nearest = _nearest(vectors, query_vectors, neighbors, k, *sizes)
    if relevance is None and nearest is None:
        raise ValueError("give query_labels and labels, or query_vectors and vectors, or neighbors to judge by")

    numbers: dict[str, Any] = {}
    if relevance is not None:
        histograms = ranking_histograms(database, queries, n_bits, relevance)
        scores = score_codes(database, queries, n_bits, relevance, _with_100(where), ties, histograms)
        numbers |= _label_numbers(scores)
        numbers["radius_curve"] = radius_curve(histograms)
        numbers["lookup"] = radius_lookup(histograms, radius, empty)
    if nearest is not None:
        recalls = neighbor_recalls(database, queries, n_bits, nearest, k, [k, 100], ties)
        numbers |= {"n_neighbors": k, "neighbor_recall": float(recalls[0]), "neighbor_recall_at_100": float(recalls[1])}
    return Evaluation(*sizes, n_bits=int(n_bits), ties=ties, **numbers)


def evaluate_vectors(
    vectors: ArrayLike,
    query_vectors: ArrayLike,
    *,
    labels: ArrayLike,
    query_labels: ArrayLike,
    k: int = 10,
    positions: ArrayLike | None = None,
    ties: Ties = "expected",
) -> Evaluation:
    """Judge the Euclidean ranking of the float vectors by labels: the reference row for codes.

    The radius curve and the look-up are None, and recall@k of the true neighbors is 1 by definition.

    Parameters
    ----------
    vectors, query_vectors : array-like of shape (n, n_features)
        The database, and the queries.
    labels, query_labels : array-like of shape (n,) or (n, n_labels)
        Classes, or 0/1 matrices of labels of which one shared is enough.
    k : int, default=10
        Only named in the result.
    positions : array-like of int, optional
        The N of precision@N and recall@N, as in :func:`evaluate`.
    ties : {"expected", "stable", "optimistic", "pessimistic"}
        How equal distances are ranked, as in :func:`evaluate`.

    Returns
    -------
    Evaluation
        The numbers that need labels.

    Examples
    --------
    >>> result = evaluate_vectors([[0.0], [1.0], [9.0]], [[0.2]], labels=[0, 0, 1], query_labels=[0])
    >>> result.mAP
    1.0
    """
    k = check_integer("k", k, low=1)
    vectors, query_vectors = plain_rows(vectors, name="vectors"), plain_rows(query_vectors, name="query_vectors")
    sizes = _n_rows(query_vectors), _n_rows(vectors)
    check_not_empty(*sizes)
    relevance = _label_relevance(query_labels, labels, *sizes)
    if relevance is None:
        raise ValueError("give query_labels and labels to judge by")
    scores = score_vectors(vectors, query_vectors, relevance, _with_100(_positions(positions, sizes[1])), ties)
    numbers = {"n_neighbors": k, "neighbor_recall": 1.0, "neighbor_recall_at_100": 1.0, **_label_numbers(scores)}
    return Evaluation(*sizes, n_bits=None, ties=check_ties(ties), **numbers)


def _label_numbers(scores: RankingScores) -> dict[str, Any]:
    """The numbers that need only the ranking; the last position of the scores is the 100 of precision@100."""
    precision, recall = pooled_precision(scores), pooled_recall(scores)
    enough = len(scores.average_precision) >= 100
    return {
        "mAP": float(scores.average_precision.mean()),
        "precision_at_100": float(precision[-1]),
        "pre100_of_the_paper": top_query_map(scores.average_precision, 100) if enough else None,
        "average_precision": scores.average_precision,
        "positions": scores.positions[:-1],
        "precision_at": precision[:-1],
        "recall_at": recall[:-1],
    }


def _positions(positions: ArrayLike | None, n_database: int) -> NDArray[np.int64]:
    return curve_positions(min(_LAST_POSITION, n_database)) if positions is None else check_positions(positions)


def _with_100(positions: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.append(positions, 100)


def _label_relevance(
    query_labels: ArrayLike | None, labels: ArrayLike | None, n_queries: int, n_database: int
) -> Relevance | None:
    if query_labels is None and labels is None:
        return None
    if query_labels is None or labels is None:
        raise ValueError("query_labels and labels must be given together")
    relevance = relevance_of_labels(query_labels, labels)
    _check_count("query_labels", relevance.shape[0], n_queries, "queries")
    _check_count("labels", relevance.shape[1], n_database, "database items")
    return relevance


def _nearest(
    vectors: ArrayLike | None,
    query_vectors: ArrayLike | None,
    neighbors: ArrayLike | None,
    k: int,
    n_queries: int,
    n_database: int,
) -> NDArray | None:
    if (query_vectors is None) != (vectors is None):
        raise ValueError("query_vectors and vectors must be given together")
    if neighbors is not None:
        if vectors is not None:
            raise ValueError("give neighbors or vectors to judge by, not both")
        nearest = check_depth(neighbors, k)
        _check_count("neighbors", len(nearest), n_queries, "queries")
        return nearest
    if query_vectors is None or vectors is None:
        return None
    vectors, query_vectors = plain_rows(vectors, name="vectors"), plain_rows(query_vectors, name="query_vectors")
    _check_count("query_vectors", _n_rows(query_vectors), n_queries, "queries")
    _check_count("vectors", _n_rows(vectors), n_database, "database items")
    return true_neighbors(vectors, query_vectors, k)


def _n_rows(vectors: Any) -> int:
    return (*vectors.shape, 0)[0]


def _check_count(name: str, got: int, wanted: int, of: str) -> None:
    if got != wanted:
        raise ValueError(f"{name} must have one row for each of the {wanted} {of}, got {got}")
