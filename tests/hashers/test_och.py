"""Ordinal constraint hashing: a smooth loss, really descended, over orthonormal projections."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit
from sklearn.datasets import load_digits

from hashlearn import OCH
from hashlearn.hashers.och import _OrdinalLoss, _released_gradient
from hashlearn.linalg.ordinal import affinity

X = load_digits().data[:500] / 16
RNG = np.random.RandomState(0)
POINTS, W = RNG.randn(20, 5), RNG.randn(5, 6)
AFFINITY = affinity(POINTS)


def test_the_loss_is_the_mean_over_all_triplets():
    k = 4
    loss = _OrdinalLoss(POINTS, AFFINITY, k, 6)
    H = np.tanh(POINTS / np.sqrt(np.mean(POINTS**2) * 5 / 6) @ W)
    terms = []
    for r in range(20):
        nearest_first = [v for v in np.argsort(-AFFINITY[r]) if v != r]
        terms += [
            expit((H[r] @ H[i] - H[r] @ H[j]) / np.sqrt(6)) / 2
            for j in nearest_first[: k - 1]
            for i in nearest_first[k - 1 :]
        ]
    value, gradient = loss.value_and_gradient(W)
    assert value == pytest.approx(np.mean(terms))
    slopes = approx_fprime(W.ravel(), lambda flat: loss.value_and_gradient(flat.reshape(5, 6))[0], 1e-6)
    np.testing.assert_allclose(gradient.ravel(), slopes, atol=1e-6)


@pytest.mark.parametrize("n_bits", [8, 16, 32])
def test_the_loss_falls_at_every_step_and_the_rounds_end(n_bits):
    hasher = OCH(n_bits, n_landmarks=100, random_state=0).fit(X)
    assert np.all(np.diff(hasher.loss_) < 0)
    assert hasher.loss_[-1] < 0.9 * hasher.loss_[0]
    assert len(hasher.loss_) < 300


@pytest.mark.parametrize("as_released", [False, True])
@pytest.mark.parametrize("n_bits", [8, 20, 32])
def test_projections_are_orthonormal_or_beyond_the_components_a_tight_frame(n_bits, as_released):
    W = OCH(n_bits, n_landmarks=100, as_released=as_released, random_state=0).fit(X).weights_
    gram = W.T @ W if n_bits <= 20 else W @ W.T
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-9)


def test_the_unit_of_the_data_does_not_matter():
    codes = OCH(16, n_landmarks=100, random_state=0).fit_transform(X)
    np.testing.assert_array_equal(OCH(16, n_landmarks=100, random_state=0).fit_transform(X * 1024), codes)


def released_gradient_written_out(r, k):
    x, H, total = POINTS, np.tanh(POINTS @ W), np.zeros(W.shape)
    for i in range(1, k):
        for j in range(i, 20):
            excess = H[r] @ H[i] - H[r] @ H[j]
            if AFFINITY[r, i] < AFFINITY[r, j] and excess > 0:
                pull = np.outer(x[r], (1 - H[r] ** 2) * (H[i] - H[j])) + np.outer(x[i], (1 - H[i] ** 2) * H[r])
                total += 0.5 * expit(excess) * expit(-excess) * (pull - np.outer(x[j], (1 - H[j] ** 2) * H[r]))
    return total


@pytest.mark.parametrize("anchor", [0, 2, 9])
def test_as_released_steps_come_from_one_landmark_in_k_means_order(anchor):
    ours = _released_gradient(POINTS, AFFINITY, anchor, 6, W)
    np.testing.assert_allclose(ours, released_gradient_written_out(anchor, 6), atol=1e-12)


def test_as_released_hardly_leaves_its_start():
    start = np.linalg.svd(RNG.randn(20, 16), full_matrices=False)[0]
    moved = [
        np.linalg.norm(
            OCH(16, n_landmarks=100, init=start, as_released=flag, random_state=0).fit(X).weights_ - start, 2
        )
        for flag in (False, True)
    ]
    assert moved[1] < 0.5 * moved[0]


def test_as_released_ends_where_no_triplet_is_violated():
    identical = np.ones((30, 4))
    assert OCH(4, as_released=True, random_state=0).fit_transform(identical).shape == (30, 1)


def test_auto_follows_small_data():
    for n in (2, 3, 12):
        assert OCH(4, random_state=0).fit_transform(X[:n, 20:25]).shape == (n, 1)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_landmarks": 501}, "n_landmarks must be at most 500"),
        ({"n_components": 65}, "n_components must be at most 64"),
        ({"n_landmarks": 20, "k": 21}, "k must be at most 20"),
        ({"tol": -1}, "tol must be at least 0"),
        ({"train_sample": 1}, "train_sample must be at least 2"),
        ({"subset": [1]}, "subset must hold at least 2 row numbers"),
        ({"landmarks": np.ones((1, 64))}, "number of landmarks must be at least 2"),
        ({"init": np.ones((5, 3))}, "init must have shape"),
    ],
)
def test_wrong_arguments_are_named(params, message):
    with pytest.raises(ValueError, match=message):
        OCH(8, **params).fit(X)
