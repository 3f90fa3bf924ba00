"""The nearest vectors themselves, without codes: what codes and candidates are measured against.

Distances come in blocks from a float32 matrix product, each known within a margin. A vector that may be among the
nearest, as far as the margins tell, is kept, and distances in float64 decide among those that were kept. Euclidean
distances are differences of large numbers, so the vectors are first shifted near their mean and scaled near unit
deviation, by multiples and powers of two. That loses nothing on whole-numbered data such as pixels or tag counts, whose
many equal distances stay equal.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from hashlearn.checks import check_choice, check_integer
from hashlearn.codes.results import Neighbors
from hashlearn.deadline import check_deadline
from hashlearn.linalg.moments import mean_and_spread
from hashlearn.linalg.projections import unit_rows
from hashlearn.progress import track
from hashlearn.rows import RowBlocks, as_rows, is_source
from hashlearn.search.rerank import METRICS, RowsReader, VectorPairs, as_distances, pair_distances

_DISTANCES_PER_BLOCK = 1 << 22
_PAIRS_KEPT = 1 << 20


def nearest_vectors(database: Any, queries: Any, k: int = 10, metric: str = "euclidean") -> Neighbors:
    """The k nearest database vectors of every query, nearest first; ties by the lowest row.

    Memory is bounded by a few blocks, whatever the size of the database.

    Parameters
    ----------
    database : array of shape (n, n_features), or another source of rows (:func:`hashlearn.rows.as_rows`)
    queries : the same, of shape (n_queries, n_features)
    k : int, default=10
        At most n.
    metric : {"euclidean", "cosine", "dot"}, default="euclidean"

    Returns
    -------
    distances : ndarray of shape (n_queries, k), float32
        Euclidean distances, 1 - cosine, or negative inner products.
    ids : ndarray of shape (n_queries, k), int64
        Row numbers of the database.

    Examples
    --------
    >>> nearest_vectors([[0.0], [1.0], [2.0], [5.0]], [[0.9]], k=2).ids
    array([[1, 0]])
    >>> nearest_vectors([[1.0, 0.0], [3.0, 3.0]], [[0.0, 1.0]], k=1, metric="cosine").ids
    array([[1]])
    """
    rows, asked = check_vectors_pair(database, queries)
    k = check_integer("k", k, low=1, high=len(rows))
    view = DistanceView.of(rows, metric)
    distances, ids = np.empty((len(asked), k), np.float32), np.empty((len(asked), k), np.int64)
    queries_per_block = max(1, _DISTANCES_PER_BLOCK // rows.block_rows)
    for part in track(list(gen_batches(len(asked), queries_per_block)), "nearest vectors"):
        search = _Search(view, asked.take(np.arange(part.start, part.stop)), rows, k)
        for block in rows:
            check_deadline()
            search.look_at(*block)
        distances[part], ids[part] = search.nearest()
    return Neighbors(distances, ids)


class DistanceView(NamedTuple):
    """Vectors as float32, seen so that a matrix product tells their distances with little error.

    Attributes
    ----------
    metric : one of METRICS
    shift : ndarray of shape (d,)
    scale : float
    """

    metric: str
    shift: NDArray[np.float64]
    scale: float

    @classmethod
    def of(cls, rows: RowBlocks, metric: str) -> "DistanceView":
        """For Euclidean distances, a point near the mean and a power of two near the deviation of a feature."""
        check_choice("metric", metric, METRICS)
        if metric != "euclidean":
            return cls(metric, np.zeros(rows.shape[1]), 1.0)
        mean, spread = mean_and_spread(rows)
        scale = 2.0 ** np.floor(np.log2(spread / np.sqrt(len(mean)))) if spread > 0 else 1.0
        return cls(metric, np.round(mean / scale) * scale, scale)

    def __call__(self, block: NDArray) -> NDArray[np.float32]:
        if self.metric == "euclidean":
            block = (block - self.shift.astype(block.dtype)) / block.dtype.type(self.scale)
        elif self.metric == "cosine":
            block = unit_rows(block)
        return block.astype(np.float32, copy=False)

    def distances(self, Q: NDArray[np.float32], X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Numbers that order the rows of X for each row of Q as the distances do: |x|^2 - 2 q.x, or -q.x."""
        if self.metric != "euclidean":
            return -Q @ X.T
        distances = (-2 * Q) @ X.T
        distances += squared_norms(X)
        return distances

    def margins(self, Q: NDArray[np.float32], X: NDArray[np.float32]) -> NDArray[np.float32]:
        """How far each of these numbers may be from the truth.

        A float32 sum of d products is off by at most d 2^-24 times the sum of their magnitudes, and there are two such
        sums; the 16 covers the rounding of the vectors and of the final sum.
        """
        unit = np.float32((2 * Q.shape[1] + 16) * 2.0**-24)
        of_queries, of_rows = squared_norms(Q)[:, None], squared_norms(X)
        if self.metric == "euclidean":
            return unit * (of_queries + of_rows)
        return unit * (np.sqrt(of_queries) * np.sqrt(of_rows))


class _Search:
    """The nearest rows of a block of queries, while blocks of rows come by.

    Parameters
    ----------
    view : DistanceView
    queries : ndarray of shape (n_queries, d)
    rows : RowBlocks
    k : int
    """

    def __init__(self, view: DistanceView, queries: NDArray, rows: RowBlocks, k: int):
        self.view, self.queries, self.rows, self.k = view, queries, rows, k
        self.seen = view(queries)
        self.upper = np.full((len(queries), k), np.inf, np.float32)  # the k least upper bounds so far
        self.kept: list[_Near] = []
        self.best = _Near(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))

    def look_at(self, part: slice, block: NDArray) -> None:
        """Keep the pairs of a query and a row of the block that may be near."""
        X = self.view(block)
        distances, margins = self.view.distances(self.seen, X), self.view.margins(self.seen, X)
        self.upper = np.partition(np.hstack([self.upper, distances + margins]), self.k - 1, axis=1)[:, : self.k]
        lower = distances - margins
        query, row = np.nonzero(lower <= self.limits[:, None])
        self.kept.append(_Near(query, row + part.start, lower[query, row]))
        if sum(len(pairs.query) for pairs in self.kept) > _PAIRS_KEPT:
            self.settle()

    @property
    def limits(self) -> NDArray[np.float32]:
        """A query's k nearest rows are within this."""
        return self.upper.max(axis=1)

    def settle(self) -> None:
        """Reduce the pairs to the k nearest of each query, by distances in float64."""
        if not self.kept:
            return
        pairs = _Near(*map(np.concatenate, zip(*self.kept)))
        possible = pairs.distance <= self.limits[pairs.query]
        query, row = pairs.query[possible], pairs.row[possible]
        queries = self.queries.astype(np.float64)
        exact = pair_distances(RowsReader(self.rows), VectorPairs(row, query), queries, self.view.metric)
        found = _Near(query, row, exact)
        together = _Near(*(np.concatenate(both) for both in zip(self.best, found)))
        order = np.lexsort((together.row, together.distance, together.query))
        ordered = _Near(*(column[order] for column in together))
        place = np.arange(len(order)) - np.searchsorted(ordered.query, ordered.query)
        self.best, self.kept = _Near(*(column[place < self.k] for column in ordered)), []

    def nearest(self) -> tuple[NDArray, NDArray[np.int64]]:
        """Distances and rows of the nearest, shape (n_queries, k)."""
        self.settle()
        shape = (len(self.queries), self.k)
        distances = as_distances(self.best.distance, self.view.metric)
        return distances.reshape(shape), self.best.row.reshape(shape)


class _Near(NamedTuple):
    """Pairs of a query and a row of the database, by their numbers, with a distance or a bound of it."""

    query: NDArray[np.int64]
    row: NDArray[np.int64]
    distance: NDArray


def squared_norms(vectors: NDArray) -> NDArray:
    """|x|^2 of every row."""
    return np.einsum("ij,ij->i", vectors, vectors)


def check_vectors_pair(database: Any, queries: Any) -> tuple[RowBlocks, RowBlocks]:
    """Both as rows that are finite and equally wide, or raise."""
    rows, asked = _vectors(database, "database"), _vectors(queries, "queries")
    if asked.shape[1] != rows.shape[1]:
        raise ValueError(f"queries must have as many features as database ({rows.shape[1]}), got {asked.shape[1]}")
    return rows, asked


def _vectors(vectors: Any, name: str) -> RowBlocks:
    if is_source(vectors):
        return as_rows(vectors)
    array = vectors.tocsr() if hasattr(vectors, "tocsr") else np.asarray(vectors)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must be vectors of shape (n, n_features) and not be empty, got shape {array.shape}")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be real numbers, got dtype {array.dtype}")
    rows = RowBlocks(array, name=name)
    for _ in rows:  # the first pass refuses what is not finite
        pass
    return rows
