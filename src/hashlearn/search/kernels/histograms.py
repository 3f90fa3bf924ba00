"""How many codes, and how many relevant ones, lie at each distance of a query: all that a ranking by distance knows.

The distances of a block of codes are written by vector instructions to a buffer in the first-level cache and counted
from there. Counting is bound by increments of the same few counters, one after the other; so pairs
of distances are counted in one table where that is small enough, and in separate histograms by place elsewhere.
"""

import numpy as np

from hashlearn.compiled import compiled, lean
from hashlearn.search.kernels.simd import TILE, tile_distances

_BLOCK = 4096
_LONGEST_PAIR = 64  # bits: of the table of pairs, 65 x 65 counters of 2 bytes are used
_PAIR_ROW = 256  # counters from one value of the higher byte to the next
_PAIR_CODES = 122880  # between merges: no counter of 16 bits can run over


@lean
def _write_distances(tiles, first, n, queries, query_offset, n_words, distances):
    for start in range(0, n, TILE):
        tile_distances(tiles, (first + start) * n_words, queries, query_offset, n_words, distances, start)


@lean
def _count_pairs(both, n, pairs):
    """Count ``n`` bytes, an even number, two at a time: a pair read as one number of 16 bits is its own counter."""
    for i in range(n // 2):
        pairs[np.int64(both[i])] += np.uint16(1)


@lean
def _merge_pairs(pairs, side, counts, query):
    """Add a table of pairs to a query's histogram and clear it."""
    for high in range(side):
        row = 0
        for low in range(side):
            count = np.int64(pairs[high * _PAIR_ROW + low])
            row += count
            counts[query, low] += count
            pairs[high * _PAIR_ROW + low] = np.uint16(0)
        counts[query, high] += row


@lean
def _count_singly(packed, n, per_word, side, counters):
    """Count ``n`` distances, ``per_word`` to a word of ``packed``, each place of a word in its own histogram."""
    bits = np.uint64(64 // per_word)
    low = (np.uint64(1) << bits) - np.uint64(1)
    for i in range(n // per_word):
        x = packed[i]
        for place in range(per_word):
            counters[place * side + np.int64(x & low)] += np.uint32(1)
            x >>= bits


@compiled
def count_distances(tiles, n_codes, queries, distances, counts):
    """Add to ``counts[q, d]`` the number of codes at distance d of query q.

    ``distances`` is a buffer of :func:`buffer_for` n_bits; ``counts`` is int64 of shape (n_queries, n_bits + 1).
    """
    n_queries, n_words = queries.shape
    words = queries.reshape(-1)
    side = counts.shape[1]
    packed = distances.view(np.uint64)
    both = distances.view(np.uint16)
    per_word = 8 // distances.itemsize
    in_pairs = side <= _LONGEST_PAIR + 1
    pairs = np.zeros(side * _PAIR_ROW if in_pairs else 0, np.uint16)
    counters = np.zeros(8 * side, np.uint32)
    outer = _PAIR_CODES if in_pairs else max(_BLOCK, 65536 // n_words // _BLOCK * _BLOCK)
    for outer_start in range(0, n_codes, outer):
        outer_end = min(outer_start + outer, n_codes)
        for query in range(n_queries):
            for start in range(outer_start, outer_end, _BLOCK):
                n = min(_BLOCK, outer_end - start)
                _write_distances(tiles, start, n, words, query * n_words, n_words, distances)
                whole = n // 8 * 8
                if in_pairs:
                    _count_pairs(both, whole, pairs)
                else:
                    _count_singly(packed, whole, per_word, side, counters)
                for i in range(whole, n):
                    counts[query, np.int64(distances[i])] += 1
            if in_pairs:
                _merge_pairs(pairs, side, counts, query)
            else:
                for place in range(per_word):
                    for d in range(side):
                        counts[query, d] += np.int64(counters[place * side + d])
                        counters[place * side + d] = np.uint32(0)


@lean
def count_distances_in(tiles, queries, first, last, distances, counts):
    """As :func:`count_distances`, over the codes at positions ``first[q] : last[q]`` only, for each query q."""
    n_queries, n_words = queries.shape
    words = queries.reshape(-1)
    for query in range(n_queries):
        for start in range(first[query] // TILE * TILE, last[query], _BLOCK):
            n = min(_BLOCK, last[query] - start)
            _write_distances(tiles, start, n, words, query * n_words, n_words, distances)
            for i in range(max(0, first[query] - start), n):
                counts[query, np.int64(distances[i])] += 1


@lean
def count_distances_sharing(tiles, n_codes, queries, query_labels, code_labels, distances, counts):
    """As :func:`count_distances`, over the codes that share a label with the query only.

    Labels are sets, given as bits in words of 64: ``query_labels`` (n_queries, n_label_words), ``code_labels``
    (n_codes, n_label_words).
    """
    n_queries, n_words = queries.shape
    words = queries.reshape(-1)
    n_label_words = query_labels.shape[1]
    for start in range(0, n_codes, _BLOCK):
        n = min(_BLOCK, n_codes - start)
        for query in range(n_queries):
            _write_distances(tiles, start, n, words, query * n_words, n_words, distances)
            for i in range(n):
                shared = np.uint64(0)
                for word in range(n_label_words):
                    shared |= query_labels[query, word] & code_labels[start + i, word]
                counts[query, np.int64(distances[i])] += np.int64(shared != np.uint64(0))


def buffer_for(n_bits: int) -> np.ndarray:
    """Room for the distances of a block of codes of so many bits."""
    return np.empty(_BLOCK, np.min_scalar_type(n_bits))
