"""Real queries as tables of small integers, and sums as distances.

The distance of a query with weights w from a code b in {-1, 1}^n with correction c is estimated as ``c + sum(w * b)``.
The search computes with integers:

- weights are multiples of a step, one step for each query: ``w ~ step * values``, as fine as tables of 8 bits allow
  (see :mod:`hashlearn.index.kernels.look_up`): ``abs(values)`` of the 8 bits of a byte add up to at most 255. So the
  largest weight is at least 31 steps, 6 bits with its sign, and 60 or more where weights differ much;
- ``sum(values * b)`` is ``2 * agreed - sum(abs(values))``, where ``agreed`` is the sum of ``abs(values)`` over the bits
  with the sign of their weight: no negative numbers;
- a query with 16 weights for each four bits, of which they choose one, has them as multiples of two steps above the
  least of the 16. The two tables of a byte have spreads of at most 255 together;
- a correction, which is ``offset + scale * byte``, adds ``byte * factor >> 8`` to that.

The **sum** of both is what codes are ordered by, exactly. An estimate is ``base + 2 * step * sum``. It differs from the
one with real weights by at most ``step * (n_bits / 2 + 2)``, and as a rule by about ``step * sqrt(n_bits / 12)``,
because the errors of single weights do not depend on each other. Tables differ less: they have fewer entries to add.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import inlined, lean
from hashlearn.index.kernels.asymmetric import POSITION_BITS, POSITION_MASK, SUM_BITS, Queries
from hashlearn.index.kernels.look_up import TABLE

BITS_WITH_SHORT_SUMS = 1024
"""Sums of codes of up to 1024 bits fit into 16 bits."""

_LARGEST_BYTE = 251.0  # of 255: rounding adds a half for each of 8 weights
_LARGEST_BYTE_OF_TABLES = 254.0  # of 255: rounding adds a half for each of 2 entries
_LARGEST_SUM = 64000.0  # of 65534: rounding adds a half for each weight
_LARGEST_FACTOR = 64000.0


class QuantizedQueries(NamedTuple):
    """Queries as tables of integers.

    Attributes
    ----------
    entries : ndarray of shape (n_queries, 32 * n_bytes), uint8
        The tables of the first four bits of a code, of the next four, and so on.
    factors : ndarray of shape (n_queries,), uint16
    steps, bases : ndarray of shape (n_queries,), float64
    """

    entries: NDArray[np.uint8]
    factors: NDArray[np.uint16]
    steps: NDArray[np.float64]
    bases: NDArray[np.float64]

    def estimates(self, queries: NDArray[np.int64], sums: NDArray[np.int64]) -> NDArray[np.float32]:
        """The distances that sums stand for, for the queries of these numbers."""
        distances = np.empty(len(sums), np.float32)
        estimate(self.bases, self.steps, queries, sums, distances)
        return distances

    def read_keys(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The distances and positions that keys ``sum << 36 | position`` stand for, in row q those of query q."""
        distances, positions = np.empty(keys.shape, np.float32), np.empty(keys.shape, np.int64)
        read_keys(keys, self.bases, self.steps, distances, positions)
        return distances, positions

    def limits(self, distance: float) -> NDArray[np.int64]:
        """For each query the smallest sum that stands for more than a distance, by bisection."""
        queries = np.arange(len(self.steps))
        low, high = np.zeros_like(queries), np.full_like(queries, 1 << SUM_BITS)
        for _ in range(SUM_BITS + 1):
            middle = (low + high) // 2
            above = self.estimates(queries, middle) > distance
            low, high = np.where(above, low, np.minimum(middle + 1, high)), np.where(above, middle, high)
        return high

    def tables(self, first: int, last: int) -> Queries:
        """Some of the queries as the kernels want them."""
        return Queries(self.entries[first:last].reshape(-1), self.factors[first:last])


def sum_type(n_bits: int) -> np.dtype:
    """The type of the sums of codes of ``n_bits`` bits."""
    return np.dtype(np.uint16 if n_bits <= BITS_WITH_SHORT_SUMS else np.uint32)


def n_table_entries(n_bits: int) -> int:
    """Entries of the tables of a query for codes of ``n_bits`` bits: 16 for each four bits."""
    return -(-n_bits // 4) * TABLE


def quantize(weights: NDArray[np.float32], n_bits: int, scale: float = 0.0, offset: float = 0.0) -> QuantizedQueries:
    """Real queries as integers, for codes of ``n_bits`` bits whose corrections have this scale and offset.

    ``weights`` has a column for each bit, or one for each entry of the tables.
    """
    n_queries, n_bytes = len(weights), -(-n_bits // 8)
    queries = QuantizedQueries(
        np.empty((n_queries, n_bytes * 2 * TABLE), np.uint8),
        np.empty(n_queries, np.uint16),
        np.empty(n_queries),
        np.empty(n_queries),
    )
    weights, affine = np.ascontiguousarray(weights), (float(scale), float(offset))
    if weights.shape[1] == n_bits:
        values = np.zeros((n_queries, 8 * n_bytes), np.int16)
        tables = queries.entries.reshape(-1)
        quantize_weights(weights, *affine, _LARGEST_BYTE, _largest_sum(n_bits), values, tables, queries)
    else:
        round_tables(weights, *affine, _LARGEST_BYTE_OF_TABLES, _largest_sum(n_bits), queries)
    return queries


def _largest_sum(n_bits: int) -> float:
    return _LARGEST_SUM if n_bits <= BITS_WITH_SHORT_SUMS else np.inf


@lean
def quantize_weights(weights, scale, offset, largest_byte, largest_sum, values, tables, quantized):
    """Round weights, see :func:`round_weights`, and fill their tables."""
    round_weights(weights, scale, offset, largest_byte, largest_sum, values, quantized)
    fill_tables(values, tables)


@lean
def round_weights(weights, scale, offset, largest_byte, largest_sum, values, rounded):
    """Write real weights as ``values * step``, with the factors, steps and bases of ``rounded``.

    The magnitudes of the 8 values of a byte add up to at most ``largest_byte``, before rounding, and those of a code
    with its correction to at most ``largest_sum``.
    """
    n_queries, n_bits = weights.shape
    for query in range(n_queries):
        largest, total, most = 0.0, 0.0, 0.0
        for first in range(0, n_bits, 8):
            of_byte = 0.0
            for bit in range(first, min(first + 8, n_bits)):
                magnitude = abs(np.float64(weights[query, bit]))
                largest = max(largest, magnitude)
                of_byte += magnitude
            most = max(most, of_byte)
            total += of_byte
        step = max(most / largest_byte, (total + 128 * scale) / largest_sum, 128 * scale / _LARGEST_FACTOR)
        if step == 0:
            step = 1.0
        # The largest weight is a whole number of steps. So weights of one magnitude, or of few, are exact.
        n_steps = math.floor(largest / step)
        if n_steps > 0:
            step = largest / n_steps
        count = 0
        for bit in range(n_bits):
            value = np.int64(np.rint(weights[query, bit] / step))
            values[query, bit] = value
            count += abs(value)
        rounded.factors[query] = np.int64(np.rint(128 * scale / step))
        rounded.steps[query] = step
        # byte * factor >> 8 is half a unit too small on average
        rounded.bases[query] = offset + (step if scale > 0 else 0.0) - step * count


@lean
def round_tables(weights, scale, offset, largest_byte, largest_sum, rounded):
    """Write the real entries of tables, 16 for each four bits, as multiples of 2 * step above the least of each table.

    ``rounded`` is :class:`QuantizedQueries`. The spreads of the two tables of a byte add up to
    at most ``2 * largest_byte`` steps, and those of a code, with its correction, to at most ``2 * largest_sum``.
    """
    n_queries, n_entries = weights.shape
    for query in range(n_queries):
        total, most, least = 0.0, 0.0, 0.0
        for first in range(0, n_entries, 2 * TABLE):
            of_byte = 0.0
            for table in range(first, min(first + 2 * TABLE, n_entries), TABLE):
                low, high = _ends(weights[query], table)
                of_byte += (high - low) / 2
                least += low
            most = max(most, of_byte)
            total += of_byte
        step = max(most / largest_byte, (total + 128 * scale) / largest_sum, 128 * scale / _LARGEST_FACTOR)
        if step == 0:
            step = 1.0
        rounded.entries[query] = 0
        for table in range(0, n_entries, TABLE):
            low, _ = _ends(weights[query], table)
            for entry in range(table, table + TABLE):
                rounded.entries[query, entry] = np.int64(np.rint((weights[query, entry] - low) / (2 * step)))
        rounded.factors[query] = np.int64(np.rint(128 * scale / step))
        rounded.steps[query] = step
        rounded.bases[query] = offset + (step if scale > 0 else 0.0) + least


@lean
def _ends(weights, table):
    """The least and the largest entry of a table."""
    low = high = np.float64(weights[table])
    for entry in range(table + 1, table + TABLE):
        low, high = min(low, np.float64(weights[entry])), max(high, np.float64(weights[entry]))
    return low, high


@lean
def fill_tables(values, tables):
    """Write the tables of queries with these integer weights, of shape (n_queries, 8 * n_bytes).

    A bit adds its weight's magnitude where both are positive or both are negative. So no entry is negative, and
    ``2 * sum - abs(values).sum()`` is the sum of ``values * b`` for the bits b in {-1, 1}.
    """
    n_queries, n_bits = values.shape
    table = 0
    for query in range(n_queries):
        for first in range(0, n_bits, 4):
            entry = 0
            for bit in range(first, first + 4):
                entry -= min(0, values[query, bit])
            tables[table] = entry
            for bit in range(4):  # from the last, which is the lowest of the 4-bit number
                for number in range(1 << bit):
                    entry = tables[table + number] + values[query, first + 3 - bit]
                    tables[table + (1 << bit) + number] = entry
            table += TABLE


@lean
def estimate(bases, steps, queries, sums, distances):
    """Write the distances that sums stand for, for the queries of these numbers."""
    for i in range(sums.size):
        distances[i] = distance_of(bases[queries[i]], steps[queries[i]], sums[i])


@lean
def read_keys(keys, bases, steps, distances, positions):
    """Write the distances and positions that keys stand for, of shape (n_queries, k)."""
    n_queries, k = keys.shape
    for query in range(n_queries):
        for i in range(k):
            distances[query, i] = distance_of(bases[query], steps[query], keys[query, i] >> POSITION_BITS)
            positions[query, i] = keys[query, i] & POSITION_MASK


@inlined
def distance_of(base, step, total):
    """The estimate that a sum stands for. Beyond single precision it is infinite."""
    return np.float32(base + 2 * step * total)


@lean
def all_finite(array):
    """Whether no number of an array of two dimensions is infinite or NaN."""
    total = 0.0
    for row in range(array.shape[0]):
        for column in range(array.shape[1]):
            total += 0.0 * array[row, column]
    return total == 0.0
