"""The nearest codes of real queries among those of some lists.

See :mod:`hashlearn.index.kernels.list_queries` for the integers that a code's **sum** is made of. A query looks at its
lists, the nearest first. Look-ups for 64 codes at once give their coarse sums
(:func:`hashlearn.index.kernels.look_up.near_in_list`). Where a coarse sum does not rule its code out, more look-ups
give the low parts of the sums of all 64. The codes with the least sums are the result, equal sums in the order of their
rows. So the result does not depend on the order in which lists are looked at, nor on what other queries are looked at
with it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled, lean, spliced
from hashlearn.index.kernels.list_queries import LARGEST_SUM, Geometry, Lists, Probes, ask, low_bits
from hashlearn.index.kernels.look_up import low_in_list, near_in_list
from hashlearn.index.kernels.simd import TILE, lowest_bit, prefetch
from hashlearn.index.kernels.sorting import sort_keys

KEY_SHIFT = 36
KEY_MASK = (1 << KEY_SHIFT) - 1
"""A key is ``sum << 36 | row``."""

QUERIES_PER_BLOCK = 128

_FIXED = 16  # bits behind the point of a factor for sums
_LARGEST_FACTOR = 24000  # for coarse sums: less than 65535 with those of the tables
_NO_MARGIN = np.int64(LARGEST_SUM)
_LARGEST_LIMIT = np.int64((1 << 27) - 1)  # of a sum, so that its key is a number of 64 bits
_NO_LIMIT = np.int64((1 << 63) - 1)
_N_BINS = 256
_GROUP = 4
_LINE = 64
_FEW = 8
_LOOKED_AT, _UNSEEN = 16, 1 / 16  # rows of each list that a filter is tried on; added for rows that were not tried
_NONE, _ONE = np.uint64(0), np.uint64(1)

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


class Kept(NamedTuple):
    """Which codes a query keeps: the ``most`` nearest, and of these only those not much farther than the ``near``-th.

    ``margin`` says how much, as a multiple of the query's reach (:class:`ListQueries`); infinity keeps all of them.
    """

    most: int
    near: int
    margin: float = np.inf


class ListKeys(NamedTuple):
    """The keys found so far, in row q those of query q, their number, and the key that new ones must be below.

    ``full`` is the number of keys from which on they are cut. ``margins`` are those of :class:`Kept` in units.
    """

    keys: NDArray[np.int64]
    counts: NDArray[np.int64]
    full: NDArray[np.int64]
    limits: NDArray[np.int64]
    margins: NDArray[np.int64]


class ListScratch(NamedTuple):
    """Memory to work with.

    ``thresholds`` and ``coarse_factors`` are those of each query for the list that is looked at. ``above`` and
    ``factors`` are, for each query of a group, how far the list's lowest estimate is above the query's, in units, and
    what a correction is multiplied by, with ``_FIXED`` bits behind the point. ``coarse`` and ``low`` are the
    parts of the sums of a tile, ``coarse`` for each query of a group.
    """

    coarse: NDArray[np.uint16]
    low: NDArray[np.uint16]
    masks: NDArray[np.uint64]
    thresholds: NDArray[np.uint16]
    coarse_factors: NDArray[np.uint16]
    above: NDArray[np.int64]
    factors: NDArray[np.int64]
    spare: NDArray[np.int64]
    bins: NDArray[np.int32]


@compiled
def knn_in_lists(lists, geometry, queries, probes, kept, allowed, distances, rows, probed):
    """The nearest codes of each query among its nearest lists.

    Named tuples come as plain ones, ``tuple(lists)``: a call from Python recognizes these in a quarter of the time.

    Parameters
    ----------
    lists : Lists
    geometry : Geometry
    queries : array of shape (n, d), float32, contiguous
        At most ``QUERIES_PER_BLOCK``.
    probes : Probes
    kept : Kept
    allowed : Allowed
    distances, rows : arrays of shape (n, kept.most), float32 and int64
        Get the estimates and rows, nearest first, ties by the lowest row; infinity and -1 where there are fewer.
    probed : array of shape (n,), int64
        Gets the number of lists that were looked at; others could not change the result.

    Returns
    -------
    bool
        Whether all queries are finite; otherwise nothing is written.
    """
    those = Kept(*kept)
    asked, found, scratch, is_finite = look(
        Lists(*lists), Geometry(*geometry), queries, Probes(*probes), those, Allowed(*allowed), probed
    )
    for q in range(len(queries) if is_finite else 0):
        count = end_of_look(found, q, those, scratch)
        sort_keys(found.keys[q], count, scratch.spare)
        _read(asked, q, found.keys[q], count, distances[q], rows[q])
    return is_finite


@compiled
def look(lists, geometry, queries, probes, kept, allowed, probed):
    """Look at the lists of queries: what they have found, from which :func:`end_of_look` takes the nearest."""
    n = len(queries)
    asked, is_finite = ask(lists, geometry, queries, probes)
    n_probes = asked.lists.shape[1]
    room = 4 * (kept.most + 2 * TILE)
    found, scratch = _empty(n, room, kept.near + kept.near // 2 + TILE), _scratch(n, room)
    if kept.margin < np.inf:
        for q in range(n if is_finite else 0):
            margin = kept.margin * asked.reaches[q] / asked.units[q]
            found.margins[q] = np.int64(min(margin, LARGEST_SUM - 1))
    probed[:] = 0
    # The nearest lists first, query by query: they set the limits with which the others are looked at.
    n_first = n_probes if n == 1 else min(n_probes, 1 + n_probes // 16)
    for q in range(n if is_finite else 0):
        for place in range(n_first):
            _look_at(lists, asked, q, place, allowed, found, scratch, kept, probed)
    if n_first < n_probes and is_finite:
        _look_together(lists, asked, n_first, allowed, found, scratch, kept, probed)
    return asked, found, scratch, is_finite


@lean
def end_of_look(found, q, kept, scratch):
    """Put the keys that a query keeps first, in any order; returns their number."""
    keys, count = found.keys[q], _cut(found, q, kept, scratch.bins)
    if found.margins[q] < _NO_MARGIN and count > kept.near:
        limit = _sum_of_place(keys, count, kept.near, scratch.bins) + found.margins[q] + 1
        count = _keep_below(keys, count, min(limit, _LARGEST_LIMIT) << KEY_SHIFT)
    return _drop_largest(keys, count, kept.most, scratch.spare)


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
    asked, is_finite = ask(lists, Geometry(*geometry), queries, Probes(*probes))
    hits, n_hits = np.empty(1024, np.int64), 0
    most = np.floor((distance - asked.bases[0]) / asked.units[0]) + 1 if is_finite else -1.0
    if most >= 0:
        room = lists.sizes.max() + TILE
        found, scratch, probed = _empty(1, room, room), _scratch(1, room), np.zeros(1, np.int64)
        found.limits[0] = np.int64(min(most + 1, np.float64(_LARGEST_LIMIT))) << KEY_SHIFT
        for place in range(asked.lists.shape[1]):
            _look_at(lists, asked, 0, place, allowed, found, scratch, Kept(1, 1), probed)
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
def expect(lists, allowed, expected):
    """Write about how many rows of each list may be found, from 16 rows of each: 8 in front, and 8 from the middle on.

    A list of which no row that may be found was seen may have some all the same: it counts as a few of the mean list.
    """
    n_seen, n_there = 0, 0
    for number in range(expected.size):
        size, first = lists.sizes[number], lists.first_tiles[number] * TILE
        count = np.float32(0)
        for i in range(min(size, _LOOKED_AT)):
            place = i if i < _LOOKED_AT // 2 else max(i, size // 2 + i - _LOOKED_AT // 2)
            row = np.int64(lists.rows[first + place])
            if _has_bit(allowed.chosen, row) and not _has_bit(allowed.removed, row):
                count += np.float32(1)
        n_seen += min(size, _LOOKED_AT)
        n_there += np.int64(count)
        expected[number] = count
    unseen = np.float32(_UNSEEN * n_there / max(1, n_seen))
    for number in range(expected.size):
        size = lists.sizes[number]
        n = np.float32(min(size, _LOOKED_AT)) + np.float32(_UNSEEN)
        expected[number] = np.float32(size) * (expected[number] + unseen) / n


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
        np.full(n, _NO_MARGIN),
    )


@compiled
def _scratch(n, room):
    return ListScratch(
        np.empty(_GROUP * TILE, np.uint16),
        np.empty(TILE, np.uint16),
        np.zeros(_GROUP, np.uint64),
        np.empty(n, np.uint16),
        np.empty(n, np.uint16),
        np.empty(_GROUP, np.int64),
        np.empty(_GROUP, np.int64),
        np.empty(room, np.int64),
        np.empty(_N_BINS, np.int32),
    )


@spliced
def _look_at(lists, asked, q, place, allowed, found, scratch, kept, probed):
    """One query looks at its list of this place, unless nothing there can be near enough."""
    number = asked.lists[q, place]
    if number < 0 or not _aim(lists, asked, q, place, number, found, scratch, 0):
        return
    probed[q] += 1
    following = asked.lists[q, place + 1] if place + 1 < asked.lists.shape[1] else -1
    ahead = lists.first_tiles[following] - lists.first_tiles[number] if following >= 0 else 0
    _scan(lists, number, ahead, asked, (q,), 1, allowed, found, scratch, kept)


@compiled
def _look_together(lists, asked, n_first, allowed, found, scratch, kept, probed):
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
        _visit(lists, number, visits[starts[number] : starts[number + 1]], asked, allowed, found, scratch, kept, probed)


@spliced
def _visit(lists, number, visits, asked, allowed, found, scratch, kept, probed):
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
                _scan(lists, number, 0, asked, (first, second, third, q), n, allowed, found, scratch, kept)
                n = 0
    if n == 1:
        _scan(lists, number, 0, asked, (first,), n, allowed, found, scratch, kept)
    elif n > 1:  # the last query fills the group up
        _scan(lists, number, 0, asked, (first, second, third, third), n, allowed, found, scratch, kept)


@spliced
def _aim(lists, asked, q, place, number, found, scratch, i):
    """Prepare a query, the i-th of a group, to look at a list. Returns whether there may be something near enough."""
    unit, n_low = asked.units[q], low_bits(lists.n_bytes)
    above = np.int64((np.float64(asked.levels[q, place]) + (lists.offsets[number] - lists.lowest)) / unit + 0.5)
    factor = np.int64(lists.scales[number] / unit * (1 << _FIXED))
    scratch.above[i], scratch.factors[i] = above, factor
    scratch.coarse_factors[q] = min(_LARGEST_FACTOR, factor >> (_FIXED + n_low - 8))
    scratch.thresholds[q] = _threshold(found.limits[q], above, n_low)
    return scratch.thresholds[q] > 0


@spliced
def _threshold(limit, above, n_low):
    """The coarse sum, of bits and correction, that codes must be below to have a key below the limit."""
    return max(0, min(65535, (((limit >> KEY_SHIFT) - above) >> n_low) + 1))


@spliced
def _scan(lists, number, ahead, asked, group, n_queries, allowed, found, scratch, kept):
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
            scratch.coarse,
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
            if i < n_queries and mask != _NONE:
                q = group[i]
                for place in range(tile * TILE, (tile + 1) * TILE, _LINE // lists.rows.itemsize):
                    prefetch(lists.rows, place)
                low_in_list(
                    lists.tiles,
                    tile,
                    lists.n_bytes,
                    asked.low,
                    None,
                    scratch.coarse_factors,
                    (q,),
                    scratch.thresholds,
                    scratch.low,
                )
                _append(lists, tile, mask, allowed, found, q, scratch, i)
                if found.counts[q] >= found.full[q]:
                    _make_room(found, q, kept, scratch)
                    scratch.thresholds[q] = _threshold(found.limits[q], scratch.above[i], low_bits(lists.n_bytes))


@spliced
def _append(lists, tile, mask, allowed, found, q, scratch, i):
    """Append the keys of a tile's codes with a bit in the mask, if their rows are allowed and they are below the limit.

    Indices are unsigned, because numba makes a branch for those that might be negative.
    """
    keys, count, limit = found.keys[q], np.uint64(found.counts[q]), found.limits[q]
    above, factor, n_low = scratch.above[i], scratch.factors[i], low_bits(lists.n_bytes)
    first, coarse = np.uint64(tile * TILE), np.uint64(i * TILE)
    corrections = np.uint64((tile * (lists.n_bytes + 1) + lists.n_bytes) * TILE)
    while mask != _NONE:
        lane = np.uint64(lowest_bit(mask))
        mask &= mask - _ONE
        row = np.int64(lists.rows[first + lane])
        if (allowed.chosen.size > 0 and not _has_bit(allowed.chosen, row)) or _has_bit(allowed.removed, row):
            continue
        total = (np.int64(scratch.coarse[coarse + lane]) << n_low) + np.int64(scratch.low[lane])
        correction = (np.int64(lists.tiles[corrections + lane]) * factor) >> _FIXED
        key = ((total + correction + above) << KEY_SHIFT) | row
        keys[count] = key
        count += np.uint64(key < limit)
    found.counts[q] = np.int64(count)


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
def _make_room(found, q, kept, scratch):
    """Cut the keys of a query; where too many have the same sum, by their rows."""
    keys, room = found.keys[q], found.keys.shape[1]
    count = _cut(found, q, kept, scratch.bins)
    if 2 * count > room:
        sort_keys(keys, count, scratch.spare)
        count = kept.most
        found.counts[q], found.limits[q] = count, keys[count - 1]
    found.full[q] = count + count // 2 + TILE


@lean
def _cut(found, q, kept, bins):
    """Drop keys that are not kept, but for some with sums just above; returns how many are left.

    The sums of the last ones that are kept are found by a histogram, to within the width of a bin.
    """
    keys, count, margin = found.keys[q], found.counts[q], found.margins[q]
    if count <= kept.near or (count <= kept.most and margin == _NO_MARGIN):
        return count
    low, high = keys[0], keys[0]
    for i in range(count):
        low, high = min(low, keys[i]), max(high, keys[i])
    low, width = low >> KEY_SHIFT, _count_bins(keys, count, low >> KEY_SHIFT, high >> KEY_SHIFT, bins)
    last, n_below = 0, np.int64(bins[0])
    while n_below < kept.near:
        last += 1
        n_below += bins[last]
    limit = low + ((last + 1) << width) + margin
    if count > kept.most:
        while n_below < kept.most:
            last += 1
            n_below += bins[last]
        limit = min(limit, low + ((last + 1) << width))
    found.limits[q] = min(found.limits[q], min(limit, _LARGEST_LIMIT) << KEY_SHIFT)
    found.counts[q] = _keep_below(keys, count, found.limits[q])
    return found.counts[q]


@lean
def _count_bins(keys, count, low, high, bins):
    """Count the keys whose sums are from ``low`` to ``high`` in bins; returns the logarithm of the width of a bin."""
    width = 0
    while (high - low) >> width >= _N_BINS:
        width += 1
    bins[:] = 0
    for i in range(count):
        total = keys[i] >> KEY_SHIFT
        if low <= total <= high:
            bins[(total - low) >> width] += 1
    return width


@lean
def _sum_of_place(keys, count, place, bins):
    """The ``place``-th least sum of the keys, the first being 1, by histograms of a bin of the one before."""
    low, high = keys[0] >> KEY_SHIFT, keys[0] >> KEY_SHIFT
    for i in range(count):
        low, high = min(low, keys[i] >> KEY_SHIFT), max(high, keys[i] >> KEY_SHIFT)
    while low < high:
        width = _count_bins(keys, count, low, high, bins)
        last = 0
        while bins[last] < place:
            place -= bins[last]
            last += 1
        low += last << width
        high = min(high, low + (1 << width) - 1)
    return low


@lean
def _keep_below(keys, count, limit):
    """Put the keys below a limit first, in their order; returns their number."""
    kept = 0
    for i in range(count):
        key = keys[i]
        keys[kept] = key
        kept += key < limit
    return kept
