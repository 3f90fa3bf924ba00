"""Rotations are orthogonal and the best of their kind."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.linalg.rotations import nearest_rotation, procrustes, quantizing_rotation, random_rotation


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 7))
def test_the_nearest_rotation_beats_random_ones(seed, n):
    rng = np.random.RandomState(seed)
    M = rng.standard_normal((n, n))
    best = nearest_rotation(M)
    np.testing.assert_allclose(best.T @ best, np.eye(n), atol=1e-10)
    other = random_rotation(n, rng)
    np.testing.assert_allclose(other.T @ other, np.eye(n), atol=1e-10)
    assert np.trace(best.T @ M) >= np.trace(other.T @ M) - 1e-9


def test_procrustes_finds_a_rotation_that_was_applied():
    rng = np.random.RandomState(0)
    V, R = rng.standard_normal((50, 4)), random_rotation(4, rng)
    np.testing.assert_allclose(procrustes(V, V @ R), R, atol=1e-10)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(0, 4))
def test_the_quantization_error_never_rises(seed, r, extra):
    rng = np.random.RandomState(seed)
    V = rng.standard_normal((80, r))
    rotation, errors = quantizing_rotation(V, random_rotation(r + extra, rng)[:r], range(20))
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(errors))
    B = np.where(V @ rotation >= 0, 1, -1)
    assert np.mean(((B - V @ rotation) ** 2).sum(axis=1)) <= errors[-1] + 1e-9
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(r), atol=1e-10)
