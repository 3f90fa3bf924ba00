"""The self-representation and its similarity against the n x n matrices they avoid."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.linalg.selfsimilarity import (
    SelfSimilarity,
    balanced_orthogonal,
    gram_matrix,
    numerical_rank,
    self_representation,
)
from hashlearn.rows import RowBlocks

RNG = np.random.RandomState(0)


@pytest.mark.parametrize("max_iter", [2, 3, 10])
def test_rounds_in_d_dimensions_equal_those_over_n_by_n_matrices(max_iter):
    X, V = RNG.randn(60, 12) + 1, RNG.random_sample((5, 60))
    ours_U, ours_V = self_representation(RowBlocks(X), X.T @ X, V, max_iter)
    gram = X @ X.T
    for _ in range(max_iter):
        U = V.T @ np.linalg.inv(V @ V.T)
        V = np.linalg.inv(U.T @ gram @ U) @ U.T @ gram
    np.testing.assert_allclose(ours_U @ ours_V.T, U @ V, atol=1e-8)


@settings(deadline=None, max_examples=20)
@given(st.integers(2, 40), st.integers(1, 7), st.integers(1, 5), st.integers(0, 99))
def test_similarity_times_a_matrix_is_that_of_the_full_matrix(n, r, b, seed):
    rng = np.random.RandomState(seed)
    U, V, G = rng.randn(n, r), rng.randn(n, r), rng.randn(n, b)
    squares = (U @ V.T) ** 2
    S = (squares + squares.T) / np.diag(squares).max() - 1
    wanted = S @ G
    np.testing.assert_allclose(SelfSimilarity(U, V).times(G), wanted, atol=1e-9 * max(1, np.abs(S).max()) * n)


def test_similarity_needs_neither_n_by_n_nor_all_products_of_pairs():
    n, r = 6000, 40
    U, G = RNG.randn(n, r), RNG.randn(n, 4)
    tracemalloc.start()
    SelfSimilarity(U, U).times(G)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * n * 8 / 2
    large = RNG.randn(60_000, r).astype(np.float32)
    tracemalloc.start()
    SelfSimilarity(large, large).times(np.ones((len(large), 4)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(large) * r * (r + 1) / 2 * 4 / 2


@settings(deadline=None, max_examples=20)
@given(st.integers(4, 40), st.integers(1, 3), st.integers(0, 99))
def test_balanced_orthogonal_meets_its_constraints_and_beats_other_matrices_that_do(n, b, seed):
    rng = np.random.RandomState(seed)
    C = rng.randn(n, b)
    A = balanced_orthogonal(C, rng)
    np.testing.assert_allclose(A.sum(axis=0), 0, atol=1e-8 * n)
    np.testing.assert_allclose(A.T @ A, n * np.eye(b), atol=1e-8 * n)
    other = balanced_orthogonal(rng.randn(n, b), rng)
    assert np.sum(A * C) >= np.sum(other * C) - 1e-9


@pytest.mark.parametrize("C", [np.zeros((20, 3)), np.ones((20, 3)), np.outer(np.arange(20.0), [1, 2, 3])])
def test_missing_rank_is_completed(C):
    A = balanced_orthogonal(C, np.random.RandomState(0))
    np.testing.assert_allclose(A.T @ A, 20 * np.eye(3), atol=1e-9)
    np.testing.assert_allclose(A.sum(axis=0), 0, atol=1e-9)


def test_more_columns_than_rows_can_hold_still_balance():
    A = balanced_orthogonal(RNG.randn(4, 6), np.random.RandomState(0))
    np.testing.assert_allclose(A.sum(axis=0), 0, atol=1e-9)
    assert np.linalg.matrix_rank(A) == 3


def test_rank_is_that_of_the_data():
    X = RNG.randn(50, 3) @ RNG.randn(3, 10)
    assert numerical_rank(gram_matrix(RowBlocks(X))) == 3
    assert numerical_rank(np.zeros((4, 4))) == 1
