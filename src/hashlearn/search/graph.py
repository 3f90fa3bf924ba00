"""Nearest neighbors in the form of scikit-learn: numbers of rows, and sparse graphs of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from hashlearn.checks import check_choice, check_integer

MODES = ("distance", "connectivity")
_BLOCK_ROWS = 4096
"""Kept vectors that are read at a time."""
_ROUNDING = 1e-4
"""A cosine may be larger than 1 by its rounding."""


def nearest_rows(search: Any, X: Any, k: int, **options: Any) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Distances, and the places of the nearest rows in ``search.ids``; without X of all rows, none being its own."""
    ids = search.ids
    k = check_neighbors(k, len(ids) - (X is None))
    if X is not None:
        found = search.search(X, k, **options)
        return np.atleast_2d(found.distances).astype(np.float64), _places(ids, np.atleast_2d(found.ids))
    if search.keep_vectors is None:
        raise ValueError("X must be given where the search keeps no vectors")
    distances, rows = np.empty((len(ids), k + 1)), np.empty((len(ids), k + 1), np.int64)
    for start in range(0, len(ids), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        found = search.search(np.array([record.vector for record in search.get(ids[block])]), k + 1, **options)
        distances[block], rows[block] = found.distances, _places(ids, found.ids)
    return without_self(distances, rows)


def check_neighbors(k: int, most: int) -> int:
    """The number of neighbors, if there are as many rows."""
    if check_integer("n_neighbors", k, low=1) > most:
        raise ValueError(f"Expected n_neighbors <= n_samples_fit, but n_neighbors = {k}, n_samples_fit = {most}")
    return k


def without_self(distances: NDArray, rows: NDArray) -> tuple[NDArray, NDArray]:
    """Neighbors of all rows in their order. Each row is left out of its own list; if equal rows displaced it, the last
    neighbor is."""
    own = rows == np.arange(len(rows))[:, None]
    own[~own.any(axis=1), -1] = True
    return distances[~own].reshape(len(rows), -1), rows[~own].reshape(len(rows), -1)


def neighbor_graph(distances: NDArray, rows: NDArray, n_rows: int, mode: str) -> csr_matrix:
    """Neighbors as a sparse matrix of shape (n_queries, n_rows) that has distances or ones."""
    check_choice("mode", mode, MODES)
    if mode == "distance" and distances.size and distances.min() < -_ROUNDING:
        raise ValueError("mode must be 'connectivity' where distances are negative, as inner products are")
    n, k = rows.shape
    values = np.maximum(distances, 0).ravel() if mode == "distance" else np.ones(n * k)
    return csr_matrix((values, rows.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n_rows))


def _places(ids: NDArray, found: NDArray) -> NDArray[np.int64]:
    places = np.searchsorted(ids, found)
    if not np.array_equal(ids[np.minimum(places, len(ids) - 1)], found):
        raise RuntimeError("the rows were changed while their neighbors were looked for")
    return places
