"""A pass gives the same whatever the number of threads, and leaves nothing behind that grows with the rows."""

import tracemalloc

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from hashlearn import AGH, CH, ITQ, JPSH, JSH, PSH, SAH, SGH, SP
from hashlearn.rows import RowBlocks, added, blocks, fold, map_blocks

ANCHORED = [AGH, JPSH, JSH, PSH, SAH]
X = np.random.default_rng(0).normal(size=(2000, 6)).astype(np.float32)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 1)  # blocks of 256 rows


def first_and_sum(block, first, factor):
    return np.array([first]), factor * block.sum(axis=0, dtype=np.float64)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_order_and_add_up(small_blocks, threads, monkeypatch):
    monkeypatch.setattr("hashlearn.threads.cores", lambda: threads)
    with threadpool_limits(threads, user_api="blas"):
        found = [(part, result[0][0]) for part, result in map_blocks(RowBlocks(X), first_and_sum, 1)]
        _, total = fold(RowBlocks(X), first_and_sum, added, 3)
    assert [part.start for part, _ in found] == [first for _, first in found] == list(range(0, 2000, 256))
    np.testing.assert_allclose(total, 3 * X.sum(axis=0, dtype=np.float64))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_what_was_done_before_an_error_is_handed_out(small_blocks, threads, error, monkeypatch):
    def failing(block, first):
        if first == 512:
            raise error
        return first

    monkeypatch.setattr("hashlearn.threads.cores", lambda: threads)
    with threadpool_limits(threads, user_api="blas"):
        results = map_blocks(RowBlocks(X), failing)
        assert [next(results)[1], next(results)[1]] == [0, 256]
        with pytest.raises(error):
            next(results)
        with pytest.raises(error):
            fold(RowBlocks(X), failing, max)


def test_an_error_is_not_lost_when_the_rest_is_not_wanted(small_blocks, monkeypatch):
    def failing(block, first):
        if first == 512:
            raise KeyboardInterrupt
        return first

    monkeypatch.setattr("hashlearn.threads.cores", lambda: 2)
    with threadpool_limits(2, user_api="blas"):
        results = map_blocks(RowBlocks(X), failing)
        next(results)
        with pytest.raises(KeyboardInterrupt):
            results.close()


@pytest.mark.parametrize("method", ANCHORED)
def test_threads_do_not_change_the_codes(small_blocks, method, monkeypatch):
    monkeypatch.setattr("hashlearn.threads.cores", lambda: 2)
    codes = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            codes.append(method(n_bits=4, n_anchors=30, random_state=0).fit_transform(X))
    np.testing.assert_array_equal(*codes)


@pytest.mark.parametrize("method", ANCHORED)
def test_anchors_from_a_sample(method):
    def fit(**settings):
        return method(n_bits=4, n_anchors=30, random_state=0, **settings).fit(X)

    whole, all_rows, sampled = fit(), fit(kmeans_sample=len(X)), fit(kmeans_sample=300)
    np.testing.assert_array_equal(all_rows.anchors_, whole.anchors_)
    assert sampled.anchors_.shape == whole.anchors_.shape
    assert not np.array_equal(sampled.anchors_, whole.anchors_)
    with pytest.raises(ValueError, match="n_anchors=30 is more than kmeans_sample=20"):
        fit(kmeans_sample=20)
    with pytest.raises(TypeError, match="kmeans_sample must be an integer"):
        fit(kmeans_sample=2.5)


@pytest.mark.parametrize("method", [JPSH, JSH, PSH, SAH])
def test_the_number_of_anchors_depends_on_the_data_and_not_on_the_sample(method):
    anchors = method(n_bits=4, n_anchors="auto", kmeans_sample=30, random_state=0).fit(X).anchors_
    assert len(anchors) == len(X) // 10


@pytest.mark.parametrize("method", [CH, ITQ, SGH, SP])
def test_learning_from_a_sample(method):
    def fit(**settings):
        return method(n_bits=4, random_state=0, **settings).fit(X).decision_function(X)

    whole = fit()
    np.testing.assert_array_equal(fit(train_sample=len(X)), whole)
    sampled = fit(train_sample=500)
    assert sampled.shape == whole.shape
    assert not np.array_equal(sampled, whole)
    with pytest.raises(ValueError, match="train_sample must be at least 2"):
        fit(train_sample=1)


@pytest.mark.parametrize("method", ANCHORED)
def test_memory_does_not_grow_with_the_rows(method):
    def peak(n):
        rows = np.random.default_rng(1).normal(size=(n, 4)).astype(np.float32)
        tracemalloc.start()
        method(n_bits=2, n_anchors=12, kmeans_max_iter=2, random_state=0).fit(rows)
        grown = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return grown

    peak(40_000)  # what is made once
    # A number a row (the draw of the first anchors) is allowed, its nearest anchors are not.
    assert peak(120_000) - peak(40_000) < 80_000 * 24
