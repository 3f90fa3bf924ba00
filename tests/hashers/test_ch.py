"""Concatenation hashing: every cluster looks at every point from its own center."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import CH, ITQ, unpack

X = load_digits().data[:300, 18:30] / 16


def test_one_cluster_is_iterative_quantization():
    init = np.linalg.qr(np.random.RandomState(1).randn(6, 6))[0]
    ch = CH(6, n_clusters=1, init=[init]).fit(X)
    np.testing.assert_array_equal(ch.transform(X), ITQ(6, init=init).fit_transform(X))


def test_each_part_of_the_code_is_learned_from_one_cluster_alone():
    init = [np.linalg.qr(np.random.RandomState(c).randn(4, 4))[0] for c in range(2)]
    ch = CH(8, n_clusters=2, centers=X[:2], init=init).fit(X)
    seen = X - ch.mean_
    nearest = ((seen[:, None] - ch.cluster_means_) ** 2).sum(axis=2).argmin(axis=1)
    bits = unpack(ch.transform(X), 8)
    for c in range(2):
        alone = ITQ(4, init=init[c]).fit(X[nearest == c])
        np.testing.assert_array_equal(bits[:, 4 * c : 4 * c + 4], unpack(alone.transform(X), 4))


@pytest.mark.parametrize(("n_bits", "n_clusters"), [(16, 2), (32, 2), (33, 4), (64, 4), (1, 1)])
def test_auto_takes_the_published_number_of_clusters(n_bits, n_clusters):
    wide = np.random.RandomState(0).randn(100, 40)
    assert len(CH(n_bits, random_state=0).fit(wide).cluster_means_) == n_clusters


def test_bits_that_cannot_be_divided_go_to_the_first_clusters():
    ch = CH(11, n_clusters=3, random_state=0).fit(X)
    columns = [0, 4, 8, 11]
    for c, mean in enumerate(ch.cluster_means_):
        part = slice(columns[c], columns[c + 1])
        np.testing.assert_allclose(ch.offsets_[part], mean @ ch.projection_[:, part])
        np.testing.assert_allclose(
            ch.projection_[:, part].T @ ch.projection_[:, part], np.eye(part.stop - part.start), atol=1e-9
        )


def test_codes_may_be_longer_than_the_data_has_features():
    assert CH(24, n_clusters=2, random_state=0).fit_transform(X).shape == (300, 3)


def test_clusters_smaller_than_their_part_of_the_code_work():
    assert np.isfinite(CH(16, n_clusters=8, random_state=0).fit(X[:9]).decision_function(X)).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_bits": 26}, "n_bits=26 .* n_features=12"),
        ({"n_clusters": 301, "n_bits": 400}, "n_clusters must be at most 300"),
        ({"n_clusters": 9}, "n_clusters must be at most 8"),
        ({"n_clusters": "many"}, "n_clusters must be one of 'auto'"),
        ({"centers": np.zeros((3, 12))}, "centers must have shape"),
        ({"init": [np.eye(4)]}, "init must be a list of 2 arrays"),
        ({"directions": [np.eye(12)[:, :4], np.eye(12)]}, r"directions\[1\] must have shape"),
        ({"kmeans_max_iter": 0}, "kmeans_max_iter must be at least 1"),
    ],
)
def test_wrong_arguments_are_named(params, message):
    with pytest.raises(ValueError, match=message):
        CH(**({"n_bits": 8} | params)).fit(X)
