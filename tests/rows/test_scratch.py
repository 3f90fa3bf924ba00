"""Memory that is used again belongs to one thread and one name, or to nobody any more."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from hashlearn.rows import RowBlocks, added, blocks, fold, passes, scratch, sum_blocks

REAL = np.dtype(np.float32)


def test_it_is_the_same_memory_under_the_same_name_only():
    first = scratch("a", (3, 4), REAL)
    again, other = scratch("a", (2, 5), np.dtype(np.int32)), scratch("b", (3, 4), REAL)
    assert np.shares_memory(first, again)
    assert not np.shares_memory(first, other)
    assert scratch("a", (50, 50), REAL).shape == (50, 50)


def test_threads_do_not_share_it():
    both = Barrier(2)

    def written(value):
        mine = scratch("a", (100, 100), REAL)
        mine[:] = value
        both.wait()
        return mine.copy()

    with ThreadPoolExecutor(2) as pool:
        for value, found in zip((1, 2), pool.map(written, (1, 2))):
            assert (found == value).all()


def test_sums_over_blocks_that_share_it_are_those_of_the_rows():
    X = np.random.default_rng(0).normal(size=(20_000, 40)).astype(np.float32)
    rows = RowBlocks(X, shift=X.mean(axis=0), scale=2.0)
    (total,) = fold(rows, lambda block, first: (block.sum(axis=0, dtype=np.float64),), added)
    np.testing.assert_allclose(total, ((X - X.mean(axis=0)) / 2).sum(axis=0, dtype=np.float64), atol=1e-2)
    (squares,) = fold(rows, lambda block, first: (np.square(block, dtype=np.float64).sum(axis=0),), added)
    np.testing.assert_allclose(squares, np.square((X - X.mean(axis=0)) / 2, dtype=np.float64).sum(axis=0), rtol=1e-5)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_total_is_not_written_to_by_the_next_pass(monkeypatch, threads):
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 1)  # blocks of 256 rows
    X = np.random.default_rng(0).integers(0, 9, (5000, 4)).astype(np.float32)

    def add_block(block, sums, factor):
        assert not sums[0].any()
        sums[0][:] += factor * (block.T @ block)
        sums[1][:] += len(block)

    with threadpool_limits(threads, user_api="blas"):
        totals = [sum_blocks(RowBlocks(X), add_block, ((4, 4), (1,)), factor) for factor in (1, 2, 3)]
    for factor, (products, count) in zip((1, 2, 3), totals):
        np.testing.assert_array_equal(products, factor * (X.T @ X))
        assert count == [5000]


def test_sums_that_others_have_made_are_neither_kept_nor_sent_on():
    sums = passes._BlockSums(np.add, ((4, 4),))
    total = (np.zeros((4, 4)),)
    for _ in range(50):
        sums.merge(total, (np.ones((4, 4)),))
    assert (total[0] == 50).all()
    assert len(sums.spare) <= 2
    assert not pickle.loads(pickle.dumps(sums)).spare
