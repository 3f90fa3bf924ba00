"""Sums of table entries for the 64 codes of a tile, by byte shuffles, as LLVM intermediate code.

A byte of a code is two 4-bit numbers. A query has a table of 16 bytes for each: the entry is what these four bits add
to the code's sum. One instruction looks up as many numbers at once as a register has bytes (``pshufb`` on x86, ``tbl``
on ARM), so codes lie byte-planar: byte 0 of all 64 codes of a tile, then byte 1 of all, and so on.

A tile is worked on in strips of one register, for several queries at once, so that a code's bytes are split into 4-bit
numbers once for all of them. All intrinsics tell which of these queries the tile has a near code for (bit i for the
i-th) and add to ``masks[i]``, which must be zero before, a bit for each near code.
"""

from typing import NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hashlearn.search.kernels.simd import TILE, _call, _data

TABLE = 16

_I64, _I32, _I16, _I8 = (ir.IntType(width) for width in (64, 32, 16, 8))
_REGISTERS_OF_SUMS = 8  # half of what a processor with AVX2 has
_BYTES_WITHIN_16_BITS = 256  # the two entries of a byte add up to 255 at most


class ByteShuffle(NamedTuple):
    """An instruction that looks 4-bit numbers up in a table of 16 bytes, and the bytes of its registers."""

    feature: str
    name: str
    n_bytes: int


BYTE_SHUFFLES = (
    ByteShuffle("+avx512bw", "llvm.x86.avx512.pshuf.b.512", 64),
    ByteShuffle("+avx2", "llvm.x86.avx2.pshuf.b", 32),
    ByteShuffle("+ssse3", "llvm.x86.ssse3.pshuf.b.128", 16),
    ByteShuffle("aarch64", "llvm.aarch64.neon.tbl1.v16i8", 16),
)
NO_SHUFFLE = ByteShuffle("", "", 16)


def byte_shuffle(target: tuple[str, str, str]) -> ByteShuffle:
    """The widest shuffle of a target (triple, processor, features), or NO_SHUFFLE."""
    triple, _, features = target
    offered = {triple.split("-")[0], *features.split(",")}
    return next((shuffle for shuffle in BYTE_SHUFFLES if shuffle.feature in offered), NO_SHUFFLE)


@intrinsic
def near_by_sums(typingctx, codes, tile, n_bytes, tables, corrections, factors, queries, limits, masks):
    """Near codes are those whose sum is less than the query's limit.

    Parameters
    ----------
    codes : array, uint8
        Byte-planar tiles.
    tile, n_bytes : int64
    tables : array, uint8
        For each byte of each query a table for the first four bits, and one for the others.
    corrections : array, uint8, or None
        One number c a code. It adds ``c * factors[query] >> 8`` to the sum.
    factors : array, uint16
    queries : tuple of int64
        The queries to look at; their number is part of the type.
    limits : array, uint16 or uint32
        By query; sums are of this type.
    masks : array, uint64
    """

    def generate(context, builder, signature, args):
        return _Sums(context, builder, signature, args).near_queries()

    signature = types.uint64(codes, types.int64, types.int64, tables, corrections, factors, queries, limits, masks)
    return signature, generate


@intrinsic
def near_by_bounds(typingctx, codes, tile, n_bytes, tables, corrections, queries, masks):
    """Near codes are those whose sum, which stops at 255, is less than 255.

    See :func:`near_by_sums` for the arguments. A query has two more tables after those of the code's bytes, for the
    correction.
    """

    def generate(context, builder, signature, args):
        return _Bounds(context, builder, signature, args).near_queries()

    return types.uint64(codes, types.int64, types.int64, tables, corrections, queries, masks), generate


class _LookUps:
    """The arguments of an intrinsic, while code is generated."""

    registers_per_sum: int  # of one query and strip

    def __init__(self, context, builder, signature, args):
        self.builder = builder
        self._types = signature.args
        self._context = context
        self.n_bytes = args[2]
        self.codes = self._at(self._array(args, 0), self._times(self._times(args[1], self.n_bytes), TILE))
        self.tables = self._array(args, 3)
        self.corrections = None
        if not isinstance(signature.args[4], types.NoneType):
            self.corrections = self._at(self._array(args, 4), self._times(args[1], TILE))
        self.masks = self._array(args, -1)
        self.shuffle = byte_shuffle(context.codegen().magic_tuple())
        self.bytes = ir.VectorType(_I8, self.shuffle.n_bytes)

    def near_queries(self):
        builder, width = self.builder, self.shuffle.n_bytes
        n_strips = TILE // width
        together = min(n_strips, max(1, _REGISTERS_OF_SUMS // self.registers_per_sum // len(self.queries)))
        found = cgutils.alloca_once_value(builder, _number(0))
        builder.store(_number(0), found)
        for start in range(0, n_strips, together):
            strips = range(start, start + together)
            sums = self.sums(strips)
            with builder.if_then(self.some_near(sums), likely=False):
                for place, of_query in enumerate(sums):
                    mask = _number(0)
                    for strip, one in zip(strips, of_query):
                        lanes = builder.bitcast(self.near_lanes(place, one), ir.IntType(width))
                        lanes = builder.zext(lanes, _I64) if width < 64 else lanes
                        mask = builder.or_(mask, builder.shl(lanes, _number(strip * width)))
                    at = self._at(self.masks, _number(place))
                    builder.store(builder.or_(builder.load(at), mask), at)
                    near = builder.zext(builder.icmp_unsigned("!=", mask, _number(0)), _I64)
                    builder.store(builder.or_(builder.load(found), builder.shl(near, _number(place))), found)
        return builder.load(found)

    def query_tables(self, n_bytes):
        """Where the tables of each query begin, of so many bytes a code."""
        step = self._times(n_bytes, 2 * TABLE)
        return [self._at(self.tables, self.builder.mul(query, step)) for query in self.queries]

    def halves(self, base, byte, strip):
        """The first and the last four bits of a byte of the codes of a strip."""
        builder = self.builder
        place = builder.add(self._times(byte, TILE), _number(strip * self.shuffle.n_bytes))
        codes = _load(builder, self._at(base, place), self.shuffle.n_bytes)
        return builder.lshr(codes, _all(self.bytes, 4)), builder.and_(codes, _all(self.bytes, 15))

    def byte_tables(self, base, byte):
        """The two tables of a byte, as often as they fit in a register: a shuffle stays within 16 bytes."""
        order = list(range(TABLE)) * (self.shuffle.n_bytes // TABLE)
        repeated = ir.Constant(ir.VectorType(_I32, len(order)), order)
        first = self._at(base, self._times(byte, 2 * TABLE))
        tables = [_load(self.builder, place, TABLE) for place in (first, self._at(first, _number(TABLE)))]
        return [self.builder.shuffle_vector(table, table, repeated) for table in tables]

    def entries(self, tables, halves):
        """The entries of the two halves of a byte."""
        return [self._look_up(table, half) for table, half in zip(tables, halves)]

    def _look_up(self, table, numbers):
        builder = self.builder
        if self.shuffle != NO_SHUFFLE:
            return _call(builder, self.shuffle.name, self.bytes, [table, numbers])
        entries = ir.Constant(self.bytes, ir.Undefined)
        for lane in range(self.shuffle.n_bytes):
            place = ir.Constant(_I32, lane)
            entry = builder.extract_element(table, builder.extract_element(numbers, place))
            entries = builder.insert_element(entries, entry, place)
        return entries

    def _array(self, args, index):
        return _data(self._context, self.builder, self._types[index], args[index])

    def _at(self, base, offset):
        return self.builder.gep(base, [offset])

    def _times(self, value, factor):
        factor = _number(factor) if isinstance(factor, int) else factor
        return self.builder.mul(value, factor)

    def _zeros(self, register, *shape):
        """Places for registers, set to zero."""
        if shape:
            return [self._zeros(register, *shape[1:]) for _ in range(shape[0])]
        place = cgutils.alloca_once(self.builder, register)
        self.builder.store(ir.Constant(register, None), place)
        return place

    def _add(self, place, value):
        self.builder.store(self.builder.add(self.builder.load(place), value), place)


class _Sums(_LookUps):
    """Sums of 16 or 32 bits, in two registers: those of the codes at even places, and those at odd places."""

    registers_per_sum = 2

    def __init__(self, context, builder, signature, args):
        super().__init__(context, builder, signature, args)
        self.factors = self._array(args, 5)
        self.queries = cgutils.unpack_tuple(builder, args[6])
        self.limits = self._array(args, 7)
        self.lanes = self.shuffle.n_bytes // 2
        self.half = ir.VectorType(_I16, self.lanes)
        self.sum = ir.VectorType(self.limits.type.pointee, self.lanes)

    def sums(self, strips):
        """For each query and strip (even, odd)."""
        whole = self.sum == self.half
        sums = self._sums_of(strips, _number(0), self.n_bytes) if whole else self._sums_of_parts(strips)
        if self.corrections is None:
            return sums
        return [
            [self._corrected(query, strip, pair) for strip, pair in zip(strips, of_query)]
            for query, of_query in zip(self.queries, sums)
        ]

    def some_near(self, sums):
        together = ir.Constant(self.sum, None)
        for place, of_query in enumerate(sums):
            for even, odd in of_query:
                smaller = _binary(self.builder, "umin", even, odd)
                below = _binary(self.builder, "usub.sat", self._limit(place), smaller)
                together = self.builder.or_(together, below)
        bits = self.builder.bitcast(together, ir.IntType(self.sum.count * self.sum.element.width))
        return self.builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    def near_lanes(self, place, pair):
        even, odd = (self.builder.icmp_unsigned("<", one, self._limit(place)) for one in pair)
        order = [index for lane in range(self.lanes) for index in (lane, self.lanes + lane)]
        return self.builder.shuffle_vector(even, odd, ir.Constant(ir.VectorType(_I32, len(order)), order))

    def _limit(self, place):
        return _splat(self.builder, self.builder.load(self._at(self.limits, self.queries[place])), self.lanes)

    def _sums_of_parts(self, strips):
        """Sums of 32 bits, of parts whose sums stay within 16."""
        builder = self.builder
        places = self._zeros(self.sum, len(self.queries), len(strips), 2)
        step = _number(_BYTES_WITHIN_16_BITS)
        with cgutils.for_range_slice(builder, _number(0), self.n_bytes, step, _I64) as (first, _):
            end = builder.add(first, step)
            last = builder.select(builder.icmp_signed("<", end, self.n_bytes), end, self.n_bytes)
            for of_query, sums in zip(places, self._sums_of(strips, first, last)):
                for pair, values in zip(of_query, sums):
                    for place, value in zip(pair, values):
                        self._add(place, builder.zext(value, self.sum))
        return _loaded(builder, places)

    def _sums_of(self, strips, first, last):
        """Sums of 16 bits, of some of the bytes.

        A register with the sums of a byte's two entries, taken as numbers of 16 bits, is even + 256 * odd. This is
        added up as it is, beside the odd ones alone; what they have put on the even ones is taken off at the end.
        """
        builder, eight = self.builder, _all(self.half, 8)
        places = self._zeros(self.half, len(self.queries), len(strips), 2)
        tables = self.query_tables(self.n_bytes)
        with cgutils.for_range(builder, last, start=first) as loop:
            halves = [self.halves(self.codes, loop.index, strip) for strip in strips]
            for base, of_query in zip(tables, places):
                pair_of_tables = self.byte_tables(base, loop.index)
                for numbers, (both, odd) in zip(halves, of_query):
                    entries = builder.bitcast(builder.add(*self.entries(pair_of_tables, numbers)), self.half)
                    self._add(both, entries)
                    self._add(odd, builder.lshr(entries, eight))
        return [
            [(builder.sub(both, builder.shl(odd, eight)), odd) for both, odd in of_query]
            for of_query in _loaded(builder, places)
        ]

    def _corrected(self, query, strip, pair):
        builder = self.builder
        place = self._at(self.corrections, _number(strip * self.shuffle.n_bytes))
        numbers = builder.bitcast(_load(builder, place, self.shuffle.n_bytes), self.half)
        factor = _splat(builder, builder.load(self._at(self.factors, query)), self.lanes)
        # c * 256 * factor >> 16: there is an instruction for the upper half of a product
        upper = builder.shl(numbers, _all(self.half, 8)), builder.and_(numbers, _all(self.half, 0xFF00))
        return [builder.add(value, self._upper_product(number, factor)) for value, number in zip(pair, upper)]

    def _upper_product(self, a, b):
        wide = ir.VectorType(_I32, self.lanes)
        product = self.builder.mul(self.builder.zext(a, wide), self.builder.zext(b, wide))
        upper = self.builder.lshr(product, _all(wide, 16))
        return upper if self.sum == wide else self.builder.trunc(upper, self.sum)


class _Bounds(_LookUps):
    """Sums of 8 bits that stop at 255."""

    registers_per_sum = 1

    def __init__(self, context, builder, signature, args):
        super().__init__(context, builder, signature, args)
        self.queries = cgutils.unpack_tuple(builder, args[5])

    def sums(self, strips):
        builder = self.builder
        places = self._zeros(self.bytes, len(self.queries), len(strips))
        tables = self.query_tables(builder.add(self.n_bytes, _number(1)))
        with cgutils.for_range(builder, self.n_bytes) as loop:
            halves = [self.halves(self.codes, loop.index, strip) for strip in strips]
            self._add_entries(places, tables, loop.index, halves)
        if self.corrections is not None:
            halves = [self.halves(self.corrections, _number(0), strip) for strip in strips]
            self._add_entries(places, tables, self.n_bytes, halves)
        return _loaded(builder, places)

    def some_near(self, sums):
        together = _all(self.bytes, 255)
        for of_query in sums:
            for one in of_query:
                together = self.builder.and_(together, one)
        bits = self.builder.bitcast(together, ir.IntType(8 * self.bytes.count))
        return self.builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, -1))

    def near_lanes(self, place, one):
        return self.builder.icmp_unsigned("!=", one, _all(self.bytes, 255))

    def _add_entries(self, places, tables, byte, halves):
        builder = self.builder
        for base, of_query in zip(tables, places):
            pair_of_tables = self.byte_tables(base, byte)
            for numbers, place in zip(halves, of_query):
                value = builder.load(place)
                for entry in self.entries(pair_of_tables, numbers):
                    value = _binary(builder, "uadd.sat", value, entry)
                builder.store(value, place)


def _number(value):
    return ir.Constant(_I64, value)


def _all(register, value):
    return ir.Constant(register, [value] * register.count)


def _binary(builder, name, a, b):
    return _call(builder, f"llvm.{name}.v{a.type.count}i{a.type.element.width}", a.type, [a, b])


def _loaded(builder, places):
    return [_loaded(builder, place) if isinstance(place, list) else builder.load(place) for place in places]


def _load(builder, place, count):
    register = ir.VectorType(place.type.pointee, count)
    return builder.load(builder.bitcast(place, register.as_pointer()), align=1)


def _splat(builder, scalar, count):
    register = ir.VectorType(scalar.type, count)
    one = builder.insert_element(ir.Constant(register, ir.Undefined), scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_I32, count), [0] * count))
