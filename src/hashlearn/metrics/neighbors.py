"""Measures by the vectors: true neighbors, how many of them the codes find, and the ranking of the vectors."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import gen_batches

from hashlearn.checks import check_integer
from hashlearn.metrics.ranking import RankingScores, check_relevance, score_codes, score_groups
from hashlearn.metrics.relevance import Relevance, TrueNeighbor
from hashlearn.metrics.ties import TieGroups, Ties, check_positions, check_ties
from hashlearn.progress import track
from hashlearn.rows import RowBlocks, plain_rows
from hashlearn.search.exact import DistanceView, check_vectors_pair, nearest_vectors

_DISTANCES_PER_BLOCK = 2**24


def true_neighbors(
    database: ArrayLike, queries: ArrayLike, k: int = 10, metric: str = "euclidean"
) -> NDArray[np.int64]:
    """The k nearest database vectors of every query, nearest first; ties by lowest row.

    :func:`hashlearn.search.nearest_vectors` returns their distances as well.

    Parameters
    ----------
    database : array-like of shape (n_database, n_features)
        A memory-mapped array is read block by block.
    queries : array-like of shape (n_queries, n_features)
    k : int, default=10
    metric : {"euclidean", "cosine", "dot"}, default="euclidean"

    Returns
    -------
    ndarray of int64, shape (n_queries, k)
        Row numbers of the database.

    Examples
    --------
    >>> true_neighbors([[0.0], [1.0], [2.0], [5.0]], [[0.9]], k=2)
    array([[1, 0]])
    """
    return nearest_vectors(plain_rows(database, name="database"), plain_rows(queries, name="queries"), k, metric).ids


def neighbor_recall(
    codes: ArrayLike,
    query_codes: ArrayLike,
    n_bits: int,
    neighbors: ArrayLike,
    k: int = 10,
    ties: Ties = "expected",
) -> float:
    """Recall@k of true neighbors: the share of the k nearest vectors that are among the k nearest codes, query mean.

    Parameters
    ----------
    codes, query_codes : array-like of uint8, shape (n, ceil(n_bits / 8))
    n_bits : int
    neighbors : array-like of int, shape (n_queries, at least k)
        Rows of the true neighbors, nearest first, as :func:`true_neighbors` gives them.
    k : int, default=10
    ties : {"expected", "stable", "optimistic", "pessimistic"}
        Codes at the distance where the first k end: ``"expected"`` takes the mean over all choices among them (the
        hypergeometric expectation), ``"stable"`` those first in the database.
    """
    return float(neighbor_recalls(codes, query_codes, n_bits, neighbors, k, [k], ties)[0])


def neighbor_recalls(
    codes: ArrayLike,
    query_codes: ArrayLike,
    n_bits: int,
    neighbors: ArrayLike,
    k: int = 10,
    positions: ArrayLike = (10, 100),
    ties: Ties = "expected",
) -> NDArray[np.float64]:
    """Recall k@N: the share of the k nearest vectors that are among the N nearest codes, query mean, for every N.

    Parameters
    ----------
    codes, query_codes, n_bits, neighbors, k, ties
        As in :func:`neighbor_recall`, which is k@k.
    positions : array-like of int, shape (n_positions,)
        The N.

    Returns
    -------
    ndarray of shape (n_positions,)
    """
    nearest = check_depth(neighbors, k)
    relevance = TrueNeighbor(nearest[:, :k], len(np.asarray(codes)))
    return score_codes(codes, query_codes, n_bits, relevance, positions, ties).hits.mean(axis=0) / k


def score_vectors(
    database: ArrayLike,
    queries: ArrayLike,
    relevance: Relevance,
    positions: ArrayLike = (100,),
    ties: Ties = "expected",
) -> RankingScores:
    """Average precision and hits of ranking the database by Euclidean distance: the reference for codes.

    Parameters
    ----------
    database : array-like of shape (n_database, n_features)
    queries : array-like of shape (n_queries, n_features)
    relevance : Relevance
    positions : array-like of int, shape (n_positions,)
    ties : {"expected", "stable", "optimistic", "pessimistic"}
        The rule for equal distances, which are common in whole-numbered data and among duplicates.
    """
    rows, asked = check_vectors_pair(plain_rows(database, name="database"), plain_rows(queries, name="queries"))
    check_relevance(relevance, len(asked), len(rows))
    to_groups = _stable_groups if check_ties(ties) == "stable" else _tie_groups
    everything = slice(0, len(rows))

    def rankings() -> Iterator[TieGroups]:
        for query, distances in enumerate(_rankings(rows, asked)):
            yield to_groups(distances, relevance.block(slice(query, query + 1), everything)[0])

    return score_groups(rankings(), check_positions(positions), ties)


def check_depth(neighbors: ArrayLike, k: int) -> NDArray:
    """Return ``neighbors`` as an array that lists at least k per query, or raise."""
    array = np.asarray(neighbors)
    if array.ndim != 2 or check_integer("k", k, low=1) > array.shape[1]:
        raise ValueError(f"neighbors must have shape (n_queries, at least k={k}), got {array.shape}")
    return array


def _tie_groups(distances: NDArray[np.float32], relevant: NDArray[np.bool_]) -> TieGroups:
    """Groups of equal distance with a relevant item; other groups count only as items before these."""
    ranked = np.sort(distances)
    values, counts = np.unique(distances[relevant], return_counts=True)
    before = np.searchsorted(ranked, values, side="left")
    return TieGroups(before, np.searchsorted(ranked, values, side="right") - before, counts)


def _stable_groups(distances: NDArray[np.float32], relevant: NDArray[np.bool_]) -> TieGroups:
    return TieGroups.of_hits(np.flatnonzero(relevant[np.argsort(distances, kind="stable")]) + 1)


def _rankings(database: RowBlocks, queries: RowBlocks) -> Iterator[NDArray[np.float32]]:
    """For one query after the other, numbers that order the whole database as its distances do."""
    view = DistanceView.of(database, "euclidean")
    rows_per_block = min(len(queries), max(1, _DISTANCES_PER_BLOCK // len(database)))
    distances = np.empty((rows_per_block, len(database)), np.float32)
    for rows in track(list(gen_batches(len(queries), rows_per_block)), "distances"):
        vectors = view(queries.take(np.arange(rows.start, rows.stop)))
        for part, block in database:
            distances[: len(vectors), part] = view.distances(vectors, view(block))
        yield from distances[: len(vectors)]
