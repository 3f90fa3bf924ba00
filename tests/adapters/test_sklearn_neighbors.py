"""What is put before scikit-learn's estimators gives what KNeighborsTransformer gives."""

import numpy as np
import pytest
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_digits
from sklearn.manifold import Isomap
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from hashlearn import ITQ
from hashlearn.adapters.sklearn_neighbors import HashNeighborsTransformer

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32) + np.random.default_rng(0).normal(0, 0.01, X.shape).astype(np.float32)  # no ties
EVERYTHING = len(X)


@parametrize_with_checks([HashNeighborsTransformer()])
def test_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_the_graph_of_all_candidates_is_the_exact_one(mode, metric):
    ours = HashNeighborsTransformer(mode=mode, n_neighbors=4, metric=metric, candidates=EVERYTHING)
    exact = KNeighborsTransformer(mode=mode, n_neighbors=4, metric=metric, algorithm="brute")
    found, wanted = ours.fit_transform(X[:500]), exact.fit_transform(X[:500])
    assert found.format == "csr"
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found.indptr, wanted.indptr)
    np.testing.assert_array_equal(np.sort(found.indices.reshape(500, -1)), np.sort(wanted.indices.reshape(500, -1)))
    np.testing.assert_allclose(found.toarray(), wanted.toarray(), atol=2e-2 if metric == "euclidean" else 1e-4)


def test_neighbors_of_the_rows_themselves():
    ours = HashNeighborsTransformer(candidates=EVERYTHING).fit(X[:300])
    exact = KNeighborsTransformer(algorithm="brute").fit(X[:300])
    np.testing.assert_array_equal(ours.kneighbors(return_distance=False), exact.kneighbors(return_distance=False))
    equal = HashNeighborsTransformer(n_neighbors=2).fit(np.ones((6, 3)))
    assert not (equal.kneighbors(return_distance=False) == np.arange(6)[:, None]).any()
    with pytest.raises(ValueError, match="Expected n_neighbors <= n_samples_fit"):
        equal.kneighbors(n_neighbors=6)


@pytest.mark.parametrize("hasher", [None, ITQ(32, random_state=0)])
def test_before_a_classifier(hasher):
    model = make_pipeline(HashNeighborsTransformer(hasher=hasher), KNeighborsClassifier(metric="precomputed"))
    exact = KNeighborsClassifier().fit(X[:1200], y[:1200]).score(X[1200:], y[1200:])
    assert model.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) > exact - 0.01


def test_before_isomap_and_dbscan():
    ours, exact = HashNeighborsTransformer(n_neighbors=20, candidates=EVERYTHING), KNeighborsTransformer(n_neighbors=20)
    maps = [
        Isomap(metric="precomputed", n_neighbors=20).fit_transform(each.fit_transform(X[:700]))
        for each in (ours, exact)
    ]
    np.testing.assert_allclose(*np.abs(maps), rtol=0.02, atol=0.5)
    assert len(set(DBSCAN(eps=20, metric="precomputed").fit_predict(ours.transform(X[:700])))) > 1
