"""Real queries as tables of small integers, and sums as distances.

The distance of a query with weights w from a code b in {-1, 1}^n with correction c is estimated as ``c + sum(w * b)``.
The search computes with integers:

- weights are multiples of half a unit, one unit for each query: ``w ~ unit / 2 * values``, as fine as tables of 16 bits
  and sums of 27 bits allow: the largest weight of single precision has at least 14 bits of its own, as a rule 16; of
  codes of more than 4,096 bits at least 12;
- ``sum(values * b)`` is ``2 * agreed - sum(abs(values))``, where ``agreed`` is the sum of ``abs(values)`` over the bits
  with the sign of their weight: no negative numbers;
- a query with 16 weights for each four bits, of which they choose one, has them as multiples of a unit above the least
  of the 16;
- a correction, which is ``offset + scale * byte``, adds ``byte * factor >> 16`` to that.

The **sum** of both is what codes are ordered by, exactly. An estimate is ``base + unit * sum``. It differs from the one
with real weights by at most ``unit * (n_bits / 4 + 1)``, which is about what single precision would differ by.

A search looks first at coarse sums, of entries of 8 bits (:mod:`hashlearn.index.kernels.asymmetric`).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import inlined, lean
from hashlearn.index.kernels.asymmetric import FACTOR_BITS, POSITION_BITS, POSITION_MASK, SUM_BITS, Queries
from hashlearn.index.kernels.look_up import TABLE

BITS_WITH_SHORT_SUMS = 1536
"""Coarse sums of codes of up to 1536 bits fit into 16 bits."""

_LARGEST_BYTE = 255  # of the two coarse entries of a byte
_LARGEST_CORRECTION = 16000  # of 65534, in coarse sums; 192 bytes add up to 48960
_WIDEST = 65000.0  # of 65535: rounding adds a half for each of four bits
_LARGEST_SUM = float(1 << (SUM_BITS - 1))


class QuantizedQueries(NamedTuple):
    """Queries as tables of integers.

    Attributes
    ----------
    entries : ndarray of shape (n_queries, 32 * n_bytes), uint16
        The tables of the first four bits of a code, of the next four, and so on.
    factors : ndarray of shape (n_queries,), int64
    coarse, coarse_factors, divisors : ndarray
        See :class:`~hashlearn.index.kernels.asymmetric.Queries`.
    units, bases : ndarray of shape (n_queries,), float64
    """

    entries: NDArray[np.uint16]
    factors: NDArray[np.int64]
    coarse: NDArray[np.uint8]
    coarse_factors: NDArray[np.uint16]
    divisors: NDArray[np.int64]
    units: NDArray[np.float64]
    bases: NDArray[np.float64]

    def estimates(self, queries: NDArray[np.int64], sums: NDArray[np.int64]) -> NDArray[np.float32]:
        """The distances that sums stand for, for the queries of these numbers."""
        distances = np.empty(len(sums), np.float32)
        estimate(self.bases, self.units, queries, sums, distances)
        return distances

    def read_keys(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The distances and positions that keys ``sum << 36 | position`` stand for, in row q those of query q."""
        distances, positions = np.empty(keys.shape, np.float32), np.empty(keys.shape, np.int64)
        read_keys(keys, self.bases, self.units, distances, positions)
        return distances, positions

    def limits(self, distance: float) -> NDArray[np.int64]:
        """For each query the smallest sum that stands for more than a distance, by bisection."""
        queries = np.arange(len(self.units))
        low, high = np.zeros_like(queries), np.full_like(queries, 1 << SUM_BITS)
        for _ in range(SUM_BITS + 1):
            middle = (low + high) // 2
            above = self.estimates(queries, middle) > distance
            low, high = np.where(above, low, np.minimum(middle + 1, high)), np.where(above, middle, high)
        return high

    def tables(self, first: int, last: int) -> Queries:
        """Some of the queries as the kernels want them."""
        part = slice(first, last)
        return Queries(
            self.entries[part].reshape(-1),
            self.factors[part],
            self.coarse[part].reshape(-1),
            self.coarse_factors[part],
            self.divisors[part],
        )


def sum_type(n_bits: int) -> np.dtype:
    """The type of the coarse sums of codes of ``n_bits`` bits."""
    return np.dtype(np.uint16 if n_bits <= BITS_WITH_SHORT_SUMS else np.uint32)


def n_table_entries(n_bits: int) -> int:
    """Entries of the tables of a query for codes of ``n_bits`` bits: 16 for each four bits."""
    return -(-n_bits // 4) * TABLE


def quantize(weights: NDArray[np.float32], n_bits: int, scale: float = 0.0, offset: float = 0.0) -> QuantizedQueries:
    """Real queries as integers, for codes of ``n_bits`` bits whose corrections have this scale and offset.

    ``weights`` has a column for each bit, or one for each entry of the tables.
    """
    n_queries, n_bytes = len(weights), -(-n_bits // 8)
    n_entries = n_bytes * 2 * TABLE
    queries = QuantizedQueries(
        np.empty((n_queries, n_entries), np.uint16),
        np.empty(n_queries, np.int64),
        np.empty((n_queries, n_entries), np.uint8),
        np.empty(n_queries, np.uint16),
        np.empty(n_queries, np.int64),
        np.empty(n_queries),
        np.empty(n_queries),
    )
    weights, affine = np.ascontiguousarray(weights), (float(scale), float(offset))
    if weights.shape[1] == n_bits:
        round_weights(weights, *affine, np.zeros(8 * n_bytes, np.int32), queries)
    else:
        round_tables(weights, *affine, queries)
    return queries


@lean
def round_weights(weights, scale, offset, values, rounded):
    """Write real weights as ``values * unit / 2``, and their tables, with factors, units and bases, to ``rounded``.

    ``values`` is room for those of a query.
    """
    n_queries, n_bits = weights.shape
    for query in range(n_queries):
        largest, total, widest = 0.0, 0.0, 0.0
        for first in range(0, n_bits, 4):
            of_table = 0.0
            for bit in range(first, min(first + 4, n_bits)):
                magnitude = abs(np.float64(weights[query, bit]))
                largest = max(largest, magnitude)
                of_table += magnitude
            widest = max(widest, of_table)
            total += of_table
        step = max(widest / _WIDEST, (total + 128 * scale) / _LARGEST_SUM)
        if step == 0:
            step = 1.0
        # The largest weight is a whole number of steps. So weights of one magnitude, or of few, are exact.
        n_steps = math.floor(largest / step)
        if n_steps > 0:
            step = largest / n_steps
        count = 0
        for bit in range(n_bits):
            values[bit] = np.int64(np.rint(weights[query, bit] / step))
            count += abs(values[bit])
        fill_tables(values, rounded.entries[query])
        rounded.bases[query] = offset - step * count
        _finish(rounded, query, 2 * step, scale, n_bits)


@lean
def round_tables(weights, scale, offset, rounded):
    """Write the real entries of tables, 16 for each four bits, as multiples of a unit above the least of each table.

    ``rounded`` is :class:`QuantizedQueries`.
    """
    n_queries, n_entries = weights.shape
    for query in range(n_queries):
        total, widest, least = 0.0, 0.0, 0.0
        for table in range(0, n_entries, TABLE):
            low, high = _ends(weights[query], table)
            widest = max(widest, high - low)
            total += high - low
            least += low
        unit = max(widest / _WIDEST, (total + 256 * scale) / _LARGEST_SUM)
        if unit == 0:
            unit = 1.0
        rounded.entries[query] = 0
        for table in range(0, n_entries, TABLE):
            low, _ = _ends(weights[query], table)
            for entry in range(table, table + TABLE):
                rounded.entries[query, entry] = np.int64(np.rint((weights[query, entry] - low) / unit))
        rounded.bases[query] = offset + least
        _finish(rounded, query, unit, scale, n_entries // 4)


@inlined
def _finish(rounded, query, unit, scale, n_bits):
    """Write all that follows from the tables of a query and their unit."""
    factor = np.int64(np.rint(scale / unit * (1 << FACTOR_BITS)))
    largest_total = np.inf if n_bits > BITS_WITH_SHORT_SUMS else np.float64(_LARGEST_BYTE * BITS_WITH_SHORT_SUMS // 8)
    largest_correction = (255 * factor >> FACTOR_BITS) / _LARGEST_CORRECTION
    divisor = divisor_of(rounded.entries[query], largest_total, largest_correction)
    coarsen(rounded.entries[query], divisor, rounded.coarse[query])
    rounded.divisors[query] = divisor
    rounded.units[query] = unit
    rounded.factors[query] = factor
    rounded.coarse_factors[query] = factor // (divisor << (FACTOR_BITS // 2))


@inlined
def divisor_of(tables, largest_total, least):
    """What the sums of a query are divided by.

    So the two coarse entries of a byte add up to at most 255 and those of a code to ``largest_total``; the divisor is
    above ``least``.
    """
    most, total = 0, 0
    for first in range(0, tables.size, 2 * TABLE):
        of_byte = 0
        for table in range(first, first + 2 * TABLE, TABLE):
            largest = np.uint16(0)
            for entry in range(table, table + TABLE):
                largest = max(largest, tables[entry])
            of_byte += np.int64(largest)
        most = max(most, of_byte)
        total += of_byte
    return max(1, np.int64(max(most / _LARGEST_BYTE, total / largest_total, least)) + 1)


@inlined
def coarsen(tables, divisor, coarse):
    """Write entries divided by a divisor, rounded down, or one less."""
    inverse = (np.uint64(1) << np.uint64(32)) // np.uint64(divisor)
    for entry in range(tables.size):
        coarse[entry] = (np.uint64(tables[entry]) * inverse) >> np.uint64(32)


@lean
def _ends(weights, table):
    """The least and the largest entry of a table."""
    low = high = np.float64(weights[table])
    for entry in range(table + 1, table + TABLE):
        low, high = min(low, np.float64(weights[entry])), max(high, np.float64(weights[entry]))
    return low, high


@lean
def fill_tables(values, tables):
    """Write the tables of a query with these integer weights, of shape (8 * n_bytes,).

    A bit adds its weight's magnitude where both are positive or both are negative. So no entry is negative, and
    ``2 * sum - abs(values).sum()`` is the sum of ``values * b`` for the bits b in {-1, 1}.
    """
    table = 0
    for first in range(0, values.size, 4):
        entry = 0
        for bit in range(first, first + 4):
            entry -= min(0, values[bit])
        tables[table] = entry
        for bit in range(4):  # from the last, which is the lowest of the 4-bit number
            for number in range(1 << bit):
                entry = tables[table + number] + values[first + 3 - bit]
                tables[table + (1 << bit) + number] = entry
        table += TABLE


@lean
def estimate(bases, units, queries, sums, distances):
    """Write the distances that sums stand for, for the queries of these numbers."""
    for i in range(sums.size):
        distances[i] = distance_of(bases[queries[i]], units[queries[i]], sums[i])


@lean
def read_keys(keys, bases, units, distances, positions):
    """Write the distances and positions that keys stand for, of shape (n_queries, k)."""
    n_queries, k = keys.shape
    for query in range(n_queries):
        for i in range(k):
            distances[query, i] = distance_of(bases[query], units[query], keys[query, i] >> POSITION_BITS)
            positions[query, i] = keys[query, i] & POSITION_MASK


@inlined
def distance_of(base, unit, total):
    """The estimate that a sum stands for. Beyond single precision it is infinite."""
    return np.float32(base + unit * total)


@lean
def all_finite(array):
    """Whether no number of an array of two dimensions is infinite or NaN."""
    total = 0.0
    for row in range(array.shape[0]):
        for column in range(array.shape[1]):
            total += 0.0 * array[row, column]
    return total == 0.0
