"""Codes into the tiles of lists."""

from hashlearn.compiled import lean
from hashlearn.index.kernels.simd import TILE


@lean
def write_codes(tiles, row_numbers, places, order, codes, corrections, rows):
    """Write code ``order[i]``, with ``corrections[i]`` behind it, and its row to ``places[i]``, for every i."""
    n_bytes = codes.shape[1]
    for i in range(places.size):
        place, source = places[i], order[i]
        first = place // TILE * TILE * (n_bytes + 1) + place % TILE
        for byte in range(n_bytes):
            tiles[first + byte * TILE] = codes[source, byte]
        tiles[first + n_bytes * TILE] = corrections[i]
        row_numbers[place] = rows[source]
