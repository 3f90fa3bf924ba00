"""The nearest vectors are those of brute force in float64, in every metric and from every holder."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.rows import RowBlocks
from hashlearn.search import VectorFile, exact, nearest_vectors


def brute_force(database, queries, metric):
    X, Q = database.astype(np.float64), queries.astype(np.float64)
    if metric == "euclidean":
        return np.sqrt(((Q[:, None] - X) ** 2).sum(axis=2))
    if metric == "dot":
        return -Q @ X.T
    lengths = np.linalg.norm(Q, axis=1)[:, None] * np.linalg.norm(X, axis=1)
    return 1 - np.divide(Q @ X.T, lengths, out=np.zeros((len(Q), len(X))), where=lengths > 0)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["euclidean", "cosine", "dot"]), st.sampled_from([0, 1, 1e4]))
@settings(deadline=None, max_examples=40)
def test_distances_and_ids_are_those_of_brute_force(seed, metric, offset):
    rng = np.random.default_rng(seed)
    X, Q = rng.normal(size=(200, 5)) + offset, rng.normal(size=(7, 5)) + offset
    expected = brute_force(X, Q, metric)
    distances, ids = nearest_vectors(X, Q, 9, metric)
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :9], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ids, np.argsort(expected, axis=1, kind="stable")[:, :9])


@pytest.mark.parametrize("kept", [1 << 20, 1])
def test_how_often_pairs_are_settled_changes_nothing(kept, monkeypatch):
    monkeypatch.setattr(exact, "_PAIRS_KEPT", kept)
    monkeypatch.setattr(exact, "_DISTANCES_PER_BLOCK", 1 << 10)
    X = np.random.default_rng(0).integers(0, 3, (9000, 4)).astype(np.uint8)
    expected = np.argsort(brute_force(X, X[:5], "euclidean"), axis=1, kind="stable")[:, :20]
    np.testing.assert_array_equal(nearest_vectors(X, X[:5], 20).ids, expected)


def test_the_vectors_of_a_file_are_searched_as_rows():
    X = np.random.default_rng(0).normal(size=(500, 6)).astype(np.float32)
    view = VectorFile.create(None, 6).add(X).view
    np.testing.assert_array_equal(nearest_vectors(RowBlocks(view), X[:9], 4).ids, nearest_vectors(X, X[:9], 4).ids)
