"""How many codes, and how many relevant ones, lie at each distance of a query: all that a ranking by distance knows.

The distances of a block of codes are written by vector instructions to a buffer in the first-level cache and counted
from there. Counting is bound by increments of the same few counters, one after the other; so pairs
of distances are counted in one table where that is small enough, and in separate histograms by place elsewhere.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled, lean
from hashlearn.index.kernels.simd import TILE, write_distances

_BLOCK = 4096
_LONGEST_PAIR = 64  # bits: of the table of pairs, 65 x 65 counters of 2 bytes are used
_PAIR_ROW = 256  # counters from one value of the higher byte to the next
_PAIR_CODES = 122880  # between merges: no counter of 16 bits can run over


class Labels(NamedTuple):
    """Sets of labels, as bits in words of 64: of shape (n_queries, n_label_words) and (n_codes, n_label_words)."""

    of_queries: NDArray[np.uint64]
    of_codes: NDArray[np.uint64]


@lean
def _distances_from(tiles, position, n, words, offset, distances):
    """Write the distances of n codes from a position on, which begins a tile, to the query at ``words[offset:]``."""
    for start in range(0, n, TILE):
        write_distances(tiles, (position + start) // TILE, words, offset, distances, start)


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
def count_distances(tiles, queries, distances, counts):
    """Add to ``counts[q, d]`` the number of codes at distance d of query q.

    ``distances`` is a buffer of :func:`buffer_for` n_bits; ``counts`` is int64 of shape (n_queries, n_bits + 1).
    """
    if counts.shape[1] <= _LONGEST_PAIR + 1:
        _count_short_codes(tiles, queries, distances, counts)
    else:
        _count_long_codes(tiles, queries, distances, counts)


@compiled
def _count_short_codes(tiles, queries, distances, counts):
    n_queries, n_words = queries.shape
    words = queries.reshape(-1)
    side = counts.shape[1]
    both = distances.view(np.uint16)
    pairs = np.zeros(side * _PAIR_ROW, np.uint16)
    for outer_start in range(0, tiles.n_codes, _PAIR_CODES):
        outer_end = min(outer_start + _PAIR_CODES, tiles.n_codes)
        for query in range(n_queries):
            for start in range(outer_start, outer_end, _BLOCK):
                n = min(_BLOCK, outer_end - start)
                _distances_from(tiles, start, n, words, query * n_words, distances)
                _count_pairs(both, n // 2 * 2, pairs)
                if n % 2:
                    counts[query, np.int64(distances[n - 1])] += 1
            _merge_pairs(pairs, side, counts, query)


@compiled
def _count_long_codes(tiles, queries, distances, counts):
    n_queries, n_words = queries.shape
    words = queries.reshape(-1)
    side = counts.shape[1]
    packed = distances.view(np.uint64)
    per_word = 8 // distances.itemsize
    counters = np.zeros(per_word * side, np.uint32)
    outer = max(_BLOCK, 65536 // n_words // _BLOCK * _BLOCK)
    for outer_start in range(0, tiles.n_codes, outer):
        outer_end = min(outer_start + outer, tiles.n_codes)
        for query in range(n_queries):
            for start in range(outer_start, outer_end, _BLOCK):
                n = min(_BLOCK, outer_end - start)
                _distances_from(tiles, start, n, words, query * n_words, distances)
                whole = n // per_word * per_word
                _count_singly(packed, whole, per_word, side, counters)
                for i in range(whole, n):
                    counts[query, np.int64(distances[i])] += 1
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
            _distances_from(tiles, start, n, words, query * n_words, distances)
            for i in range(max(0, first[query] - start), n):
                counts[query, np.int64(distances[i])] += 1


@lean
def count_distances_sharing(tiles, queries, labels, distances, counts):
    """As :func:`count_distances`, over the codes that share a label with the query only; see :class:`Labels`."""
    n_queries, n_words = queries.shape
    words = queries.reshape(-1)
    n_label_words = labels.of_queries.shape[1]
    for start in range(0, tiles.n_codes, _BLOCK):
        n = min(_BLOCK, tiles.n_codes - start)
        for query in range(n_queries):
            _distances_from(tiles, start, n, words, query * n_words, distances)
            for i in range(n):
                shared = np.uint64(0)
                for word in range(n_label_words):
                    shared |= labels.of_queries[query, word] & labels.of_codes[start + i, word]
                counts[query, np.int64(distances[i])] += np.int64(shared != np.uint64(0))


def buffer_for(n_bits: int) -> np.ndarray:
    """Room for the distances of a block of codes of ``n_bits`` bits."""
    return np.empty(_BLOCK, np.min_scalar_type(n_bits))
