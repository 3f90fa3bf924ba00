"""LSH: random projections, or none."""

import numpy as np
import pytest

from hashlearn import LSH, pack


def test_the_identity_gives_the_signs_of_the_features():
    X = np.random.default_rng(0).standard_normal((50, 12))
    np.testing.assert_array_equal(LSH(12, init="identity", center=False).fit_transform(X), pack(X > 0))
    np.testing.assert_array_equal(LSH(5, init="identity").fit_transform(X), pack(X[:, :5] > X[:, :5].mean(axis=0)))


def test_there_is_a_feature_for_each_bit():
    with pytest.raises(ValueError, match="init='identity' needs a feature for each bit: n_bits=13, n_features=12"):
        LSH(13, init="identity").fit(np.eye(12))
    with pytest.raises(ValueError, match="init must be one of 'identity'"):
        LSH(8, init="random").fit(np.eye(12))
