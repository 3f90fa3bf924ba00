"""Every code against every query.

A block of tiles small enough for the first-level cache meets all queries before the next block is read. A result is
one integer, ``distance << 40 | position``, so that the order of the integers is the order of the results: nearest
first, ties by the lowest position.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled, lean
from hashlearn.index.kernels.simd import (
    FOLDING_PAYS,
    TILE,
    any_below,
    any_folded_below,
    any_folded_pairs_below,
    any_front_below,
    any_front_pairs_below,
    any_pairs_below,
    lowest_bit,
    mask_below,
    popcount,
    prefetch,
)

POSITION_BITS = 40
POSITION_MASK = (1 << POSITION_BITS) - 1
QUERY_SHIFT = 54  # above the 14 bits of a distance: room for 512 queries in one int64
QUERIES_PER_BLOCK = 512

_CACHE_BYTES = 32768

# How a tile is first looked at, the cheapest first; see first_look and the functions of the same names in simd.
FOLDED, FOLDED_PAIRS, FRONT_PAIRS, FRONT, PAIRS, ALL = range(6)


class RangeQueries(NamedTuple):
    """At most 512 queries for all codes within a radius; query q sees the positions from ``first_positions[q]`` on."""

    words: NDArray[np.unsignedinteger]
    first_positions: NDArray[np.int64]
    radius: int


@lean
def keep_smallest(keys, count, k, histogram):
    """Keep the k smallest of ``keys[:count]``, which ascend in position, in place and in order.

    A counting select over the distances: no heap, no comparisons. Returns the distance of the k-th.
    """
    histogram[:] = 0
    for i in range(count):
        histogram[keys[i] >> POSITION_BITS] += 1
    nearer = 0
    distance = 0
    while nearer + histogram[distance] < k:
        nearer += histogram[distance]
        distance += 1
    room_at_distance = k - nearer
    kept = 0
    for i in range(count):
        d = keys[i] >> POSITION_BITS
        if d < distance or (d == distance and room_at_distance > 0):
            if d == distance:
                room_at_distance -= 1
            keys[kept] = keys[i]
            kept += 1
    return distance


class LookLimits(NamedTuple):
    """The limits below which each kind of look tells of most tiles that they hold nothing nearer."""

    folded: int
    folded_pairs: int
    front_pairs: int
    front: int
    pairs: int


@lean
def _limit_of_look(n_counted, share):
    """The limit that random codes stay above, by four standard deviations.

    The look counts ``n_counted`` bits, of which this share differ on average.
    """
    return int(n_counted * share - 4.0 * math.sqrt(n_counted * share * (1.0 - share)))


@lean
def look_limits(tiles):
    """Bits of random codes differ with probability 1/2; of two, either does with 3/4; of four, any with 15/16."""
    word_bits = tiles.front.itemsize * 8
    n_bits = tiles.n_front * word_bits
    n_pairs = tiles.n_front // 2 * word_bits
    return LookLimits(
        _limit_of_look(n_bits // 2, 0.75) if FOLDING_PAYS and tiles.n_front == 1 else 0,
        _limit_of_look(n_pairs // 2, 0.9375) if FOLDING_PAYS else 0,
        _limit_of_look(n_pairs, 0.75),
        _limit_of_look(n_bits, 0.5) if tiles.n_back > 0 else 0,
        _limit_of_look(n_bits, 0.75) if tiles.n_back > 0 else 0,
    )


@lean
def first_look(limits, limit):
    """The cheapest kind of look that serves for this limit."""
    if limit < limits.folded:
        return FOLDED
    if limit < limits.folded_pairs:
        return FOLDED_PAIRS
    if limit < limits.front_pairs:
        return FRONT_PAIRS
    if limit < limits.front:
        return FRONT
    if limit < limits.pairs:
        return PAIRS
    return ALL


@lean
def next_near(tiles, tile, last_tile, words, offset, look, limit):
    """The first tile from ``tile`` on that may hold a code nearer than the limit, by a look of this kind.

    Apart from the rest because it is where the time goes: alone, all it needs stays in registers.
    """
    if look == FOLDED:
        while tile < last_tile and not any_folded_below(tiles, tile, words, offset, limit):
            tile += 1
    elif look == FOLDED_PAIRS:
        while tile < last_tile and not any_folded_pairs_below(tiles, tile, words, offset, limit):
            tile += 1
    elif look == FRONT_PAIRS:
        while tile < last_tile and not any_front_pairs_below(tiles, tile, words, offset, limit):
            tile += 1
    elif look == FRONT:
        while tile < last_tile and not any_front_below(tiles, tile, words, offset, limit):
            tile += 1
    elif look == PAIRS:
        while tile < last_tile and not any_pairs_below(tiles, tile, words, offset, limit):
            tile += 1
    else:
        while tile < last_tile and not any_below(tiles, tile, words, offset, limit):
            tile += 1
    return tile


@lean
def near_mask(tiles, tile, words, offset, limit):
    """64 bits: bit i is one if the tile has a code i that is alive and nearer than the limit."""
    mask = mask_below(tiles, tile, words, offset, limit)
    if tiles.alive.size > 0:
        mask &= tiles.alive[tile]
    used = tiles.n_codes - tile * TILE
    if used >= TILE:
        return mask
    return mask & ((np.uint64(1) << np.uint64(used)) - np.uint64(1))


@lean
def distance_at(tiles, position, words, offset):
    """Distance of one code to the query at ``words[offset:]``."""
    tile, lane = position // TILE, position % TILE
    total = 0
    for word in range(tiles.n_front):
        total += popcount(tiles.front[(tile * tiles.n_front + word) * TILE + lane] ^ words[offset + word])
    offset += tiles.n_front
    for word in range(tiles.n_back):
        total += popcount(tiles.back[(tile * tiles.n_back + word) * TILE + lane] ^ words[offset + word])
    return total


@lean
def _collect(tiles, tile, words, offset, limit, found, count):
    """Append the codes of a tile that are nearer than the limit; returns the new count."""
    mask = near_mask(tiles, tile, words, offset, limit)
    while mask != np.uint64(0):
        position = tile * TILE + lowest_bit(mask)
        mask &= mask - np.uint64(1)
        found[count] = (distance_at(tiles, position, words, offset) << POSITION_BITS) | position
        count += 1
    return count


@lean
def tiles_per_block(tiles):
    """How many tiles the first-level cache holds the front of."""
    return max(1, _CACHE_BYTES // (TILE * tiles.n_front * tiles.front.itemsize))


@lean
def _prefetch_part(words, first, size, part, n_parts):
    """Prefetch part ``part`` of ``n_parts`` of the next block, which is read after all queries have met this one."""
    line = 64 // words.itemsize
    last = min(words.size, first + size * (part + 1) // n_parts)
    for place in range(first + size * part // n_parts, last, line):
        prefetch(words, place)


@compiled
def knn_scan(tiles, first_tile, last_tile, queries, limit, k, keys):
    """The k nearest codes among the tiles ``first_tile:last_tile``, for each query.

    ``queries`` has shape (n_queries, n_words). Row q of ``keys``, of shape (n_queries, k), gets the results in no
    order, filled with -1 where there are fewer than k. A query's limit is ``limit``, at most n_bits + 1, and then the
    k-th distance it has found so far: a tile costs one comparison unless it holds something nearer, and what it holds
    goes to a buffer which is cut to k when it is full.
    """
    n_queries, n_words = queries.shape
    words = queries.reshape(-1)
    n_bits = n_words * tiles.front.itemsize * 8
    capacity = k + k // 2 + 1
    found = np.empty((n_queries, capacity + TILE), np.int64)
    counts = np.zeros(n_queries, np.int64)
    limits = np.full(n_queries, limit, np.int64)
    histogram = np.zeros(n_bits + 1, np.int64)
    block = tiles_per_block(tiles)
    looks = look_limits(tiles)
    front_words, back_words = TILE * tiles.n_front, TILE * tiles.n_back
    for block_start in range(first_tile, last_tile, block):
        block_end = min(block_start + block, last_tile)
        for query in range(n_queries):
            limit = limits[query]
            count = counts[query]
            offset = query * n_words
            look = first_look(looks, limit)
            if n_queries > 1:
                _prefetch_part(tiles.front, block_end * front_words, block * front_words, query, n_queries)
                if look >= PAIRS:
                    _prefetch_part(tiles.back, block_end * back_words, block * back_words, query, n_queries)
            tile = next_near(tiles, block_start, block_end, words, offset, look, limit)
            while tile < block_end:
                count = _collect(tiles, tile, words, offset, limit, found[query], count)
                if count >= capacity:
                    limit = keep_smallest(found[query], count, k, histogram)
                    count = k
                tile = next_near(tiles, tile + 1, block_end, words, offset, look, limit)
            counts[query] = count
            limits[query] = limit
    for query in range(n_queries):
        count = counts[query]
        if count > k:
            keep_smallest(found[query], count, k, histogram)
            count = k
        for i in range(count):
            keys[query, i] = found[query, i]
        for i in range(count, k):
            keys[query, i] = -1


@lean
def range_scan(tiles, last_tile, queries, resume, hits):
    """All codes within the radius of each of some queries, given as :class:`RangeQueries`.

    A hit is ``query << 54 | distance << 40 | position``; the hits come in no order. ``resume`` is (tile, query): where
    to start, and on return where to go on because ``hits`` is full; the tile is ``last_tile`` or more at the end.
    Returns the number of hits, for ``hits`` of at least one block.
    """
    n_queries, n_words = queries.words.shape
    words = queries.words.reshape(-1)
    limit = queries.radius + 1
    look = first_look(look_limits(tiles), limit)
    block = tiles_per_block(tiles)
    count = 0
    while resume[0] < last_tile:
        block_start = resume[0]
        block_end = min(block_start + block, last_tile)
        for query in range(resume[1], n_queries):
            if count + block * TILE > hits.size:
                resume[1] = query
                return count
            offset = query * n_words
            first = queries.first_positions[query]
            tile = next_near(tiles, max(block_start, first // TILE), block_end, words, offset, look, limit)
            while tile < block_end:
                mask = near_mask(tiles, tile, words, offset, limit)
                while mask != np.uint64(0):
                    position = tile * TILE + lowest_bit(mask)
                    mask &= mask - np.uint64(1)
                    if position >= first:
                        distance = distance_at(tiles, position, words, offset)
                        hits[count] = (query << QUERY_SHIFT) | (distance << POSITION_BITS) | position
                        count += 1
                tile = next_near(tiles, tile + 1, block_end, words, offset, look, limit)
        resume[0] = block_end
        resume[1] = 0
    return count
