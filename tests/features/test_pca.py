"""PCA: what scikit-learn finds, in blocks."""

import numpy as np
import pytest
import sklearn.decomposition
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.features import PCA


def correlated(n, d, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(n, d)) @ random.normal(size=(d, d)) + 100


def test_components_are_those_of_scikit_learn():
    X = correlated(300, 12)
    reference = sklearn.decomposition.PCA(5).fit(X)
    pca = PCA.of(X, 5)
    np.testing.assert_allclose(np.abs(pca.transform(X)), np.abs(reference.transform(X)), rtol=1e-6, atol=1e-8)
    assert pca.explained == pytest.approx(reference.explained_variance_ratio_.sum())


@settings(max_examples=20, deadline=None)
@given(n=st.integers(3, 40), d=st.integers(1, 8), seed=st.integers(0, 99))
def test_all_components_keep_all_distances(n, d, seed):
    X = correlated(n, d, seed)
    pca = PCA.of(X, d)
    Z = pca.transform(X)
    apart = X[0] - X[1]
    assert np.linalg.norm(Z[0] - Z[1]) == pytest.approx(np.linalg.norm(apart))
    assert pca.explained == pytest.approx(1)


def test_blocks_and_memmaps_change_nothing(tmp_path, monkeypatch):
    X = correlated(2000, 6).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    at_once = PCA.of(X, 3).transform(X)
    monkeypatch.setattr("hashlearn.rows.blocks.BLOCK_ELEMENTS", 6)  # blocks of 256 rows
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_allclose(PCA.of(mapped, 3).transform(mapped), at_once, atol=1e-2)


def test_bad_arguments():
    X = correlated(20, 4)
    with pytest.raises(ValueError, match="n_components must be at most 4, got 5"):
        PCA.of(X, 5)
    with pytest.raises(ValueError, match="X must be 2-D"):
        PCA.of(X[0], 1)
    with pytest.raises(ValueError, match="n_features=4"):
        PCA.of(X, 2).transform(X[:, :3])
    with pytest.raises(ValueError, match="row 0 has NaN"):
        PCA.of(np.where(X > 0, np.nan, X), 2)
