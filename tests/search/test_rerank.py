"""Reranking against the formulas, written out."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from hashlearn import ITQ
from hashlearn.codes import pack, unpack
from hashlearn.search import HammingIndex, SimilaritySearch, rerank, rerank_asymmetric, rerank_exact


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


@pytest.mark.parametrize("block", [1 << 22, 1])
def test_exact_reranking_is_by_euclidean_distance_whatever_holds_the_vectors(case, block, monkeypatch, tmp_path):
    monkeypatch.setattr(rerank, "_BLOCK_ELEMENTS", block)
    _, vectors, queries, candidates, _ = case
    np.save(tmp_path / "vectors.npy", vectors)
    for holder in (
        vectors,
        np.load(tmp_path / "vectors.npy", mmap_mode="r"),
        scipy.sparse.csr_matrix(vectors),
        pd.DataFrame(vectors),
    ):
        distances, ids = rerank_exact(holder, queries, candidates, k=7)
        for query, row in enumerate(candidates):
            expected = np.linalg.norm(vectors[row] - queries[query], axis=1)
            order = np.argsort(expected)[:7]
            np.testing.assert_array_equal(ids[query], row[order])
            np.testing.assert_allclose(distances[query], expected[order], rtol=1e-5)


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


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("query_scores must have shape (9, 20)", lambda i, v, q, c, s: rerank_asymmetric(i, s[:, :5], c, 3)),
        ("query_vectors must have shape (9, 12)", lambda i, v, q, c, s: rerank_exact(v, q[:2], c, 3)),
        ("vectors must have a row for every id", lambda i, v, q, c, s: rerank_exact(v[:50], q, c, 3)),
        ("candidates must be ids of shape", lambda i, v, q, c, s: rerank_exact(v, q, c[0], 3)),
        ("ids must be in the index, got 200", lambda i, v, q, c, s: rerank_asymmetric(i, s, c * 0 + 200, 3)),
    ],
)
def test_bad_input_is_named(case, message, call):
    with pytest.raises(ValueError, match="^" + message.replace("(", r"\(").replace(")", r"\)")):
        call(*case)
