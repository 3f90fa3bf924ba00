"""Judging by the vectors themselves: true Euclidean neighbors, how many codes find, and the vectors' own ranking.

Distances come in blocks from a float32 matrix product. Differences of large numbers would ruin them, so the vectors are
first shifted near their mean and scaled near unit deviation, by multiples and powers of two: that loses nothing on
whole-numbered data such as pixels or tag counts, whose many equal distances stay equal. Where float32 cannot tell which
vectors are the true neighbors, float64 distances decide.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import gen_batches

from hashlearn.checks import check_integer
from hashlearn.linalg.moments import mean_and_spread
from hashlearn.metrics.ranking import RankingScores, check_relevance, score_codes, score_groups
from hashlearn.metrics.relevance import Relevance, TrueNeighbor
from hashlearn.metrics.ties import TieGroups, Ties, check_positions, check_ties
from hashlearn.progress import track
from hashlearn.rows import RowBlocks

_DISTANCES_PER_BLOCK = 2**24


def true_neighbors(database: ArrayLike, queries: ArrayLike, k: int = 10) -> NDArray[np.int64]:
    """The k nearest database vectors of every query by Euclidean distance, nearest first; ties by lowest row.

    Parameters
    ----------
    database : array-like of shape (n_database, n_features)
        A memory-mapped array is read block by block.
    queries : array-like of shape (n_queries, n_features)
    k : int, default=10

    Returns
    -------
    ndarray of int64, shape (n_queries, k)
        Row numbers of the database.

    Examples
    --------
    >>> true_neighbors([[0.0], [1.0], [2.0], [5.0]], [[0.9]], k=2)
    array([[1, 0]])
    """
    left, right = _check_vectors(database, queries)
    k = check_integer("k", k, low=1, high=len(right))
    neighbors = np.empty((len(left), k), np.int64)
    for block in _distance_blocks(right, left):
        for row, distances, margins in block.with_margins(right.shape[1]):
            candidates = _possible_neighbors(distances, margins, k)
            exact = _exact_distances(left.take(np.array([row])), right, candidates)
            neighbors[row] = candidates[np.argsort(exact, kind="stable")[:k]]
    return neighbors


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
    nearest = check_depth(neighbors, k)
    relevance = TrueNeighbor(nearest[:, :k], len(np.asarray(codes)))
    return float(score_codes(codes, query_codes, n_bits, relevance, [k], ties).hits.mean() / k)


def score_vectors(
    database: ArrayLike,
    queries: ArrayLike,
    relevance: Relevance,
    positions: ArrayLike = (100,),
    ties: Ties = "expected",
) -> RankingScores:
    """Average precision and hits of ranking the database by Euclidean distance: what the codes are to be compared with.

    Parameters
    ----------
    database : array-like of shape (n_database, n_features)
    queries : array-like of shape (n_queries, n_features)
    relevance : Relevance
    positions : array-like of int, shape (n_positions,)
    ties : {"expected", "stable", "optimistic", "pessimistic"}
        The rule for equal distances, which are common in whole-numbered data and among duplicates.
    """
    left, right = _check_vectors(database, queries)
    check_relevance(relevance, len(left), len(right))
    to_groups = _stable_groups if check_ties(ties) == "stable" else _tie_groups
    everything = slice(0, len(right))

    def rankings() -> Iterator[TieGroups]:
        for block in _distance_blocks(right, left):
            for row, distances in enumerate(block.distances, start=block.rows.start):
                yield to_groups(distances, relevance.block(slice(row, row + 1), everything)[0])

    return score_groups(rankings(), check_positions(positions), ties)


def check_depth(neighbors: ArrayLike, k: int) -> NDArray:
    """Return ``neighbors`` as an array that lists at least k per query, or raise."""
    array = np.asarray(neighbors)
    if array.ndim != 2 or check_integer("k", k, low=1) > array.shape[1]:
        raise ValueError(f"neighbors must have shape (n_queries, at least k={k}), got {array.shape}")
    return array


def _tie_groups(distances: NDArray[np.float32], relevant: NDArray[np.bool_]) -> TieGroups:
    """Groups of equal distance that hold a relevant item; the others matter only as items before."""
    ranked = np.sort(distances)
    values, counts = np.unique(distances[relevant], return_counts=True)
    before = np.searchsorted(ranked, values, side="left")
    return TieGroups(before, np.searchsorted(ranked, values, side="right") - before, counts)


def _stable_groups(distances: NDArray[np.float32], relevant: NDArray[np.bool_]) -> TieGroups:
    return TieGroups.of_hits(np.flatnonzero(relevant[np.argsort(distances, kind="stable")]) + 1)


def _possible_neighbors(distances: NDArray[np.float32], margins: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Rows that may be among the k nearest, in ascending order, if every distance is known up to its margin."""
    limit = np.partition(distances + margins, k - 1)[k - 1]
    return np.flatnonzero(distances - margins <= limit)


def _exact_distances(query: NDArray, database: RowBlocks, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Squared distances of one query to these rows of the database, by differences in float64."""
    exact = np.empty(len(rows))
    for part in gen_batches(len(rows), database.block_rows):
        difference = database.take(rows[part]) - query.astype(np.float64)
        exact[part] = _squared_norms(difference)
    return exact


class _DistanceBlock(NamedTuple):
    """Distances of the queries ``rows`` to the whole database, as ``||x||^2 - 2 q'x``, which orders it as they do."""

    rows: slice
    distances: NDArray[np.float32]
    query_norms: NDArray[np.float32]
    norms: NDArray[np.float32]

    def with_margins(self, n_features: int) -> Iterator[tuple[int, NDArray[np.float32], NDArray[np.float32]]]:
        """Every query's row number, its distances and how far each may be from the truth.

        A float32 sum of d products is off by at most d 2^-24 times the sum of their magnitudes, and there are two such
        sums; the 16 covers the rounding of the vectors and of the final sum.
        """
        unit = np.float32((2 * n_features + 16) * 2.0**-24)
        for row, (distances, norm) in enumerate(zip(self.distances, self.query_norms), start=self.rows.start):
            yield row, distances, unit * (self.norms + norm)


def _distance_blocks(database: RowBlocks, queries: RowBlocks) -> Iterator[_DistanceBlock]:
    """Blocks of queries with their distances to the whole database; each block overwrites the one before."""
    shift, scale = _shift_and_scale(database)
    items, left = database.shifted(shift, scale), queries.shifted(shift, scale)
    rows_per_block = min(len(queries), max(1, _DISTANCES_PER_BLOCK // len(database)))
    buffer, norms = np.empty((rows_per_block, len(database)), np.float32), np.empty(len(database), np.float32)
    for rows in track(list(gen_batches(len(queries), rows_per_block)), "distances"):
        vectors = left.take(np.arange(rows.start, rows.stop)).astype(np.float32, copy=False)
        distances = buffer[: len(vectors)]
        for part, block in items:
            right = block.astype(np.float32, copy=False)
            norms[part] = _squared_norms(right)
            distances[:, part] = (-2 * vectors) @ right.T
            distances[:, part] += norms[part]
        yield _DistanceBlock(rows, distances, _squared_norms(vectors), norms)


def _squared_norms(vectors: NDArray) -> NDArray:
    return np.einsum("ij,ij->i", vectors, vectors)


def _shift_and_scale(database: RowBlocks) -> tuple[NDArray[np.float64], float]:
    """A point near the mean and a power of two near the standard deviation of a feature."""
    mean, spread = mean_and_spread(database)
    scale = 2.0 ** np.floor(np.log2(spread / np.sqrt(len(mean)))) if spread > 0 else 1.0
    return np.round(mean / scale) * scale, scale


def _check_vectors(database: ArrayLike, queries: ArrayLike) -> tuple[RowBlocks, RowBlocks]:
    left, right = _vectors(queries, "queries"), _vectors(database, "database")
    if left.shape[1] != right.shape[1]:
        raise ValueError(f"queries must have as many features as database ({right.shape[1]}), got {left.shape[1]}")
    return left, right


def _vectors(vectors: Any, name: str) -> RowBlocks:
    array = vectors.tocsr() if hasattr(vectors, "tocsr") else np.asarray(vectors)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must be vectors of shape (n, n_features) and not be empty, got shape {array.shape}")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be real numbers, got dtype {array.dtype}")
    rows = RowBlocks(array, name=name)
    for _ in rows:  # the first pass refuses what is not finite
        pass
    return rows
