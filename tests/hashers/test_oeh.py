"""Ordinal embedding hashing: the vectorised steps against the sums written out."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_digits

from hashlearn import OEH
from hashlearn.hashers.oeh import _gradient, _released_gradient
from hashlearn.linalg.ordinal import affinity

X = load_digits().data[:500] / 16
RNG = np.random.RandomState(0)
POINTS, W = RNG.randn(20, 5), RNG.randn(5, 6)
AFFINITY = affinity(POINTS)


def written_out(order_of_points, order_of_codes, released, k=4, beta=0.5):
    """Every triplet by itself: i = 2..k against j = k..L of the list."""
    x, h = POINTS[order_of_points], np.tanh(POINTS[order_of_codes] @ W)
    total, active = np.zeros(W.shape), 0
    for i in range(1, k):
        for j in range(k - 1, len(x)):
            margin = beta + h[0] @ h[i] - h[0] @ h[j]
            if margin <= 0:
                continue
            active += 1
            last = x[k - 1] if released else x[j]
            pull = np.outer(x[0], (1 - h[0] ** 2) * (h[i] - h[j])) + np.outer(x[i], (1 - h[i] ** 2) * h[0])
            total += 0.5 * expit(margin) * expit(-margin) * (pull - np.outer(last, (1 - h[j] ** 2) * h[0]))
    return total / active


@pytest.mark.parametrize("anchor", [0, 7])
def test_the_gradient_sums_all_triplets(anchor):
    others = [v for v in np.argsort(AFFINITY[anchor], kind="stable") if v != anchor]
    order = [anchor, *others]
    np.testing.assert_allclose(
        _gradient(POINTS, AFFINITY[anchor], anchor, W, 4, 0.5), written_out(order, order, released=False)
    )


@pytest.mark.parametrize("anchor", [0, 7])
def test_as_released_codes_and_points_do_not_belong_together(anchor):
    order = np.argsort(AFFINITY[anchor], kind="stable")
    np.testing.assert_allclose(
        _released_gradient(POINTS, AFFINITY[anchor], anchor, W, 4, 0.5),
        written_out(order, np.arange(20), released=True),
    )


def test_no_active_triplet_moves_nothing():
    for gradient in (_gradient, _released_gradient):
        np.testing.assert_array_equal(gradient(POINTS, AFFINITY[0], 0, W, 4, -100.0), 0)


def ordinal_errors(hasher):
    """Share of triplets in the wrong order: of two points the clearly farther one has the nearer code, or as near."""
    H = np.sign(hasher.decision_function(X))
    D, T = np.linalg.norm(X[:, None] - X[:60], axis=2), H @ H[:60].T
    farther = D[:, None, :] > 1.5 * D[:, :, None]
    return np.mean((T[:, None, :] >= T[:, :, None])[farther])


def test_learning_puts_distances_in_order():
    start = RNG.randn(16, 16)
    learned = OEH(16, init=start, random_state=0).fit(X)
    untrained = OEH(16, init=start, max_iter=0, random_state=0).fit(X)
    assert ordinal_errors(learned) < ordinal_errors(untrained)


def test_as_released_learns_something_else():
    codes = [OEH(16, as_released=flag, random_state=0).fit_transform(X) for flag in (False, True)]
    assert not np.array_equal(*codes)


def test_codes_may_be_longer_than_the_data_has_features():
    hasher = OEH(16, random_state=0).fit(X[:, 20:30])
    assert hasher.weights_.shape == (10, 16)


def test_auto_follows_small_data():
    assert OEH(4, random_state=0).fit_transform(X[:5]).shape == (5, 1)
    assert OEH(4, random_state=0).fit_transform(X[:2]).shape == (2, 1)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_landmarks": 501}, "n_landmarks must be at most 500"),
        ({"n_landmarks": 1}, "n_landmarks must be at least 2"),
        ({"n_landmarks": "all"}, "n_landmarks must be one of 'auto'"),
        ({"n_components": 65}, "n_components must be at most 64"),
        ({"n_landmarks": 20, "k": 21}, "k must be at most 20"),
        ({"subset": [0, 500]}, "subset must hold row numbers from 0 to 499"),
        ({"landmarks": np.ones((5, 3))}, "landmarks must have shape"),
        ({"init": np.ones((5, 3))}, "init must have shape"),
        ({"directions": np.ones((5, 3))}, "directions must have shape"),
        ({"lambda1": 1e6}, "step=0.1 with lambda1=1000000.0 is too long"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_wrong_arguments_are_named(params, message):
    with pytest.raises(ValueError, match=message):
        OEH(8, **params).fit(X)
