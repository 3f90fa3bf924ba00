"""Products of queries with many vectors, 64 vectors at once, as LLVM intermediate code.

The numbers of the vectors are **short**: single precision without the lower 16 of its 32 bits, so that they take half
of the memory, which is what most of the time is spent on. Products with them are computed in single precision.

Vectors lie in tiles of 64: the first two features of all 64, then the next two of all, and so on. A register holds two
features of several vectors, so that a product needs no sum across a register. Features at even places are added in
their order, those at odd places too, and then both sums: a product is the same number, whatever other queries are
looked at with it.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from hashlearn.compiled import lean
from hashlearn.index.kernels.simd import I32, TILE, all_lanes, call, constant, data, load, splat
from hashlearn.index.kernels.tiles import n_tiles, room_for

_MOST_REGISTERS = 4  # of one query: enough sums side by side to keep the processor busy
_GROUP = 4
_UPPER = 0xFFFF0000


def short(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The nearest short numbers.

    >>> short(np.array([1.0, 1.01, -1000.1], np.float32)).tolist()
    [1.0, 1.0078125, -1000.0]
    """
    bits = np.ascontiguousarray(vectors, np.float32).view(np.uint32)
    return ((bits + (0x7FFF + (bits >> 16 & 1))) & np.uint32(_UPPER)).view(np.float32)


def n_pairs(n_features: int) -> int:
    """Pairs of features; the last may have one feature only."""
    return (n_features + 1) // 2


def vector_tiles(vectors: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Vectors of short numbers in tiles, as a flat array; zeros fill the last tile, and the last pair, up.

    >>> vector_tiles(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)).reshape(-1, 64)[:, :3]
    array([[1073758080, 1082146880,          0]], dtype=uint32)
    """
    n, d = vectors.shape
    bits = np.zeros((n, 2 * n_pairs(d)), np.uint32)
    bits[:, :d] = np.ascontiguousarray(vectors, np.float32).view(np.uint32)
    pairs = bits[:, 1::2] & np.uint32(_UPPER) | bits[:, ::2] >> 16
    tiles = room_for(n, n_pairs(d), np.dtype(np.uint32)).view(np.uint32).reshape(-1, n_pairs(d), TILE)
    for tile in range(n_tiles(n)):
        part = pairs[tile * TILE : (tile + 1) * TILE]
        tiles[tile, :, : len(part)] = part.T
        tiles[tile, :, len(part) :] = 0
    return tiles.reshape(-1)


@lean
def products(tiles, queries, out):
    """Write the products of queries, of shape (n, 2 * pairs), with all vectors of the tiles to ``out``.

    ``out`` has shape (n, 64 * n_tiles). Both are contiguous.
    """
    n, width = out.shape
    n_features = queries.shape[1]
    flat, flat_out = queries.reshape(-1), out.reshape(-1)
    n_grouped = n // _GROUP * _GROUP
    for tile in range(width // TILE):
        place = tile * TILE
        for q in range(0, n_grouped, _GROUP):
            starts = (q * n_features, (q + 1) * n_features, (q + 2) * n_features, (q + 3) * n_features)
            places = (q * width + place, (q + 1) * width + place, (q + 2) * width + place, (q + 3) * width + place)
            _tile_products(tiles, tile, n_features // 2, flat, starts, flat_out, places)
        for q in range(n_grouped, n):
            _tile_products(tiles, tile, n_features // 2, flat, (q * n_features,), flat_out, (q * width + place,))


@intrinsic
def _tile_products(typingctx, tiles, tile, pairs, queries, starts, out, places):
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
        has_wide_registers = "+avx512f" in context.codegen().magic_tuple()[2].split(",")
        n_lanes = n_sums = 16 if has_wide_registers else 8  # these sums fill half of the registers
        width = min(_MOST_REGISTERS, n_sums // (2 * len(firsts))) * n_lanes
        for strip in range(0, TILE, width):
            lanes = range(strip, strip + width, n_lanes)
            sums = _strip_products(builder, base, args[2], firsts, lanes)
            for target, of_query in zip(targets, sums):
                for lane, (even, odd) in zip(lanes, of_query):
                    total = builder.fadd(builder.load(even), builder.load(odd))
                    to = builder.bitcast(builder.gep(target, [constant(lane)]), total.type.as_pointer())
                    builder.store(total, to, align=4)
        return context.get_dummy_value()

    return types.void(tiles, types.int64, types.int64, queries, starts, out, places), generate


def _strip_products(builder, base, pairs, firsts, lanes):
    """The sums of the features at even places, and of the others, for each query and register of a strip."""
    register = ir.VectorType(ir.FloatType(), lanes.step)
    sums = [[[cgutils.alloca_once(builder, register) for _ in range(2)] for _ in lanes] for _ in firsts]
    for of_query in sums:
        for both in of_query:
            for place in both:
                builder.store(ir.Constant(register, None), place)
    with cgutils.for_range(builder, pairs) as loop:
        row = builder.gep(base, [builder.mul(loop.index, constant(TILE))])
        feature = builder.mul(loop.index, constant(2))
        numbers = [
            [
                splat(builder, builder.load(builder.gep(first, [builder.add(feature, constant(i))])), lanes.step)
                for i in range(2)
            ]
            for first in firsts
        ]
        for i, lane in enumerate(lanes):
            pair = load(builder, builder.gep(row, [constant(lane)]), lanes.step)
            bits = ir.VectorType(I32, lanes.step)
            halves = builder.shl(pair, all_lanes(bits, 16)), builder.and_(pair, all_lanes(bits, _UPPER))
            for half, odd in zip(halves, range(2)):
                vector = builder.bitcast(half, register)
                for of_query, sums_of_query in zip(numbers, sums):
                    place = sums_of_query[i][odd]
                    name = f"llvm.fmuladd.v{lanes.step}f32"
                    total = call(builder, name, register, [of_query[odd], vector, builder.load(place)])
                    builder.store(total, place)
    return sums
