"""Queries of codes in lists as integers, and the lists that each looks at.

A code stands for a residual: what its row is beside the center of its list. With the products of a query with centers
and words, the **estimate** of a code is::

    level of the list for this query  +  offset of the list + scale of the list * correction  +  what its bits look up

The search computes with integers, multiples of a **unit** of the query above its lowest estimate. An entry of a table
is such an integer, in two bytes: its **low** part is its 7 lowest bits, its **coarse** part the bits above. The coarse
parts that a code looks up add up to its coarse sum, which times 128 is at most the sum.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled, fast, lean
from hashlearn.index.kernels.look_up import TABLE
from hashlearn.index.kernels.products import products
from hashlearn.index.kernels.simd import TILE, lanes_not_above, lowest_bit
from hashlearn.index.kernels.sorting import sort_keys

LARGEST_LEVEL = 3e38
"""The level of empty lists."""

LARGEST_SUM = float(1 << 26)

_LARGEST_PAIR = 254.5  # of 255, in coarse parts: the entries of the two tables of a byte
_LARGEST_TABLES = 40000  # of 65535, in coarse sums
_LONG = 256  # bytes of a code, from which on its low parts are smaller: they add up to 16 bits
_NONE, _ONE = np.uint64(0), np.uint64(1)


class Lists(NamedTuple):
    """Codes in lists. A list is whole tiles, one behind the other, of n_bytes + 1 bytes for every code.

    Attributes
    ----------
    tiles : array, uint8
    rows : array, uint32 or int64
        Of every place of the tiles.
    first_tiles, sizes : arrays of shape (n_lists,), int64
    expected : array of shape (n_lists,), float32
        How many rows of a list may be found: its size, or about as many as a filter keeps.
    levels : array of shape (n_lists,), float32
        The level of a list is this number less ``cross`` times the product with its center; 3e38 where it is empty.
    offsets, scales : arrays of shape (n_lists,), float64
        A correction is ``offset + scale * byte``.
    lowest, spread, widest_scale : float
        The least offset, how far the largest correction is above it, and the largest scale.
    n_bytes : int
    """

    tiles: NDArray[np.uint8]
    rows: NDArray[np.integer]
    first_tiles: NDArray[np.int64]
    sizes: NDArray[np.int64]
    expected: NDArray[np.float32]
    levels: NDArray[np.float32]
    offsets: NDArray[np.float64]
    scales: NDArray[np.float64]
    lowest: float
    spread: float
    widest_scale: float
    n_bytes: int


class Geometry(NamedTuple):
    """What queries are multiplied with.

    Attributes
    ----------
    origin : array of shape (d,), float32
        Taken off queries before all else; centers are as seen from there.
    centers, words : arrays, uint32
        In tiles (:func:`hashlearn.index.kernels.products.vector_tiles`).
    n_words : int
        One for each bit, in whole bytes, or 16 for each four bits.
    cross : float
        What products are multiplied by.
    square : float
        Times the squared length of a query as seen from the origin, it is added to its estimates.
    is_unit : bool
        Are queries scaled to length one, before the origin is taken off?
    """

    origin: NDArray[np.float32]
    centers: NDArray[np.uint32]
    words: NDArray[np.uint32]
    n_words: int
    cross: float
    square: float
    is_unit: bool


class Probes(NamedTuple):
    """Which lists a query looks at: the nearest ones until they hold a share of its weight, ``most`` at the most.

    The weight of a list is the number of its rows that may be found times 2 to the power of ``-sharpness`` times its
    level above the nearest: about in proportion to the number of neighbors that it is expected to hold. A share of 1 is
    ``most`` lists.
    """

    most: int
    share: float = 1.0
    sharpness: float = 0.0


class ListQueries(NamedTuple):
    """Queries as integers, in row q those of query q.

    Attributes
    ----------
    coarse, low : arrays of shape (n * 32 * n_bytes,), uint8
        Both parts of the entries of the tables.
    bases, units : arrays of shape (n,), float64
        An estimate is ``base + unit * sum``.
    reaches : array of shape (n,), float64
        How far the nearest center is, or the length of the query where products are estimated: the error of estimates
        is in proportion to it.
    lists : array of shape (n, n_probes), int64
        The nearest lists, nearest first; -1 where there are fewer.
    levels : array of shape (n, n_probes), float32
        Of these lists, above the nearest.
    """

    coarse: NDArray[np.uint8]
    low: NDArray[np.uint8]
    bases: NDArray[np.float64]
    units: NDArray[np.float64]
    reaches: NDArray[np.float64]
    lists: NDArray[np.int64]
    levels: NDArray[np.float32]


@lean
def low_bits(n_bytes):
    """How many bits of an entry are its low part."""
    return 7 if n_bytes <= _LONG else 6


@compiled
def ask(lists, geometry, queries, probes):
    """The queries as integers, with their nearest lists; and whether they are finite."""
    n, d = queries.shape
    n_lists, n_entries = len(lists.sizes), lists.n_bytes * 2 * TABLE
    pairs = (d + 1) // 2
    seen, squares = np.empty((n, 2 * pairs), np.float32), np.empty(n, np.float32)
    is_finite = _see(geometry, queries, seen, squares)
    levels = np.empty((n, geometry.centers.size // pairs), np.float32)
    products(geometry.centers, seen, levels)
    weights = np.empty((n, geometry.words.size // pairs), np.float32)
    products(geometry.words, seen, weights)
    ends, counts = np.empty((n, 3), np.float32), np.zeros(n, np.int64)
    by_list = np.empty(n_lists, np.float32)
    for q in range(n if is_finite else 0):
        near, far = _set_levels(lists.levels, np.float32(geometry.cross), levels[q])
        ends[q, 0], ends[q, 1] = near, far
        if probes.share < 1:
            _weigh(levels[q], lists.expected, near, np.float32(probes.sharpness), by_list)
            ends[q, 2] = _level_of_share(levels[q], by_list, near, far, probes.share)
        else:
            ends[q, 2] = _level_above(levels[q], n_lists, near, far, probes.most)
        counts[q] = _n_below(levels[q], n_lists, ends[q, 2])
    n_probes = min(probes.most, max(1, counts.max())) if probes.share < 1 and n > 0 else probes.most
    asked = ListQueries(
        np.empty(n * n_entries, np.uint8),
        np.empty(n * n_entries, np.uint8),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty((n, n_probes), np.int64),
        np.empty((n, n_probes), np.float32),
    )
    raw, size = np.empty(n_entries, np.float32), float(1 << low_bits(lists.n_bytes))
    order, spare = np.empty(n_lists + 1, np.int64), np.empty(n_lists, np.int64)
    for q in range(n if is_finite else 0):
        near, far, square = ends[q, 0], ends[q, 1], geometry.square * squares[q]
        _rank(levels[q], n_lists, near, ends[q, 2], order, spare, asked.lists[q], asked.levels[q])
        least, total, widest = _entries(geometry, weights[q], raw)
        largest = np.float64(far) - near + lists.spread + total
        unit = max(widest / (_LARGEST_PAIR * size), total / (_LARGEST_TABLES * size), largest / LARGEST_SUM, 1e-30)
        part = slice(q * n_entries, (q + 1) * n_entries)
        _round(raw, unit, low_bits(lists.n_bytes), asked.coarse[part], asked.low[part])
        asked.bases[q] = np.float64(near) + lists.lowest + least + square
        asked.units[q] = unit
        asked.reaches[q] = np.sqrt(max(0.0, near + square) if geometry.square > 0 else np.float64(squares[q]))
    return asked, is_finite


@lean
def _see(geometry, queries, seen, squares):
    """Write the queries as seen from the origin, and their squared lengths; returns whether they are finite."""
    total = np.float32(0)
    for q in range(len(queries)):
        scale = np.float32(1)
        if geometry.is_unit:
            square = np.float32(0)
            for i in range(queries.shape[1]):
                square += queries[q, i] * queries[q, i]
            if square > 0:
                scale = np.float32(1 / np.sqrt(square))
        square = np.float32(0)
        for i in range(queries.shape[1]):
            number = queries[q, i] * scale - geometry.origin[i]
            seen[q, i] = number
            square += number * number
        for i in range(queries.shape[1], seen.shape[1]):
            seen[q, i] = 0
        squares[q] = square
        total += square * np.float32(0)
    return total == 0


@fast
def _set_levels(added, cross, levels):
    """Write levels over the products with the centers; returns the least and the largest of the lists with codes."""
    near, far = np.float32(LARGEST_LEVEL), np.float32(-LARGEST_LEVEL)
    for i in range(added.size):
        level = added[i] - cross * levels[i]
        levels[i] = level
        near = min(near, level)
        far = max(far, level if level < np.float32(LARGEST_LEVEL) else np.float32(-LARGEST_LEVEL))
    return near, far


@lean
def _rank(levels, n_lists, near, limit, order, spare, nearest, their_levels):
    """Write the lists whose levels are not above a limit, ascending, ties by the lower number; -1 behind the last.

    Their levels are written, too, above the nearest.
    """
    count = 0
    for first in range(0, n_lists, TILE):
        mask = lanes_not_above(levels, first, limit)
        if n_lists - first < TILE:
            mask &= (_ONE << np.uint64(n_lists - first)) - _ONE
        while mask != _NONE:
            number = first + lowest_bit(mask)
            mask &= mask - _ONE
            bits = np.int64(np.float32(levels[number] - near).view(np.uint32))  # of no negative number: they ascend
            order[count] = (bits << 32) | number
            count += 1
    sort_keys(order, count, spare)
    for place in range(len(nearest)):
        nearest[place] = -1
        if place < count:
            nearest[place] = order[place] & 0xFFFFFFFF
            their_levels[place] = levels[nearest[place]] - near


@fast
def _n_below(levels, n_lists, limit):
    count = 0
    for i in range(n_lists):
        count += levels[i] <= limit
    return count


@lean
def _weigh(levels, expected, near, sharpness, weights):
    """Write the weights of lists (:class:`Probes`); powers of two are linear between whole exponents."""
    for i in range(weights.size):
        exponent = max(np.float32(-100), sharpness * (near - levels[i]))
        bits = np.int32((exponent + np.float32(127)) * np.float32(1 << 23))
        weights[i] = expected[i] * bits.view(np.float32)


@fast
def _level_of_share(levels, weights, near, far, share):
    """The least level, by bisection, whose lists hold a share of all weights."""
    held, count = _held(levels, weights, far)
    wanted, count_before = np.float32(share) * held, 0
    for _ in range(20):
        if count - count_before <= 1:
            break
        middle = near + (far - near) / 2
        held, count_there = _held(levels, weights, middle)
        if held < wanted:
            near, count_before = middle, count_there
        else:
            far, count = middle, count_there
    return far


@fast
def _held(levels, weights, limit):
    """The weight of lists up to a level, and their number."""
    held, count = np.float32(0), np.int32(0)
    for i in range(weights.size):
        is_there = levels[i] <= limit
        held += weights[i] if is_there else np.float32(0)
        count += np.int32(is_there)
    return held, count


@fast
def _level_above(levels, n_lists, near, far, n_probes):
    """A level that ``n_probes`` lists do not exceed, and few others, found by bisection."""
    most = n_probes + n_probes // 8 + 8
    for _ in range(20):
        middle = near + (far - near) / 2
        count = 0
        for i in range(n_lists):
            count += levels[i] <= middle
        if count < n_probes:
            near = middle
        else:
            far = middle
            if count <= most:
                break
    return far


@lean
def _entries(geometry, weights, raw):
    """Write the entries of the tables above the least of each; returns their least sum, their spreads' sum, and the
    largest of those of the two tables of a byte.
    """
    cross = -np.float32(geometry.cross)
    least, total, widest, before = 0.0, 0.0, 0.0, np.float32(0)
    free = geometry.n_words == raw.size
    for table in range(0, raw.size, TABLE):
        if free:
            low = np.float32(np.inf)
            for entry in range(table, table + TABLE):
                raw[entry] = cross * weights[entry]
                low = min(low, raw[entry])
        else:
            low = np.float32(0)
            raw[table] = 0
            for bit in range(4):  # from the last, which is the lowest of the 4-bit number
                weight = cross * weights[table // 4 + 3 - bit]
                low -= abs(weight)
                up, down = max(np.float32(0), 2 * weight), max(np.float32(0), -2 * weight)
                for number in range(table, table + (1 << bit)):
                    raw[number + (1 << bit)] = raw[number] + up
                    raw[number] += down
        spread = np.float32(0)
        for entry in range(table, table + TABLE):
            if free:
                raw[entry] -= low
            spread = max(spread, raw[entry])
        least += low
        total += spread
        if table % (2 * TABLE):
            widest = max(widest, np.float64(before) + spread)
        before = spread
    return least, total, widest


@lean
def _round(raw, unit, n_low, coarse, low):
    """Write both parts of the entries as multiples of a unit."""
    inverse, lowest = np.float32(1 / unit), np.int32((1 << n_low) - 1)
    for entry in range(raw.size):
        value = np.int32(raw[entry] * inverse + np.float32(0.5))
        coarse[entry], low[entry] = value >> np.int32(n_low), value & lowest
