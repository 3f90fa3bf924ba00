"""Queries that are made from their nearest rows, against the same in plain numpy."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import ABH, ITQ, JPSH, SimilaritySearch
from hashlearn.codes.packing import unpack

N_BITS = 32
DIGITS, LABELS = load_digits(return_X_y=True)
X, Q = DIGITS[:900].astype(np.float32), DIGITS[900:930].astype(np.float32)
PAYLOADS = [{"label": int(label)} for label in LABELS[:900]]


@pytest.fixture(scope="module", params=[("float32", "code"), ("float32", "real"), ("int8", "code")])
def search(request):
    kept, query = request.param
    hasher = JPSH(N_BITS, random_state=0).fit(X)
    search = SimilaritySearch(hasher, metric="euclidean", query=query, keep_vectors=kept).add(X, payloads=PAYLOADS)
    # Removed rows leave gaps between the places of the others.
    return search.add(X[:5] + 1).remove([900, 901, 902, 903, 904, 0, 450, 899])


def scores_in_numpy(search, n, allowed):
    """The scores of all rows of the search, for each query, and the ids of these rows."""
    ids = search.ids
    rows = np.array([record.vector for record in search.get(ids)])
    sizes = np.abs(search.hasher.decision_function(rows)).mean(axis=0)
    f, f_of_queries = (np.tanh(search.hasher.decision_function(some) / sizes) for some in (rows, Q))
    distances = np.linalg.norm(Q[:, None] - rows, axis=2)
    distances[:, ~allowed] = np.inf
    near = np.argsort(distances, axis=1, kind="stable")[:, : min(n, allowed.sum())]
    asked = (f_of_queries + f[near].sum(axis=1)) / (near.shape[1] + 1)
    return asked, asked @ (2.0 * unpack(search.codes(), N_BITS) - 1).T, ids


def assert_ranked(search, found, n, allowed):
    """The best by the scores, but for single precision."""
    asked, scores, ids = scores_in_numpy(search, n, allowed)
    scores[:, ~allowed] = -np.inf
    step = 1e-4 * np.abs(asked).max(axis=1, keepdims=True)
    k = found.ids.shape[1]
    at = np.searchsorted(ids, found.ids)
    np.testing.assert_array_equal(ids[at], found.ids)
    own = np.take_along_axis(scores, at, axis=1)
    best = -np.sort(-scores, axis=1)[:, :k]
    assert (np.abs(own + found.distances) <= step * (N_BITS / 2 + 2)).all()
    assert np.abs(own + found.distances).mean() < 2 * step.mean()
    assert np.abs(best - own).mean() < step.mean()
    assert (np.diff(found.distances, axis=1) >= 0).all()


def test_it_ranks_as_plain_numpy_does(search):
    everything = np.ones(len(search), bool)
    found = search.search(Q, 20, expand=10, recall=1.0)
    assert_ranked(search, found, 10, everything)
    # Other queries have other scores: the assertion above can fail.
    with pytest.raises(AssertionError):
        assert_ranked(search, search.search(Q, 20, expand=1, recall=1.0), 10, everything)


@pytest.mark.parametrize("n", [3, 10])
def test_neighbors_and_results_are_among_the_rows_of_a_filter_or_subset(search, n):
    labels = LABELS[search.ids]
    found = search.search(Q, 20, expand=n, recall=1.0, filter={"label": {"$in": [1, 7]}}, include=["payload"])
    assert_ranked(search, found, n, np.isin(labels, [1, 7]))
    assert {payload["label"] for row in found.payloads for payload in row} <= {1, 7}
    few = np.isin(search.ids, [3, 5, 451, 898])
    assert_ranked(search, search.search(Q, 4, expand=n, recall=1.0, subset=few), n, few)


def test_a_query_finds_the_same_alone_and_among_others(search):
    many = search.search(Q, 10, expand=10)
    for query, ids, distances in zip(Q, many.ids, many.distances):
        one = search.search(query, 10, expand=10)
        np.testing.assert_array_equal(one.ids, ids)
        np.testing.assert_allclose(one.distances, distances, rtol=1e-4, atol=1e-4)


def test_without_neighbors_it_is_the_plain_search(search):
    for expand in (None, 0):
        for one, other in zip(search.search(Q, 7, expand=expand), search.search(Q, 7)):
            np.testing.assert_array_equal(one, other)


def test_rows_that_come_and_go_are_found_and_not_found():
    search = SimilaritySearch(ITQ(N_BITS, random_state=0), metric="cosine", keep_vectors="float16").fit(X)
    assert (search.search(Q, 2, expand=5).ids == -1).all()
    search.add(X[:3], ["a", "b", "c"])
    assert set(search.search(X[0], 3, expand=10).ids) == {"a", "b", "c"}
    search.remove(["b"]).add(X[3:4], ["d"])
    assert set(search.search(X[0], 3, expand=10).ids) == {"a", "c", "d"}
    assert set(search.search(like=["a"], k=2, expand=2).ids) == {"c", "d"}


def test_what_cannot_be_expanded_is_one_line(tmp_path):
    itq, kept = ITQ(16, random_state=0).fit(X), {"keep_vectors": "float32"}
    search, without = SimilaritySearch(itq, **kept).add(X[:50]), SimilaritySearch(itq).add(X[:50])
    words = SimilaritySearch(itq, text_field="text", **kept).add(X[:2], texts=["one", "two"])
    in_store = SimilaritySearch(itq, store=f"sqlite:///{tmp_path}/rows.db", search_in="store", **kept).add(X[:50])
    abh = SimilaritySearch(ABH(16, random_state=0), **kept).fit(X[:300]).add(X[:50])
    for call, says in (
        (lambda: search.search(Q, expand=-1), "expand must be"),
        (lambda: search.search(Q, expand=3, rerank="codes"), "expand and rerank cannot both be given"),
        (lambda: without.search(Q, expand=3), "expand needs vectors"),
        (lambda: without.search(like=[1], expand=3), "expand needs vectors"),
        (lambda: words.search(text="one", by="words", expand=3), "expand must be None for a search by words"),
        (lambda: in_store.search(Q, expand=3), "expand needs codes in memory"),
        (lambda: abh.search(Q, expand=3), "expand must be None for a hasher that ranks by neighborhood"),
    ):
        with pytest.raises(ValueError, match=says) as error:
            call()
        assert "\n" not in str(error.value)
