"""How codes lie in memory."""

import numpy as np
import pytest

from hashlearn.index.kernels.tiles import (
    as_tile_words,
    byte_layout,
    empty_tiles,
    read_tiles,
    tiled,
    word_layout,
    write_tiles,
)

LENGTHS = (8, 16, 24, 32, 64, 96, 128, 192, 256, 4096)


def random_codes(n, n_bits, seed):
    return np.packbits(np.random.default_rng(seed).random((n, n_bits)) < 0.5, axis=1)


@pytest.mark.parametrize("n_bits", [1, 8, 9, 16, 17, 32, 33, 64, 65, 96, 128, 224, 256, 288, 4096])
def test_a_code_takes_no_more_than_three_bytes_above_its_bits_up_to_256_bits(n_bits):
    dtype, n_words, _, _ = word_layout(n_bits)
    capacity = 8 * dtype.itemsize * n_words
    assert n_bits <= capacity < n_bits + (32 if n_bits <= 256 else 64)
    if (n_bits % 32 == 0 and n_bits <= 256) or n_bits in (8, 16):
        assert capacity == n_bits


@pytest.mark.parametrize("n_bits", LENGTHS)
@pytest.mark.parametrize("layout_of", [word_layout, byte_layout])
def test_tiles_give_back_what_was_written_to_any_positions(n_bits, layout_of):
    layout = layout_of(n_bits)
    words = as_tile_words(random_codes(150, n_bits, seed=0), layout)
    positions = np.random.default_rng(1).permutation(200)[:150]
    tiles = empty_tiles(200, layout)
    write_tiles(tiles, positions, words)
    for order in (np.arange(150), np.random.default_rng(2).permutation(150)):
        read = np.empty_like(words)
        read_tiles(tiles, positions[order], read)
        np.testing.assert_array_equal(read, words[order])


@pytest.mark.parametrize("n_bits", LENGTHS)
def test_both_halves_begin_on_a_cache_line_and_the_first_half_of_the_words_stands_in_front(n_bits):
    codes = random_codes(64, n_bits, seed=0)
    tiles = tiled(codes, n_bits)
    assert tiles.front.ctypes.data % 64 == 0
    assert tiles.back.size == 0 or tiles.back.ctypes.data % 64 == 0
    words = as_tile_words(codes, word_layout(n_bits))
    half = max(1, words.shape[1] // 2)
    np.testing.assert_array_equal(tiles.front.reshape(-1, 64).T, words[:, :half])
    np.testing.assert_array_equal(tiles.back.reshape(-1, 64).T, words[:, half:])
