"""The loops over tiles, against numpy."""

import numpy as np
import pytest

from hashlearn.index.kernels import scan
from hashlearn.index.kernels.scan import (
    POSITION_BITS,
    POSITION_MASK,
    QUERY_SHIFT,
    RangeQueries,
    first_look,
    keep_smallest,
    knn_scan,
    look_limits,
    next_near,
    range_scan,
)
from hashlearn.index.kernels.tiles import TILE, empty_tiles, n_tiles, word_layout, write_tiles

LENGTHS = (8, 16, 32, 64, 96, 128, 192, 256, 512, 4096)


def random_words(n, n_bits, seed):
    dtype, n_words, _, _ = word_layout(n_bits)
    rng = np.random.default_rng(seed)
    return rng.integers(0, np.iinfo(dtype).max, (n, n_words), dtype=dtype, endpoint=True)


def tiled(words, n_bits):
    """Tiles as an index gives them, read-only: for others the kernels would be compiled once more."""
    tiles = empty_tiles(len(words), word_layout(n_bits))
    write_tiles(tiles, np.arange(len(words)), words)
    tiles.front.flags.writeable = tiles.back.flags.writeable = False
    return tiles


def distances_between(queries, words):
    return np.bitwise_count(queries[:, None, :] ^ words[None]).sum(axis=2, dtype=np.int64)


@pytest.mark.parametrize("n_bits", LENGTHS)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (63, 5), (64, 64), (1000, 1), (1000, 100)])
def test_knn_scan_keeps_the_smallest_keys(n_bits, n, k):
    words, queries = random_words(n, n_bits, seed=1), random_words(5, n_bits, seed=2)
    keys = np.empty((5, k), np.int64)
    knn_scan(tiled(words, n_bits), 0, n_tiles(n), queries, n_bits + 1, k, keys)
    expected = np.sort((distances_between(queries, words) << POSITION_BITS) | np.arange(n), axis=1)[:, :k]
    np.testing.assert_array_equal(np.sort(keys, axis=1), expected)


@pytest.mark.parametrize("n_bits", LENGTHS)
@pytest.mark.parametrize("limit", [0, 1, 3, 10, 20, 30, 40, 70])
def test_knn_scan_finds_nothing_at_the_limit_or_beyond(n_bits, limit):
    n, k = 1000, 20
    words = random_words(n, n_bits, seed=1)
    words[:30] = words[0]  # and some that are near the query
    words[np.arange(30), 0] ^= (1 << np.arange(30) % 8).astype(words.dtype)
    queries = words[:1].copy()
    keys = np.empty((1, k), np.int64)
    knn_scan(tiled(words, n_bits), 0, n_tiles(n), queries, min(limit, n_bits + 1), k, keys)
    distances = distances_between(queries, words)[0]
    expected = np.sort((distances << POSITION_BITS) | np.arange(n))[:k]
    expected[expected >> POSITION_BITS >= limit] = -1
    np.testing.assert_array_equal(np.sort(keys[0].view(np.uint64)), np.sort(expected.view(np.uint64)))


@pytest.mark.parametrize("n_bits", LENGTHS)
@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5])
def test_no_look_passes_over_a_near_code(n_bits, share):
    """Codes that differ from the query in a share of the bits, in every word or in one only: the bounds' worst case."""
    dtype, n_words, n_front, _ = word_layout(n_bits)
    rng = np.random.default_rng(0)
    differing = rng.random((600, n_words, dtype.itemsize * 8)) < share
    differing[300:, rng.integers(0, n_words)] = False
    query = random_words(1, n_bits, seed=2)
    words = query ^ np.packbits(differing, axis=2).view(dtype)[:, :, 0]
    tiles, distances = tiled(words, n_bits), distances_between(query, words)[0]
    looks = [scan.FRONT, scan.ALL]
    looks += [scan.FOLDED] if n_front == 1 else [scan.FRONT_PAIRS, scan.FOLDED_PAIRS]
    looks += [scan.PAIRS] if n_words > n_front else []
    for limit in np.unique(np.quantile(distances, [0, 0.01, 0.1, 0.9]).astype(int) + 1).tolist():
        near = np.unique(np.flatnonzero(distances < limit) // TILE)
        for look in looks:
            passed, tile = [], -1
            while tile < n_tiles(600):
                tile = next_near(tiles, tile + 1, n_tiles(600), query[0], 0, look, limit)
                passed.append(tile)
            assert set(near.tolist()) <= set(passed)
            if look == scan.ALL and len(words) % TILE == 0:
                assert set(near.tolist()) == set(passed[:-1])


@pytest.mark.parametrize("n_bits", LENGTHS)
def test_a_look_is_taken_only_where_random_codes_do_not_pass_it(n_bits):
    words = random_words(64 * 200, n_bits, seed=3)
    tiles, query = tiled(words, n_bits), random_words(1, n_bits, seed=4)
    limits = look_limits(tiles)
    for limit in range(1, n_bits):
        look = first_look(limits, limit)
        if look == scan.ALL:
            break
        if first_look(limits, limit + 1) == look:
            continue
        tile = n_passed = 0
        while (tile := next_near(tiles, tile, 200, query[0], 0, look, limit)) < 200:
            tile += 1
            n_passed += 1
        assert n_passed < 20


def test_knn_scan_of_some_tiles_sees_only_those_and_fills_up_with_minus_one():
    words, queries = random_words(300, 64, seed=1), random_words(2, 64, seed=2)
    keys = np.empty((2, 100), np.int64)
    knn_scan(tiled(words, 64), 4, 5, queries, 65, 100, keys)
    assert np.all((keys == -1).sum(axis=1) == 100 - (300 - 4 * TILE))
    assert (keys[keys >= 0] & POSITION_MASK).min() == 4 * TILE


@pytest.mark.parametrize("n_bits", LENGTHS)
def test_range_scan_finds_every_pair_whatever_the_size_of_its_buffer(n_bits):
    n = 2000
    words, queries = random_words(n, n_bits, seed=3), random_words(7, n_bits, seed=4)
    distances = distances_between(queries, words)
    radius = int(np.quantile(distances, 0.3))
    first = np.array([0, 1, 64, 100, 999, 1999, 2000])
    tiles, resume, hits, found, steps = tiled(words, n_bits), np.zeros(2, np.int64), np.empty(40000, np.int64), [], 0
    while resume[0] < n_tiles(n):
        count = range_scan(tiles, n_tiles(n), RangeQueries(queries, first, radius), resume, hits)
        found.append(hits[:count].copy())
        steps += 1
    wanted = (distances <= radius) & (np.arange(n) >= first[:, None])
    query, position = np.nonzero(wanted)
    expected = (query << QUERY_SHIFT) | (distances[wanted] << POSITION_BITS) | position
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), np.sort(expected))


def test_range_scan_resumes_when_its_buffer_is_full():
    words = np.zeros((64 * TILE * 4, 1), np.uint64)  # four blocks of the first-level cache, all hits
    resume, hits, counts = np.zeros(2, np.int64), np.empty(64 * TILE, np.int64), []
    while resume[0] < n_tiles(len(words)):
        queries = RangeQueries(words[:2], np.zeros(2, np.int64), 0)
        counts.append(range_scan(tiled(words, 64), n_tiles(len(words)), queries, resume, hits))
    assert sum(counts) == 2 * len(words)
    assert len(counts) > 4


def test_keep_smallest_prefers_the_first_of_equal_distances():
    distances = np.array([3, 1, 2, 1, 2, 2, 0])
    keys = (distances << POSITION_BITS) | np.arange(7)
    assert keep_smallest(keys, 7, 4, np.zeros(65, np.int64)) == 2
    np.testing.assert_array_equal(keys[:4] & POSITION_MASK, [1, 2, 3, 6])
