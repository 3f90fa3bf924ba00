"""A search that looks in lists: what it finds, whatever was added and removed before, and what it keeps."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn import ABH, LSH, SimilaritySearch
from hashlearn.search import lists, rows

N, D = 3000, 16


def vectors(n, seed=0):
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(7).standard_normal((30, D))
    return (centers[rng.integers(0, 30, n)] + 0.6 * rng.standard_normal((n, D))).astype(np.float32)


def true_nearest(search, Q, k, X, ids=None):
    ids = np.arange(len(X)) if ids is None else np.asarray(ids)
    if search.metric == "cosine":
        Q, X = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (Q, X))
    distances = ((Q[:, None].astype(np.float64) - X[ids][None]) ** 2).sum(axis=2)
    if search.metric == "dot":
        distances = -(Q @ X[ids].T)
    return ids[np.argsort(distances, axis=1, kind="stable")[:, :k]]


def share_found(found, truth):
    return np.mean([np.isin(true, here).mean() for true, here in zip(truth, found)])


@pytest.fixture(scope="module")
def hasher():
    return fitted_hasher()


@cache
def fitted_hasher(random_state=0):
    return LSH(n_bits=48, random_state=random_state).fit(vectors(N))


def made(hasher, n=N, metric="euclidean", **options):
    X = vectors(n)
    search = SimilaritySearch(hasher, metric=metric, keep_vectors="float32", index="lists", **options)
    return search.add(X), X


def test_the_codes_of_abh_serve_as_well():
    X = vectors(N)
    search = SimilaritySearch(ABH(n_bits=32, random_state=0), keep_vectors="float16", index="lists")
    search.fit(X[:2000]).add(X)
    assert search.has_lists
    assert share_found(search.search(X[:200], 3).ids, np.arange(200)[:, None]) > 0.95


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "dot"])
def test_a_search_in_lists_finds_the_share_that_it_says(hasher, metric):
    search, X = made(hasher, metric=metric)
    assert search.has_lists
    Q = vectors(300, seed=1)
    truth = true_nearest(search, Q, 10, X)
    for recall in (None, 0.8, 0.99):
        found = search.search(Q, 10, recall=recall)
        assert found.recall == pytest.approx(0.95 if recall is None else recall, abs=1e-9)
        assert share_found(found.ids, truth) > found.recall - 0.03
        assert (found.probed >= 1).all()
    one = search.search(Q[0], 10, recall=0.9)
    assert one.ids.shape == (10,)
    assert one.recall == pytest.approx(0.9)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "dot"])
@pytest.mark.parametrize("index", ["lists", "flat"])
def test_recall_1_is_the_nearest_vectors(hasher, metric, index):
    X = vectors(1500)
    search = SimilaritySearch(hasher, metric=metric, keep_vectors="float32", index=index).add(X)
    assert search.has_lists == (index == "lists")
    Q = vectors(20, seed=1)
    found = search.search(Q, 7, recall=1.0)
    np.testing.assert_array_equal(found.ids, true_nearest(search, Q, 7, X))
    assert found.recall == 1
    search.remove(np.arange(0, 1500, 2))
    kept = np.arange(1, 1500, 2)
    np.testing.assert_array_equal(search.search(Q, 7, recall=1.0).ids, true_nearest(search, Q, 7, X, kept))
    some = search.search(Q, 7, recall=1.0, subset=kept[:5])
    assert (np.sort(some.ids[:, :5]) == kept[:5]).all()
    assert (some.ids[:, 5:] == -1).all()


@settings(deadline=None, max_examples=3)
@given(data=st.data())
def test_whatever_was_changed_the_lists_find_what_is_there(data):
    """Almost all of it: with nearly all of the weight, candidates are missed where estimates err."""
    search, X = made(fitted_hasher(), n=1200)
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    alive = dict(enumerate(X))
    for step in range(data.draw(st.integers(1, 5))):
        kind = data.draw(st.sampled_from(["add few", "add many", "remove", "upsert", "compact"]))
        if kind.startswith("add"):
            new = vectors(3 if kind == "add few" else 400, seed=100 + step)
            ids = np.arange(max(alive, default=-1) + 1, max(alive, default=-1) + 1 + len(new))
            search.add(new, ids)
            alive.update(zip(ids.tolist(), new))
        elif kind == "remove":
            gone = rng.permutation(list(alive))[: len(alive) // 4].tolist()
            search.remove(gone)
            for id in gone:
                del alive[id]
        elif kind == "upsert":
            ids = rng.permutation(list(alive))[:100].tolist()
            new = vectors(len(ids), seed=200 + step)
            search.upsert(new, ids)
            alive.update(zip(ids, new))
        else:
            search.compact()
        assert search.has_lists == (len(alive) >= 1000) or kind != "compact"
    ids, V = np.array(list(alive)), np.array(list(alive.values()))
    Q = vectors(40, seed=5)
    found = search.search(Q, 5, recall=0.99)
    assert np.isin(found.ids, ids).all()
    truth = ids[np.argsort(((Q[:, None] - V[None]) ** 2).sum(axis=2), axis=1)[:, :5]]
    assert share_found(found.ids, truth) > 0.93
    by_id = dict(zip(ids.tolist(), V))
    exact = np.array([[np.linalg.norm(q - by_id[id]) for id in row] for q, row in zip(Q, found.ids.tolist())])
    np.testing.assert_allclose(found.distances, exact, rtol=1e-4)


@pytest.mark.parametrize("share", [0.5, 0.1, 0.02, 0.002])
def test_filters_cost_no_recall(hasher, share):
    X = vectors(N)
    search = SimilaritySearch(hasher, keep_vectors="float32", index="lists")
    marks = np.random.default_rng(3).random(N) < share
    search.add(X, payloads=[{"is": bool(mark)} for mark in marks])
    Q = vectors(100, seed=1)
    found = search.search(Q, 5, filter={"is": True}, recall=0.95)
    truth = true_nearest(search, Q, 5, X, np.flatnonzero(marks))
    assert marks[found.ids[found.ids >= 0]].all()
    assert share_found(found.ids, truth) > 0.92


def test_a_row_is_found_as_soon_as_it_is_added(hasher):
    search, _ = made(hasher)
    new = vectors(700, seed=9) + 20
    for first in range(0, 700, 7):
        search.add(new[first : first + 7], np.arange(N + first, N + first + 7))
        assert search.search(new[first : first + 1], 1).ids.tolist() == [[N + first]]
    found = search.search(new, 1, recall=0.9)
    assert (found.ids[:, 0] == np.arange(N, N + 700)).mean() > 0.95


def test_a_folder_keeps_lists_and_other_processes_see_them(hasher, tmp_path):
    search, _ = made(hasher, folder=tmp_path / "a")
    Q = vectors(30, seed=1)
    before = search.search(Q, 10, recall=0.9)
    assert len(list((tmp_path / "a").glob("lists-*.hll"))) == 1
    other = SimilaritySearch.open(tmp_path / "a")
    assert other.has_lists
    np.testing.assert_array_equal(other.search(Q, 10, recall=0.9).ids, before.ids)
    new = vectors(600, seed=4) - 15
    search.add(new, np.arange(N, N + 600))
    search.remove(before.ids[0, :3])
    assert other.refresh()
    assert other.search(new[:50], 1).ids[:, 0].tolist() == list(range(N, N + 50))
    assert not np.isin(other.search(Q[:1], 10).ids, before.ids[0, :3]).any()
    search.compact()
    assert other.refresh()
    assert other.has_lists
    assert len(list((tmp_path / "a").glob("lists-*.hll"))) == 1
    search.save(tmp_path / "b")
    again = SimilaritySearch.open(tmp_path / "b")
    assert again.has_lists
    np.testing.assert_array_equal(again.search(Q, 10).ids, search.search(Q, 10).ids)
    assert share_found(again.search(Q, 10, recall=0.99).ids, search.search(Q, 10, recall=1.0).ids) > 0.95


def test_tuning_with_queries_measures_the_lists_again(hasher, tmp_path):
    search, X = made(hasher, folder=tmp_path / "a")
    search.remove(np.arange(100))
    far = vectors(200, seed=3) + 1.5  # between the rows, where more lists must be looked at
    truth = true_nearest(search, far, 10, X, np.arange(100, N))
    search.tune(far[:150], target_recall=0.9)
    for each in (search, SimilaritySearch.open(tmp_path / "a")):
        found = each.search(far, 10)
        assert found.recall == pytest.approx(0.9, abs=1e-9)
        assert share_found(found.ids, truth) > 0.87


def test_a_code_file_is_written_with_the_lists_of_its_rows(hasher, tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "_LEAST_FRESH", 500)
    search, _ = made(hasher, folder=tmp_path / "a")
    search.add(vectors(900, seed=3), np.arange(N, N + 900))
    (file,) = (tmp_path / "a").glob("lists-*.hll")
    opened = SimilaritySearch.open(tmp_path / "a")._rows.reader.lists._now
    assert opened.n_places == N + 900
    assert len(opened.lists) == N + 900
    assert file.name in {path.name for path in (tmp_path / "a").iterdir()}


def test_a_change_that_fails_leaves_the_lists_as_they_were(hasher, tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "_LEAST_FRESH", 500)
    search, _ = made(hasher, folder=tmp_path / "a")
    Q = vectors(20, seed=1)
    before = search.search(Q, 10)
    bad = vectors(900, seed=3) + 5
    with pytest.raises(RuntimeError), search.transaction():  # noqa: PT012
        search.add(bad, np.arange(N, N + 900))
        raise RuntimeError
    np.testing.assert_array_equal(search.search(Q, 10).ids, before.ids)
    good = vectors(900, seed=4) - 15
    search.add(good, np.arange(N, N + 900))
    assert (search.search(good, 1, recall=0.95).ids[:, 0] == np.arange(N, N + 900)).mean() > 0.95


def test_rows_are_added_even_if_no_lists_can_be_made_of_them(hasher, monkeypatch):
    def fail(*_, **__):
        raise MemoryError("no room")

    monkeypatch.setattr(lists.PartitionedIndex, "tune", fail)
    X = vectors(1200)
    search = SimilaritySearch(hasher, keep_vectors="float32", index="lists")
    with pytest.warns(UserWarning, match="no lists could be made"):
        search.add(X)
    assert len(search) == 1200
    assert not search.has_lists
    assert search.search(X[:5], 1, recall=1.0).ids[:, 0].tolist() == list(range(5))


def test_lists_of_another_search_or_damaged_are_refused(hasher, tmp_path):
    made(hasher, folder=tmp_path / "a")[0].close()
    made(fitted_hasher(), n=N - 100, folder=tmp_path / "b")[0].close()
    (own,) = (tmp_path / "a").glob("lists-*.hll")
    (foreign,) = (tmp_path / "b").glob("lists-*.hll")
    content = own.read_bytes()
    own.write_bytes(vectors_file := foreign.read_bytes())
    assert vectors_file != content
    with pytest.raises(ValueError, match="other lists than were saved"):
        SimilaritySearch.open(tmp_path / "a")
    own.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="truncated"):
        SimilaritySearch.open(tmp_path / "a")
    own.write_bytes(content)
    assert SimilaritySearch.open(tmp_path / "a").has_lists


def test_lists_come_with_the_rows_they_are_for(hasher, monkeypatch):
    monkeypatch.setitem(lists.LEAST_ROWS, "auto", 1500)
    X = vectors(N)
    for kind, has in {"auto": [False, True], "flat": [False, False]}.items():
        search = SimilaritySearch(hasher, keep_vectors="int8", index=kind)
        assert [search.add(X[part]).has_lists for part in (slice(1000), slice(1000, N))] == has
        assert share_found(search.search(X[:50], 3).ids, np.arange(50)[:, None]) > 0.95
    search = SimilaritySearch(hasher, index="auto").add(X)
    assert not search.has_lists  # without vectors there is nothing to compare candidates by


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recall": 0}, "recall must be above 0"),
        ({"recall": "high"}, "recall must be a number"),
        ({"recall": 0.9, "candidates": 30}, "cannot both be given"),
        ({"recall": 0.9, "rerank": "codes"}, "recall needs vectors"),
    ],
)
def test_bad_requests_are_named(hasher, options, message):
    search, X = made(hasher, n=1100)
    with pytest.raises((ValueError, TypeError), match=message):
        search.search(X[:2], **options)


@pytest.mark.parametrize("kind", ["equal", "one list"])
def test_rows_that_make_no_good_lists_are_found_all_the_same(hasher, kind):
    X = vectors(1200)
    X[:-20] = X[0] if kind == "equal" else X[0] + 1e-4 * X[:-20]
    search = SimilaritySearch(hasher, keep_vectors="float32", index="lists").add(X)
    assert search.has_lists
    found = search.search(X[[0, 1190]], 3)
    assert found.ids[1, 0] == 1190
    if kind == "equal":
        assert found.ids[0].tolist() == [0, 1, 2]


def test_a_flat_search_compares_all_vectors_until_it_is_tuned_for_a_recall(hasher):
    X, Q = vectors(900), vectors(200, seed=1)
    search = SimilaritySearch(hasher, keep_vectors="float32").add(X)
    truth = true_nearest(search, Q, 10, X)
    found = search.search(Q, 10, recall=0.9)
    assert found.recall == 1
    np.testing.assert_array_equal(found.ids, truth)
    search.tune(k=10, target_recall=0.9)
    found = search.search(Q, 10, recall=0.9)
    assert 0.9 <= found.recall < 1
    assert share_found(found.ids, truth) > found.recall - 0.04
    with pytest.raises(ValueError, match="index='lists' needs keep_vectors"):
        SimilaritySearch(hasher, index="lists")
    with pytest.raises(ValueError, match="index must be one of"):
        SimilaritySearch(hasher, index="tree")
