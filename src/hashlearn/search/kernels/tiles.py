"""How codes lie in memory.

A **tile** is 64 codes. It holds word 0 of all 64, then word 1 of all 64, and so on::

    word w of code i  =  tiles[(i // 64) * 64 * n_words + w * 64 + i % 64]

so that a vector register holds one word of several codes and a distance needs no sum across a register. The last tile
is filled with zeros. A word is 64 bits wide, or as narrow as short codes and odd lengths allow, so that a code of 8,
16, 32, 64, 96, 128, ... bits takes n_bits / 8 bytes.
"""

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import as_words
from hashlearn.compiled import lean
from hashlearn.search.kernels.simd import TILE

_CACHE_LINE = 64

Words = NDArray[np.unsignedinteger]

__all__ = ["TILE", "Words", "empty_tiles", "n_tiles", "read_tiles", "tile_words", "tiled", "word_layout", "write_tiles"]


def word_layout(n_bits: int) -> tuple[np.dtype, int]:
    """Type and number of the words of a code.

    >>> [word_layout(n_bits) for n_bits in (8, 12, 32, 96, 128)]
    [(dtype('uint8'), 1), (dtype('uint16'), 1), (dtype('uint32'), 1), (dtype('uint32'), 3), (dtype('uint64'), 2)]
    """
    for width in (8, 16):
        if n_bits <= width:
            return np.dtype(f"u{width // 8}"), 1
    halves = -(-n_bits // 32)
    if halves % 2 and n_bits <= 256:
        return np.dtype(np.uint32), halves
    return np.dtype(np.uint64), -(-n_bits // 64)


def n_tiles(n_codes: int) -> int:
    """Tiles that hold so many codes."""
    return -(-n_codes // TILE)


def empty_tiles(n_codes: int, n_bits: int) -> Words:
    """Room for so many codes, all zero, on a cache line's boundary: a register across two lines costs twice as much."""
    dtype, n_words = word_layout(n_bits)
    n_bytes = n_tiles(n_codes) * TILE * n_words * dtype.itemsize
    room = np.zeros(n_bytes + _CACHE_LINE, np.uint8)
    start = -room.ctypes.data % _CACHE_LINE
    return room[start : start + n_bytes].view(dtype)


def tile_words(codes: NDArray[np.uint8], n_bits: int) -> Words:
    """Packed codes as words of the tiles' type, of shape (n, n_words)."""
    dtype, n_words = word_layout(n_bits)
    if dtype == np.uint64:
        return as_words(codes)
    padded = np.zeros((len(codes), n_words * dtype.itemsize), np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded.view(dtype)


def tiled(codes: NDArray[np.uint8], n_bits: int) -> Words:
    """Packed codes in tiles."""
    tiles = empty_tiles(len(codes), n_bits)
    write_tiles(tiles, 0, tile_words(codes, n_bits))
    return tiles


@lean
def write_tiles(tiles, start, words):
    """Store codes given as words of shape (n, n_words) at positions ``start``, ``start + 1``, ..."""
    n, n_words = words.shape
    for row in range(n):
        position = start + row
        offset = (position // TILE) * TILE * n_words + position % TILE
        for word in range(n_words):
            tiles[offset + word * TILE] = words[row, word]


@lean
def read_tiles(tiles, positions, words):
    """Copy the codes at ``positions`` into ``words``, of shape (n, n_words)."""
    n, n_words = words.shape
    for row in range(n):
        position = positions[row]
        offset = (position // TILE) * TILE * n_words + position % TILE
        for word in range(n_words):
            words[row, word] = tiles[offset + word * TILE]
