"""What is put before scikit-learn's estimators gives what KNeighborsTransformer gives."""

import numpy as np
import pytest
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_digits
from sklearn.manifold import Isomap
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from hashlearn import ITQ, SimilaritySearch
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


class TestSearch:
    """``kneighbors`` and ``kneighbors_graph`` of a search, in the place of those of ``NearestNeighbors``."""

    @pytest.fixture(scope="class")
    @classmethod
    def search(cls):
        return SimilaritySearch(ITQ(32, random_state=0), keep_vectors="float32").fit(X[:700]).add(X[:700])

    @pytest.fixture(scope="class")
    @classmethod
    def exact(cls):
        return NearestNeighbors(algorithm="brute").fit(X[:700])

    def test_queries(self, search, exact):
        distances, rows = search.kneighbors(X[700:800], 4, recall=1.0)
        wanted = exact.kneighbors(X[700:800], 4)
        np.testing.assert_array_equal(rows, wanted[1])
        np.testing.assert_allclose(distances, wanted[0], rtol=1e-4)
        np.testing.assert_array_equal(search.kneighbors(X[700:800], 4, False, recall=1.0), rows)

    def test_the_rows_themselves(self, search, exact):
        _, rows = search.kneighbors(n_neighbors=4, recall=1.0)
        np.testing.assert_array_equal(rows, exact.kneighbors(n_neighbors=4)[1])
        graph = search.kneighbors_graph(n_neighbors=4, mode="distance", recall=1.0)
        np.testing.assert_allclose(
            graph.toarray(), exact.kneighbors_graph(n_neighbors=4, mode="distance").toarray(), atol=2e-2
        )
        assert np.array_equal(search.kneighbors_graph(n_neighbors=4).sum(axis=1), np.full((700, 1), 4))

    def test_rows_are_places_of_ids(self):
        names = [f"{row:03}" for row in range(300)][::-1]
        search = SimilaritySearch(ITQ(32, random_state=0), keep_vectors="float32").fit(X[:300]).add(X[:300], names)
        assert search.ids[search.kneighbors(X[:5], 1)[1][:, 0]].tolist() == names[:5]
        search.remove(names[:1])
        assert search.ids[search.kneighbors(X[1:5], 1)[1][:, 0]].tolist() == names[1:5]
        assert search.kneighbors_graph(X[1:5]).shape == (4, 299)

    def test_before_a_classifier_isomap_and_umap(self, search, exact):
        graph = search.kneighbors_graph(X[:700], 11, "distance")
        model = KNeighborsClassifier(5, metric="precomputed").fit(graph, y[:700])
        plain = KNeighborsClassifier(5).fit(X[:700], y[:700])
        queries = search.kneighbors_graph(X[700:1000], 5, "distance")
        assert model.score(queries, y[700:1000]) > plain.score(X[700:1000], y[700:1000]) - 0.02
        near = Isomap(metric="precomputed", n_neighbors=10).fit_transform(graph)
        assert near.shape == (700, 2)
        umap = pytest.importorskip("umap")
        distances, rows = search.kneighbors(X[:700], 15)
        points = umap.UMAP(precomputed_knn=(rows, distances), random_state=0, n_epochs=20).fit_transform(X[:700])
        assert np.isfinite(points).all()

    def test_what_cannot_be_asked(self, search):
        with pytest.raises(ValueError, match="Expected n_neighbors <= n_samples_fit, but n_neighbors = 700"):
            search.kneighbors(n_neighbors=700)
        without = SimilaritySearch(ITQ(16, random_state=0), metric="dot").fit(X[:100]).add(X[:100])
        with pytest.raises(ValueError, match="X must be given where the search keeps no vectors"):
            without.kneighbors()
        with pytest.raises(ValueError, match="mode must be one of"):
            search.kneighbors_graph(X[:2], mode="distances")
        inner = SimilaritySearch(ITQ(16, random_state=0), metric="dot", keep_vectors="float32").fit(X[:100])
        with pytest.raises(ValueError, match="mode must be 'connectivity' where distances are negative"):
            inner.add(X[:100]).kneighbors_graph(X[:2], mode="distance")
