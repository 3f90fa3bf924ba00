"""Vector instructions for the kernels, as LLVM intermediate code.

numba's own vectoriser follows LLVM's preference for 256-bit registers on Intel servers, which halves the throughput
of the population count. Vectors of 512 bits written out here use AVX-512 where the CPU has it, and LLVM splits them for
AVX2 or NEON where it has not: one source for all.

All work on one tile (see :mod:`hashlearn.index.kernels.tiles`): 64 codes, word by word. The type of a word, 8 to 64
bits wide, is the array's, so every width compiles to its own code; the number of words is an argument, so every length
shares it.

Six functions ask whether some code of a tile may be nearer than a limit. Some count less than the distance, for less:

- ``front`` looks at the words in front only;
- ``pairs`` counts two words as one, by the bits that differ in either: ``popcount(a | b)`` is at most
  ``popcount(a) + popcount(b)``;
- ``folded`` counts the two halves of every byte as one in the same way. A processor without an instruction for the
  population count of a vector looks half bytes up in a table, and needs half as many looks then.
"""

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

I64, I32, I16, I8 = (ir.IntType(width) for width in (64, 32, 16, 8))
REGISTER_BITS = 512
TILE = 64

FOLDING_PAYS = not llvm.get_host_cpu_features().get("avx512vpopcntdq", False)
"""Is the population count of a vector made of several instructions?"""

_AT_ONCE = 4  # registers of distances
_LOW_HALVES = 0x0F0F0F0F0F0F0F0F


def constant(value):
    return ir.Constant(I64, value)


def call(builder, name, result, args):
    """Call an intrinsic of LLVM."""
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, [a.type for a in args]), name)
    return builder.call(function, args)


def data(context, builder, array_type, array):
    """The address of an array's first element."""
    return context.make_array(array_type)(context, builder, array).data


def all_lanes(register, value):
    """A register with the same constant in all lanes."""
    return ir.Constant(register, [value] * register.count)


def splat(builder, scalar, count):
    """A register with the same number in all lanes."""
    register = ir.VectorType(scalar.type, count)
    one = builder.insert_element(ir.Constant(register, ir.Undefined), scalar, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(I32, count), [0] * count))


def load(builder, place, count):
    """A register of ``count`` numbers from any address in memory."""
    register = ir.VectorType(place.type.pointee, count)
    return builder.load(builder.bitcast(place, register.as_pointer()), align=1)


def binary(builder, name, a, b):
    """An intrinsic of LLVM that works on two registers lane by lane."""
    return call(builder, f"llvm.{name}.v{a.type.count}i{a.type.element.width}", a.type, [a, b])


def _element(builder, base, *offsets):
    total = offsets[0]
    for offset in offsets[1:]:
        total = builder.add(total, offset)
    return builder.gep(base, [total])


def _register(word):
    return ir.VectorType(word, REGISTER_BITS // word.width)


def _splat(builder, scalar):
    return splat(builder, scalar, _register(scalar.type).count)


def _resize(builder, value, word):
    if value.type.width == word.width:
        return value
    return builder.trunc(value, word) if value.type.width > word.width else builder.zext(value, word)


class _Half:
    """The words of a tile that lie in one array, and the query's words that belong to them."""

    def __init__(self, builder, codes, tile, n_words, query):
        self.builder = builder
        self.codes = codes
        self.offset = builder.mul(tile, builder.mul(n_words, constant(TILE)))
        self.n_words = n_words
        self.query = query

    def differences(self, index, lanes):
        """Word ``index`` of the codes in some lanes XOR that of the query, as registers."""
        builder = self.builder
        query = _splat(builder, builder.load(_element(builder, self.query, index)))
        register = query.type
        plane = builder.add(self.offset, builder.mul(index, constant(TILE)))
        found = []
        for lane in lanes:
            place = _element(builder, self.codes, plane, constant(lane))
            codes = builder.load(builder.bitcast(place, register.as_pointer()), align=register.element.width // 8)
            found.append(builder.xor(codes, query))
        return found


class _Tile:
    """A tile and a query while code is generated, from the arguments (tiles, tile, queries, query_offset).

    Distances come as registers of the word's type, a few at a time: all 64 at once would not fit the registers of AVX2.
    """

    def __init__(self, context, builder, signature, args):
        fields = dict(zip(signature.args[0].fields, cgutils.unpack_tuple(builder, args[0])))
        kinds = dict(zip(signature.args[0].fields, signature.args[0].types))
        query = builder.gep(data(context, builder, signature.args[2], args[2]), [args[3]])
        front, back = (data(context, builder, kinds[name], fields[name]) for name in ("front", "back"))
        self.builder = builder
        self.front = _Half(builder, front, args[1], fields["n_front"], query)
        self.back = _Half(builder, back, args[1], fields["n_back"], builder.gep(query, [fields["n_front"]]))
        self.word = front.type.pointee
        starts = range(0, TILE, _register(self.word).count)
        self.groups = [starts[i : i + _AT_ONCE] for i in range(0, len(starts), _AT_ONCE)]

    def front_distances(self, lanes):
        """Distances by the words in front."""
        return self._sum_all(self.front.n_words, lambda i: self.front.differences(i, lanes))

    def distances(self, lanes):
        """Distances by all words."""
        first = self.front_distances(lanes)
        if self.word.width < 32:  # such codes are one word
            return first
        return self._sum(first, self.back.n_words, 0, lambda i: self.back.differences(i, lanes))

    def pairs(self, lanes):
        """Words i of front and back counted as one."""
        return self._sum_all(self.front.n_words, lambda i: self._either(i, self.back.differences(i, lanes), lanes))

    def front_pairs(self, lanes):
        """Words i and i + n_front / 2 counted as one."""
        return self._sum_all(self._n_front_pairs(), lambda i: self._front_pair(i, lanes))

    def folded_front(self, lanes):
        """The words in front, folded."""
        return self._sum_all(self.front.n_words, lambda i: self._folded(self.front.differences(i, lanes)))

    def folded_front_pairs(self, lanes):
        """Words i and i + n_front / 2 counted as one, folded."""
        return self._sum_all(self._n_front_pairs(), lambda i: self._folded(self._front_pair(i, lanes)))

    def _n_front_pairs(self):
        return self.builder.lshr(self.front.n_words, constant(1))

    def _front_pair(self, index, lanes):
        second = self.builder.add(index, self._n_front_pairs())
        return self._either(index, self.front.differences(second, lanes), lanes)

    def _either(self, index, others, lanes):
        return [self.builder.or_(*pair) for pair in zip(self.front.differences(index, lanes), others)]

    def _folded(self, registers):
        shift = _splat(self.builder, ir.Constant(self.word, 4))
        low_halves = _splat(self.builder, ir.Constant(self.word, _LOW_HALVES & ((1 << self.word.width) - 1)))
        both = [self.builder.or_(register, self.builder.lshr(register, shift)) for register in registers]
        return [self.builder.and_(register, low_halves) for register in both]

    def _sum_all(self, n, registers):
        """The counts of ``registers(i)`` for i from 0 to n, which is at least 1."""
        first = self._counts(registers(constant(0)))
        return first if self.word.width < 32 else self._sum(first, n, 1, registers)

    def _counts(self, registers):
        name = f"llvm.ctpop.v{registers[0].type.count}i{self.word.width}"
        return [call(self.builder, name, register.type, [register]) for register in registers]

    def _sum(self, first, n, start, registers):
        """The first counts, and those of ``registers(i)`` for i from ``start`` to n."""
        sums = [cgutils.alloca_once_value(self.builder, count) for count in first]
        with cgutils.for_range(self.builder, n, start=constant(start)) as loop:
            for place, count in zip(sums, self._counts(registers(loop.index))):
                self.builder.store(self.builder.add(self.builder.load(place), count), place)
        return [self.builder.load(place) for place in sums]

    def any_below(self, distances, limit):
        """Is the least of the 64 distances, or of what else is given, less than the limit? One bit."""
        nearest = [self._minimum(distances(lanes)) for lanes in self.groups]
        lanes = self._below(self._minimum(nearest), limit)
        return call(self.builder, f"llvm.vector.reduce.or.v{lanes.type.count}i1", ir.IntType(1), [lanes])

    def mask_below(self, distances, limit):
        """One bit per lane, as an integer: is the distance less than the limit?"""
        lanes = self._below(distances, limit)
        bits = self.builder.bitcast(lanes, ir.IntType(lanes.type.count))
        return _resize(self.builder, bits, I64)

    def _below(self, distances, limit):
        """Both are small numbers: compared as signed ones, for which AVX2 has an instruction."""
        limits = _splat(self.builder, _resize(self.builder, limit, self.word))
        return self.builder.icmp_signed("<", distances, limits)

    def _minimum(self, registers):
        """Lane by lane. Distances fit in 32 bits, whose minimum runs on a port the population count leaves free."""
        lane = I32 if self.word.width == 64 else self.word
        form = _register(lane)
        name = f"llvm.umin.v{form.count}i{lane.width}"
        parts = [self.builder.bitcast(register, form) for register in registers]
        while len(parts) > 1:
            parts = [call(self.builder, name, form, parts[i : i + 2]) for i in range(0, len(parts), 2)]
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
def lanes_not_above(typingctx, numbers, first, limit):
    """64 bits: bit i is one if number ``first + i`` of an array of float32 is not above a limit."""

    def generate(context, builder, signature, args):
        base, mask, count = data(context, builder, signature.args[0], args[0]), constant(0), 16
        limits = splat(builder, args[2], count)
        for lane in range(0, TILE, count):
            place = builder.gep(base, [builder.add(args[1], constant(lane))])
            near = builder.fcmp_ordered("<=", load(builder, place, count), limits)
            bits = builder.zext(builder.bitcast(near, ir.IntType(count)), I64)
            mask = builder.or_(mask, builder.shl(bits, constant(lane)))
        return mask

    return types.uint64(numbers, types.int64, types.float32), generate


def _about_a_tile(answer, tiles, queries):
    """The signature of what asks about a tile: (tiles, tile, queries, query_offset, limit)."""
    return answer(tiles, types.int64, queries, types.int64, types.int64)


@intrinsic
def any_below(typingctx, tiles, tile, queries, query_offset, limit):
    """Is some code of the tile nearer than ``limit``?"""

    def generate(context, builder, signature, args):
        look = _Tile(context, builder, signature, args)
        return look.any_below(look.distances, args[4])

    return _about_a_tile(types.boolean, tiles, queries), generate


@intrinsic
def any_pairs_below(typingctx, tiles, tile, queries, query_offset, limit):
    """May some code of the tile be nearer, by the pairs of its words? For codes with a back."""

    def generate(context, builder, signature, args):
        look = _Tile(context, builder, signature, args)
        return look.any_below(look.pairs, args[4])

    return _about_a_tile(types.boolean, tiles, queries), generate


@intrinsic
def any_front_below(typingctx, tiles, tile, queries, query_offset, limit):
    """May some code of the tile be nearer, by its words in front?"""

    def generate(context, builder, signature, args):
        look = _Tile(context, builder, signature, args)
        return look.any_below(look.front_distances, args[4])

    return _about_a_tile(types.boolean, tiles, queries), generate


@intrinsic
def any_front_pairs_below(typingctx, tiles, tile, queries, query_offset, limit):
    """May some code of the tile be nearer, by the pairs of its words in front, of which there are two or more?"""

    def generate(context, builder, signature, args):
        look = _Tile(context, builder, signature, args)
        return look.any_below(look.front_pairs, args[4])

    return _about_a_tile(types.boolean, tiles, queries), generate


@intrinsic
def any_folded_below(typingctx, tiles, tile, queries, query_offset, limit):
    """May some code of the tile be nearer, by its words in front, folded?"""

    def generate(context, builder, signature, args):
        look = _Tile(context, builder, signature, args)
        return look.any_below(look.folded_front, args[4])

    return _about_a_tile(types.boolean, tiles, queries), generate


@intrinsic
def any_folded_pairs_below(typingctx, tiles, tile, queries, query_offset, limit):
    """May some code of the tile be nearer, by the pairs of its words in front, folded?"""

    def generate(context, builder, signature, args):
        look = _Tile(context, builder, signature, args)
        return look.any_below(look.folded_front_pairs, args[4])

    return _about_a_tile(types.boolean, tiles, queries), generate


@intrinsic
def mask_below(typingctx, tiles, tile, queries, query_offset, limit):
    """64 bits: bit i is one if code i of the tile is nearer than ``limit``."""

    def generate(context, builder, signature, args):
        look = _Tile(context, builder, signature, args)
        mask = constant(0)
        for lanes in look.groups:
            for lane, distances in zip(lanes, look.distances(lanes)):
                mask = builder.or_(mask, builder.shl(look.mask_below(distances, args[4]), constant(lane)))
        return mask

    return _about_a_tile(types.uint64, tiles, queries), generate


@intrinsic
def write_distances(typingctx, tiles, tile, queries, query_offset, out, start):
    """Write the tile's 64 distances to ``out[start : start + 64]``, of an unsigned type that holds them."""

    def generate(context, builder, signature, args):
        look = _Tile(context, builder, signature, args)
        out = data(context, builder, signature.args[4], args[4])
        for lanes in look.groups:
            for lane, distances in zip(lanes, look.distances(lanes)):
                form = ir.VectorType(out.type.pointee, distances.type.count)
                if form.element.width > look.word.width:
                    distances = builder.zext(distances, form)
                elif form.element.width < look.word.width:
                    distances = builder.trunc(distances, form)
                place = _element(builder, out, args[5], constant(lane))
                builder.store(distances, builder.bitcast(place, form.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(tiles, types.int64, queries, types.int64, out, types.int64), generate


@intrinsic
def prefetch(typingctx, array, offset):
    """Ask for the cache line of element ``offset`` of a one-dimensional array, for reading."""

    def generate(context, builder, signature, args):
        place = builder.gep(data(context, builder, signature.args[0], args[0]), [args[1]])
        flags = [ir.Constant(I32, 0), ir.Constant(I32, 3), ir.Constant(I32, 1)]  # read, keep, data
        call(builder, "llvm.prefetch.p0", ir.VoidType(), [builder.bitcast(place, I8.as_pointer()), *flags])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def copy_words(typingctx, source, first, target, target_first, n):
    """``target[target_first : target_first + n] = source[first : first + n]``, by the C library's memmove."""

    def generate(context, builder, signature, args):
        origin = builder.gep(data(context, builder, signature.args[0], args[0]), [args[1]])
        place = builder.gep(data(context, builder, signature.args[2], args[2]), [args[3]])
        cgutils.raw_memmove(builder, place, origin, args[4], place.type.pointee.width // 8)
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64, types.int64), generate
