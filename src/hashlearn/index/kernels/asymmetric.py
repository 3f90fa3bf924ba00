"""Every code against every real query.

A query is tables of integers of 16 bits. The **sum** of a code is what its bits look up in them, plus its correction
times the query's factor: the smaller, the nearer. Its **coarse** sum is at most sum / divisor, with entries of 8 bits,
and comes from look-ups for 64 codes at once (:mod:`hashlearn.index.kernels.look_up`). Where the coarse sum of a code
does not rule it out, its sum is computed. So the result is the one of all sums.

A block of tiles small enough for the first-level cache meets all queries, four at a time, before the next block is
read. A result is one integer, ``sum << 36 | position``, so that the order of the integers is the order of the results:
nearest first, ties by the lowest position.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import inlined, lean
from hashlearn.index.kernels.look_up import TABLE, least_sums, near_by_bounds, near_by_sums
from hashlearn.index.kernels.simd import TILE, lowest_bit, prefetch
from hashlearn.index.kernels.tiles import ALL_ALIVE

POSITION_BITS = 36
POSITION_MASK = (1 << POSITION_BITS) - 1
SUM_BITS = 27
FACTOR_BITS = 16
"""Bits behind the point of what corrections are multiplied by; half of them for coarse sums."""

QUERY_SHIFT = 54  # room for 512 queries in one int64
QUERIES_PER_BLOCK = 512

_GROUP = 4
_CACHE_BYTES = 16384
_BYTES_AHEAD = 4096
_CORRECTIONS_AHEAD = 1024
_DIGIT_BITS = SUM_BITS // 3
_N_DIGITS = 1 << _DIGIT_BITS
_SCALE_BITS = np.uint64(32)
_NO_LIMIT = 1 << SUM_BITS
_NONE, _ONE = np.uint64(0), np.uint64(1)


class Codes(NamedTuple):
    """Codes in byte-planar tiles.

    ``corrections`` has a byte for every place of every tile, or is None. ``alive`` is that of
    :class:`~hashlearn.index.kernels.tiles.Tiles`.
    """

    tiles: NDArray[np.uint8]
    corrections: NDArray[np.uint8] | None
    n_bytes: int
    n_codes: int
    alive: NDArray[np.uint64] = ALL_ALIVE


class Queries(NamedTuple):
    """The tables of all queries, one after the other, and what each multiplies corrections by and sums are divided by.

    A correction adds ``byte * factor >> 16`` to a sum, and ``byte * coarse_factor >> 8`` to a coarse one.
    """

    tables: NDArray[np.uint16]
    factors: NDArray[np.int64]
    coarse: NDArray[np.uint8]
    coarse_factors: NDArray[np.uint16]
    divisors: NDArray[np.int64]


class Found(NamedTuple):
    """The keys found so far, in row q those of query q, with their number, and the sum that new ones must be below.

    A code with such a sum has a coarse sum below the query's threshold.
    """

    keys: NDArray[np.int64]
    counts: NDArray[np.int64]
    limits: NDArray[np.int64]
    thresholds: NDArray[np.unsignedinteger]


class Scratch(NamedTuple):
    """Memory to work with: a mask of near codes for each query of a group, and a histogram of digits."""

    masks: NDArray[np.uint64]
    histogram: NDArray[np.int32]


def knn_scan(codes, tiles, queries, bounds, k, largest, keys):
    """The k nearest codes among some tiles, for each query.

    A query's limit is first a guess from some of the tiles (:func:`_guess_limits`), then the k-th sum it has found so
    far: a tile costs one comparison unless it holds something nearer. The keys of what it holds go to a buffer which is
    cut to k when it is full. A query whose guess was too low, so that it has found fewer than k codes, starts again
    without one.

    Parameters
    ----------
    codes : Codes
    tiles : (int, int)
        The first tile, and the one behind the last.
    queries : Queries
    bounds : None or array, uint8
        None compares coarse sums. Room for the tables of all queries, of one byte more than a code has, makes the scan
        compare 8-bit bounds of the sums, which is faster where few codes have a bound below the limit and a sum above.
    k : int
    largest : uint16 or uint32
        The largest number of the type of coarse sums.
    keys : array of shape (n_queries, k), int64
        Gets the results in no order, filled with -1 where there are fewer than k.
    """
    first_tile, last_tile = tiles
    n_queries = len(keys)
    found = _nothing_found(n_queries, k, largest)
    scratch = Scratch(np.zeros(_GROUP, np.uint64), np.empty(_N_DIGITS, np.int32))
    sample = _sample(first_tile, min(last_tile, codes.n_codes // TILE), k)
    is_guessed = sample.rank > 0 and _mostly_alive(codes)
    if is_guessed:
        _guess_limits(codes, sample, queries, np.empty(sample.n_tiles, np.int64), found, scratch)

    def scan_for_one(query: int, found: Found) -> None:
        one = _of_one(queries, codes.n_bytes, query)
        part = keys[query : query + 1]
        _scan_for_one(codes, first_tile, last_tile, one, bounds, found, scratch, k, largest, part)

    # Two kernels, because many programs need only one of them: a first call compiles no more than it uses.
    n_grouped = n_queries - (n_queries % _GROUP == 1)
    if n_grouped:
        part = keys[:n_grouped]
        _scan_for_many(codes, first_tile, last_tile, queries, bounds, found, scratch, k, largest, part)
    if n_grouped < n_queries:
        scan_for_one(n_grouped, Found(*(array[n_grouped:] for array in found)))
    if is_guessed:
        for query in np.flatnonzero((found.counts < k) & (found.limits < _NO_LIMIT)):
            scan_for_one(query, _nothing_found(1, k, largest))


def _nothing_found(n_queries: int, k: int, largest: np.unsignedinteger) -> Found:
    found = Found(
        np.empty((n_queries, 2 * k + TILE), np.int64),
        np.zeros(n_queries, np.int64),
        np.empty(n_queries, np.int64),
        np.empty(n_queries, largest.dtype),
    )
    found.limits.fill(_NO_LIMIT)
    found.thresholds.fill(largest)
    return found


def _of_one(queries: Queries, n_bytes: int, query: int) -> Queries:
    """The tables of one query."""
    n_entries = n_bytes * 2 * TABLE
    entries, number = slice(query * n_entries, (query + 1) * n_entries), slice(query, query + 1)
    return Queries(
        queries.tables[entries],
        queries.factors[number],
        queries.coarse[entries],
        queries.coarse_factors[number],
        queries.divisors[number],
    )


@lean
def _scan_for_one(codes, first_tile, last_tile, queries, bounds, found, scratch, k, largest, keys):
    _aim(found, 0, codes.n_bytes, queries, bounds, largest)
    _scan(codes, first_tile, last_tile, queries, bounds, (0,), 1, found, scratch, k)
    _write_keys(found, k, scratch, keys)


@lean
def _scan_for_many(codes, first_tile, last_tile, queries, bounds, found, scratch, k, largest, keys):
    n_queries = len(keys)
    for query in range(n_queries):
        _aim(found, query, codes.n_bytes, queries, bounds, largest)
    block, last = max(1, _CACHE_BYTES // (TILE * codes.n_bytes)), n_queries - 1
    for start in range(first_tile, last_tile, block):
        end = min(start + block, last_tile)
        for first in range(0, n_queries, _GROUP):  # the last query fills the last group up
            group = (first, min(first + 1, last), min(first + 2, last), min(first + 3, last))
            _scan(codes, start, end, queries, bounds, group, n_queries - first, found, scratch, k)
    _write_keys(found, k, scratch, keys)


@inlined
def _write_keys(found, k, scratch, keys):
    for query in range(len(keys)):
        count = found.counts[query]
        if count > k:
            _keep_smallest(found.keys[query], count, k, scratch.histogram)
            count = k
        for place in range(k):  # an assignment of slices takes numba two seconds more to compile
            keys[query, place] = found.keys[query, place] if place < count else -1


@inlined
def threshold_of(limit, divisor, largest):
    """The number that the coarse sums of all codes with a sum below a limit are below."""
    return min(np.int64(largest), (limit - 1) // divisor + 1)


@inlined
def _aim(found, query, n_bytes, queries, bounds, largest):
    """Make a query's threshold, or its bounds, those of its limit."""
    found.thresholds[query] = threshold_of(found.limits[query], queries.divisors[query], largest)
    _fill_bounds(bounds, n_bytes, queries, query, found.limits[query])


def _mostly_alive(codes: Codes) -> bool:
    """Whether a search looks at nearly all codes: a guess from all of them is then one for these."""
    return codes.alive.size == 0 or 16 * int(np.bitwise_count(codes.alive).sum()) >= 15 * codes.n_codes


class Sample(NamedTuple):
    """Some full tiles, ``step`` apart.

    The guess is the ``rank``-th smallest of the least sums of these tiles. A rank of 0 says that there is none.
    """

    first_tile: int
    step: int
    n_tiles: int
    rank: int


def _sample(first_tile: int, last_tile: int, k: int) -> Sample:
    """Choose a sample so that at least k codes have a sum up to the guess.

    Of the tiles that hold one of the k nearest codes, at most k / step are in the sample on average. The rank is above
    that by four standard deviations of such a number, and three: among codes in random order, the guess is too low for
    fewer than one query in 10,000. The more tiles in the sample, the fewer codes are found in vain; with
    2 * sqrt(n_tiles) tiles, both cost about the same. No guess is made where the rank is not small in the sample.
    """
    n_tiles = last_tile - first_tile
    step = max(1, int(math.sqrt(max(0, n_tiles))) // 2)
    expected = k / step
    rank = int(expected + 4 * math.sqrt(expected)) + 3
    n_sampled = n_tiles // step
    return Sample(first_tile, step, n_sampled, rank if 4 * rank <= n_sampled else 0)


@lean
def _guess_limits(codes, sample, queries, keys, found, scratch):
    """Lower the limits to a little above the guesses. ``keys`` has room for one for each tile of the sample.

    The guess is a coarse sum. Rounding has taken half from each entry on average, and from nearly no sum more than this
    and half the root of the number of entries, which is 1.7 standard deviations.
    """
    least, n_entries = scratch.masks, 2 * codes.n_bytes
    rounded_off = n_entries // 2 + int(math.sqrt(n_entries)) // 2 + 1
    for query in range(len(found.limits)):
        for i in range(sample.n_tiles):
            tile = sample.first_tile + i * sample.step
            arguments = codes.tiles, tile, codes.n_bytes, queries.coarse, codes.corrections, queries.coarse_factors
            least_sums(*arguments, (query,), found.thresholds, least)
            keys[i] = np.int64(least[0]) << POSITION_BITS
        guess = _keep_smallest(keys, sample.n_tiles, sample.rank, scratch.histogram)
        found.limits[query] = min(found.limits[query], (guess + rounded_off) * queries.divisors[query])
    least[0] = _NONE


@lean
def _scan(codes, first_tile, last_tile, queries, bounds, group, n_queries, found, scratch, k):
    """Look at some tiles for the first ``n_queries`` of a group."""
    masks, tiles, n_bytes = scratch.masks, codes.tiles, codes.n_bytes
    for tile in range(first_tile, last_tile):
        if codes.alive.size > 0 and codes.alive[tile] == _NONE:
            continue
        if len(group) == 1:
            _prefetch(tiles, tile * TILE * n_bytes + _BYTES_AHEAD, n_bytes)
            _prefetch(codes.corrections, tile * TILE + _CORRECTIONS_AHEAD, 1)
        if bounds is None:
            arguments = tiles, tile, n_bytes, queries.coarse, codes.corrections, queries.coarse_factors
            near = near_by_sums(*arguments, group, found.thresholds, masks)
        else:
            near = near_by_bounds(tiles, tile, n_bytes, bounds, codes.corrections, group, masks)
        while near != _NONE:
            place = lowest_bit(near)
            near &= near - _ONE
            mask = masks[place]
            masks[place] = _NONE
            if place < n_queries:
                query = group[0] + place
                keys, limit = found.keys[query], found.limits[query]
                tables, factor = queries.tables, queries.factors[query]
                count = _append(codes, tables, factor, query, tile, mask, limit, keys, found.counts[query])
                if count >= 2 * k:
                    found.limits[query] = _keep_smallest(keys, count, k, scratch.histogram)
                    _aim(found, query, n_bytes, queries, bounds, found.thresholds[query])
                    count = k
                found.counts[query] = count


@lean
def range_scan(codes, last_tile, queries, limits, thresholds, masks, resume, hits):
    """All codes with sums below the limits of at most 512 queries; see :class:`Found` for the thresholds.

    A hit is ``query << 54 | position``; the hits come in no order. ``resume`` is (tile, query): where to
    start, and on return where to go on because ``hits`` is full; the tile is ``last_tile`` or more at the end. Returns
    the number of hits, for ``hits`` of at least one block. ``masks`` is one word of zero.
    """
    tiles, n_bytes = codes.tiles, codes.n_bytes
    block = max(1, _CACHE_BYTES // (TILE * n_bytes))
    count = 0
    while resume[0] < last_tile:
        start = resume[0]
        end = min(start + block, last_tile)
        for query in range(resume[1], len(limits)):
            if count + block * TILE > hits.size:
                resume[1] = query
                return count
            first = count
            for tile in range(start, end):
                if codes.alive.size > 0 and codes.alive[tile] == _NONE:
                    continue
                arguments = tiles, tile, n_bytes, queries.coarse, codes.corrections, queries.coarse_factors
                near = near_by_sums(*arguments, (query,), thresholds, masks)
                if near != _NONE:
                    tables, factor = queries.tables, queries.factors[query]
                    count = _append(codes, tables, factor, query, tile, masks[0], limits[query], hits, count)
                    masks[0] = _NONE
            for i in range(first, count):
                hits[i] = (query << QUERY_SHIFT) | (hits[i] & POSITION_MASK)
        resume[0] = end
        resume[1] = 0
    return count


@lean
def sums_of_hits(codes, queries, hits, sums):
    """Write the sums of the hits of a range scan."""
    n_bytes = codes.n_bytes
    for i in range(hits.size):
        query, position = hits[i] >> QUERY_SHIFT, hits[i] & POSITION_MASK
        place, table = position // TILE * TILE * n_bytes + position % TILE, query * n_bytes * 2 * TABLE
        sums[i] = _correction(codes.corrections, position, queries.factors[query])
        sums[i] += _look_up(codes.tiles, place, n_bytes, queries.tables, table)


@lean
def _prefetch(array, first, n_lines):
    if array is not None:
        for line in range(n_lines):
            prefetch(array, first + line * 64)


@lean
def _append(codes, tables, factor, query, tile, mask, limit, keys, count):
    """Append the keys of a tile's codes with a bit in the mask and a sum below the limit; returns the new count.

    All queries as one argument would be slower: numba copies its five arrays for every call.
    """
    n_used = codes.n_codes - tile * TILE
    if n_used < TILE:
        mask &= (_ONE << np.uint64(n_used)) - _ONE
    if codes.alive.size > 0:
        mask &= codes.alive[tile]
    first, n_bytes = tile * TILE * codes.n_bytes, codes.n_bytes
    table = query * n_bytes * 2 * TABLE
    while mask != _NONE:
        lane = lowest_bit(mask)
        mask &= mask - _ONE
        position = tile * TILE + lane
        value = _correction(codes.corrections, position, factor)
        value += _look_up(codes.tiles, first + lane, n_bytes, tables, table)
        keys[count] = (value << POSITION_BITS) | position
        count += value < limit
    return count


@inlined
def _look_up(tiles, place, n_bytes, tables, table):
    """What one code looks up. Indices are unsigned, because numba makes a branch for those that might be negative."""
    total = np.uint64(0)
    place, table = np.uint64(place), np.uint64(table)
    for _ in range(n_bytes):
        code = np.uint64(tiles[place])
        total += np.uint64(tables[table + (code >> np.uint64(4))])
        total += np.uint64(tables[table + np.uint64(TABLE) + (code & np.uint64(15))])
        place += np.uint64(TILE)
        table += np.uint64(2 * TABLE)
    return np.int64(total)


@lean
def _correction(corrections, position, factor):
    return 0 if corrections is None else _times(corrections[position], factor)


@inlined
def _times(correction, factor):
    return (np.int64(correction) * np.int64(factor)) >> FACTOR_BITS


@lean
def _fill_bounds(bounds, n_bytes, queries, query, limit):
    """Write a query's tables in steps of limit / 255, rounded down: sums below the limit stay below 255.

    The tables of the two halves of a correction follow those of the code's bytes.
    """
    if bounds is None:
        return
    n_entries = n_bytes * 2 * TABLE
    exact, bound = query * n_entries, query * (n_entries + 2 * TABLE)
    most = np.uint64(max(1, limit))
    scale = (np.uint64(255) << _SCALE_BITS) // most
    for entry in range(n_entries):
        bounds[bound + entry] = (min(most, np.uint64(queries.tables[exact + entry])) * scale) >> _SCALE_BITS
    bound += n_entries
    for number in range(TABLE):
        for half in range(2):
            correction = np.uint64(_times(number << (4 - 4 * half), queries.factors[query]))
            bounds[bound + half * TABLE + number] = (min(most, correction) * scale) >> _SCALE_BITS


@lean
def _keep_smallest(keys, count, k, histogram):
    """Keep the k smallest of ``keys[:count]``, which ascend in position, in place and in order.

    A counting select, first by the upper digit of how far a sum is above the least and then by the next, without a
    branch that depends on the sums. Returns the sum of the k-th.
    """
    limit = highest = keys[0] >> POSITION_BITS
    for i in range(count):
        value = keys[i] >> POSITION_BITS
        limit, highest = min(limit, value), max(highest, value)
    shift = 0
    while (highest - limit) >> shift >= _N_DIGITS:
        shift += 1
    room_at_limit, n_bins = k, np.uint64(_N_DIGITS)
    while True:
        for digit in range(_N_DIGITS):
            histogram[digit] = 0
        for i in range(count):
            digit = np.uint64((keys[i] >> POSITION_BITS) - limit) >> np.uint64(shift)  # of lower sums it is large
            histogram[digit & np.uint64(_N_DIGITS - 1)] += digit < n_bins
        digit_of_kth, n_below = _digit_of_kth(histogram, room_at_limit)
        limit += digit_of_kth << shift
        room_at_limit -= n_below
        if shift == 0:
            break
        lower = max(0, shift - _DIGIT_BITS)
        n_bins = _ONE << np.uint64(shift - lower)
        shift = lower
    kept = 0
    for i in range(count):
        value = keys[i] >> POSITION_BITS
        at_limit = value == limit
        keys[kept] = keys[i]
        kept += (value < limit) | (at_limit & (room_at_limit > 0))
        room_at_limit -= at_limit
    return limit


@inlined
def _digit_of_kth(histogram, k):
    """The digit of the k-th smallest, and how many are below it."""
    digit = 0
    n_below = 0
    while n_below + histogram[digit] < k:
        n_below += histogram[digit]
        digit += 1
    return digit, n_below
