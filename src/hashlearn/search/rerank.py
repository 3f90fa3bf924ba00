"""Order candidates that codes have found by something finer.

Codes lose what a score was beyond its sign. Of the candidates of a query the best k are kept, either by

- the **asymmetric** distance of the query to a candidate's bits, ``-sum_j s_j (2 b_j - 1)`` with the query's scores
  s (its ``decision_function``): the query is not quantized, and nothing but codes is stored
  (A. Gordo and F. Perronnin, Asymmetric distances for binary embeddings, CVPR 2011); or
- the **exact** distance of the vectors, which may stay on disk.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_choice, check_integer
from hashlearn.codes import unpack
from hashlearn.codes.results import NO_ID, Neighbors
from hashlearn.deadline import check_deadline
from hashlearn.index import HammingIndex
from hashlearn.linalg.projections import unit_rows
from hashlearn.rows import RowBlocks, as_rows
from hashlearn.rows.blocks import ArrayRows
from hashlearn.search.kernels.pairs import negative_products, squared_differences
from hashlearn.search.vector_records import VectorView, expect_rows, mapping_of
from hashlearn.search.vectors import VectorFile

METRICS = ("euclidean", "cosine", "dot")
"""Euclidean distance; 1 - cosine, which is 1 for a vector of zeros; negative inner product."""

_READ_ELEMENTS = 1 << 21
_BLOCK_ELEMENTS = 1 << 22


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


def rerank_asymmetric(index: HammingIndex, query_scores: ArrayLike, candidates: ArrayLike, k: int) -> Neighbors:
    """The k candidates of each query with the smallest asymmetric distances, which may be negative.

    Parameters
    ----------
    index : HammingIndex
        Holds the candidates' codes.
    query_scores : array of shape (n_queries, n_bits)
        The queries' ``decision_function``.
    candidates : array of shape (n_queries, n_candidates), int64
        Ids, as :meth:`HammingIndex.search` returns them; -1 is no candidate.
    k : int

    Returns
    -------
    Neighbors
        Nearest first, ties by the lowest id. A place that nothing fills has id -1 and distance infinity.

    Examples
    --------
    >>> index = HammingIndex(8).add(np.array([[0b10000000], [0b01000000]], dtype=np.uint8))
    >>> rerank_asymmetric(index, [[-0.5, 2, -1, -1, -1, -1, -1, -1]], [[0, 1]], k=1)
    Neighbors: 1 of 1 query, id (distance), nearest first
      1 (-8.5)
    """
    wanted = _check_candidates(candidates)
    scores = np.asarray(query_scores, np.float32)
    if scores.shape != (len(wanted), index.n_bits):
        raise ValueError(f"query_scores must have shape ({len(wanted)}, {index.n_bits}), got {scores.shape}")
    results = np.empty(wanted.shape, np.float32)
    for rows in _blocks(wanted, index.n_bits):
        check_deadline()
        ids = wanted[rows]
        known = np.flatnonzero(ids.ravel() != NO_ID)
        bits = np.zeros((ids.size, index.n_bits), np.float32)
        bits[known] = unpack(index.codes(ids.ravel()[known]), index.n_bits)
        ones = np.einsum("qcb,qb->qc", bits.reshape(*ids.shape, index.n_bits), scores[rows])
        results[rows] = scores[rows].sum(axis=1, keepdims=True) - 2 * ones
    return _nearest(results, wanted, k)


def rerank_exact(
    vectors: Any, query_vectors: ArrayLike, candidates: ArrayLike, k: int, metric: str = "euclidean"
) -> Neighbors:
    """The k candidates of each query whose vectors are nearest.

    Every candidate's vector is read once for all queries, in the order in which they lie. Those of a
    :class:`~hashlearn.search.VectorFile` are asked of the disk many at a time.

    Parameters
    ----------
    vectors : VectorFile, VectorView, or array, memmap, sparse matrix, DataFrame or file of shape (n, n_features)
        Row i of an array is the vector of id i. Only the candidates' rows are read.
    query_vectors : array of shape (n_queries, n_features)
    candidates, k
        As in :func:`rerank_asymmetric`.
    metric : {"euclidean", "cosine", "dot"}, default="euclidean"
        Euclidean distance, 1 - cosine, or negative inner product.

    Returns
    -------
    Neighbors
        Nearest first, ties by the lowest id. A place that nothing fills has id -1 and distance infinity.

    Examples
    --------
    >>> rerank_exact([[0.0], [3.0], [1.0]], [[0.8]], [[0, 1, 2]], k=2)
    Neighbors: 2 of 1 query, id (distance), nearest first
      2 (0.2), 0 (0.8)
    """
    wanted = _check_candidates(candidates)
    check_choice("metric", metric, METRICS)
    return rerank_read(*_reader(vectors, wanted[wanted != NO_ID]), query_vectors, wanted, k, metric)


def rerank_read(
    reader: Reader, places: NDArray[np.int64], query_vectors: ArrayLike, wanted: NDArray[np.int64], k: int, metric: str
) -> Neighbors:
    """As :func:`rerank_exact`, by a reader, with the places there of the candidates that are not -1."""
    there = wanted != NO_ID
    queries = as_rows(query_vectors)
    if queries.shape != (len(wanted), reader.n_features):
        raise ValueError(f"query_vectors must have shape ({len(wanted)}, {reader.n_features}), got {queries.shape}")
    pairs = VectorPairs(places, np.nonzero(there)[0])
    numbers = pair_distances(reader, pairs, queries.take(np.arange(len(queries))), metric)
    distances = np.full(wanted.shape, np.inf, np.float32)
    distances[there] = as_distances(numbers, metric)
    return _nearest(distances, wanted, k)


def _reader(vectors: Any, ids: NDArray[np.int64]) -> tuple[Reader, NDArray[np.int64]]:
    """The reader of the vectors, and the places of the vectors with these ids."""
    if isinstance(vectors, VectorFile):
        vectors = vectors.view
    if isinstance(vectors, VectorView):
        return vectors, vectors.places_of(ids, "candidates")
    rows = as_rows(vectors)
    if len(ids) and ids.max() >= len(rows):
        raise ValueError(f"vectors must have a row for every id, got {len(rows)} rows for id {ids.max()}")
    return RowsReader(rows), ids


def _check_candidates(candidates: ArrayLike) -> NDArray[np.int64]:
    wanted = np.asarray(candidates)
    if wanted.ndim != 2 or not np.issubdtype(wanted.dtype, np.integer):
        raise ValueError(f"candidates must be ids of shape (n_queries, n), got {wanted.dtype} of shape {wanted.shape}")
    if wanted.size and wanted.min() < NO_ID:
        raise ValueError(f"candidates must be ids, or -1 for none, got {wanted.min()}")
    return wanted.astype(np.int64)


def _blocks(candidates: NDArray[np.int64], width: int) -> Iterator[slice]:
    step = max(1, _BLOCK_ELEMENTS // max(1, candidates.shape[1] * width))
    return (slice(start, start + step) for start in range(0, len(candidates), step))


def _nearest(distances: NDArray[np.float32], candidates: NDArray[np.int64], k: int) -> Neighbors:
    k = check_integer("k", k, low=1)
    distances[candidates == NO_ID] = np.inf
    order = np.lexsort((candidates, distances), axis=1)[:, :k]
    nearest = np.full((len(distances), k), np.inf, np.float32)
    ids = np.full((len(distances), k), NO_ID, np.int64)
    nearest[:, : order.shape[1]] = np.take_along_axis(distances, order, axis=1)
    ids[:, : order.shape[1]] = np.take_along_axis(candidates, order, axis=1)
    return Neighbors(nearest, ids)


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
    """The distances, from the values by which :func:`pair_distances` orders."""
    if metric == "euclidean":
        return np.sqrt(numbers)
    return numbers + 1 if metric == "cosine" else numbers


def _with_read_ahead(reader: Reader, places: NDArray[np.int64]) -> Iterator[slice]:
    """Slices of the places, each when its vectors are asked of the disk and those of the next one, too."""
    step = max(1, _READ_ELEMENTS // reader.n_features)
    parts = [slice(start, min(start + step, len(places))) for start in range(0, len(places), step)]
    reader.expect(places[:step])
    for part in parts:
        check_deadline()
        reader.expect(places[part.stop : part.stop + step])
        yield part


def _prepared(vectors: NDArray, metric: str, dtype: np.dtype) -> NDArray:
    vectors = vectors.astype(dtype, copy=False)
    return np.ascontiguousarray(unit_rows(vectors) if metric == "cosine" else vectors)
