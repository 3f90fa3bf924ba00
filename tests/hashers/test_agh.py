"""AGH: eigenvectors of the anchor graph, cut once or twice."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs

from hashlearn import AGH, LSH, hamming_distances, unpack

X, Y = load_digits(return_X_y=True)
X = X[:600] / 16 + np.random.default_rng(0).normal(scale=1e-3, size=(600, 64))  # no two distances are equal
Y = Y[:600]
ANCHORS = X[::10]


def graph(points, hasher):
    """Z written out: the five nearest anchors, weights that sum to one."""
    squared = ((points[:, None] - hasher.anchors_) ** 2).sum(axis=2)
    last = np.sort(squared, axis=1)[:, [4]]
    weights = np.where(squared <= last, np.exp(-squared / hasher.sigma_**2), 0)
    return weights / weights.sum(axis=1, keepdims=True)


def laplacian(Z):
    return np.eye(len(Z)) - Z @ np.diag(1 / Z.sum(axis=0)) @ Z.T


@pytest.mark.parametrize("n_layers", [1, 2])
def test_the_vectors_are_eigenvectors_of_the_whole_graph(n_layers):
    hasher = AGH(8, n_layers=n_layers, anchors=ANCHORS).fit(X)
    Z = graph(X, hasher)
    Y = Z @ hasher.offsets_
    np.testing.assert_allclose(laplacian(Z) @ Y, Y * (1 - hasher.eigenvalues_), atol=1e-8)
    np.testing.assert_allclose(Y.T @ Y, len(X) * np.eye(Y.shape[1]), atol=1e-6)
    np.testing.assert_allclose(Y.sum(axis=0), 0, atol=1e-6)


def test_the_second_cut_is_balanced_and_the_least_of_the_graph():
    hasher = AGH(4, n_layers=2, anchors=ANCHORS).fit(X)
    Z = graph(X, hasher)
    L, Y = laplacian(Z), Z @ hasher.offsets_
    for y, above, below in zip(Y.T, *hasher.thresholds_):

        def cut(theta, y=y):
            """u for theta+ = theta, with the theta- that makes it sum to zero."""
            positive = y > 0
            other = -(np.abs(y).sum() - theta * positive.sum()) / (~positive).sum()
            return np.where(positive, y - theta, other - y), other

        u, other = cut(above)
        assert other == pytest.approx(below)
        np.testing.assert_allclose(u, np.where(y > 0, y - above, below - y))
        for step in (-0.01, 0.01):
            v = cut(above + step)[0]
            assert u @ L @ u < v @ L @ v


def test_a_bit_is_the_sign_of_the_blended_offsets():
    hasher = AGH(12, n_layers=2, anchors=ANCHORS).fit(X)
    y = graph(X, hasher) @ hasher.offsets_
    above, below = hasher.thresholds_
    bits = np.hstack([y > 0, np.where(y > 0, y > above, y < below)])
    np.testing.assert_array_equal(unpack(hasher.transform(X), 12), bits)


def test_it_finds_the_digits_that_lsh_does_not():
    def nearest_agree(hasher):
        codes = hasher.fit_transform(X)
        nearest = np.argsort(hamming_distances(codes, codes, 16), axis=1, kind="stable")[:, 1:31]
        return (Y[nearest] == Y[:, None]).mean()

    lsh = nearest_agree(LSH(16, random_state=0))
    for n_layers in (1, 2):
        assert nearest_agree(AGH(16, n_layers=n_layers, n_anchors=60, random_state=0)) > lsh + 0.2


def test_the_unit_and_the_origin_of_the_features_do_not_matter():
    codes = AGH(16, n_anchors=60, random_state=0).fit_transform(X)
    moved = AGH(16, n_anchors=60, random_state=0).fit_transform(X * 1000 + np.arange(64))
    np.testing.assert_array_equal(codes, moved)


def test_anchors_of_no_row_are_dropped():
    far = np.full((3, 64), 10.0)
    hasher = AGH(8, anchors=np.vstack([far, ANCHORS])).fit(X)
    np.testing.assert_array_equal(hasher.transform(X), AGH(8, anchors=ANCHORS).fit(X).transform(X))
    assert len(hasher.anchors_) == len(ANCHORS)


def test_too_few_eigenvectors_are_explained():
    apart, _ = make_blobs(300, 5, centers=30, cluster_std=0.01, center_box=(-100, 100), random_state=0)
    with pytest.raises(ValueError, match=r"n_bits=16 takes 16 eigenvectors, but .* max_eigenvalue=0.999"):
        AGH(16, n_anchors=30, n_neighbors=1, random_state=0).fit(apart)


def test_all_rows_are_anchors_where_there_are_few():
    assert len(AGH(4, random_state=0).fit(X[:60]).anchors_) == 60
    with pytest.raises(ValueError, match=r"n_anchors=61.*n_samples=60"):
        AGH(4, n_anchors=61).fit(X[:60])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_layers": 3}, "n_layers"),
        ({"n_layers": 2}, "n_bits must be even with n_layers=2, got 5"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"max_eigenvalue": 1.5}, "max_eigenvalue"),
        ({"anchors": "nearest"}, "anchors"),
        ({"kmeans_max_iter": 0}, "kmeans_max_iter"),
    ],
)
def test_a_wrong_parameter_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        AGH(5, **changes).fit(X)
