"""Reranking against the formulas, written out."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from hashlearn import ITQ
from hashlearn.codes import pack, unpack
from hashlearn.codes.results import count_found
from hashlearn.index import HammingIndex
from hashlearn.search import (
    Calibration,
    SimilaritySearch,
    VectorFile,
    VectorView,
    rerank,
    rerank_asymmetric,
    rerank_exact,
)
from hashlearn.search.nearest import nearest_candidates


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    vectors, queries = rng.normal(size=(200, 12)).astype(np.float32), rng.normal(size=(9, 12)).astype(np.float32)
    index = HammingIndex(20).add(pack(rng.normal(size=(200, 20)) > 0))
    candidates = np.array([rng.permutation(200)[:30] for _ in queries])
    return index, vectors, queries, candidates, rng.normal(size=(9, 20)).astype(np.float32)


@pytest.mark.parametrize("block", [1 << 22, 1])
def test_asymmetric_distances_are_minus_the_queries_scores_times_the_signs_of_the_bits(case, block, monkeypatch):
    monkeypatch.setattr(rerank, "_BLOCK_ELEMENTS", block)
    index, _, _, candidates, query_scores = case
    distances, ids = rerank_asymmetric(index, query_scores, candidates, k=7)
    signs = 2.0 * unpack(index.codes(), 20) - 1
    for query, row in enumerate(candidates):
        expected = -signs[row] @ query_scores[query].astype(np.float64)
        order = np.argsort(expected)[:7]
        np.testing.assert_array_equal(ids[query], row[order])
        np.testing.assert_allclose(distances[query], expected[order], rtol=1e-5, atol=1e-5)


DISTANCES = {
    "euclidean": lambda X, q: np.linalg.norm(X - q, axis=1),
    "cosine": lambda X, q: 1 - X @ q / (np.linalg.norm(X, axis=1) * np.linalg.norm(q)),
    "dot": lambda X, q: -X @ q,
}


def holders(vectors, folder):
    """The same vectors in everything that can hold them."""
    np.save(folder / "vectors.npy", vectors)
    yield vectors
    yield vectors.astype(np.float64)
    yield np.load(folder / "vectors.npy", mmap_mode="r")
    yield str(folder / "vectors.npy")
    yield scipy.sparse.csr_matrix(vectors)
    yield pd.DataFrame(vectors)
    file = VectorFile.create(folder / "vectors.hlv", vectors.shape[1]).add(vectors)
    yield file
    yield file.view


@pytest.mark.parametrize("metric", DISTANCES)
@pytest.mark.parametrize("block", [1 << 21, 1])
def test_exact_reranking_is_by_the_metric_whatever_holds_the_vectors(case, metric, block, monkeypatch, tmp_path):
    monkeypatch.setattr(rerank, "_READ_ELEMENTS", block)
    _, vectors, queries, candidates, _ = case
    for holder in holders(vectors, tmp_path):
        distances, ids = rerank_exact(holder, queries, candidates, k=7, metric=metric)
        for query, row in enumerate(candidates):
            expected = DISTANCES[metric](vectors[row], queries[query])
            order = np.argsort(expected)[:7]
            np.testing.assert_array_equal(ids[query], row[order])
            np.testing.assert_allclose(distances[query], expected[order], rtol=1e-5, atol=1e-6)


def test_a_candidate_that_many_queries_share_is_read_once_and_in_the_order_of_the_file(case, monkeypatch):
    _, vectors, queries, candidates, _ = case
    view = VectorFile.create(None, 12).add(vectors).view
    read = []

    def watched(self, places):
        read.append(places)
        return stored(self, places)

    stored = VectorView.stored
    monkeypatch.setattr(VectorView, "stored", watched)
    rerank_exact(view, queries, candidates, k=3)
    np.testing.assert_array_equal(np.concatenate(read), np.unique(candidates))


@pytest.mark.parametrize("metric", DISTANCES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_vectors_in_memory_are_compared_where_they_lie(metric, dtype, precision, monkeypatch):
    rng = np.random.default_rng(1)
    vectors, queries = rng.integers(-3, 4, (90, 5)), rng.integers(-3, 4, (7, 5)).astype(precision)
    vectors[3] = 0
    calibration = Calibration(np.zeros(5, np.float32), np.ones(5, np.float32)) if dtype == "int8" else None
    view = VectorFile.create(None, 5, dtype, calibration).add(vectors).view
    candidates = np.array([rng.permutation(90)[:40] for _ in queries])
    candidates[:, ::7] = -1
    for k in (1, 12, 50):
        monkeypatch.setattr(VectorView, "is_resident", True)
        here = nearest_candidates(view, queries, candidates, k, metric)
        monkeypatch.setattr(VectorView, "is_resident", False)
        read = nearest_candidates(view, queries, candidates, k, metric)
        np.testing.assert_allclose(here.distances, read.distances, atol=1e-6)
        if metric != "cosine":  # whole numbers are exact, and so are ties
            np.testing.assert_array_equal(here.ids, read.ids)


def test_a_vector_of_zeros_has_no_angle_and_distance_one():
    assert rerank_exact([[0.0, 0.0], [1.0, 0.0]], [[1.0, 0.0]], [[0, 1]], 2, "cosine").distances.tolist() == [[0, 1]]


@pytest.mark.parametrize(("dtype", "recall"), [("float32", 1.0), ("float16", 0.99), ("int8", 0.93)])
def test_vectors_kept_with_less_precision_find_almost_the_same(dtype, recall):
    X = np.random.default_rng(3).normal(size=(2000, 32)).astype(np.float32)
    calibration = Calibration.of(X) if dtype == "int8" else None
    file = VectorFile.create(None, 32, dtype, calibration).add(X)
    everything = np.tile(np.arange(2000), (50, 1))
    truth = rerank_exact(X, X[:50], everything, 10).ids
    assert count_found(rerank_exact(file, X[:50], everything, 10).ids, truth).mean() / 10 >= recall


def test_places_without_a_candidate_stay_empty_and_ties_go_to_the_lowest_id():
    index = HammingIndex(8).add(np.zeros((3, 1), np.uint8))
    distances, ids = rerank_asymmetric(index, np.ones((1, 8)), [[2, 0, -1, 1]], k=5)
    assert ids.tolist() == [[0, 1, 2, -1, -1]]
    assert distances.tolist() == [[8, 8, 8, np.inf, np.inf]]


def test_reranking_finds_more_true_neighbors_than_codes_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 16)) @ rng.normal(size=(16, 32))
    search = SimilaritySearch(ITQ(n_bits=16, random_state=0)).fit(X).add(X)
    queries = X[:100] + 0.1 * rng.normal(size=(100, 32))
    distances = ((queries[:, None] - X) ** 2).sum(axis=2)
    truth = np.argsort(distances, axis=1)[:, :10]

    def recall(**options):
        found = search.search(queries, 10, **options).ids
        return np.mean([len(np.intersect1d(row, true)) for row, true in zip(found, truth)]) / 10

    assert recall() < recall(rerank="asymmetric", candidates=100) < recall(rerank=X, candidates=100)
    assert recall(rerank=X, candidates=2000) == 1.0


def short(vectors):
    """A vector file with fewer vectors than there are ids."""
    return VectorFile.create(None, 12).add(vectors[:50])


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("query_scores must have shape (9, 20)", lambda i, v, q, c, s: rerank_asymmetric(i, s[:, :5], c, 3)),
        ("query_vectors must have shape (9, 12)", lambda i, v, q, c, s: rerank_exact(v, q[:2], c, 3)),
        ("vectors must have a row for every id", lambda i, v, q, c, s: rerank_exact(v[:50], q, c, 3)),
        (
            "metric must be one of 'euclidean', 'cosine', 'dot', got 'l1'",
            lambda i, v, q, c, s: rerank_exact(v, q, c, 3, "l1"),
        ),
        ("k must be at least 1, got 0", lambda i, v, q, c, s: rerank_exact(v, q, c, 0)),
        ("candidates must be ids, or -1 for none, got -2", lambda i, v, q, c, s: rerank_exact(v, q, c * 0 - 2, 3)),
        ("candidates must be in a vector file without a name", lambda i, v, q, c, s: rerank_exact(short(v), q, c, 3)),
        ("candidates must be ids of shape", lambda i, v, q, c, s: rerank_exact(v, q, c[0], 3)),
        ("ids must be in the index, got 200", lambda i, v, q, c, s: rerank_asymmetric(i, s, c * 0 + 200, 3)),
    ],
)
def test_bad_input_is_named(case, message, call):
    with pytest.raises(ValueError, match="^" + message.replace("(", r"\(").replace(")", r"\)")):
        call(*case)
