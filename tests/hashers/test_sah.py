"""SAH: codes by meaning from the anchor graph."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs

from hashlearn import LSH, SAH, hamming_distances, unpack


def test_clusters_get_codes_of_their_own():
    X, y = make_blobs(600, 20, centers=6, cluster_std=0.5, random_state=0)
    codes = SAH(16, n_anchors=60, random_state=0).fit_transform(X)
    distances = hamming_distances(codes, codes, 16)
    same = y[:, None] == y
    assert distances[same].mean() < 0.25 * distances[~same].mean()


def test_it_finds_the_digits_that_lsh_does_not():
    X, y = load_digits(return_X_y=True)

    def nearest_agree(hasher):
        codes = hasher.fit_transform(X)
        nearest = np.argsort(hamming_distances(codes, codes, 32), axis=1, kind="stable")[:, 1:51]
        return (y[nearest] == y[:, None]).mean()

    assert nearest_agree(SAH(32, random_state=0)) > nearest_agree(LSH(32, random_state=0)) + 0.2


def test_the_unit_and_the_origin_of_the_features_do_not_matter():
    X = load_digits(return_X_y=True)[0][:500]
    codes = SAH(16, random_state=0).fit_transform(X)
    np.testing.assert_array_equal(SAH(16, random_state=0).fit_transform(X * 1000 + np.arange(64)), codes)


def test_a_bit_is_the_sign_of_blended_offsets():
    X = load_digits(return_X_y=True)[0][:300]
    hasher = SAH(8, n_anchors=30, random_state=0).fit(X)
    squared = ((X[:, None] - hasher.anchors_) ** 2).sum(axis=2)
    nearest = squared.argsort(axis=1)[:, :2]
    weights = np.exp(-np.take_along_axis(squared, nearest, axis=1) / hasher.sigma_**2)
    scores = np.einsum("nk,nkb->nb", weights / weights.sum(axis=1, keepdims=True), hasher.offsets_[nearest])
    np.testing.assert_allclose(hasher.decision_function(X), scores, rtol=1e-4, atol=1e-6 * np.abs(scores).max())
    np.testing.assert_array_equal(unpack(hasher.transform(X), 8), scores > 0)


def test_more_bits_than_anchors_share_the_directions_there_are():
    X = load_digits(return_X_y=True)[0][:200]
    assert np.ptp(unpack(SAH(40, n_anchors=10, random_state=0).fit_transform(X), 40), axis=0).sum() > 20


@pytest.mark.parametrize(("changes", "message"), [({"n_neighbors": 0}, "n_neighbors"), ({"max_iter": -1}, "max_iter")])
def test_a_wrong_parameter_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        SAH(8, **changes).fit(np.eye(20))
