"""The loops over tiles, against numpy."""

import numpy as np
import pytest

from hashlearn.search.kernels.scan import POSITION_BITS, POSITION_MASK, QUERY_SHIFT, keep_smallest, knn_scan, range_scan
from hashlearn.search.kernels.tiles import TILE, empty_tiles, n_tiles, read_tiles, word_layout, write_tiles

LENGTHS = (8, 16, 32, 64, 96, 192, 4096)


def random_words(n, n_bits, seed):
    dtype, n_words = word_layout(n_bits)
    rng = np.random.default_rng(seed)
    return rng.integers(0, np.iinfo(dtype).max, (n, n_words), dtype=dtype, endpoint=True)


def tiled(words, n_bits):
    tiles = empty_tiles(len(words), n_bits)
    write_tiles(tiles, 0, words)
    return tiles


def distances_between(queries, words):
    return np.bitwise_count(queries[:, None, :] ^ words[None]).sum(axis=2, dtype=np.int64)


@pytest.mark.parametrize("n_bits", [1, 8, 9, 16, 17, 32, 33, 64, 65, 96, 128, 224, 256, 288, 4096])
def test_a_code_takes_no_more_than_three_bytes_above_its_bits_up_to_256_bits(n_bits):
    dtype, n_words = word_layout(n_bits)
    capacity = 8 * dtype.itemsize * n_words
    assert n_bits <= capacity < n_bits + (32 if n_bits <= 256 else 64)
    if (n_bits % 32 == 0 and n_bits <= 256) or n_bits in (8, 16):
        assert capacity == n_bits


@pytest.mark.parametrize("n_bits", LENGTHS)
def test_tiles_give_back_what_was_written_from_any_position_on(n_bits):
    words = random_words(150, n_bits, seed=0)
    tiles = empty_tiles(200, n_bits)
    write_tiles(tiles, 37, words)
    read = np.empty_like(words)
    read_tiles(tiles, np.arange(37, 187), read)
    np.testing.assert_array_equal(read, words)
    assert tiles.ctypes.data % 64 == 0
    assert not tiles[:37].any() or n_bits > 64


@pytest.mark.parametrize("n_bits", LENGTHS)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (63, 5), (64, 64), (1000, 1), (1000, 100)])
def test_knn_scan_keeps_the_smallest_keys(n_bits, n, k):
    words, queries = random_words(n, n_bits, seed=1), random_words(5, n_bits, seed=2)
    keys = np.empty((5, k), np.int64)
    knn_scan(tiled(words, n_bits), n, 0, n_tiles(n), queries, k, keys)
    expected = np.sort((distances_between(queries, words) << POSITION_BITS) | np.arange(n), axis=1)[:, :k]
    np.testing.assert_array_equal(np.sort(keys, axis=1), expected)


def test_knn_scan_of_some_tiles_sees_only_those_and_fills_up_with_minus_one():
    words, queries = random_words(300, 64, seed=1), random_words(2, 64, seed=2)
    keys = np.empty((2, 100), np.int64)
    knn_scan(tiled(words, 64), 300, 4, 5, queries, 100, keys)
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
        count = range_scan(tiles, n, n_tiles(n), queries, first, radius, resume, hits)
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
        counts.append(
            range_scan(
                tiled(words, 64), len(words), n_tiles(len(words)), words[:2], np.zeros(2, np.int64), 0, resume, hits
            )
        )
    assert sum(counts) == 2 * len(words)
    assert len(counts) > 4


def test_keep_smallest_prefers_the_first_of_equal_distances():
    distances = np.array([3, 1, 2, 1, 2, 2, 0])
    keys = (distances << POSITION_BITS) | np.arange(7)
    assert keep_smallest(keys, 7, 4, np.zeros(65, np.int64)) == 2
    np.testing.assert_array_equal(keys[:4] & POSITION_MASK, [1, 2, 3, 6])
