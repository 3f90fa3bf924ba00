"""Exact distances of pairs of a stored vector and a query; a vector is read once, in the order in which they lie."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hashlearn.linalg.projections import unit_rows
from hashlearn.rows import RowBlocks
from hashlearn.rows.blocks import ArrayRows
from hashlearn.search.kernels.pairs import negative_products, squared_differences
from hashlearn.search.read_ahead import expect_rows, mapping_of

METRICS = ("euclidean", "cosine", "dot")
"""Euclidean distance; 1 - cosine, which is 1 for a vector of zeros; negative inner product."""

_BLOCK_ELEMENTS = 1 << 21


class Reader(Protocol):
    """An object that has vectors and reads some of them."""

    @property
    def n_features(self) -> int: ...

    def expect(self, places: NDArray[np.int64]) -> None:
        """Be told which vectors will be read next, by ascending places."""

    def read(self, places: NDArray[np.int64]) -> NDArray:
        """The vectors at ascending places, as a matrix."""


class RowsReader(NamedTuple):
    """Reads vectors by their row numbers."""

    rows: RowBlocks

    @property
    def n_features(self) -> int:
        return self.rows.shape[1]

    def expect(self, places: NDArray[np.int64]) -> None:
        source = self.rows.source
        mapping = mapping_of(source.values) if isinstance(source, ArrayRows) else None
        if mapping is not None:
            mapped, begin = mapping
            row_bytes = source.shape[1] * source.dtype.itemsize
            expect_rows(mapped, begin + places * row_bytes, row_bytes)

    def read(self, places: NDArray[np.int64]) -> NDArray:
        return self.rows.take(places)


class VectorPairs(NamedTuple):
    """Pairs of a stored vector, named by its place, and a query, named by its row."""

    places: NDArray[np.int64]
    queries: NDArray[np.int64]


def pair_distances(reader: Reader, pairs: VectorPairs, queries: NDArray, metric: str) -> NDArray:
    """Numbers that order the pairs as their distances do; memory is bounded by a block of vectors.

    Parameters
    ----------
    reader : Reader
    pairs : VectorPairs
    queries : ndarray of shape (n_queries, d)
        Their precision is that of the result.
    metric : one of METRICS

    Returns
    -------
    ndarray of shape (n_pairs,)
        Squared Euclidean distances, negative cosines or negative inner products; see :func:`as_distances`.
    """
    distances = np.empty(len(pairs.places), queries.dtype)
    order = np.argsort(pairs.places, kind="stable")
    places, counts = np.unique(pairs.places, return_counts=True)
    ends = np.concatenate([[0], np.cumsum(counts)])
    asked = _prepared(queries, metric, queries.dtype)
    of_pairs = squared_differences if metric == "euclidean" else negative_products
    for part in _with_read_ahead(reader, places):
        X = _prepared(reader.read(places[part]), metric, queries.dtype)
        here = order[ends[part.start] : ends[part.stop]]
        found = np.empty(len(here), queries.dtype)
        of_pairs(X, np.repeat(np.arange(len(X)), counts[part]), asked, pairs.queries[here], found)
        distances[here] = found
    return distances


def as_distances(numbers: NDArray, metric: str) -> NDArray:
    """The distances of which :func:`pair_distances` has given the order."""
    if metric == "euclidean":
        return np.sqrt(numbers)
    return numbers + 1 if metric == "cosine" else numbers


def _with_read_ahead(reader: Reader, places: NDArray[np.int64]) -> Iterator[slice]:
    """Slices of the places, each when its vectors are asked of the disk and those of the next one, too."""
    step = max(1, _BLOCK_ELEMENTS // reader.n_features)
    parts = [slice(start, min(start + step, len(places))) for start in range(0, len(places), step)]
    reader.expect(places[:step])
    for part in parts:
        reader.expect(places[part.stop : part.stop + step])
        yield part


def _prepared(vectors: NDArray, metric: str, dtype: np.dtype) -> NDArray:
    vectors = vectors.astype(dtype, copy=False)
    return np.ascontiguousarray(unit_rows(vectors) if metric == "cosine" else vectors)
