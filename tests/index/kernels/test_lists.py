"""The search in lists on processors without AVX-512, and the products it begins with."""

import json
import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from other_processors import cross_compiled, output_of_python

from hashlearn.index import PartitionedIndex
from hashlearn.index.kernels.products import products, short, vector_tiles
from hashlearn.index.kernels.sorting import sort_keys

SEARCH = """
import json
import sys
import numba
import numpy as np
from hashlearn.index import PartitionedIndex
index, X = PartitionedIndex.open(sys.argv[1]), np.load(sys.argv[2])
assert "512" not in numba.config.CPU_FEATURES
print(json.dumps([index.search(X[:n], 5, probes=9).ids.tolist() for n in (7, 1)]))
"""

AVX2 = "+avx2,+avx,+fma,+ssse3,+sse4.2,+popcnt,+bmi,+bmi2"
AVX512 = AVX2 + ",+avx512f,+avx512bw,+avx512vl,+avx512dq"

PRODUCTS = """
import numpy as np
from numba import njit, typeof
from hashlearn.index.kernels.products import products
kernel = njit(products.py_func, _nrt=False, no_cpython_wrapper=True)
arrays = np.zeros(64, np.uint32), np.zeros((5, 2), np.float32), np.zeros((5, 64), np.float32)
kernel.compile(tuple(map(typeof, arrays)))
print(*kernel.inspect_asm().values())
"""

CROSS_COMPILE = """
from hashlearn.index.kernels.products import products
kernel = njit(products.py_func, _nrt=False)  # code from the cache could not be looked at
kernel(np.zeros(64, np.uint32), np.zeros((5, 2), np.float32), np.zeros((5, 64), np.float32))
"""


on_x86 = pytest.mark.skipif(llvm.get_default_triple().split("-")[0] != "x86_64", reason="names an x86 processor")


@on_x86
def test_results_are_the_same_on_a_processor_with_avx2_only(tmp_path):
    """The lists are filled here, so that only the search is compiled for the other processor."""
    X = np.random.default_rng(0).integers(-8, 8, (900, 12)).astype(np.float32)
    index = PartitionedIndex(48, n_lists=9, random_state=0).fit(X).add(X)
    index.save(tmp_path / "lists.hll")
    np.save(tmp_path / "X.npy", X)
    here = [index.search(X[:n], 5, probes=9).ids.tolist() for n in (7, 1)]
    files = map(str, (tmp_path / "lists.hll", tmp_path / "X.npy"))
    there = output_of_python(SEARCH, *files, NUMBA_CPU_NAME="haswell", NUMBA_CPU_FEATURES=AVX2)
    assert json.loads(there) == here


@pytest.mark.parametrize(
    ("triple", "cpu", "instruction"),
    [("aarch64-linux-gnu", "neoverse-n1", "fmla\tv"), ("x86_64-linux-gnu", "haswell", "vfmadd")],
)
def test_products_are_made_of_vector_instructions(triple, cpu, instruction):
    assert cross_compiled(CROSS_COMPILE, triple, cpu).count(instruction) >= 8


@on_x86
@pytest.mark.parametrize(("cpu", "register"), [("haswell", "ymm"), ("skylake-avx512", "zmm")])
def test_the_sums_of_products_stay_in_registers(cpu, register):
    """Sums that do not fit would be written to the stack, and read again, for each feature."""
    environment = {"haswell": AVX2, "skylake-avx512": AVX512}[cpu]
    text = output_of_python(PRODUCTS, NUMBA_CPU_NAME=cpu, NUMBA_CPU_FEATURES=environment)
    assert len(re.findall(rf"vfmadd\w+\t.*%{register}", text)) >= 8
    loops = [part for part in re.split(r"\n\.L\w+:", text) if "vfmadd" in part]
    assert not re.findall(rf"%{register}\d+, -?\d*\(%rsp\)", "".join(loops))


@pytest.mark.parametrize("n_queries", [1, 3, 4, 9])
def test_products_are_those_of_numpy_and_the_same_in_any_company(n_queries):
    rng = np.random.default_rng(0)
    vectors, queries = (rng.standard_normal((n, 13)).astype(np.float32) for n in (150, n_queries))
    vectors, queries = short(vectors), np.pad(queries, ((0, 0), (0, 1)))
    tiles, out = vector_tiles(vectors), np.empty((n_queries, 192), np.float32)
    products(tiles, queries, out)
    np.testing.assert_allclose(out[:, :150], queries[:, :13] @ vectors.T, atol=1e-5)
    alone = np.empty((1, 192), np.float32)
    for query, together in zip(queries, out):
        products(tiles, query[None], alone)
        assert np.array_equal(alone[0], together)


def test_short_numbers_are_the_nearest_ones_with_16_bits():
    numbers = np.random.default_rng(0).standard_normal(1000).astype(np.float32) * np.float32(10.0) ** np.arange(
        -20, 30, 0.05
    )
    numbers = numbers.astype(np.float32)
    rounded = short(numbers)
    assert not (rounded.view(np.uint32) & 0xFFFF).any()
    lower = (numbers.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    higher = ((numbers.view(np.uint32) & np.uint32(0xFFFF0000)) + np.uint32(1 << 16)).view(np.float32)
    nearest = np.minimum(np.abs(lower - numbers), np.abs(higher - numbers))
    np.testing.assert_array_equal(np.abs(rounded - numbers), nearest)
    np.testing.assert_array_equal(short(rounded), rounded)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 63, 64, 500])
def test_keys_are_sorted(n):
    keys = np.random.default_rng(n).integers(0, 50, n)
    wanted = np.sort(keys)
    sort_keys(keys, n, np.empty_like(keys))
    assert np.array_equal(keys, wanted)
