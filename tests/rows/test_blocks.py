"""Blocks give every row once, as floats, whatever the source holds."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from hashlearn.rows import RowBlocks, blocks, row_slices


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 1)  # blocks of 256 rows, the least there is


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.bool_, np.float16, np.float32, np.int64, np.float64])
def test_all_rows_come_once_and_in_order(small_blocks, dtype):
    X = np.random.default_rng(0).integers(0, 2, (1000, 3)).astype(dtype)
    rows = RowBlocks(X)
    parts = list(rows)
    assert len(parts) == rows.n_blocks == 4
    np.testing.assert_array_equal(np.concatenate([block for _, block in parts]), X.astype(np.float64))
    np.testing.assert_array_equal(np.concatenate([np.arange(1000)[part] for part, _ in parts]), np.arange(1000))


@pytest.mark.parametrize(
    ("dtype", "wanted"), [(np.uint8, np.float32), (np.float16, np.float32), (np.int32, np.float64)]
)
def test_precision_follows_the_source(dtype, wanted):
    rows = RowBlocks(np.ones((4, 2), dtype))
    assert rows.dtype == wanted
    assert next(iter(rows))[1].dtype == wanted
    assert next(iter(rows.shifted(np.ones(2), 2.0)))[1].dtype == wanted


def test_shift_and_scale_apply_to_blocks_and_to_single_rows():
    X = np.arange(12, dtype=np.uint8).reshape(4, 3)
    rows = RowBlocks(X).shifted(np.array([1.0, 2.0, 3.0]), 4.0)
    wanted = (X - np.array([1.0, 2.0, 3.0])) / 4
    np.testing.assert_allclose(next(iter(rows))[1], wanted)
    np.testing.assert_allclose(rows.take(np.array([2, 0])), wanted[[2, 0]])


def test_a_sparse_source_gives_dense_blocks(small_blocks):
    X = scipy.sparse.random_array((600, 5), density=0.2, format="csr", rng=np.random.default_rng(0))
    np.testing.assert_array_equal(np.concatenate([block for _, block in RowBlocks(X)]), X.toarray())


def test_narrow_data_do_not_make_blocks_too_tall_for_a_kernel():
    rows = RowBlocks(np.zeros((100_000, 2), np.float32))
    assert max(len(block) for _, block in rows) * 1000 * 8 < 1e8


def test_slices_of_wide_rows_are_shorter(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 4096)
    assert list(row_slices(1000, 8)) == [slice(0, 512), slice(512, 1000)]
    assert len(list(row_slices(1000, 16))) == 4
    assert list(row_slices(0, 8)) == []


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux says which pages of a file are in memory")
@pytest.mark.parametrize("view", [lambda mapped: mapped, np.asarray], ids=["memmap", "view"])
def test_a_pass_over_a_mapped_file_keeps_a_few_of_its_pages(tmp_path, monkeypatch, view):
    monkeypatch.setattr(blocks, "MAPPED_BYTES", 1 << 20)
    path = tmp_path / "rows.npy"
    X = np.random.default_rng(0).random((200_000, 16), np.float32)  # 12.8 MB
    np.save(path, X)
    rows = RowBlocks(view(np.load(path, mmap_mode="r")))
    read = np.concatenate([np.array(block) for _, block in rows])
    assert kilobytes_in_memory(path) < 4000
    np.testing.assert_array_equal(read, X)


def kilobytes_in_memory(path):
    """How much of a mapped file this process holds."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.endswith(str(path)))
    return next(int(line.split()[1]) for line in lines[start:] if line.startswith("Rss:"))
