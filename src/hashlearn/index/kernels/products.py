"""Products of queries with many vectors, 64 vectors at once, as LLVM intermediate code.

Vectors lie in tiles of 64: feature 0 of all 64, then feature 1 of all, and so on. A register holds one feature of
several vectors, so that a product needs no sum across a register. Features are added in their order: a product is the
same number, whatever other queries are looked at with it.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from hashlearn.compiled import lean
from hashlearn.index.kernels.simd import TILE, call, constant, data, load, splat
from hashlearn.index.kernels.tiles import n_tiles, room_for

_LANES = 16
_REGISTERS = {1: 4, 4: 2}  # of one query: enough sums side by side to keep the processor busy
_GROUP = 4


def vector_tiles(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors in tiles, as a flat array; zeros fill the last tile up.

    >>> vector_tiles(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)).reshape(-1, 64)[:, :3]
    array([[1., 3., 0.],
           [2., 4., 0.]], dtype=float32)
    """
    n, d = vectors.shape
    tiles = room_for(n, d, np.dtype(np.float32)).view(np.float32).reshape(-1, d, TILE)
    for tile in range(n_tiles(n)):
        part = vectors[tile * TILE : (tile + 1) * TILE]
        tiles[tile, :, : len(part)] = part.T
        tiles[tile, :, len(part) :] = 0
    return tiles.reshape(-1)


@lean
def products(tiles, n_features, queries, out):
    """Write the products of queries, of shape (n, n_features), with all vectors of the tiles to ``out``.

    ``out`` has shape (n, 64 * n_tiles). Both are contiguous.
    """
    n, width = out.shape
    flat, flat_out = queries.reshape(-1), out.reshape(-1)
    n_grouped = n // _GROUP * _GROUP
    for tile in range(width // TILE):
        place = tile * TILE
        for q in range(0, n_grouped, _GROUP):
            starts = (q * n_features, (q + 1) * n_features, (q + 2) * n_features, (q + 3) * n_features)
            places = (q * width + place, (q + 1) * width + place, (q + 2) * width + place, (q + 3) * width + place)
            _tile_products(tiles, tile, n_features, flat, starts, flat_out, places)
        for q in range(n_grouped, n):
            _tile_products(tiles, tile, n_features, flat, (q * n_features,), flat_out, (q * width + place,))


@intrinsic
def _tile_products(typingctx, tiles, tile, n_features, queries, starts, out, places):
    """Products of the 64 vectors of a tile with the queries that begin at ``starts``, written to ``places``."""

    def generate(context, builder, signature, args):
        base = builder.gep(
            data(context, builder, signature.args[0], args[0]),
            [builder.mul(args[1], builder.mul(args[2], constant(TILE)))],
        )
        queries = data(context, builder, signature.args[3], args[3])
        out = data(context, builder, signature.args[5], args[5])
        firsts = [builder.gep(queries, [start]) for start in cgutils.unpack_tuple(builder, args[4])]
        targets = [builder.gep(out, [place]) for place in cgutils.unpack_tuple(builder, args[6])]
        register = ir.VectorType(ir.FloatType(), _LANES)
        width = _REGISTERS[len(firsts)] * _LANES
        for strip in range(0, TILE, width):
            lanes = range(strip, strip + width, _LANES)
            sums = [[cgutils.alloca_once(builder, register) for _ in lanes] for _ in firsts]
            for of_query in sums:
                for place in of_query:
                    builder.store(ir.Constant(register, None), place)
            with cgutils.for_range(builder, args[2]) as loop:
                row = builder.gep(base, [builder.mul(loop.index, constant(TILE))])
                vectors = [load(builder, builder.gep(row, [constant(lane)]), _LANES) for lane in lanes]
                for first, of_query in zip(firsts, sums):
                    number = splat(builder, builder.load(builder.gep(first, [loop.index])), _LANES)
                    for vector, place in zip(vectors, of_query):
                        total = call(
                            builder, f"llvm.fmuladd.v{_LANES}f32", register, [number, vector, builder.load(place)]
                        )
                        builder.store(total, place)
            for target, of_query in zip(targets, sums):
                for lane, place in zip(lanes, of_query):
                    to = builder.bitcast(builder.gep(target, [constant(lane)]), register.as_pointer())
                    builder.store(builder.load(place), to, align=4)
        return context.get_dummy_value()

    return types.void(tiles, types.int64, types.int64, queries, starts, out, places), generate
