"""Look-ups in tables for the 64 codes of a tile at once, by byte shuffles, as LLVM intermediate code.

A byte of a code is two 4-bit numbers. A query has a table of 16 bytes for each: the entry is what these four bits add
to the code's sum. One instruction looks up as many numbers as a register has bytes (``pshufb`` on x86, ``tbl`` on ARM).
So codes lie byte-planar: byte 0 of all 64 codes of a tile, then byte 1 of all, and so on.

A tile is worked on in strips as wide as a register, for several queries at once, so that bytes are split into 4-bit
numbers once for all of them. Which instruction there is, and so the width, is known when the kernel is compiled.
"""

from typing import NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hashlearn.index.kernels.simd import I8, I16, I32, I64, TILE, all_lanes, binary, call, constant, data, load, splat

TABLE = 16

_REGISTERS_OF_SUMS = 8  # half of those of AVX2; the others hold codes and tables
_BYTES_WITHIN_16_BITS = 256  # the two entries of a byte add up to 255 at most


class ByteShuffle(NamedTuple):
    """An instruction that looks 4-bit numbers up in a table of 16 bytes, and the bytes of its registers.

    ``wraps`` says that the numbers may have other bits above their four: the table is there four times, and the
    instruction takes the six lowest bits.
    """

    feature: str
    name: str
    n_bytes: int
    wraps: bool = False


BYTE_SHUFFLES = (
    ByteShuffle("+avx512vbmi", "llvm.x86.avx512.permvar.qi.512", 64, wraps=True),
    ByteShuffle("+avx512bw", "llvm.x86.avx512.pshuf.b.512", 64),
    ByteShuffle("+avx2", "llvm.x86.avx2.pshuf.b", 32),
    ByteShuffle("+ssse3", "llvm.x86.ssse3.pshuf.b.128", 16),
    ByteShuffle("aarch64", "llvm.aarch64.neon.tbl1.v16i8", 16),
    ByteShuffle("arm64", "llvm.aarch64.neon.tbl1.v16i8", 16),
)
NO_SHUFFLE = ByteShuffle("", "", 16)


def byte_shuffle(triple: str, features: str) -> ByteShuffle:
    """The widest shuffle of a processor, given as LLVM names it, or NO_SHUFFLE.

    >>> byte_shuffle("x86_64-unknown-linux-gnu", "+ssse3,+avx2,-avx512bw").name
    'llvm.x86.avx2.pshuf.b'
    """
    offered = {triple.split("-")[0], *features.split(",")}
    return next((shuffle for shuffle in BYTE_SHUFFLES if shuffle.feature in offered), NO_SHUFFLE)


@intrinsic
def near_by_sums(typingctx, codes, tile, n_bytes, tables, corrections, factors, queries, limits, masks):
    """Find the codes of a tile whose sums are below the limits of some queries.

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
        Zero before. Word i gets a bit for every code that is near to the i-th of ``queries``.

    Returns
    -------
    uint64
        Bit i tells whether there is a code near to the i-th of ``queries``.
    """

    def generate(context, builder, signature, args):
        return _Sums(context, builder, signature, args).near_queries()

    signature = types.uint64(codes, types.int64, types.int64, tables, corrections, factors, queries, limits, masks)
    return signature, generate


@intrinsic
def least_sums(typingctx, codes, tile, n_bytes, tables, corrections, factors, queries, limits, least):
    """Write the least of the 64 sums of a tile to ``least``, of type uint64, for each of some queries.

    See :func:`near_by_sums`; of ``limits`` only the type counts.
    """

    def generate(context, builder, signature, args):
        _Sums(context, builder, signature, args).write_least()
        return context.get_dummy_value()

    arguments = codes, types.int64, types.int64, tables, corrections, factors, queries, limits, least
    return types.void(*arguments), generate


@intrinsic
def near_by_bounds(typingctx, codes, tile, n_bytes, tables, corrections, queries, masks):
    """Find the codes of a tile whose sums of 8 bits, which stop at 255, are below 255.

    See :func:`near_by_sums`. A query has two more tables after those of the code's bytes, for the correction.
    """

    def generate(context, builder, signature, args):
        return _Bounds(context, builder, signature, args).near_queries()

    return types.uint64(codes, types.int64, types.int64, tables, corrections, queries, masks), generate


@intrinsic
def near_in_list(typingctx, tiles, tile, n_bytes, tables, corrections, factors, queries, limits, sums, masks):
    """Find the codes of a tile of a list whose sums are below the limits of some queries.

    See :func:`near_by_sums`. A tile of a list has one byte more for every code, its correction, behind the others;
    ``corrections`` is None. Where there is a near code, ``sums``, of type uint16, gets the 64 sums without corrections
    of each of ``queries``.
    """

    def generate(context, builder, signature, args):
        return _ListSums(context, builder, signature, args).near_queries()

    arguments = tiles, types.int64, types.int64, tables, corrections, factors, queries, limits, sums, masks
    return types.uint64(*arguments), generate


@intrinsic
def low_in_list(typingctx, tiles, tile, n_bytes, tables, corrections, factors, queries, limits, sums):
    """Write the 64 sums of a tile of a list, without corrections, to ``sums``, of type uint16, for some queries.

    See :func:`near_in_list`.
    """

    def generate(context, builder, signature, args):
        _ListSums(context, builder, signature, args).write_sums()
        return context.get_dummy_value()

    arguments = tiles, types.int64, types.int64, tables, corrections, factors, queries, limits, sums
    return types.void(*arguments), generate


class _LookUps:
    """The arguments (codes, tile, n_bytes, tables, corrections, ..., answers) while code is generated."""

    registers_per_sum: int  # of one query and one strip

    def __init__(self, context, builder, signature, args, queries):
        def array(index):
            return data(context, builder, signature.args[index], args[index])

        triple, _, features = context.codegen().magic_tuple()
        self.shuffle = byte_shuffle(triple, features)
        self.bytes = ir.VectorType(I8, self.shuffle.n_bytes)
        self.builder = builder
        self.queries = cgutils.unpack_tuple(builder, queries)
        self.n_bytes = args[2]
        self.codes = self.at(array(0), self.times(self.times(args[1], self.n_bytes), TILE))
        self.tables = array(3)
        self.corrections = None
        if not isinstance(signature.args[4], types.NoneType):
            self.corrections = self.at(array(4), self.times(args[1], TILE))
        self.answers = array(-1)

    def near_queries(self):
        builder, width = self.builder, self.shuffle.n_bytes
        found = cgutils.alloca_once(builder, I64)
        builder.store(constant(0), found)
        for strips in self.groups_of_strips():
            sums = self.sums(strips)
            with builder.if_then(self.some_near(sums), likely=False):
                self.keep(strips)
                for place, of_query in enumerate(sums):
                    mask = constant(0)
                    for strip, one in zip(strips, of_query):
                        lanes = builder.bitcast(self.near_lanes(place, one), ir.IntType(width))
                        lanes = builder.zext(lanes, I64) if width < 64 else lanes
                        mask = builder.or_(mask, builder.shl(lanes, constant(strip * width)))
                    self.add_bits(self.at(self.answers, constant(place)), mask)
                    near = builder.zext(builder.icmp_unsigned("!=", mask, constant(0)), I64)
                    self.add_bits(found, builder.shl(near, constant(place)))
        return builder.load(found)

    def keep(self, strips):
        """What else there is to do with strips that have a near code."""

    def groups_of_strips(self):
        """The numbers of the strips, in groups whose sums fit the registers."""
        n_strips = TILE // self.shuffle.n_bytes
        together = min(n_strips, max(1, _REGISTERS_OF_SUMS // (self.registers_per_sum * len(self.queries))))
        return [range(start, start + together) for start in range(0, n_strips, together)]

    def query_tables(self, n_bytes):
        """Where the tables of each query begin, for codes of ``n_bytes`` bytes."""
        step = self.times(n_bytes, 2 * TABLE)
        return [self.at(self.tables, self.times(query, step)) for query in self.queries]

    def halves(self, base, byte, strip):
        """The first and the last four bits of a byte of the codes of a strip, as the shuffle takes them."""
        builder = self.builder
        place = builder.add(self.times(byte, TILE), constant(strip * self.shuffle.n_bytes))
        codes = load(builder, self.at(base, place), self.shuffle.n_bytes)
        if self.shuffle.wraps:
            words = ir.VectorType(I16, self.shuffle.n_bytes // 2)
            high = builder.lshr(builder.bitcast(codes, words), all_lanes(words, 4))
            return builder.bitcast(high, self.bytes), codes
        return builder.lshr(codes, all_lanes(self.bytes, 4)), builder.and_(codes, all_lanes(self.bytes, 15))

    def byte_tables(self, base, byte):
        """The two tables of a byte, as often as they fit in a register: a shuffle stays within 16 bytes."""
        order = list(range(TABLE)) * (self.shuffle.n_bytes // TABLE)
        repeated = ir.Constant(ir.VectorType(I32, len(order)), order)
        first = self.at(base, self.times(byte, 2 * TABLE))
        tables = [load(self.builder, place, TABLE) for place in (first, self.at(first, constant(TABLE)))]
        return [self.builder.shuffle_vector(table, table, repeated) for table in tables]

    def look_up(self, table, numbers):
        builder = self.builder
        if self.shuffle.name:
            return call(builder, self.shuffle.name, self.bytes, [table, numbers])
        entries = ir.Constant(self.bytes, ir.Undefined)
        for lane in range(self.shuffle.n_bytes):
            place = ir.Constant(I32, lane)
            entry = builder.extract_element(table, builder.extract_element(numbers, place))
            entries = builder.insert_element(entries, entry, place)
        return entries

    def zeros(self, register, *shape):
        """Places for registers, set to zero."""
        if shape:
            return [self.zeros(register, *shape[1:]) for _ in range(shape[0])]
        place = cgutils.alloca_once(self.builder, register)
        self.builder.store(ir.Constant(register, None), place)
        return place

    def loaded(self, places):
        return [self.loaded(place) if isinstance(place, list) else self.builder.load(place) for place in places]

    def add(self, place, value):
        self.builder.store(self.builder.add(self.builder.load(place), value), place)

    def add_bits(self, place, bits):
        self.builder.store(self.builder.or_(self.builder.load(place), bits), place)

    def at(self, base, offset):
        return self.builder.gep(base, [offset])

    def times(self, value, factor):
        return self.builder.mul(value, constant(factor) if isinstance(factor, int) else factor)


class _Sums(_LookUps):
    """Sums of 16 or 32 bits, in two registers: those of the codes at even places, and those at odd places."""

    registers_per_sum = 2

    def __init__(self, context, builder, signature, args):
        super().__init__(context, builder, signature, args, queries=args[6])
        self.factors = data(context, builder, signature.args[5], args[5])
        self.limits = data(context, builder, signature.args[7], args[7])
        self.n_lanes = self.shuffle.n_bytes // 2
        self.half = ir.VectorType(I16, self.n_lanes)
        self.sum = ir.VectorType(self.limits.type.pointee, self.n_lanes)

    def sums(self, strips):
        """(even, odd) for each query and strip."""
        if self.sum == self.half:
            sums = self._sums_of(strips, constant(0), self.n_bytes)
        else:
            sums = self._sums_of_parts(strips)
        return sums if self.corrections is None else self._all_corrected(strips, sums)

    def _all_corrected(self, strips, sums):
        return [
            [self._corrected(query, strip, pair) for strip, pair in zip(strips, of_query)]
            for query, of_query in zip(self.queries, sums)
        ]

    def write_least(self):
        builder = self.builder
        smallest = [all_lanes(self.sum, -1) for _ in self.queries]
        for strips in self.groups_of_strips():
            for place, of_query in enumerate(self.sums(strips)):
                for pair in of_query:
                    for one in pair:
                        smallest[place] = binary(builder, "umin", smallest[place], one)
        for place, register in enumerate(smallest):
            name = f"llvm.vector.reduce.umin.v{register.type.count}i{register.type.element.width}"
            least = call(builder, name, register.type.element, [register])
            builder.store(builder.zext(least, I64), self.at(self.answers, constant(place)))

    def some_near(self, sums):
        builder, together = self.builder, ir.Constant(self.sum, None)
        for place, of_query in enumerate(sums):
            for even, odd in of_query:
                below = binary(builder, "usub.sat", self._limit(place), binary(builder, "umin", even, odd))
                together = builder.or_(together, below)
        bits = builder.bitcast(together, ir.IntType(self.sum.count * self.sum.element.width))
        return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    def near_lanes(self, place, pair):
        even, odd = (self.builder.icmp_unsigned("<", one, self._limit(place)) for one in pair)
        return self._in_order(even, odd)

    def _in_order(self, even, odd):
        """One register of what stands at even and at odd places."""
        order = [index for lane in range(self.n_lanes) for index in (lane, self.n_lanes + lane)]
        return self.builder.shuffle_vector(even, odd, ir.Constant(ir.VectorType(I32, len(order)), order))

    def _limit(self, place):
        return splat(self.builder, self.builder.load(self.at(self.limits, self.queries[place])), self.n_lanes)

    def _sums_of_parts(self, strips):
        """Sums of 32 bits, from parts of the codes whose sums stay within 16."""
        builder = self.builder
        places = self.zeros(self.sum, len(self.queries), len(strips), 2)
        step = constant(_BYTES_WITHIN_16_BITS)
        with cgutils.for_range_slice(builder, constant(0), self.n_bytes, step, I64) as (first, _):
            end = builder.add(first, step)
            last = builder.select(builder.icmp_signed("<", end, self.n_bytes), end, self.n_bytes)
            for of_query, sums in zip(places, self._sums_of(strips, first, last)):
                for pair, values in zip(of_query, sums):
                    for place, value in zip(pair, values):
                        self.add(place, builder.zext(value, self.sum))
        return self.loaded(places)

    def _sums_of(self, strips, first, last):
        """Sums of 16 bits, of some of the bytes.

        The two entries of a byte are added in 8 bits. A register of these, taken as numbers of 16 bits, is even +
        256 * odd. It is added up as it is, beside the odd ones alone; what they have put on the even ones is taken off
        at the end.
        """
        builder, eight = self.builder, all_lanes(self.half, 8)
        places = self.zeros(self.half, len(self.queries), len(strips), 2)
        tables = self.query_tables(self.n_bytes)
        with cgutils.for_range(builder, last, start=first) as loop:
            halves = [self.halves(self.codes, loop.index, strip) for strip in strips]
            for base, of_query in zip(tables, places):
                high_table, low_table = self.byte_tables(base, loop.index)
                for (high, low), (both, odd) in zip(halves, of_query):
                    entries = builder.add(self.look_up(high_table, high), self.look_up(low_table, low))
                    entries = builder.bitcast(entries, self.half)
                    self.add(both, entries)
                    self.add(odd, builder.lshr(entries, eight))
        return [
            [(builder.sub(both, builder.shl(odd, eight)), odd) for both, odd in of_query]
            for of_query in self.loaded(places)
        ]

    def _corrected(self, query, strip, pair):
        builder = self.builder
        place = self.at(self.corrections, constant(strip * self.shuffle.n_bytes))
        numbers = builder.bitcast(load(builder, place, self.shuffle.n_bytes), self.half)
        factor = splat(builder, builder.load(self.at(self.factors, query)), self.n_lanes)
        # (256 c) * factor >> 16: there is an instruction for the upper half of a product
        upper = builder.shl(numbers, all_lanes(self.half, 8)), builder.and_(numbers, all_lanes(self.half, 0xFF00))
        return [builder.add(value, self._upper_product(number, factor)) for value, number in zip(pair, upper)]

    def _upper_product(self, a, b):
        builder, wide = self.builder, ir.VectorType(I32, self.n_lanes)
        product = builder.mul(builder.zext(a, wide), builder.zext(b, wide))
        upper = builder.lshr(product, all_lanes(wide, 16))
        return upper if self.sum == wide else builder.trunc(upper, self.sum)


class _ListSums(_Sums):
    """Sums of the codes of a list, which has its corrections in its tiles."""

    def __init__(self, context, builder, signature, args):
        super().__init__(context, builder, signature, args)
        planes = builder.add(self.n_bytes, constant(1))
        tiles = data(context, builder, signature.args[0], args[0])
        self.codes = self.at(tiles, self.times(self.times(args[1], planes), TILE))
        self.corrections = self.at(self.codes, self.times(self.n_bytes, TILE))
        self.written = data(context, builder, signature.args[8], args[8])

    def sums(self, strips):
        self.uncorrected = self._sums_of(strips, constant(0), self.n_bytes)
        return self._all_corrected(strips, self.uncorrected)

    def keep(self, strips):
        self._write(strips, self.uncorrected)

    def write_sums(self):
        for strips in self.groups_of_strips():
            self._write(strips, self._sums_of(strips, constant(0), self.n_bytes))

    def _write(self, strips, sums):
        builder = self.builder
        for query, of_query in enumerate(sums):
            for strip, pair in zip(strips, of_query):
                place = self.at(self.written, constant(query * TILE + strip * self.shuffle.n_bytes))
                register = self._in_order(*pair)
                builder.store(register, builder.bitcast(place, register.type.as_pointer()), align=1)


class _Bounds(_LookUps):
    """Sums of 8 bits that stop at 255."""

    registers_per_sum = 1

    def __init__(self, context, builder, signature, args):
        super().__init__(context, builder, signature, args, queries=args[5])

    def sums(self, strips):
        builder = self.builder
        places = self.zeros(self.bytes, len(self.queries), len(strips))
        tables = self.query_tables(builder.add(self.n_bytes, constant(1)))
        with cgutils.for_range(builder, self.n_bytes) as loop:
            halves = [self.halves(self.codes, loop.index, strip) for strip in strips]
            self._add_entries(places, tables, loop.index, halves)
        if self.corrections is not None:
            halves = [self.halves(self.corrections, constant(0), strip) for strip in strips]
            self._add_entries(places, tables, self.n_bytes, halves)
        return self.loaded(places)

    def some_near(self, sums):
        builder, together = self.builder, all_lanes(self.bytes, 255)
        for of_query in sums:
            for one in of_query:
                together = builder.and_(together, one)
        bits = builder.bitcast(together, ir.IntType(8 * self.bytes.count))
        return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, -1))

    def near_lanes(self, place, one):
        return self.builder.icmp_unsigned("!=", one, all_lanes(self.bytes, 255))

    def _add_entries(self, places, tables, byte, halves):
        builder = self.builder
        for base, of_query in zip(tables, places):
            pair_of_tables = self.byte_tables(base, byte)
            for numbers, place in zip(halves, of_query):
                value = builder.load(place)
                for table, half in zip(pair_of_tables, numbers):
                    value = binary(builder, "uadd.sat", value, self.look_up(table, half))
                builder.store(value, place)
