"""Order candidates found by Hamming distance by something finer.

Codes lose what a score was beyond its sign. Of ``c k`` candidates by Hamming distance the best k are kept, either by

- the **asymmetric** distance of the query to a candidate's bits, ``-sum_j s_j (2 b_j - 1)`` with the query's scores
  s (its ``decision_function``): the query is not quantized, and nothing but codes is stored
  (A. Gordo and F. Perronnin, Asymmetric distances for binary embeddings, CVPR 2011); or
- the **exact** Euclidean distance of the original vectors, which may stay on disk.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import unpack
from hashlearn.codes.results import NO_ID
from hashlearn.rows import as_rows
from hashlearn.search.index import HammingIndex

_BLOCK_ELEMENTS = 1 << 22


class Reranked(NamedTuple):
    """The nearest candidates of each query, nearest first, ties by the lowest id.

    ``distances`` are float32. A place that nothing fills has id -1 and distance infinity.
    """

    distances: NDArray[np.float32]
    ids: NDArray[np.int64]


def rerank_asymmetric(index: HammingIndex, query_scores: ArrayLike, candidates: ArrayLike, k: int) -> Reranked:
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

    Examples
    --------
    >>> index = HammingIndex(8).add(np.array([[0b10000000], [0b01000000]], dtype=np.uint8))
    >>> rerank_asymmetric(index, [[-0.5, 2, -1, -1, -1, -1, -1, -1]], [[0, 1]], k=1)
    Reranked(distances=array([[-8.5]], dtype=float32), ids=array([[1]]))
    """
    wanted = _check_candidates(candidates)
    scores = np.asarray(query_scores, np.float32)
    if scores.shape != (len(wanted), index.n_bits):
        raise ValueError(f"query_scores must have shape ({len(wanted)}, {index.n_bits}), got {scores.shape}")
    results = np.empty(wanted.shape, np.float32)
    for rows in _blocks(wanted, index.n_bits):
        ids = wanted[rows]
        known = np.flatnonzero(ids.ravel() != NO_ID)
        bits = np.zeros((ids.size, index.n_bits), np.float32)
        bits[known] = unpack(index.codes(ids.ravel()[known]), index.n_bits)
        ones = np.einsum("qcb,qb->qc", bits.reshape(*ids.shape, index.n_bits), scores[rows])
        results[rows] = scores[rows].sum(axis=1, keepdims=True) - 2 * ones
    return _nearest(results, wanted, k)


def rerank_exact(vectors: Any, query_vectors: ArrayLike, candidates: ArrayLike, k: int) -> Reranked:
    """The k candidates of each query whose original vectors are nearest.

    Parameters
    ----------
    vectors : array, memmap, sparse matrix or DataFrame of shape (n, n_features)
        Row i is the vector of id i. Only the candidates' rows are read.
    query_vectors : array of shape (n_queries, n_features)
    candidates, k
        As in :func:`rerank_asymmetric`.
    """
    wanted = _check_candidates(candidates)
    rows_of, queries = as_rows(vectors), as_rows(query_vectors)
    if queries.shape != (len(wanted), rows_of.shape[1]):
        raise ValueError(f"query_vectors must have shape ({len(wanted)}, {rows_of.shape[1]}), got {queries.shape}")
    if wanted.size and wanted.max() >= len(rows_of):
        raise ValueError(f"vectors must have a row for every id, got {len(rows_of)} rows for id {wanted.max()}")
    results = np.empty(wanted.shape, np.float32)
    for rows in _blocks(wanted, rows_of.shape[1]):
        ids = wanted[rows]
        # each row once and in ascending order: what a memory-mapped file is read fastest in
        unique, place = np.unique(np.maximum(ids, 0), return_inverse=True)
        found = rows_of.take(unique)[place.reshape(ids.shape)]
        difference = found - queries.take(np.arange(len(wanted))[rows])[:, None, :]
        results[rows] = np.sqrt(np.einsum("qcd,qcd->qc", difference, difference))
    return _nearest(results, wanted, k)


def _check_candidates(candidates: ArrayLike) -> NDArray[np.int64]:
    wanted = np.asarray(candidates)
    if wanted.ndim != 2 or not np.issubdtype(wanted.dtype, np.integer):
        raise ValueError(f"candidates must be ids of shape (n_queries, n), got {wanted.dtype} of shape {wanted.shape}")
    return wanted.astype(np.int64)


def _blocks(candidates: NDArray[np.int64], width: int) -> Iterator[slice]:
    step = max(1, _BLOCK_ELEMENTS // max(1, candidates.shape[1] * width))
    return (slice(start, start + step) for start in range(0, len(candidates), step))


def _nearest(distances: NDArray[np.float32], candidates: NDArray[np.int64], k: int) -> Reranked:
    distances[candidates == NO_ID] = np.inf
    order = np.lexsort((candidates, distances), axis=1)[:, :k]
    nearest = np.full((len(distances), k), np.inf, np.float32)
    ids = np.full((len(distances), k), NO_ID, np.int64)
    nearest[:, : order.shape[1]] = np.take_along_axis(distances, order, axis=1)
    ids[:, : order.shape[1]] = np.take_along_axis(candidates, order, axis=1)
    return Reranked(nearest, ids)
