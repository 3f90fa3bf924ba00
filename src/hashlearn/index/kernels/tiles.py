"""How codes lie in memory.

A **tile** is 64 codes. It holds word 0 of all 64, then word 1 of all 64, and so on, so that a vector register holds one
word of several codes and a distance needs no sum across a register. The last tile may have room left.

The first half of a code's words, the **front**, lies apart from the other half, the **back**::

    word w of code i  =  front[(i // 64) * 64 * n_front + w * 64 + i % 64]             where w < n_front
                         back[(i // 64) * 64 * n_back + (w - n_front) * 64 + i % 64]   elsewhere

The front alone tells of most tiles that they hold nothing near. A search then reads half of the bytes, which it could
not if the halves of every tile lay side by side: the processor reads ahead. Codes of one word have no back.

A word is some bytes of the packed code one after the other, filled up with zeros at the end of the code: word w of 8
bytes is bytes 8 w to 8 w + 7. It is 8 bytes wide, or as narrow as short codes and odd lengths allow, so that a code of
8, 16, 32, 64, 96, 128, ... bits takes n_bits / 8 bytes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import lean
from hashlearn.index.kernels.simd import TILE as TILE

_CACHE_LINE = 64

Words = NDArray[np.unsignedinteger]


class Layout(NamedTuple):
    """The words of a code: their type, how many there are, and how many of them are in the front and in the back."""

    dtype: np.dtype
    n_words: int
    n_front: int
    n_back: int


ALL_ALIVE = np.empty(0, np.uint64)
"""Instead of a word for every tile, where every code is looked at."""


class Tiles(NamedTuple):
    """Codes in tiles.

    Attributes
    ----------
    front, back : flat arrays
        They may have more room than codes.
    n_front, n_back : int
        Words of a code in each.
    n_codes : int
    alive : uint64 array
        A word for every tile, a bit for every code that a search looks at; :data:`ALL_ALIVE` if it looks at all.
    """

    front: Words
    back: Words
    n_front: int
    n_back: int
    n_codes: int
    alive: NDArray[np.uint64] = ALL_ALIVE


def word_layout(n_bits: int) -> Layout:
    """The layout in which Hamming distances are counted.

    >>> [word_layout(n_bits)[1:] for n_bits in (8, 64, 96, 128, 256)]
    [(1, 1, 0), (1, 1, 0), (3, 1, 2), (2, 1, 1), (4, 2, 2)]
    >>> [str(word_layout(n_bits).dtype) for n_bits in (8, 12, 32, 64, 96, 128)]
    ['uint8', 'uint16', 'uint32', 'uint64', 'uint32', 'uint64']
    """
    if n_bits <= 8:
        width = 8
    elif n_bits <= 16:
        width = 16
    else:
        width = 32 if n_bits <= 256 and -(-n_bits // 32) % 2 else 64
    n_words = -(-n_bits // width)
    n_front = max(1, n_words // 2)
    return Layout(np.dtype(f"u{width // 8}"), n_words, n_front, n_words - n_front)


def byte_layout(n_bits: int) -> Layout:
    """The layout for tables of bytes or half bytes: a word is a byte, and all of them stand in front.

    >>> byte_layout(20)
    Layout(dtype=dtype('uint8'), n_words=3, n_front=3, n_back=0)
    """
    n_bytes = -(-n_bits // 8)
    return Layout(np.dtype(np.uint8), n_bytes, n_bytes, 0)


def n_tiles(n_codes: int) -> int:
    """The number of tiles that hold ``n_codes`` codes."""
    return -(-n_codes // TILE)


def room_for(n_codes: int, n_words: int, dtype: np.dtype) -> Words:
    """Room in tiles for ``n_codes`` codes of ``n_words`` words each; its content is undefined.

    It begins on a cache line's boundary: a register across two lines costs twice as much.
    """
    n_bytes = n_tiles(n_codes) * TILE * n_words * dtype.itemsize
    room = np.empty(n_bytes + _CACHE_LINE, np.uint8)
    start = -room.ctypes.data % _CACHE_LINE
    return room[start : start + n_bytes].view(dtype)


def empty_tiles(n_codes: int, layout: Layout) -> Tiles:
    """Tiles for ``n_codes`` codes, to be written."""
    front, back = (room_for(n_codes, n_words, layout.dtype) for n_words in (layout.n_front, layout.n_back))
    return Tiles(front, back, layout.n_front, layout.n_back, n_codes)


def as_tile_words(codes: NDArray[np.uint8], layout: Layout) -> Words:
    """Packed codes as words of shape (n, n_words)."""
    n_bytes = layout.n_words * layout.dtype.itemsize
    if codes.shape[1] != n_bytes:
        padded = np.zeros((len(codes), n_bytes), np.uint8)
        padded[:, : codes.shape[1]] = codes
        codes = padded
    return np.ascontiguousarray(codes).view(layout.dtype).reshape(len(codes), layout.n_words)


def tiled(codes: NDArray[np.uint8], n_bits: int) -> Tiles:
    """Packed codes in tiles for Hamming distances."""
    layout = word_layout(n_bits)
    tiles = empty_tiles(len(codes), layout)
    write_tiles(tiles, np.arange(len(codes)), as_tile_words(codes, layout))
    return tiles


@lean
def write_tiles(tiles, positions, words):
    """Store codes, given as words of shape (n, n_words), at these positions."""
    n_front, n_back = tiles.n_front, tiles.n_back
    for row in range(positions.size):
        tile, lane = positions[row] // TILE, positions[row] % TILE
        for word in range(n_front):
            tiles.front[(tile * n_front + word) * TILE + lane] = words[row, word]
        for word in range(n_back):
            tiles.back[(tile * n_back + word) * TILE + lane] = words[row, n_front + word]


@lean
def read_tiles(tiles, positions, words):
    """Copy the codes at these positions into ``words``, of shape (n, n_words)."""
    n_front, n_back = tiles.n_front, tiles.n_back
    for row in range(positions.size):
        tile, lane = positions[row] // TILE, positions[row] % TILE
        for word in range(n_front):
            words[row, word] = tiles.front[(tile * n_front + word) * TILE + lane]
        for word in range(n_back):
            words[row, n_front + word] = tiles.back[(tile * n_back + word) * TILE + lane]


@lean
def write_list_codes(tiles, row_numbers, places, order, codes, corrections, rows):
    """Write code ``order[i]``, with ``corrections[i]`` behind it, and its row to place ``places[i]`` of lists."""
    n_bytes = codes.shape[1]
    for i in range(places.size):
        place, source = places[i], order[i]
        first = place // TILE * TILE * (n_bytes + 1) + place % TILE
        for byte in range(n_bytes):
            tiles[first + byte * TILE] = codes[source, byte]
        tiles[first + n_bytes * TILE] = corrections[i]
        row_numbers[place] = rows[source]
