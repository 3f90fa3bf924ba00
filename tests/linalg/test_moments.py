"""Sums that merge: the parts together give what the whole gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.linalg.moments import KnownMoments, Moments, knowing_moments, mean_and_spread
from hashlearn.linalg.projections import principal_directions, projected
from hashlearn.rows import RowBlocks, blocks


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 29))
def test_merged_moments_are_the_moments_of_all(seed, cut):
    X = np.random.default_rng(seed).normal(size=(30, 4))
    whole, parts = Moments.of(RowBlocks(X)), Moments.of(RowBlocks(X[:cut])).merge(Moments.of(RowBlocks(X[cut:])))
    np.testing.assert_allclose(parts.mean, whole.mean)
    np.testing.assert_allclose(parts.scatter, whole.scatter, atol=1e-10)
    np.testing.assert_allclose(whole.covariance, np.cov(X.T), atol=1e-10)


def test_the_variance_of_a_feature_far_from_zero_is_not_lost(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 1)
    X = (np.random.default_rng(0).normal(size=(1000, 3)) + 1000).astype(np.float32)
    exact = np.cov(X.astype(np.float64).T)
    np.testing.assert_allclose(Moments.of(RowBlocks(X)).covariance, exact, rtol=1e-3, atol=1e-3)
    mean, spread = mean_and_spread(RowBlocks(X))
    np.testing.assert_allclose(mean, X.mean(axis=0, dtype=np.float64), rtol=1e-7)
    assert spread == pytest.approx(np.sqrt(np.trace(exact) * 999 / 1000), rel=1e-4)


def test_principal_directions_are_orthonormal_and_ordered_with_positive_peaks():
    X = np.random.default_rng(0).normal(size=(200, 5)) * [5, 4, 3, 2, 1]
    rows = RowBlocks(X)
    U = principal_directions(Moments.of(rows), 3)
    np.testing.assert_allclose(U.T @ U, np.eye(3), atol=1e-10)
    assert (np.diff(projected(rows, U).var(axis=0)) < 0).all()
    assert (U[np.abs(U).argmax(axis=0), range(3)] > 0).all()


def test_more_directions_than_features_name_the_argument():
    with pytest.raises(ValueError, match=r"n_bits=4 .* n_features=3"):
        principal_directions(Moments.of(RowBlocks(np.eye(3))), 4)


def test_second_moments_about_any_point_and_the_spread():
    X = np.random.default_rng(0).normal(size=(300, 4)) + np.array([5, 0, -3, 100])
    moments, point = Moments.of(RowBlocks(X)), np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(moments.about(point), (X - point).T @ (X - point))
    np.testing.assert_allclose(moments.about(np.zeros(4)), X.T @ X)
    assert moments.spread == pytest.approx(np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()))


def test_moments_that_are_known_are_those_of_that_array_alone():
    X = np.random.default_rng(0).normal(size=(30, 4))
    known = KnownMoments(X)
    with knowing_moments(known):
        first, again = Moments.of(RowBlocks(X)), Moments.of(RowBlocks(X[:]))
        assert again is first
        others = [RowBlocks(X + 0), RowBlocks(X[1:]), RowBlocks(X, shift=X[0]), RowBlocks(X).since(3)]
        assert all(Moments.of(rows) is not first for rows in others)
    assert known.n_uses == 2
    assert Moments.of(RowBlocks(X)) is not first
    np.testing.assert_array_equal(first.scatter, Moments.of(RowBlocks(X)).scatter)
