"""RSSH: codes of the training rows are learned, a hash function follows them."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import ITQ, RSSH, hamming_distances, unpack

X = load_digits().data[:600] / 16
SMALL = {"rank": 20, "n_anchors": 150, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    hasher = RSSH(16, **SMALL)
    return hasher, hasher.fit_codes(X)


def test_the_database_has_the_learned_codes_and_queries_the_hash_function(fitted):
    hasher, codes = fitted
    np.testing.assert_array_equal(codes, hasher.training_codes_)
    agreement = np.mean(unpack(codes, 16) == unpack(hasher.transform(X), 16))
    assert 0.8 < agreement < 1


def test_learned_codes_are_balanced(fitted):
    ones = unpack(fitted[1], 16).mean(axis=0)
    assert np.all((ones > 0.25) & (ones < 0.75))


def test_rows_of_one_class_have_nearer_codes(fitted):
    y = load_digits().target[:600]
    distances = hamming_distances(fitted[1], fitted[1], 16)
    same = y[:, None] == y
    assert distances[same].mean() < distances[~same].mean() - 1


def test_the_weights_are_the_ridge_regression_of_the_learned_codes(fitted):
    hasher, codes = fitted
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    squared = ((unit[:, None] - hasher.anchors_) ** 2).sum(axis=2)
    phi = np.hstack([np.exp(-squared / (2 * 0.4**2)), np.ones((600, 1))])
    B = 2.0 * unpack(codes, 16) - 1
    residual = phi.T @ (B - phi @ hasher.weights_)
    np.testing.assert_allclose(residual, 1e-3 * hasher.weights_, atol=1e-6)


def test_scores_are_the_same_whatever_block_a_row_is_in(fitted):
    hasher, _ = fitted
    np.testing.assert_allclose(hasher.decision_function(X[7:9]), hasher.decision_function(X)[7:9], rtol=1e-4, atol=1e-5)


def test_auto_follows_small_data():
    few = np.random.RandomState(0).randn(40, 3)
    hasher = RSSH(8, random_state=0).fit(few)
    assert hasher.anchors_.shape == (40, 3)
    assert hasher.transform(few).shape == (40, 1)


def test_more_bits_than_rows_work():
    few = np.random.RandomState(0).randn(6, 3)
    assert RSSH(16, random_state=0).fit_codes(few).shape == (6, 2)


def test_a_row_of_zeros_has_a_code():
    rows = np.vstack([np.zeros(64), X[:100]])
    assert np.isfinite(RSSH(8, random_state=0).fit(rows).decision_function(rows)).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"rank": 4}, "rank must be at most 3, got 4"),
        ({"n_anchors": 41}, "n_anchors must be at most 40"),
        ({"factor_max_iter": 1}, "factor_max_iter must be at least 2"),
        ({"sigma": 0}, "sigma must be at least"),
        ({"eta": 0}, "eta must be at least"),
        ({"init_G": np.ones((40, 7))}, "init_G must have shape"),
        ({"init_V": np.ones((2, 40))}, "init_V must have shape"),
        ({"anchors": np.ones((5, 4))}, "anchors must have shape"),
    ],
)
def test_wrong_arguments_are_named(params, message):
    rows = np.random.RandomState(0).randn(40, 3)
    with pytest.raises(ValueError, match=message):
        RSSH(8, **params).fit(rows)


def test_other_methods_store_the_codes_of_their_hash_function():
    np.testing.assert_array_equal(ITQ(8, random_state=0).fit_codes(X), ITQ(8, random_state=0).fit(X).transform(X))
