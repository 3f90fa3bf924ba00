"""Every code against every query.

A block of tiles small enough for the first-level cache meets all queries before the next block is read. A result is
one integer, ``distance << 40 | position``, so that the order of the integers is the order of the results: nearest
first, ties by the lowest position.
"""

import numpy as np

from hashlearn.compiled import compiled, lean
from hashlearn.search.kernels.simd import TILE, lowest_bit, popcount, prefetch, tile_any_below, tile_mask_below

POSITION_BITS = 40
POSITION_MASK = (1 << POSITION_BITS) - 1
QUERY_SHIFT = 54  # above the 14 bits of a distance: room for 512 queries in one int64
QUERIES_PER_BLOCK = 512

_CACHE_BYTES = 32768
_WORD_OF_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


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


@lean
def _tile_limit(n_codes, tile):
    """The bits of those places of a tile that hold a code."""
    used = n_codes - tile * TILE
    if used >= TILE:
        return _WORD_OF_ONES
    return (np.uint64(1) << np.uint64(used)) - np.uint64(1)


@lean
def _distance(tiles, place, queries, query_offset, n_words):
    total = 0
    for word in range(n_words):
        total += popcount(tiles[place + word * TILE] ^ queries[query_offset + word])
    return total


@lean
def _words_of_first_look(n_words, word_bits, limit):
    """How many words tell that a tile holds nothing nearer than ``limit``.

    Half of them, where the distance expected of half a random code is well above the limit: most tiles are then dropped
    at half the price. All of them otherwise.
    """
    half = n_words // 2
    if limit * 5 < half * word_bits * 2:
        return half
    return n_words


@lean
def _prefetch_part(tiles, start, size, part, n_parts):
    """Ask for one of so many parts of the next block, so that it is there when this block has met all queries."""
    line = 64 // tiles.itemsize
    last = min(tiles.size, start + size * (part + 1) // n_parts)
    for place in range(start + size * part // n_parts, last, line):
        prefetch(tiles, place)


@lean
def _next_near(tiles, tile, last_tile, words, query, n_words, look, limit):
    """The first tile from ``tile`` on that may hold a code nearer than the limit, by its first ``look`` words.

    Apart from the rest because it is where the time goes: alone, all it needs stays in registers.
    """
    limit = np.uint64(limit)
    while tile < last_tile:
        if tile_any_below(tiles, tile * TILE * n_words, words, query * n_words, look, limit) != np.uint64(0):
            break
        tile += 1
    return tile


@lean
def _collect(tiles, n_codes, tile, words, query, n_words, limit, found, count):
    """Append the codes of a tile that are nearer than the limit; returns the new count."""
    offset = tile * TILE * n_words
    query_offset = query * n_words
    mask = tile_mask_below(tiles, offset, words, query_offset, n_words, np.uint64(limit))
    mask &= _tile_limit(n_codes, tile)
    while mask != np.uint64(0):
        place = lowest_bit(mask)
        mask &= mask - np.uint64(1)
        distance = _distance(tiles, offset + place, words, query_offset, n_words)
        found[query, count] = (distance << POSITION_BITS) | (tile * TILE + place)
        count += 1
    return count


@compiled
def knn_scan(tiles, n_codes, first_tile, last_tile, queries, k, keys):
    """The k nearest codes among the tiles ``first_tile:last_tile``, for each query.

    ``queries`` has shape (n_queries, n_words). Row q of ``keys``, of shape (n_queries, k), gets the results in no
    order, filled with -1 where there are fewer than k. A query's limit is the k-th distance it has found so far: a
    tile costs one comparison unless it holds something nearer, and what it holds goes to a buffer which is cut to k
    when it is full.
    """
    n_queries, n_words = queries.shape
    words = queries.reshape(-1)
    word_bits = tiles.itemsize * 8
    capacity = 2 * k + TILE
    found = np.empty((n_queries, capacity + TILE), np.int64)
    counts = np.zeros(n_queries, np.int64)
    limits = np.full(n_queries, n_words * word_bits + 1, np.int64)
    histogram = np.zeros(n_words * word_bits + 1, np.int64)
    tile_words = TILE * n_words
    block = max(1, _CACHE_BYTES // (tile_words * tiles.itemsize))
    for block_start in range(first_tile, last_tile, block):
        block_end = min(block_start + block, last_tile)
        for query in range(n_queries):
            limit = limits[query]
            count = counts[query]
            if n_queries > 1:
                _prefetch_part(tiles, block_end * tile_words, block * tile_words, query, n_queries)
            look = _words_of_first_look(n_words, word_bits, limit)
            tile = _next_near(tiles, block_start, block_end, words, query, n_words, look, limit)
            while tile < block_end:
                count = _collect(tiles, n_codes, tile, words, query, n_words, limit, found, count)
                if count >= capacity:
                    limit = keep_smallest(found[query], count, k, histogram)
                    count = k
                tile = _next_near(tiles, tile + 1, block_end, words, query, n_words, look, limit)
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
def range_scan(tiles, n_codes, last_tile, queries, first_positions, radius, resume, hits):
    """All codes within a radius of each of at most 512 queries.

    A hit is ``query << 54 | distance << 40 | position``; the hits come in no order. Query q sees only the positions
    from ``first_positions[q]`` on. ``resume`` is (tile, query): where to start, and on return where to go on because
    ``hits`` is full; the tile is ``last_tile`` or more at the end. Returns the number of hits, for ``hits`` of at
    least one block.
    """
    n_queries, n_words = queries.shape
    words = queries.reshape(-1)
    word_bits = tiles.itemsize * 8
    limit = np.uint64(radius + 1)
    look = _words_of_first_look(n_words, word_bits, radius + 1)
    tile_words = TILE * n_words
    block = max(1, _CACHE_BYTES // (tile_words * tiles.itemsize))
    count = 0
    while resume[0] < last_tile:
        block_start = resume[0]
        block_end = min(block_start + block, last_tile)
        for query in range(resume[1], n_queries):
            if count + block * TILE > hits.size:
                resume[1] = query
                return count
            query_offset = query * n_words
            first = first_positions[query]
            for tile in range(max(block_start, first // TILE), block_end):
                offset = tile * tile_words
                if tile_any_below(tiles, offset, words, query_offset, look, limit) == np.uint64(0):
                    continue
                mask = tile_mask_below(tiles, offset, words, query_offset, n_words, limit)
                mask &= _tile_limit(n_codes, tile)
                while mask != np.uint64(0):
                    place = lowest_bit(mask)
                    mask &= mask - np.uint64(1)
                    position = tile * TILE + place
                    if position < first:
                        continue
                    distance = _distance(tiles, offset + place, words, query_offset, n_words)
                    hits[count] = (query << QUERY_SHIFT) | (distance << POSITION_BITS) | position
                    count += 1
        resume[0] = block_end
        resume[1] = 0
    return count
