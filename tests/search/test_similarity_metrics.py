"""What is near: the metric of a search, and what happens where the data contradict it."""

import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hashlearn import ABH, ITQ, LSH, SimilaritySearch

rng = np.random.default_rng(0)
X = rng.standard_normal((400, 12)).astype(np.float32)
LENGTHS = rng.uniform(0.1, 30, (400, 1)).astype(np.float32)
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize(
    "hasher", [ITQ(n_bits=12, random_state=0), make_pipeline(StandardScaler(), LSH(n_bits=24, random_state=0))]
)
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, lambda rows: np.asarray(rows).tolist()])
def test_cosine_does_not_see_the_length_of_rows(hasher, form, tmp_path):
    wanted = SimilaritySearch(hasher, metric="cosine").fit(UNIT).add(UNIT).search(UNIT[:9], 5)
    search = SimilaritySearch(hasher, metric="cosine").fit(form(X * LENGTHS)).add(form(X * LENGTHS))
    np.testing.assert_array_equal(search.search(X[:9] * 7, 5).ids, wanted.ids)
    search.save(tmp_path / "search")
    opened = SimilaritySearch.open(tmp_path / "search")
    assert opened.metric == "cosine"
    np.testing.assert_array_equal(opened.search(X[:9] * 0.1, 5).ids, wanted.ids)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "dot"])
def test_kept_vectors_order_by_the_metric(metric):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = SimilaritySearch(ITQ(n_bits=12, random_state=0), metric=metric, keep_vectors="float32").fit(
            X * LENGTHS
        )
    search.add(X * LENGTHS)
    Q = X[:5] + np.float32(0.1)
    products = Q @ (X * LENGTHS).T
    exact = {
        "euclidean": np.linalg.norm(Q[:, None] - X * LENGTHS, axis=2),
        "cosine": 1 - products / np.linalg.norm(Q, axis=1)[:, None] / np.linalg.norm(X * LENGTHS, axis=1),
        "dot": -products,
    }[metric]
    found = search.search(Q, 7, candidates=400)
    np.testing.assert_allclose(found.distances, np.sort(exact, axis=1)[:, :7], rtol=1e-3, atol=1e-4)
    within = search.within(Q, float(np.sort(exact[0])[20]), candidates=400)
    assert 20 <= len(within[0].ids) <= 22


def test_rows_that_are_not_of_length_one_are_said_once():
    search = SimilaritySearch(ITQ(n_bits=12, random_state=0)).fit(UNIT).add(UNIT).add(UNIT[:0])
    with pytest.warns(UserWarning, match="say metric='cosine'"):
        search.search(X[:3] * 9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.search(X[:3] * 9)


def test_rows_that_fit_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for metric, rows in (("euclidean", UNIT), ("euclidean", X * LENGTHS), ("cosine", X * LENGTHS), ("dot", UNIT)):
            SimilaritySearch(ITQ(n_bits=12, random_state=0), metric=metric).fit(rows).add(rows).search(rows[:2])


def test_inner_products_of_rows_of_different_length_are_warned_of():
    with pytest.warns(UserWarning, match="codes tell little of the length"):
        SimilaritySearch(ITQ(n_bits=12, random_state=0), metric="dot").fit(X * LENGTHS)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_abh_is_searched_by_its_weights_and_corrections(metric, tmp_path):
    hasher = ABH(n_bits=48, metric=metric, random_state=0)
    search = SimilaritySearch(hasher).fit(X).add(X, [f"row {n}" for n in range(400)], [{"n": n} for n in range(400)])
    assert (search.metric, search.query) == (metric, "real")
    rows = UNIT if metric == "cosine" else X
    nearest = np.argsort(np.linalg.norm(rows[:60, None] - rows, axis=2), axis=1)[:, 1]
    found = search.search(X[:60], 10).ids
    assert np.mean([f"row {n}" in row for n, row in zip(nearest, found)]) > 0.6
    search.upsert(X[:1] + 5, ["row 7"]).remove(["row 9"])
    search.save(tmp_path / "search")
    search.upsert(X[:1] - 5, ["row 8"]).save()
    opened = SimilaritySearch.open(tmp_path / "search")
    for one, other in zip(
        opened.search(X[:9], 5, filter={"n": {"$gt": 3}}), search.search(X[:9], 5, filter={"n": {"$gt": 3}})
    ):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match=f"metric must be that of the fitted hasher, '{metric}', got 'dot'"):
        SimilaritySearch(search.hasher, metric="dot")
    with pytest.raises(ValueError, match="query must be 'real' for ABH"):
        SimilaritySearch(hasher, query="code")


def test_real_queries_of_any_hasher_rank_as_asymmetric_reranking_of_all():
    hasher = ITQ(n_bits=12, random_state=0).fit(X)
    real = SimilaritySearch(hasher, query="real").add(X).search(X[:20], 3)
    codes = SimilaritySearch(hasher).add(X).search(X[:20], 3, rerank="asymmetric", candidates=400)
    assert np.mean(real.ids == codes.ids) > 0.9


def test_a_tuned_search_takes_the_candidates_that_were_found(tmp_path):
    search = SimilaritySearch(ITQ(n_bits=12, random_state=0), keep_vectors="int8").fit(X)
    search.add(X, [f"row {n}" for n in range(400)])
    tuning = search.tune(k=5, target_recall=0.9)
    assert tuning.met
    wanted = search.search(X[:9] + 0.1, 5, candidates=tuning.chosen)
    np.testing.assert_array_equal(search.search(X[:9] + 0.1, 5).ids, wanted.ids)
    search.save(tmp_path / "search")
    opened = SimilaritySearch.open(tmp_path / "search")
    assert opened.tuning == tuning
    assert opened.keep_vectors == "int8"
    np.testing.assert_array_equal(opened.search(X[:9] + 0.1, 5).ids, wanted.ids)


def test_a_tuning_judges_the_other_lengths_that_are_named():
    search = SimilaritySearch(ITQ(n_bits=12, random_state=0), keep_vectors="int8").fit(X).add(X)
    assert search.tune(k=5, target_recall=0.5, other_n_bits=[]).by_n_bits == {}
    assert set(search.tune(k=5, target_recall=0.5, other_n_bits=[8]).by_n_bits) == {8}


def test_one_vector_has_one_row_of_neighbors():
    search = SimilaritySearch(ITQ(n_bits=12, random_state=0), keep_vectors="float32").fit(X).add(X)
    many, one = search.search(X[:1], 5, include=["payload", "vector"]), search.search(X[0], 5, include=["payload"])
    assert one.ids.tolist() == many.ids[0].tolist()
    assert one.payloads == many.payloads[0] == [{}] * 5
    np.testing.assert_array_equal(many.vectors[0], X[many.ids[0]])
    np.testing.assert_array_equal(search.encode(X[0]), search.encode(X[:1])[0])
    np.testing.assert_array_equal(search.within(X[0], 3.0).ids, search.within(X[:1], 3.0)[0].ids)


def test_bad_input_is_one_line():
    search = SimilaritySearch(ITQ(n_bits=12, random_state=0)).fit(X).add(X)
    for call, kind, says in (
        (lambda: SimilaritySearch(ITQ(), metric="hamming"), ValueError, "metric must be one of"),
        (lambda: SimilaritySearch(ITQ(), keep_vectors="float64"), ValueError, "keep_vectors must be one of"),
        (lambda: search.add(X[:2], [1000, "a"]), TypeError, "ids must be integers or strings, all of one kind"),
        (
            lambda: search.add(X[:2], ["a", "b"]),
            TypeError,
            "ids must be integers, as those of this search, got strings",
        ),
        (lambda: search.upsert(X[:2], [1, 1]), ValueError, "ids must be unique"),
        (lambda: search.upsert(X[:2], [1]), ValueError, "ids must be as many as the rows of X"),
        (lambda: search.upsert(X[:1], [-1]), ValueError, "ids must be from 0"),
        (lambda: search.upsert(X[:1], [1], [{"when": object()}]), ValueError, "payloads must be dicts of JSON"),
        (lambda: search.upsert(X[:1], [1], {"a": 1}), TypeError, "payloads must be a list of dicts"),
        (lambda: search.remove([5000]), ValueError, "ids must be in the search, got 5000"),
        (lambda: search.search(X[0, 0]), (TypeError, ValueError), "X must"),
        (lambda: search.search(X[:1], k=0), ValueError, "k must be at least 1"),
        (lambda: search.search(X[:1], filter={"a": {"$near": 1}}), ValueError, "filter must test"),
        (lambda: search.search(X[:1], subset=[5000]), ValueError, "subset must be in the search, got 5000"),
        (lambda: search.search(X[:1], rerank="vectors"), ValueError, "keep_vectors"),
        (lambda: search.tune(), ValueError, "tune needs vectors"),
        (lambda: search.save(), ValueError, "folder must be given"),
        (lambda: search.refresh(), ValueError, "refresh needs a folder"),
    ):
        with pytest.raises(kind, match=says) as error:
            call()
        assert "\n" not in str(error.value)
    assert len(search) == 400


def test_two_writers_of_a_folder(tmp_path):
    one = SimilaritySearch(ITQ(n_bits=12, random_state=0), keep_vectors="float32").fit(X).add(X[:10])
    one.save(tmp_path / "search")
    other = SimilaritySearch.open(tmp_path / "search")
    one.upsert(X[20:21], [3])
    assert np.array_equal(other.get([3])[0].vector, X[3])  # as it was when it was opened
    other.upsert(X[21:22], [4]).add(X[22:23])
    assert one.refresh()
    for search in (one, other, SimilaritySearch.open(tmp_path / "search")):
        assert np.array_equal([record.vector for record in search.get([3, 4, 10])], X[20:23])
    one.add(X[:1])
    other.add(X[1:2])
    assert one.refresh()
    assert not one.refresh()
    assert list(one) == list(other) == list(range(13))
    assert np.array_equal([record.vector for record in one.get([11, 12])], X[:2])
    with pytest.raises(ValueError, match="ids must be new, got 12"):
        other.remove([0]).add(X[:1], [12])
