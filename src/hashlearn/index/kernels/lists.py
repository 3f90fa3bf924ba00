"""The nearest codes of real queries among those of some lists.

A code stands for a residual: what its row is beside the center of its list. With the products of a query with centers
and words, the **estimate** of a code is::

    level of the list for this query  +  offset of the list + scale of the list * correction  +  what its bits look up

The search computes with integers, multiples of a **unit** of the query above its lowest estimate:

- the **sum** of a code is exact: entries of 16 bits, 65,000 units for the widest table, and up to 2^27 units in all;
- its **coarse** sum is at most sum / divisor, with entries of 8 bits. It comes from the look-ups for 64 codes at once
  (:func:`hashlearn.index.kernels.look_up.near_in_list`).

A query looks at its lists, the nearest first. Where the coarse sum of a code does not rule it out, its sum is computed.
The k codes with the least sums are the result, equal sums in the order of their rows. So the result does not depend on
the order in which lists are looked at, nor on what other queries are looked at with it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled, fast, lean, spliced
from hashlearn.index.kernels.look_up import TABLE, near_in_list
from hashlearn.index.kernels.products import products
from hashlearn.index.kernels.rounding import coarsen, divisor_of
from hashlearn.index.kernels.simd import TILE, lowest_bit, prefetch
from hashlearn.index.kernels.sorting import sort_keys

KEY_SHIFT = 36
KEY_MASK = (1 << KEY_SHIFT) - 1
"""A key is ``sum << 36 | row``."""

LARGEST_LEVEL = 3e38
"""The level of empty lists."""

QUERIES_PER_BLOCK = 128

_WIDEST = 65000.0  # of 65535: rounding adds a half for each of four bits
_LARGEST_SUM = float(1 << 26)
_LARGEST_TABLES, _LARGEST_CORRECTION = 40000, 24000  # of 65534, in coarse sums
_FIXED = 16  # bits behind the point of a factor for sums; half of them for coarse sums
_LESS = 1 - 1e-12  # so that a product with an inverse is never above the quotient
_NO_LIMIT = np.int64((1 << 63) - 1)
_N_BINS = 256
_GROUP = 4
_FEW = 8
_NONE, _ONE = np.uint64(0), np.uint64(1)


class Lists(NamedTuple):
    """Codes in lists. A list is whole tiles, one behind the other, of n_bytes + 1 bytes for every code.

    Attributes
    ----------
    tiles : array, uint8
    rows : array, uint32 or int64
        Of every place of the tiles.
    first_tiles, sizes : arrays of shape (n_lists,), int64
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
    centers, words : arrays, float32
        In tiles (:func:`hashlearn.index.kernels.products.vector_tiles`).
    n_words : int
        One for each bit, in whole bytes, or 16 for each four bits.
    cross : float
        What products are multiplied by.
    square : float
        Times the squared length of a query, it is added to its estimates.
    is_unit : bool
        Are queries scaled to length one?
    """

    centers: NDArray[np.float32]
    words: NDArray[np.float32]
    n_words: int
    cross: float
    square: float
    is_unit: bool


class Probes(NamedTuple):
    """Which lists a query looks at: the nearest ones until they hold a share of its weight, ``most`` at the most.

    The weight of a list is its size times 2 to the power of ``-sharpness`` times its level above the nearest: about in
    proportion to the number of neighbors that it is expected to hold. A share of 1 is ``most`` lists.
    """

    most: int
    share: float = 1.0
    sharpness: float = 0.0


NO_BITS = np.empty(0, np.uint8)


class Allowed(NamedTuple):
    """Which rows may be found, by a bit of each in bytes: the chosen ones, or all without bits, and no removed one.

    Arrays in any case, so that searches of all rows, of some, and after a removal are one kernel.
    """

    chosen: NDArray[np.uint8] = NO_BITS
    removed: NDArray[np.uint8] = NO_BITS

    def mask(self, present: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which rows may be found, of those that are there."""
        if self.chosen.size == 0:
            return present
        return np.unpackbits(self.chosen, count=len(present), bitorder="little").view(bool) & present


class ListQueries(NamedTuple):
    """Queries as integers, in row q those of query q.

    Attributes
    ----------
    tables : array of shape (n, 32 * n_bytes), uint16
    coarse : array of shape (n * 32 * n_bytes,), uint8
    bases, units : arrays of shape (n,), float64
        An estimate is ``base + unit * sum``.
    inverses : array of shape (n,), float64
        A little less than one over the divisor of each.
    lists : array of shape (n, n_probes), int64
        The nearest lists, nearest first; -1 where there are fewer.
    levels : array of shape (n, n_probes), float32
        Of these lists, above the nearest.
    """

    tables: NDArray[np.uint16]
    coarse: NDArray[np.uint8]
    bases: NDArray[np.float64]
    units: NDArray[np.float64]
    inverses: NDArray[np.float64]
    lists: NDArray[np.int64]
    levels: NDArray[np.float32]


class ListKeys(NamedTuple):
    """The keys found so far, in row q those of query q, their number, and the key that new ones must be below.

    ``full`` is the number of keys from which on they are cut.
    """

    keys: NDArray[np.int64]
    counts: NDArray[np.int64]
    full: NDArray[np.int64]
    limits: NDArray[np.int64]


class ListScratch(NamedTuple):
    """Memory to work with.

    ``thresholds`` and ``coarse_factors`` are those of each query for the list that is looked at. ``above`` and
    ``factors`` are, for each query of a group, how far the list's lowest estimate is above the query's, in units, and
    what a correction is multiplied by, with ``_FIXED`` bits behind the point.
    """

    masks: NDArray[np.uint64]
    thresholds: NDArray[np.uint16]
    coarse_factors: NDArray[np.uint16]
    above: NDArray[np.int64]
    factors: NDArray[np.int64]
    spare: NDArray[np.int64]
    bins: NDArray[np.int32]


@compiled
def knn_in_lists(lists, geometry, queries, probes, k, allowed, distances, rows, probed):
    """The k nearest codes of each query among its nearest lists.

    Named tuples come as plain ones, ``tuple(lists)``: a call from Python recognizes these in a quarter of the time.

    Parameters
    ----------
    lists : Lists
    geometry : Geometry
    queries : array of shape (n, d), float32, contiguous
        At most ``QUERIES_PER_BLOCK``.
    probes : Probes
    k : int
    allowed : Allowed
    distances, rows : arrays of shape (n, k), float32 and int64
        Get the estimates and rows, nearest first, ties by the lowest row; infinity and -1 where there are fewer than k.
    probed : array of shape (n,), int64
        Gets the number of lists that were looked at; others could not change the result.

    Returns
    -------
    bool
        Whether all queries are finite; otherwise nothing is written.
    """
    asked, found, scratch, is_finite = look(
        Lists(*lists), Geometry(*geometry), queries, Probes(*probes), k, Allowed(*allowed), probed
    )
    for q in range(len(queries) if is_finite else 0):
        keys, count = found.keys[q], _cut(found, q, k, scratch.bins)
        sort_keys(keys, count, scratch.spare)
        _read(asked, q, keys, min(k, count), distances[q], rows[q])
    return is_finite


@compiled
def rows_in_lists(lists, geometry, queries, probes, k, allowed, rows, probed):
    """As :func:`knn_in_lists`, the rows alone and in any order, -1 behind them; for kernels, with named tuples."""
    _, found, scratch, is_finite = look(lists, geometry, queries, probes, k, allowed, probed)
    for q in range(len(queries) if is_finite else 0):
        keys, count = found.keys[q], _cut(found, q, k, scratch.bins)
        count = _drop_largest(keys, count, k, scratch.spare)
        for i in range(k):
            rows[q, i] = keys[i] & KEY_MASK if i < count else -1
    return is_finite


@compiled
def look(lists, geometry, queries, probes, k, allowed, probed):
    """Look at the lists of queries: what they have found, from which :func:`_cut` takes the k nearest."""
    n = len(queries)
    asked, is_finite = _ask(lists, geometry, queries, probes)
    n_probes = asked.lists.shape[1]
    room = 4 * (k + 2 * TILE)
    found, scratch = _empty(n, room, k + k // 2 + TILE), _scratch(n, room)
    probed[:] = 0
    # The nearest lists first, query by query: they set the limits with which the others are looked at.
    n_first = n_probes if n == 1 else min(n_probes, 1 + n_probes // 16)
    for q in range(n if is_finite else 0):
        for place in range(n_first):
            _look_at(lists, asked, q, place, allowed, found, scratch, k, probed)
    if n_first < n_probes and is_finite:
        _look_together(lists, asked, n_first, allowed, found, scratch, k, probed)
    return asked, found, scratch, is_finite


@compiled
def within_lists(of_lists, geometry, queries, probes, distance, of_allowed):
    """All codes whose estimate is not above a distance among the nearest lists of one query.

    The arguments are those of :func:`knn_in_lists`.

    Returns
    -------
    distances, rows : arrays, float32 and int64
        Nearest first, ties by the lowest row.
    is_finite : bool
    """
    lists, allowed = Lists(*of_lists), Allowed(*of_allowed)
    asked, is_finite = _ask(lists, Geometry(*geometry), queries, Probes(*probes))
    hits, n_hits = np.empty(1024, np.int64), 0
    most = np.floor((distance - asked.bases[0]) / asked.units[0]) + 1 if is_finite else -1.0
    if most >= 0:
        room = lists.sizes.max() + TILE
        found, scratch, probed = _empty(1, room, room), _scratch(1, room), np.zeros(1, np.int64)
        found.limits[0] = (np.int64(min(most, 2 * _LARGEST_SUM)) + 1) << KEY_SHIFT
        for place in range(asked.lists.shape[1]):
            _look_at(lists, asked, 0, place, allowed, found, scratch, 1, probed)
            count = found.counts[0]
            if n_hits + count > len(hits):
                longer = np.empty(2 * (n_hits + count), np.int64)
                longer[:n_hits] = hits[:n_hits]
                hits = longer
            hits[n_hits : n_hits + count] = found.keys[0, :count]
            n_hits += count
            found.counts[0] = 0
    distances, rows = np.empty(n_hits, np.float32), np.empty(n_hits, np.int64)
    sort_keys(hits, n_hits, rows)
    _read(asked, 0, hits, n_hits, distances, rows)
    while n_hits > 0 and distances[n_hits - 1] > distance:  # rounding, of the limit and to single precision
        n_hits -= 1
    return distances[:n_hits], rows[:n_hits], is_finite


@lean
def _read(asked, q, keys, count, distances, rows):
    """Write what keys stand for; they are sorted."""
    for i in range(count):
        rows[i] = keys[i] & KEY_MASK
        distances[i] = np.float32(asked.bases[q] + asked.units[q] * (keys[i] >> KEY_SHIFT))
    for i in range(count, len(rows)):
        rows[i] = -1
        distances[i] = np.inf


@compiled
def _empty(n, room, full):
    return ListKeys(
        np.empty((n, room), np.int64),
        np.zeros(n, np.int64),
        np.full(n, full),
        np.full(n, _NO_LIMIT),
    )


@compiled
def _scratch(n, room):
    return ListScratch(
        np.zeros(_GROUP, np.uint64),
        np.empty(n, np.uint16),
        np.empty(n, np.uint16),
        np.empty(_GROUP, np.int64),
        np.empty(_GROUP, np.int64),
        np.empty(room, np.int64),
        np.empty(_N_BINS, np.int32),
    )


@compiled
def _ask(lists, geometry, queries, probes):
    """The queries as integers, with their nearest lists; and whether they are finite."""
    n, d = queries.shape
    n_lists, n_entries = len(lists.sizes), lists.n_bytes * 2 * TABLE
    seen, squares = np.empty((n, d), np.float32), np.empty(n, np.float32)
    is_finite = _see(geometry, queries, seen, squares)
    levels = np.empty((n, geometry.centers.size // d), np.float32)
    products(geometry.centers, d, seen, levels)
    weights = np.empty((n, geometry.words.size // d), np.float32)
    products(geometry.words, d, seen, weights)
    ends, counts = np.empty((n, 3), np.float32), np.zeros(n, np.int64)
    by_list, spare_levels = np.empty(n_lists, np.float32), np.empty(n_lists + 1, np.float32)
    for q in range(n if is_finite else 0):
        near, far = _set_levels(lists.levels, np.float32(geometry.cross), levels[q])
        ends[q, 0], ends[q, 1] = near, far
        if probes.share < 1:
            _weigh(levels[q], lists.sizes, near, np.float32(probes.sharpness), by_list)
            ends[q, 2] = _level_of_share(levels[q], by_list, near, far, probes.share, spare_levels)
        else:
            ends[q, 2] = _level_above(levels[q], n_lists, near, far, probes.most)
        counts[q] = _n_below(levels[q], n_lists, ends[q, 2])
    n_probes = min(probes.most, max(1, counts.max())) if probes.share < 1 and n > 0 else probes.most
    asked = ListQueries(
        np.empty((n, n_entries), np.uint16),
        np.empty(n * n_entries, np.uint8),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty((n, n_probes), np.int64),
        np.empty((n, n_probes), np.float32),
    )
    raw = np.empty(n_entries, np.float32)
    order, spare = np.empty(n_lists + 1, np.int64), np.empty(n_lists, np.int64)
    for q in range(n if is_finite else 0):
        near, far = ends[q, 0], ends[q, 1]
        _rank(levels[q], n_lists, near, ends[q, 2], order, spare, asked.lists[q], asked.levels[q])
        least, total, widest = _entries(geometry, weights[q], raw)
        reach = np.float64(far) - near + lists.spread + total
        unit = max(widest / _WIDEST, reach / _LARGEST_SUM, 1e-30)
        _round(raw, asked.tables[q], unit)
        largest_correction = 255 * lists.widest_scale / unit
        divisor = divisor_of(asked.tables[q], float(_LARGEST_TABLES), largest_correction / _LARGEST_CORRECTION)
        coarsen(asked.tables[q], divisor, asked.coarse[q * n_entries : (q + 1) * n_entries])
        asked.bases[q] = np.float64(near) + lists.lowest + least + geometry.square * squares[q]
        asked.units[q], asked.inverses[q] = unit, _LESS / divisor
    return asked, is_finite


@lean
def _see(geometry, queries, seen, squares):
    """Write the queries as the method sees them, and their squared lengths; returns whether they are finite."""
    total = np.float32(0)
    for q in range(len(queries)):
        square = np.float32(0)
        for i in range(queries.shape[1]):
            square += queries[q, i] * queries[q, i]
        scale = np.float32(1)
        if geometry.is_unit and square > 0:
            scale = np.float32(1 / np.sqrt(square))
        for i in range(queries.shape[1]):
            seen[q, i] = queries[q, i] * scale
        squares[q] = square * scale * scale
        total += squares[q] * np.float32(0)
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
    count = np.uint64(0)
    for i in range(n_lists):
        bits = np.int64(np.float32(levels[i] - near).view(np.uint32))  # of no negative number: they ascend
        order[count] = (bits << 32) | i
        count += np.uint64(levels[i] <= limit)
    sort_keys(order, np.int64(count), spare)
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
def _weigh(levels, sizes, near, sharpness, weights):
    """Write the weights of lists (:class:`Probes`); powers of two are linear between whole exponents."""
    for i in range(weights.size):
        exponent = max(np.float32(-100), sharpness * (near - levels[i]))
        bits = np.int32((exponent + np.float32(127)) * np.float32(1 << 23))
        weights[i] = np.float32(sizes[i]) * bits.view(np.float32)


@fast
def _level_of_share(levels, weights, near, far, share, spare):
    """The least level, by bisection, whose lists hold a share of all weights; overwrites the weights.

    After a few steps, only the lists between both ends are added up.
    """
    total = np.float32(0)
    for i in range(weights.size):
        total += weights[i]
    wanted = np.float32(share) * total
    for _ in range(4):
        middle = near + (far - near) / 2
        if _held(levels, weights, weights.size, middle) < wanted:
            near = middle
        else:
            far = middle
    below, count = np.float32(0), np.uint64(0)
    for i in range(weights.size):
        level, weight = levels[i], weights[i]
        below += weight if level <= near else np.float32(0)
        spare[count], weights[count] = level, weight
        count += np.uint64((level > near) & (level <= far))
    for _ in range(12):
        middle = near + (far - near) / 2
        if below + _held(spare, weights, np.int64(count), middle) < wanted:
            near = middle
        else:
            far = middle
    return far


@fast
def _held(levels, weights, n, limit):
    """The weight of lists up to a level."""
    held = np.float32(0)
    for i in range(n):
        held += weights[i] if levels[i] <= limit else np.float32(0)
    return held


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
    """Write the entries of the tables above the least of each; returns their least sum, total and largest spreads."""
    cross = -np.float32(geometry.cross)
    least, total, widest = 0.0, 0.0, 0.0
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
        widest = max(widest, np.float64(spread))
    return least, total, widest


@lean
def _round(raw, tables, unit):
    inverse = np.float32(1 / unit)
    for entry in range(raw.size):
        tables[entry] = np.uint16(min(np.float32(65535), raw[entry] * inverse + np.float32(0.5)))


@spliced
def _look_at(lists, asked, q, place, allowed, found, scratch, k, probed):
    """One query looks at its list of this place, unless nothing there can be near enough."""
    number = asked.lists[q, place]
    if number < 0 or not _aim(lists, asked, q, place, number, found, scratch, 0):
        return
    probed[q] += 1
    following = asked.lists[q, place + 1] if place + 1 < asked.lists.shape[1] else -1
    ahead = lists.first_tiles[following] - lists.first_tiles[number] if following >= 0 else 0
    _scan(lists, number, ahead, asked, (q,), 1, allowed, found, scratch, k)


@compiled
def _look_together(lists, asked, n_first, allowed, found, scratch, k, probed):
    """All queries look at their lists from place ``n_first`` on, list by list, so that a list is read once."""
    n, n_probes = asked.lists.shape
    starts = np.zeros(len(lists.sizes) + 1, np.int64)
    for q in range(n):
        for place in range(n_first, n_probes):
            if asked.lists[q, place] >= 0:
                starts[asked.lists[q, place] + 1] += 1
    for number in range(len(lists.sizes)):
        starts[number + 1] += starts[number]
    ends = starts[:-1].copy()
    visits = np.empty(starts[-1], np.int64)
    for q in range(n):
        for place in range(n_first, n_probes):
            number = asked.lists[q, place]
            if number >= 0:
                visits[ends[number]] = q * n_probes + place
                ends[number] += 1
    for number in range(len(lists.sizes)):
        _visit(lists, number, visits[starts[number] : starts[number + 1]], asked, allowed, found, scratch, k, probed)


@spliced
def _visit(lists, number, visits, asked, allowed, found, scratch, k, probed):
    """The queries that want a list look at it, four at a time."""
    n_probes = asked.lists.shape[1]
    n = 0
    first = second = third = np.int64(0)
    for i in range(len(visits)):
        q, place = visits[i] // n_probes, visits[i] % n_probes
        if _aim(lists, asked, q, place, number, found, scratch, n):
            probed[q] += 1
            n += 1
            if n == 1:
                first = second = third = q
            elif n == 2:
                second = third = q
            elif n == 3:
                third = q
            else:
                _scan(lists, number, 0, asked, (first, second, third, q), n, allowed, found, scratch, k)
                n = 0
    if n == 1:
        _scan(lists, number, 0, asked, (first,), n, allowed, found, scratch, k)
    elif n > 1:  # the last query fills the group up
        _scan(lists, number, 0, asked, (first, second, third, third), n, allowed, found, scratch, k)


@spliced
def _aim(lists, asked, q, place, number, found, scratch, i):
    """Prepare a query, the i-th of a group, to look at a list. Returns whether there may be something near enough."""
    unit, inverse = asked.units[q], asked.inverses[q]
    above = np.int64((np.float64(asked.levels[q, place]) + (lists.offsets[number] - lists.lowest)) / unit + 0.5)
    factor = np.int64(lists.scales[number] / unit * (1 << _FIXED))
    scratch.above[i], scratch.factors[i] = above, factor
    scratch.coarse_factors[q] = np.int64(factor * inverse) >> (_FIXED // 2)
    scratch.thresholds[q] = _threshold(found.limits[q], inverse, above)
    return scratch.thresholds[q] > 0


@spliced
def _threshold(limit, inverse, above):
    """The coarse sum, of bits and correction, that codes must be below to have a key below the limit.

    The difference of two rounded quotients is the exact one or one less; the last 2 leaves room for that.
    """
    return max(0, min(65535, np.int64((limit >> KEY_SHIFT) * inverse) - np.int64(above * inverse) + 2))


@spliced
def _scan(lists, number, ahead, asked, group, n_queries, allowed, found, scratch, k):
    """The first ``n_queries`` of a group look at a list; the tiles so far ahead are asked for meanwhile."""
    first, size, n_planes = lists.first_tiles[number], lists.sizes[number], lists.n_bytes + 1
    masks = scratch.masks
    for tile in range(first, first + (size + TILE - 1) // TILE):
        if ahead != 0:
            for plane in range(n_planes):
                prefetch(lists.tiles, ((tile + ahead) * n_planes + plane) * TILE)
        near = near_in_list(
            lists.tiles,
            tile,
            lists.n_bytes,
            asked.coarse,
            None,
            scratch.coarse_factors,
            group,
            scratch.thresholds,
            masks,
        )
        while near != _NONE:
            i = lowest_bit(near)
            near &= near - _ONE
            mask = masks[i]
            masks[i] = _NONE
            n_used = size - (tile - first) * TILE
            if n_used < TILE:
                mask &= (_ONE << np.uint64(n_used)) - _ONE
            if i < n_queries:
                q = group[i]
                _append(lists, tile, mask, asked.tables[q], allowed, found, q, scratch, i)
                if found.counts[q] >= found.full[q]:
                    _make_room(found, q, k, scratch)
                    scratch.thresholds[q] = _threshold(found.limits[q], asked.inverses[q], scratch.above[i])


@spliced
def _append(lists, tile, mask, tables, allowed, found, q, scratch, i):
    """Append the keys of a tile's codes with a bit in the mask, if their rows are allowed and they are below the limit.

    Indices are unsigned, because numba makes a branch for those that might be negative.
    """
    keys, count, limit = found.keys[q], found.counts[q], found.limits[q]
    above, factor, n_planes = scratch.above[i], scratch.factors[i], lists.n_bytes + 1
    while mask != _NONE:
        lane = lowest_bit(mask)
        mask &= mask - _ONE
        row = np.int64(lists.rows[tile * TILE + lane])
        if (allowed.chosen.size > 0 and not _has_bit(allowed.chosen, row)) or _has_bit(allowed.removed, row):
            continue
        place, table = np.uint64(tile * TILE * n_planes + lane), np.uint64(0)
        total = np.uint64(0)
        for _ in range(lists.n_bytes):
            code = np.uint64(lists.tiles[place])
            total += np.uint64(tables[table + (code >> np.uint64(4))])
            total += np.uint64(tables[table + np.uint64(TABLE) + (code & np.uint64(15))])
            place += np.uint64(TILE)
            table += np.uint64(2 * TABLE)
        correction = (np.int64(lists.tiles[place]) * factor) >> _FIXED
        key = ((np.int64(total) + correction + above) << KEY_SHIFT) | row
        keys[count] = key
        count += key < limit
    found.counts[q] = count


@spliced
def _has_bit(bits, row):
    """The bit of a row, the first the lowest of the first byte; rows behind the last have none."""
    return row < 8 * bits.size and (bits[row >> 3] >> np.uint8(row & 7)) & 1 != 0


@lean
def _drop_largest(keys, count, k, spare):
    """Put the k smallest keys first, in any order; returns their number."""
    if count - k > _FEW:
        sort_keys(keys, count, spare)
        return k
    while count > k:
        largest = 0
        for i in range(1, count):
            if keys[i] > keys[largest]:
                largest = i
        count -= 1
        keys[largest] = keys[count]
    return count


@lean
def _make_room(found, q, k, scratch):
    """Cut the keys of a query; where too many have the same sum, by their rows."""
    keys, room = found.keys[q], found.keys.shape[1]
    count = _cut(found, q, k, scratch.bins)
    if 2 * count > room:
        sort_keys(keys, count, scratch.spare)
        found.counts[q], found.limits[q] = k, keys[k - 1]
        count = k
    found.full[q] = count + k // 2 + TILE


@lean
def _cut(found, q, k, bins):
    """Keep the k smallest keys, and those with nearly the sum of the k-th; returns their number.

    The sum of the k-th is found by a histogram, to within the width of a bin.
    """
    keys, count = found.keys[q], found.counts[q]
    if count <= k:
        return count
    low, high = keys[0], keys[0]
    for i in range(count):
        low, high = min(low, keys[i]), max(high, keys[i])
    low, high = low >> KEY_SHIFT, high >> KEY_SHIFT
    width = 0
    while (high - low) >> width >= _N_BINS:
        width += 1
    bins[:] = 0
    for i in range(count):
        bins[((keys[i] >> KEY_SHIFT) - low) >> width] += 1
    last, n_below = 0, np.int64(bins[0])
    while n_below < k:
        last += 1
        n_below += bins[last]
    limit = min(found.limits[q], (low + ((last + 1) << width)) << KEY_SHIFT)
    kept = 0
    for i in range(count):
        key = keys[i]
        keys[kept] = key
        kept += key < limit
    found.counts[q], found.limits[q] = kept, limit
    return kept
