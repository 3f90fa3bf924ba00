"""The same source on processors without AVX-512, and the disk cache of compiled kernels."""

import llvmlite.binding as llvm
import pytest
from other_processors import copy_kernels, cross_compiled, run_python

from hashlearn import compiled

SEARCH_AND_COMPARE = """
import sys
import numpy as np
from hashlearn.codes import hamming_distances
from hashlearn.index import HammingIndex
import numba
assert "512" not in numba.config.CPU_FEATURES
rng = np.random.default_rng(0)
for n_bits in (16, 64, 96, 256):
    codes = rng.integers(0, 256, (3000, n_bits // 8), dtype=np.uint8)
    index = HammingIndex(n_bits).add(codes)
    distances = hamming_distances(codes[:3], codes, n_bits)
    order = np.argsort(distances, axis=1, kind="stable")[:, :9]
    assert np.array_equal(index.search(codes[:3], 9, method="flat").ids, order)
    counts = index.within(codes[:3], n_bits // 3).counts
    assert np.array_equal(counts, (distances <= n_bits // 3).sum(axis=1))
"""


@pytest.mark.skipif(llvm.get_default_triple().split("-")[0] != "x86_64", reason="names an x86 processor")
def test_results_are_the_same_on_a_processor_with_avx2_only():
    done = run_python(
        SEARCH_AND_COMPARE, NUMBA_CPU_NAME="haswell", NUMBA_CPU_FEATURES="+avx2,+avx,+popcnt,+sse4.2,+bmi,+bmi2"
    )
    assert done.returncode == 0, done.stderr


CROSS_COMPILE = """
from hashlearn.index.kernels import simd
from hashlearn.index.kernels.tiles import Tiles

@njit(_nrt=False)
def kernel(tiles, words, out):
    simd.write_distances(tiles, 0, words, 0, out, 0)
    near = simd.any_below(tiles, 0, words, 0, 3) or simd.any_front_below(tiles, 0, words, 0, 3)
    near = near or simd.any_pairs_below(tiles, 0, words, 0, 3) or simd.any_front_pairs_below(tiles, 0, words, 0, 3)
    near = near or simd.any_folded_below(tiles, 0, words, 0, 3) or simd.any_folded_pairs_below(tiles, 0, words, 0, 3)
    return near or simd.mask_below(tiles, 0, words, 0, 3) > 0

for dtype in (np.uint8, np.uint16, np.uint32, np.uint64):
    tiles = Tiles(np.zeros(128, dtype), np.zeros(128, dtype), 2, 2, 64)
    kernel(tiles, np.zeros(4, dtype), np.zeros(64, np.uint16))
"""


@pytest.mark.parametrize(
    ("triple", "cpu", "instruction"),
    [("aarch64-linux-gnu", "neoverse-n1", "cnt\tv"), ("x86_64-linux-gnu", "haswell", "vpshufb")],
)
def test_the_vector_code_assembles_for_other_processors(triple, cpu, instruction):
    """Cross-compiled, the population count is NEON's ``cnt`` on ARM and a look-up by shuffle on AVX2."""
    assert cross_compiled(CROSS_COMPILE, triple, cpu).count(instruction) >= 4


def test_an_edit_anywhere_in_the_room_makes_kernels_anew(tmp_path):
    package = copy_kernels(tmp_path)
    script = """
import numpy as np
from hashlearn.index.kernels.tiles import read_tiles, tiled
read_tiles(tiled(np.zeros((3, 8), np.uint8), 64), np.arange(3), np.empty((3, 1), np.uint64))
print(sum(read_tiles.stats.cache_hits.values()))
"""

    def cache_hits():
        done = run_python(script, PYTHONPATH=str(tmp_path), NUMBA_CACHE_DIR=str(tmp_path / "cache"))
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    assert cache_hits() == 0
    assert cache_hits() == 1
    with (package / "index" / "kernels" / "simd.py").open("a") as file:
        file.write("\n# an edit\n")
    assert cache_hits() == 0


def test_kernels_work_where_no_cache_can_be_written(monkeypatch):
    def no_place(self):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr("numba.core.dispatcher.Dispatcher.enable_caching", no_place)
    assert compiled.compiled(lambda x: x + 1)(1) == 2
