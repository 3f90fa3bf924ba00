"""The nearest other rows of rows, by comparing each with all.

:func:`nearest_others` is for all rows, by Euclidean distance, on all threads. :func:`nearest_of` is for some rows, by
the distance of a :class:`~hashlearn.linalg.abh.near_queries.MetricGeometry`.
"""

import numpy as np
from numpy.typing import NDArray

from hashlearn.linalg.abh.near_queries import MetricGeometry
from hashlearn.linalg.anchors.search import AnchorSearch
from hashlearn.rows import RowBlocks, map_blocks, row_slices


def nearest_others(V: NDArray, k: int) -> NDArray[np.intp]:
    """The k nearest other rows of every row, shape (n, k); all the others if there are fewer."""
    k = min(k, len(V) - 1)
    neighbors = np.empty((len(V), k), np.intp)
    for part, nearest in map_blocks(RowBlocks(V), _nearest, AnchorSearch(V), k + 1):
        itself = nearest == np.arange(part.start, part.stop)[:, None]
        itself[~itself.any(axis=1), -1] = True  # a row with many copies may be missing among its own nearest
        neighbors[part] = nearest[~itself].reshape(-1, k)
    return neighbors


def nearest_of(X: NDArray, queries: NDArray[np.intp], k: int, geometry: MetricGeometry) -> NDArray[np.intp]:
    """Numbers of the k rows nearest to each of the rows ``queries``, itself left out; nearest first."""
    norms = geometry.square * np.einsum("ij,ij->i", X, X)
    nearest = np.empty((len(queries), k), np.intp)
    for part in row_slices(len(queries), len(X)):
        distances = geometry.products(X[queries[part]], X) + norms
        distances[np.arange(len(distances)), queries[part]] = np.inf
        candidates = np.sort(np.argpartition(distances, k - 1, axis=1)[:, :k], axis=1)
        order = np.argsort(np.take_along_axis(distances, candidates, axis=1), axis=1, kind="stable")
        nearest[part] = np.take_along_axis(candidates, order, axis=1)
    return nearest


def _nearest(block: NDArray, first: int, search: AnchorSearch, k: int) -> NDArray[np.intp]:
    return search.nearest(block, k)[0]
