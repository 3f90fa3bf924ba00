"""Landmarks, their affinity, and the gradient of the order of similarities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.stats import norm

from hashlearn.linalg.ordinal import LandmarkSettings, affinity, find_landmarks, ordinal_gradient
from hashlearn.rows import RowBlocks

RNG = np.random.RandomState(0)
POINTS = RNG.randn(30, 4)


def test_affinity_is_the_normal_density_at_the_local_scale():
    A = affinity(POINTS)
    D = np.linalg.norm(POINTS[:, None] - POINTS, axis=2)
    reach = np.sort(D, axis=1)[:, 1:17]
    for u, v in ((0, 1), (3, 17), (29, 5)):
        width = 0.35 * np.concatenate([reach[u], reach[v]]).mean()
        assert A[u, v] == pytest.approx(norm.pdf(D[u, v], 0, width))


@settings(deadline=None, max_examples=20)
@given(st.integers(2, 40), st.floats(1e-3, 1e3), st.integers(0, 99))
def test_affinity_is_symmetric_shift_invariant_and_inverse_to_the_unit(n, unit, seed):
    points = np.random.RandomState(seed).randn(n, 3)
    A = affinity(points)
    np.testing.assert_array_equal(A, A.T)
    np.testing.assert_array_equal(np.diag(A), 0)
    np.testing.assert_allclose(affinity(points * unit + 5) * unit, A, rtol=1e-6, atol=1e-12)


def test_coinciding_landmarks_have_a_finite_affinity():
    assert np.isfinite(affinity(np.ones((20, 3)))).all()


def test_gradient_is_that_of_the_weighted_similarities():
    weights, W = RNG.randn(30, 30), RNG.randn(4, 3)

    def value(flat):
        H = np.tanh(POINTS @ flat.reshape(4, 3))
        return 0.5 * np.sum(weights * (H @ H.T))

    gradient = ordinal_gradient(POINTS, np.tanh(POINTS @ W), weights)
    np.testing.assert_allclose(gradient.ravel(), approx_fprime(W.ravel(), value, 1e-6), rtol=1e-3, atol=1e-3)


def find(X, **changes):
    settings = {"train_sample": 10_000, "subset": None, "n_landmarks": "auto", "landmarks": None, "directions": None}
    settings |= {"n_components": 2, "kmeans_max_iter": 5} | changes
    return find_landmarks(RowBlocks(X), LandmarkSettings(**settings), np.random.RandomState(0))


def test_a_subset_is_all_that_is_seen():
    X = RNG.randn(100, 4)
    rows = np.arange(10, 40)
    found = find(X, subset=rows, n_landmarks=8)
    again = find(X[rows], subset=np.arange(30), n_landmarks=8)
    np.testing.assert_array_equal(found.points, again.points)
    np.testing.assert_allclose(found.mean, X[rows].mean(axis=0))


def test_landmarks_are_taken_in_the_coordinates_of_the_data():
    X = RNG.randn(100, 4) + 7
    found = find(X, landmarks=X[:9])
    np.testing.assert_allclose(found.points, (X[:9] - X.mean(axis=0)) @ found.directions)


def test_no_more_rows_are_drawn_than_asked_for():
    X = RNG.randn(100, 4)
    assert not np.allclose(find(X, train_sample=50).mean, X.mean(axis=0), atol=1e-6)
    assert len(find(X, train_sample=50).points) == 50
