"""Blocks give every row once, as floats, whatever the source holds."""

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
