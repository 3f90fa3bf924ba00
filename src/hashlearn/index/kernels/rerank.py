"""The nearest of a few candidates, by their vectors: one call for any number of queries.

Vectors are rows of a matrix of type float32, float16 (given as its bits, uint16) or int8. Numbers of type int8 stand
for ``offsets + scales * number``, with an offset and a scale for each feature. Distances are squared Euclidean
distances, 1 - cosine, or negative inner products, as in :class:`hashlearn.index.PartitionedIndex`.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from hashlearn.compiled import compiled, fast, lean
from hashlearn.index.kernels.list_queries import Geometry, Lists, Probes
from hashlearn.index.kernels.lists import KEY_MASK, Allowed, Kept, end_of_look, look
from hashlearn.index.kernels.simd import I32, prefetch

EUCLIDEAN, COSINE, DOT = range(3)
METRIC_NUMBERS = {"euclidean": EUCLIDEAN, "cosine": COSINE, "dot": DOT}

NOBODY = np.int64((1 << 63) - 1)
"""The row of a place in a heap that no candidate fills: above all rows."""

_AHEAD = 12  # candidates whose vectors are asked for before they are needed
_LINE = 64


class Vectors(NamedTuple):
    """Vectors by row.

    ``offsets`` and ``scales``, of shape (d,) and type float32, are those of int8 numbers; otherwise None.
    """

    matrix: NDArray
    offsets: NDArray[np.float32] | None = None
    scales: NDArray[np.float32] | None = None

    @classmethod
    def of(cls, matrix: NDArray, offsets: NDArray | None = None, scales: NDArray | None = None) -> "Vectors":
        """A matrix of type float32, float16 or int8 as the kernel wants it."""
        return cls(matrix.view(np.uint16) if matrix.dtype == np.float16 else matrix, offsets, scales)


@compiled
def nearest_of_candidates(vectors, queries, candidates, metric, distances, rows):
    """The nearest candidates of each query, nearest first, ties by the lowest row.

    Parameters
    ----------
    vectors : Vectors
        The matrix is C-contiguous.
    queries : array of shape (n, d), float32
    candidates : array of shape (n, n_candidates), int64
        Rows; those below zero are skipped.
    metric : int
        One of ``METRIC_NUMBERS``.
    distances, rows : arrays of shape (n, k), float32 and int64
        Get the result; infinity and -1 where there are fewer candidates.
    """
    query = np.empty(queries.shape[1], np.float32)
    for q in range(len(queries)):
        constant = prepare(vectors.offsets, vectors.scales, queries[q], metric, query)
        _select(vectors, query, candidates[q], metric, constant, distances[q], rows[q])


@compiled
def nearest_in_lists(
    of_lists, of_geometry, queries, of_probes, of_kept, of_allowed, of_vectors, metric, distances, rows, probed
):
    """The nearest candidates of each query, by their vectors, in one call.

    The arguments are those of :func:`~hashlearn.index.kernels.lists.knn_in_lists` and :func:`nearest_of_candidates`,
    named tuples as plain ones.

    Returns
    -------
    bool
        Whether each query is finite and has k candidates, or ``kept.most`` if these are fewer; otherwise what is
        written is no result.
    """
    kept, vectors = Kept(*of_kept), Vectors(*of_vectors)
    _, found, scratch, is_finite = look(
        Lists(*of_lists), Geometry(*of_geometry), queries, Probes(*of_probes), kept, Allowed(*of_allowed), probed
    )
    query = np.empty(queries.shape[1], np.float32)
    for q in range(len(queries) if is_finite else 0):
        candidates, count = found.keys[q], end_of_look(found, q, kept, scratch)
        if count < min(rows.shape[1], kept.most):
            return False
        for i in range(count):
            candidates[i] &= KEY_MASK
        constant = prepare(vectors.offsets, vectors.scales, queries[q], metric, query)
        _select(vectors, query, candidates[:count], metric, constant, distances[q], rows[q])
    return is_finite


@lean
def _select(vectors, query, candidates, metric, constant, distances, rows):
    """The nearest candidates of one query, which is prepared."""
    flat = vectors.matrix.reshape(-1)
    distances[:] = np.inf
    rows[:] = NOBODY
    ask_for(flat, query.size, query.size, candidates, 0, _AHEAD)
    for i in range(candidates.size):
        ask_for(flat, query.size, query.size, candidates, i + _AHEAD, i + _AHEAD + 1)
        row = candidates[i]
        if row >= 0:
            first = np.uint64(row) * np.uint64(query.size)
            distance = distance_to(flat, first, vectors.offsets, vectors.scales, query, metric) + constant
            keep_nearest(distance, row, distances, rows)
    put_in_order(distances, rows)


@fast
def prepare(offsets, scales, given, metric, query):
    """Write the query so that vectors need not be decoded more than once; returns what is added to its distances."""
    length = np.float32(0)
    for i in range(query.size):
        length += given[i] * given[i]
    scale = np.float32(1)
    if metric == COSINE and length > 0:
        scale = np.float32(1 / np.sqrt(length))
    constant = np.float32(1 if metric == COSINE else 0)
    for i in range(query.size):
        query[i] = scale * given[i]
        if offsets is not None and metric == EUCLIDEAN:
            query[i] -= offsets[i]
        if offsets is not None and metric == DOT:
            constant -= query[i] * offsets[i]
            query[i] *= scales[i]
    return constant


@lean
def ask_for(flat, step, width, candidates, first, last):
    """Have the processor read the vectors of some candidates, ``step`` numbers apart and ``width`` numbers long."""
    line = _LINE // flat.itemsize
    for i in range(first, min(last, candidates.size)):
        if candidates[i] >= 0:
            for place in range(0, width, line):
                prefetch(flat, candidates[i] * step + place)


@fast
def distance_to(flat, first, offsets, scales, query, metric):
    """The distance of a query, which is prepared, to the vector whose numbers begin at ``first``."""
    total, square = np.float32(0), np.float32(0)
    if metric == EUCLIDEAN:
        for i in range(query.size):
            gap = query[i] - _scaled(flat[first + np.uint64(i)], scales, i)
            total += gap * gap
        return total
    if metric == DOT:
        for i in range(query.size):
            total -= query[i] * _number(flat[first + np.uint64(i)])
        return total
    for i in range(query.size):
        value = _scaled(flat[first + np.uint64(i)], scales, i) + _offset(offsets, i)
        total -= query[i] * value
        square += value * value
    return total / np.sqrt(square) if square > 0 else np.float32(0)


@fast
def _offset(offsets, i):
    return np.float32(0) if offsets is None else offsets[i]


@fast
def _scaled(value, scales, i):
    return _number(value) if scales is None else _number(value) * scales[i]


@intrinsic
def _number(typingctx, value):
    """A stored number in single precision; integers without sign are the bits of half precision."""

    def generate(context, builder, signature, args):
        if signature.args[0] != types.uint16:
            return context.cast(builder, args[0], signature.args[0], types.float32)
        bits = builder.zext(args[0], I32)
        sign = builder.shl(builder.and_(bits, ir.Constant(I32, 0x8000)), ir.Constant(I32, 16))
        others = builder.shl(builder.and_(bits, ir.Constant(I32, 0x7FFF)), ir.Constant(I32, 13))
        number = builder.bitcast(builder.or_(sign, others), ir.FloatType())
        return builder.fmul(number, ir.Constant(ir.FloatType(), 2.0**112))  # as far apart are the exponents

    return types.float32(value), generate


@lean
def keep_nearest(distance, row, distances, rows):
    """Put a candidate into the heap of the nearest so far, in the place of the farthest, if it is nearer.

    The farthest stands first. An empty heap has infinity and ``NOBODY`` in all places.
    """
    if _is_farther(distances[0], rows[0], distance, row):
        _sink(distance, row, distances, rows, rows.size)


@lean
def put_in_order(distances, rows):
    """Sort a heap, nearest first, ties by the lowest row; places left over get row -1."""
    for last in range(rows.size - 1, 0, -1):
        distance, row = distances[last], rows[last]
        distances[last], rows[last] = distances[0], rows[0]
        _sink(distance, row, distances, rows, last)
    for place in range(rows.size):
        if rows[place] == NOBODY:
            rows[place] = -1


@lean
def _sink(distance, row, distances, rows, n):
    """Put a candidate to its place in a heap of n, in the place of the first."""
    place, child = 0, 1
    while child < n:
        if child + 1 < n and _is_farther(distances[child + 1], rows[child + 1], distances[child], rows[child]):
            child += 1
        if not _is_farther(distances[child], rows[child], distance, row):
            break
        distances[place], rows[place] = distances[child], rows[child]
        place, child = child, 2 * child + 1
    distances[place], rows[place] = distance, row


@lean
def _is_farther(distance, row, other_distance, other_row):
    return distance > other_distance or (distance == other_distance and row > other_row)
