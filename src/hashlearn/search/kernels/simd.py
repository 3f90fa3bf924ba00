"""Vector instructions for the kernels, as LLVM intermediate code.

numba's own vectoriser follows LLVM's preference for 256-bit registers on Intel servers, which halves the throughput
of the population count. Vectors of 512 bits written out here use AVX-512 where the CPU has it, and are legalised by
LLVM to AVX2 or NEON where it has not: one source for all.

All work on one tile (see :mod:`hashlearn.search.kernels.tiles`): 64 codes, word-planar. The type of a word, 8 to 64
bits wide, is the array's, so every width compiles to its own code; the number of words is an argument, so every length
shares it.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

REGISTER_BITS = 512
TILE = 64

_I64, _I32, _I8 = ir.IntType(64), ir.IntType(32), ir.IntType(8)


def _call(builder, name, result, args):
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, [a.type for a in args]), name)
    return builder.call(function, args)


def _data(context, builder, array_type, array):
    return context.make_array(array_type)(context, builder, array).data


def _element(builder, base, *offsets):
    total = offsets[0]
    for offset in offsets[1:]:
        total = builder.add(total, offset)
    return builder.gep(base, [total])


def _register(word):
    return ir.VectorType(word, REGISTER_BITS // word.width)


def _splat(builder, scalar):
    vector = _register(scalar.type)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_I32, vector.count), [0] * vector.count))


def _resize(builder, value, word):
    if value.type.width == word.width:
        return value
    return builder.trunc(value, word) if value.type.width > word.width else builder.zext(value, word)


class _Tile:
    """The arguments (tiles, offset, queries, query_offset, n_words, ...) of an intrinsic, while code is generated."""

    def __init__(self, context, builder, signature, args):
        self.builder = builder
        self.codes = _data(context, builder, signature.args[0], args[0])
        self.offset = args[1]
        self.query = _data(context, builder, signature.args[2], args[2])
        self.query_offset = args[3]
        self.n_words = args[4]
        self.word = self.codes.type.pointee

    def distances(self):
        """The 64 distances, as registers of the word's type."""
        first = self._counts(ir.Constant(_I64, 0))
        if self.word.width < 32:  # such codes are one word
            return first
        sums = [cgutils.alloca_once_value(self.builder, count) for count in first]
        with cgutils.for_range(self.builder, self.n_words, start=ir.Constant(_I64, 1)) as loop:
            for place, count in zip(sums, self._counts(loop.index)):
                self.builder.store(self.builder.add(self.builder.load(place), count), place)
        return [self.builder.load(place) for place in sums]

    def _counts(self, word_index):
        builder, register = self.builder, _register(self.word)
        query = _splat(builder, builder.load(_element(builder, self.query, self.query_offset, word_index)))
        plane = builder.add(self.offset, builder.mul(word_index, ir.Constant(_I64, TILE)))
        name = f"llvm.ctpop.v{register.count}i{self.word.width}"
        counts = []
        for start in range(0, TILE, register.count):
            place = _element(builder, self.codes, plane, ir.Constant(_I64, start))
            codes = builder.load(builder.bitcast(place, register.as_pointer()), align=self.word.width // 8)
            counts.append(_call(builder, name, register, [builder.xor(codes, query)]))
        return counts

    def below(self, distances, limit):
        """One bit per lane, as an integer: is the distance less than the limit?"""
        limits = _splat(self.builder, _resize(self.builder, limit, self.word))
        lanes = self.builder.icmp_unsigned("<", distances, limits)
        bits = self.builder.bitcast(lanes, ir.IntType(lanes.type.count))
        return _resize(self.builder, bits, _I64)

    def minimum(self, registers):
        """Lane by lane. Distances fit in 32 bits, whose minimum runs on a port the population count leaves free."""
        lane = _I32 if self.word.width == 64 else self.word
        form = _register(lane)
        name = f"llvm.umin.v{form.count}i{lane.width}"
        parts = [self.builder.bitcast(register, form) for register in registers]
        while len(parts) > 1:
            parts = [_call(self.builder, name, form, parts[i : i + 2]) for i in range(0, len(parts), 2)]
        return self.builder.bitcast(parts[0], _register(self.word))


@intrinsic
def popcount(typingctx, x):
    """Number of ones in an unsigned word, as int64."""

    def generate(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.int64(types.uint64), generate


@intrinsic
def lowest_bit(typingctx, x):
    """Index of the lowest one of a word that is not zero, as int64."""

    def generate(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def tile_any_below(typingctx, tiles, offset, queries, query_offset, n_words, limit):
    """Is some code of the tile, by its first ``n_words`` words, nearer than ``limit``? Not zero if so."""

    def generate(context, builder, signature, args):
        tile = _Tile(context, builder, signature, args)
        return tile.below(tile.minimum(tile.distances()), args[5])

    return types.uint64(tiles, types.int64, queries, types.int64, types.int64, types.uint64), generate


@intrinsic
def tile_mask_below(typingctx, tiles, offset, queries, query_offset, n_words, limit):
    """64 bits: bit i is one if code i of the tile is nearer than ``limit``."""

    def generate(context, builder, signature, args):
        tile = _Tile(context, builder, signature, args)
        mask = ir.Constant(_I64, 0)
        for index, distances in enumerate(tile.distances()):
            bits = tile.below(distances, args[5])
            mask = builder.or_(mask, builder.shl(bits, ir.Constant(_I64, index * distances.type.count)))
        return mask

    return types.uint64(tiles, types.int64, queries, types.int64, types.int64, types.uint64), generate


@intrinsic
def tile_distances(typingctx, tiles, offset, queries, query_offset, n_words, out, start):
    """Write the tile's 64 distances to ``out[start : start + 64]``, of an unsigned type that holds them."""

    def generate(context, builder, signature, args):
        tile = _Tile(context, builder, signature, args)
        out = _data(context, builder, signature.args[5], args[5])
        for index, distances in enumerate(tile.distances()):
            count = distances.type.count
            form = ir.VectorType(out.type.pointee, count)
            if form.element.width > tile.word.width:
                distances = builder.zext(distances, form)
            elif form.element.width < tile.word.width:
                distances = builder.trunc(distances, form)
            place = _element(builder, out, args[6], ir.Constant(_I64, index * count))
            builder.store(distances, builder.bitcast(place, form.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(tiles, types.int64, queries, types.int64, types.int64, out, types.int64), generate


@intrinsic
def prefetch(typingctx, array, offset):
    """Ask for the cache line of element ``offset`` of a one-dimensional array, for reading."""

    def generate(context, builder, signature, args):
        place = builder.gep(_data(context, builder, signature.args[0], args[0]), [args[1]])
        flags = [ir.Constant(_I32, 0), ir.Constant(_I32, 3), ir.Constant(_I32, 1)]  # read, keep, data
        _call(builder, "llvm.prefetch.p0", ir.VoidType(), [builder.bitcast(place, _I8.as_pointer()), *flags])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate
