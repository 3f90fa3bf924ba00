"""Look-ups by byte shuffles on other processors than this one."""

import llvmlite.binding as llvm
import pytest
from other_processors import cross_compiled, output_of_python

HAS_AVX512 = llvm.get_host_cpu_features().get("avx512bw", False)

COMPARE = """
import sys
import numpy as np
from numba.core.registry import cpu_target
from hashlearn.index.kernels import asymmetric, look_up
from hashlearn.index.kernels.rounding import fill_tables
rng = np.random.default_rng(0)
for n_bytes, dtype in ((9, np.uint16), (300, np.uint32))[slice(*map(int, sys.argv[1:]))]:
    codes = rng.integers(0, 256, (6400, n_bytes), dtype=np.uint8)
    tiles = np.ascontiguousarray(codes.reshape(-1, 64, n_bytes).transpose(0, 2, 1)).ravel()
    corrections = rng.integers(0, 256, 6400, dtype=np.uint8)
    values = rng.integers(-3100, 3101, (5, 8 * n_bytes)).astype(np.int32)
    tables, factors = np.empty((5, n_bytes * 32), np.uint16), rng.integers(0, 3000 << 8, 5)
    for row, table in zip(values, tables):
        fill_tables(row, table)
    divisors = np.full(5, 100)
    coarse = (tables // 100).astype(np.uint8).ravel()
    coarse_factors = (factors // (100 << 8)).astype(np.uint16)
    queries = asymmetric.Queries(tables.ravel(), factors, coarse, coarse_factors, divisors)
    signs = np.unpackbits(codes, axis=1).astype(np.float32) * 2 - 1
    sums = ((values @ signs.T.astype(np.float64)).astype(np.int64) + np.abs(values).sum(axis=1, keepdims=True)) // 2
    sums += corrections * factors[:, None] >> 16
    for k in (20, 2):  # without and with a guess
        expected = np.sort(sums << asymmetric.POSITION_BITS | np.arange(6400), axis=1)[:, :k]
        # Codes as long as the second are never scanned by bounds.
        for bounds in (None, np.empty(5 * (n_bytes + 1) * 32, np.uint8))[: 2 if n_bytes == 9 else 1]:
            keys = np.empty((5, k), np.int64)
            largest = dtype(np.iinfo(dtype).max)
            asymmetric.knn_scan(
                asymmetric.Codes(tiles, corrections, n_bytes, 6400), (0, 100), queries, bounds, k, largest, keys
            )
            assert np.array_equal(np.sort(keys, axis=1), expected)
triple, _, features = cpu_target.target_context.codegen().magic_tuple()
print(look_up.byte_shuffle(triple, features).name)
"""

# The shuffle is a function of another name until this processor is done with the code.
CROSS_COMPILE = """
from numba import typeof
from hashlearn.index.kernels import look_up
from hashlearn.index.kernels.look_up import least_sums, near_by_bounds, near_by_sums

@njit(_nrt=False)
def kernel(codes, tables, factors, limits, masks):
    group = (0, 1, 2, 3)
    least_sums(codes, 0, 8, tables, codes, factors, group, limits, masks)
    near = near_by_sums(codes, 0, 8, tables, codes, factors, group, limits, masks)
    return near | near_by_bounds(codes, 0, 8, tables, codes, group, masks)

name, n_bytes = more
rename = lambda text: text.replace("@stand_in", "@" + name)
llvm.add_symbol("stand_in", 1)
look_up.byte_shuffle = lambda *_: look_up.ByteShuffle("", "stand_in", int(n_bytes))
for dtype in (np.uint16, np.uint32):
    kinds = [np.empty(0, kind) for kind in (np.uint8, np.uint8, np.uint16, dtype, np.uint64)]
    kernel.compile(tuple(map(typeof, kinds)))
"""


@pytest.mark.skipif(llvm.get_default_triple().split("-")[0] != "x86_64", reason="names x86 processors")
@pytest.mark.parametrize(
    ("cpu", "features", "shuffle", "lengths"),
    [
        pytest.param(
            *("skylake-avx512", "+avx512bw,+avx512vl,+avx512f,+avx2,+avx,+fma,+ssse3,+popcnt,+bmi"),
            *("llvm.x86.avx512.pshuf.b.512", (0, 2)),
            marks=pytest.mark.skipif(not HAS_AVX512, reason="needs AVX-512"),
        ),
        ("haswell", "+avx2,+avx,+ssse3,+popcnt,+bmi", "llvm.x86.avx2.pshuf.b", (0, 2)),
        ("core2", "+ssse3", "llvm.x86.ssse3.pshuf.b.128", (0, 1)),
        ("x86-64", "+sse2", "", (1, 2)),
    ],
)
def test_results_are_the_same_with_narrow_registers_and_with_no_shuffle_at_all(cpu, features, shuffle, lengths):
    printed = output_of_python(COMPARE, *map(str, lengths), NUMBA_CPU_NAME=cpu, NUMBA_CPU_FEATURES=features)
    assert printed.strip() == shuffle


@pytest.mark.parametrize(
    ("triple", "cpu", "shuffle", "n_bytes", "instruction"),
    [
        ("aarch64-linux-gnu", "neoverse-n1", "llvm.aarch64.neon.tbl1.v16i8", 16, "tbl\tv"),
        ("x86_64-linux-gnu", "haswell", "llvm.x86.avx2.pshuf.b", 32, "vpshufb\t%ymm"),
        ("x86_64-linux-gnu", "skylake-avx512", "llvm.x86.avx512.pshuf.b.512", 64, "vpshufb\t%zmm"),
    ],
)
def test_look_ups_are_one_instruction_a_register(triple, cpu, shuffle, n_bytes, instruction):
    """Of four queries, for all strips: a byte's two halves by sums, twice (16 and 32 bits), and, with those of
    corrections, by bounds.
    """
    assembly = cross_compiled(CROSS_COMPILE, triple, cpu, shuffle, str(n_bytes))
    n_strips = 64 // n_bytes
    assert assembly.count(instruction) >= 4 * n_strips * 2 * (2 * 2 + 2 * 2)
