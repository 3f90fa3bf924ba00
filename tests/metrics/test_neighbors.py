"""True Euclidean neighbors, their recall by codes, and the ranking of the vectors themselves."""

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.codes import hamming_distances, pack
from hashlearn.metrics import (
    neighbor_recall,
    neighbors,
    relevance_of_labels,
    score_codes,
    score_vectors,
    true_neighbors,
)


def brute_force(queries, database, k):
    difference = queries[:, None].astype(np.float64) - database[None].astype(np.float64)
    return np.argsort((difference**2).sum(axis=2), axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("scale", "offset"), [(1, 0), (1e-3, 1), (100, 1e4)])
def test_they_are_those_of_brute_force_in_any_unit(dtype, scale, offset):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(330, 12)) * scale + offset).astype(dtype)
    np.testing.assert_array_equal(true_neighbors(X[30:], X[:30], 7), brute_force(X[:30], X[30:], 7))


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.bool_, np.float64])
def test_equal_distances_go_to_the_lowest_row(dtype):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2, (420, 9)).astype(dtype)
    np.testing.assert_array_equal(true_neighbors(X[20:], X[:20], 5), brute_force(X[:20], X[20:], 5))


def test_pixels_keep_their_ties_in_float32():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 256, (300, 64)).astype(np.uint8)
    X[200:] = X[100:200]
    np.testing.assert_array_equal(true_neighbors(X[20:], X[:20], 280), brute_force(X[:20], X[20:], 280))


def test_near_duplicates_that_float32_cannot_tell_apart_are_ranked_by_float64():
    rng = np.random.default_rng(7)
    cluster = 5 + 1e-6 * rng.normal(size=(150, 8))
    database = np.concatenate([rng.normal(size=(150, 8)), cluster[5:]])
    np.testing.assert_array_equal(true_neighbors(database, cluster[:5], 10), brute_force(cluster[:5], database, 10))


def test_a_far_outlier_hides_no_neighbor():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(300, 6))
    X[150] = 1e6
    np.testing.assert_array_equal(true_neighbors(X[20:], X[:20], 8), brute_force(X[:20], X[20:], 8))


@pytest.mark.parametrize("limit", [2**24, 300, 1])
def test_blocks_change_nothing(monkeypatch, limit):
    monkeypatch.setattr(neighbors, "_DISTANCES_PER_BLOCK", limit)
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(120, 5)), rng.integers(0, 3, 120)
    np.testing.assert_array_equal(true_neighbors(X[20:], X[:20], 100), brute_force(X[:20], X[20:], 100))
    scores = score_vectors(X[20:], X[:20], relevance_of_labels(y[:20], y[20:]), [10])
    order = brute_force(X[:20], X[20:], 100)
    relevant = y[20:][order] == y[:20, None]
    np.testing.assert_array_equal(scores.hits[:, 0], relevant[:, :10].sum(axis=1))


def test_constant_and_sparse_vectors_have_neighbors_too():
    assert true_neighbors(np.ones((4, 3)), np.ones((2, 3)), 2).tolist() == [[0, 1], [0, 1]]
    X = np.random.default_rng(4).integers(0, 3, (40, 6)).astype(float)
    sparse = scipy.sparse.csr_matrix(X)
    np.testing.assert_array_equal(true_neighbors(sparse[5:], sparse[:5], 3), brute_force(X[:5], X[5:], 3))


@given(st.integers(0, 2**32 - 1), st.sampled_from(["expected", "stable", "optimistic", "pessimistic"]))
@settings(deadline=None, max_examples=30)
def test_vectors_of_zeros_and_ones_rank_as_their_codes(seed, ties):
    """The squared Euclidean distance of 0/1 vectors is their Hamming distance."""
    rng = np.random.default_rng(seed)
    bits, labels = rng.integers(0, 2, (60, 9)), rng.integers(0, 3, 60)
    relevance = relevance_of_labels(labels[:10], labels[10:])
    by_vectors = score_vectors(bits[10:], bits[:10], relevance, [1, 7, 50], ties)
    by_codes = score_codes(pack(bits[10:]), pack(bits[:10]), 9, relevance, [1, 7, 50], ties)
    np.testing.assert_allclose(by_vectors.average_precision, by_codes.average_precision, atol=1e-12)
    np.testing.assert_allclose(by_vectors.hits, by_codes.hits, atol=1e-12)
    np.testing.assert_array_equal(by_vectors.n_relevant, by_codes.n_relevant)


@pytest.mark.parametrize("ties", ["expected", "stable", "optimistic", "pessimistic"])
def test_codes_that_keep_all_distances_find_every_neighbor_up_to_ties(ties):
    # Unary codes on a line: Hamming distance is the distance of the numbers.
    values = np.array([0, 3, 5, 8, 9, 14, 20])
    codes = pack(np.arange(20) < values[:, None])
    query, query_code = np.array([[6.0]]), pack([np.arange(20) < 6])
    nearest = true_neighbors(values[:, None].astype(float), query, 4)
    assert neighbor_recall(codes, query_code, 20, nearest, 4, ties) == 1


def test_recall_expects_over_the_choices_at_the_boundary():
    # Three codes at distance 1 compete for the one place left; two of them are true neighbors.
    codes = pack([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1]])
    query, nearest = pack([[0, 0, 0]]), [[0, 2]]
    assert neighbor_recall(codes, query, 3, nearest, 2) == pytest.approx((1 + 1 / 3) / 2)
    assert neighbor_recall(codes, query, 3, nearest, 2, "stable") == 0.5
    assert neighbor_recall(codes, query, 3, nearest, 2, "optimistic") == 1
    assert neighbor_recall(codes, query, 3, nearest, 2, "pessimistic") == 0.5


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
@settings(deadline=None, max_examples=15)
def test_expected_recall_is_the_mean_over_all_orders_of_the_database(seed, k):
    rng = np.random.default_rng(seed)
    query, codes = pack(rng.integers(0, 2, (1, 4))), pack(rng.integers(0, 2, (5, 4)))
    nearest = rng.permutation(5)[None, :k]
    distances = hamming_distances(query, codes, 4)[0]
    found = []
    for order in permutations(range(5)):
        first = sorted(order, key=lambda item: distances[item])[:k]
        found.append(len(set(first) & set(nearest[0].tolist())) / k)
    assert neighbor_recall(codes, query, 4, nearest, k) == pytest.approx(np.mean(found))


def test_recall_uses_the_first_k_of_a_longer_list():
    rng = np.random.default_rng(6)
    codes, nearest = pack(rng.integers(0, 2, (30, 8))), np.stack([rng.permutation(30)[:12] for _ in range(4)])
    whole = neighbor_recall(codes, codes[:4], 8, nearest, 5)
    assert whole == neighbor_recall(codes, codes[:4], 8, nearest[:, :5], 5)


@pytest.mark.parametrize(
    ("queries", "database", "k", "error", "words"),
    [
        ([[1.0, 2.0]], [[1.0]], 1, ValueError, r"as many features as database \(1\), got 2"),
        ([[1.0]], [[1.0], [2.0]], 3, ValueError, "k must be at most 2, got 3"),
        ([[1.0]], [[1.0]], 0, ValueError, "k must be at least 1, got 0"),
        ([[np.nan]], [[1.0]], 1, ValueError, "queries must not contain NaN or infinity"),
        ([[1.0]], [[np.inf]], 1, ValueError, "database must not contain NaN or infinity"),
        ([1.0], [[1.0]], 1, ValueError, r"queries must be vectors of shape \(n, n_features\)"),
        ([["a"]], [[1.0]], 1, TypeError, "queries must be real numbers"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(queries, database, k, error, words):
    with pytest.raises(error, match=words):
        true_neighbors(database, queries, k)


def test_too_few_neighbors_are_refused():
    codes = pack([[0, 1], [1, 1]])
    with pytest.raises(ValueError, match=r"neighbors must have shape \(n_queries, at least k=10\), got \(2, 1\)"):
        neighbor_recall(codes, codes, 2, [[0], [1]])
