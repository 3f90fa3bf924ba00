"""Real queries as tables of small integers, and back: see :mod:`hashlearn.index.weights`."""

import math

import numpy as np

from hashlearn.compiled import inlined, lean
from hashlearn.index.kernels.asymmetric import POSITION_BITS, POSITION_MASK
from hashlearn.index.kernels.look_up import TABLE

_LARGEST_FACTOR = 64000.0


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

    ``rounded`` is :class:`hashlearn.index.weights.QuantizedQueries`. The spreads of the two tables of a byte add up to
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
