"""The nearest of a few candidates against numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.index.kernels.rerank import METRIC_NUMBERS, Vectors, nearest_of_candidates


def exact(metric, Q, X):
    products = Q @ X.T
    if metric == "euclidean":
        return (Q**2).sum(1)[:, None] - 2 * products + (X**2).sum(1)
    if metric == "dot":
        return -products
    lengths = np.linalg.norm(Q, axis=1)[:, None] * np.linalg.norm(X, axis=1)
    return 1 - np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)


def stored(kind, rng, n, d):
    """Vectors as they are stored, and the numbers they stand for."""
    if kind == "int8":
        matrix = rng.integers(-128, 128, (n, d), dtype=np.int8)
        offsets, scales = rng.standard_normal(d).astype(np.float32), rng.random(d).astype(np.float32) / 50
        return Vectors.of(matrix, offsets, scales), offsets.astype(float) + scales.astype(float) * matrix
    matrix = rng.standard_normal((n, d)).astype(kind)
    return Vectors.of(matrix), matrix.astype(float)


def nearest(vectors, Q, candidates, metric, k):
    distances, rows = np.empty((len(Q), k), np.float32), np.empty((len(Q), k), np.int64)
    nearest_of_candidates(vectors, Q, candidates, METRIC_NUMBERS[metric], distances, rows)
    return distances, rows


@pytest.mark.parametrize("metric", METRIC_NUMBERS)
@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
def test_the_nearest_candidates_are_those_of_numpy(kind, metric):
    rng = np.random.default_rng(0)
    vectors, X = stored(kind, rng, 300, 37)
    Q = rng.standard_normal((5, 37)).astype(np.float32)
    candidates = np.stack([rng.permutation(300)[:50] for _ in Q])
    distances, rows = nearest(vectors, Q, candidates, metric, 7)
    wanted = np.take_along_axis(exact(metric, Q.astype(float), X), candidates, axis=1)
    order = np.argsort(wanted, axis=1)[:, :7]
    np.testing.assert_allclose(distances, np.take_along_axis(wanted, order, axis=1), rtol=1e-4, atol=1e-4)
    assert np.array_equal(rows, np.take_along_axis(candidates, order, axis=1))


def test_places_without_a_candidate_are_skipped_and_ties_go_to_the_lower_row():
    vectors = Vectors.of(np.ones((4, 3), np.float32))
    distances, rows = nearest(vectors, np.zeros((1, 3), np.float32), np.array([[3, -1, 1]]), "euclidean", 3)
    assert rows.tolist() == [[1, 3, -1]]
    assert distances.tolist() == [[3, 3, np.inf]]


@settings(deadline=None)
@given(numbers=st.lists(st.integers(0, 9), min_size=1, max_size=60), k=st.integers(1, 80), seed=st.integers(0, 9))
def test_as_many_as_are_wanted_are_kept_in_order_whatever_ties_there_are(numbers, k, seed):
    X = np.array(numbers, np.float32)[:, None]
    candidates = np.random.default_rng(seed).permutation(len(X))[None]
    distances, rows = nearest(Vectors.of(X), np.zeros((1, 1), np.float32), candidates, "euclidean", k)
    order = np.argsort(X[:, 0], kind="stable")[:k]
    missing = k - len(order)
    assert rows[0].tolist() == [*order.tolist(), *[-1] * missing]
    np.testing.assert_array_equal(distances[0], [*X[order, 0] ** 2, *[np.inf] * missing])


def test_half_precision_has_all_its_numbers():
    numbers = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    numbers = numbers[np.isfinite(numbers)]
    vectors = Vectors.of(numbers[:, None])
    rows = np.arange(len(numbers))[:, None]
    distances, _ = nearest(vectors, np.ones((len(numbers), 1), np.float32), rows, "dot", 1)
    assert np.array_equal(-distances[:, 0], numbers.astype(np.float32))
