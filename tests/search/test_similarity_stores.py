"""A search over a store: the same answers, wherever the codes are compared."""

import numpy as np
import pytest
from replay import HASHER, N_FEATURES

from hashlearn import ABH, LSH, SimilaritySearch
from hashlearn.stores import open_store

X = np.random.default_rng(3).standard_normal((120, N_FEATURES)).astype(np.float32)
NAMES = [f"photo {n:03} é" for n in np.random.default_rng(4).permutation(120)]
PAYLOADS = [{"year": 2000 + n % 20} for n in range(120)]
PACKAGES = {"lance": "lancedb", "duckdb": "duckdb", "sqlite": "sqlite_vec"}


@pytest.fixture(params=PACKAGES)
def uri(request, tmp_path):
    pytest.importorskip(PACKAGES[request.param])
    return f"{request.param}://{tmp_path}/rows"


@pytest.mark.parametrize("ids", [list(range(5, 125)), NAMES])
def test_a_store_finds_what_memory_finds(uri, ids):
    mirrored = SimilaritySearch(HASHER, store=uri, keep_vectors="float32").add(X, ids, PAYLOADS)
    mirrored.upsert(X[:3] + 1, ids[:3], PAYLOADS[:3]).remove(ids[3:5])
    mirrored.close()
    rows = np.concatenate([X[:3] + 1, X[3:]])
    order = sorted((row for row in range(120) if row not in (3, 4)), key=lambda row: ids[row])  # as a store breaks ties
    wanted = SimilaritySearch(HASHER, keep_vectors="float32")
    wanted.add(rows[order], [ids[row] for row in order], [PAYLOADS[row] for row in order])
    for search_in in ("memory", "store"):
        search = SimilaritySearch(HASHER, store=uri, search_in=search_in)
        assert list(search) == list(wanted)
        assert len(search) == 118
        for options in ({}, {"rerank": "codes"}, {"filter": {"year": {"$lt": 2010}}}, {"candidates": 60}):
            found, expected = search.search(X[7:10], 5, **options), wanted.search(X[7:10], 5, **options)
            assert found.ids.tolist() == expected.ids.tolist()
            np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-4, atol=1e-5)
        within, expected_within = search.within(X[7:9], 4, rerank="codes"), wanted.within(X[7:9], 4, rerank="codes")
        assert within.ids.tolist() == expected_within.ids.tolist()
        assert [record.id for record in search.get([ids[9], ids[3]])] == [ids[9]]
        assert np.array_equal(search.get([ids[9]])[0].vector, X[9])
        assert ids[9] in search
        assert ids[3] not in search
        search.close()


def test_another_process_sees_changes_after_a_refresh(tmp_path):
    pytest.importorskip("lancedb")
    one = SimilaritySearch(HASHER, store=f"lance://{tmp_path}/rows").add(X, NAMES)
    other = SimilaritySearch(HASHER, store=f"lance://{tmp_path}/rows")
    assert not other.refresh()
    one.remove(NAMES[:1])
    assert NAMES[0] in other
    assert other.refresh()
    assert NAMES[0] not in other


def test_what_a_store_cannot_do_is_said(tmp_path):
    pytest.importorskip("duckdb")
    uri = f"duckdb://{tmp_path}/rows"
    search = SimilaritySearch(HASHER, store=uri).add(X[:5])
    with pytest.raises(ValueError, match="in its store already"):
        search.save(tmp_path / "search")
    with pytest.raises(ValueError, match="ids must be new, got 3"):
        search.add(X[:1], [3])
    with pytest.raises(TypeError, match="ids must be integers"):
        search.add(X[:1], ["a"])
    with pytest.raises(ValueError, match="payloads must be dicts of JSON"):
        search.add(X[:1], [9], [{"x": {1, 2}}])
    assert len(search) == 5
    search.close()
    with pytest.raises(ValueError, match="store must hold codes of this hasher"):
        SimilaritySearch(LSH(n_bits=16, random_state=1).fit(X), store=uri)
    with pytest.raises(ValueError, match="n_bits must be 16"):
        SimilaritySearch(LSH(n_bits=8, random_state=1).fit(X), store=uri)
    with pytest.raises(ValueError, match="keep_vectors must be None for"):
        SimilaritySearch(HASHER, store=uri, keep_vectors="float32")
    with pytest.raises(ValueError, match="uri must be a folder or begin with"):
        SimilaritySearch(HASHER, store="mongodb://somewhere")
    with pytest.raises(ValueError, match="search_in='store' needs a store"):
        SimilaritySearch(HASHER, search_in="store")
    with pytest.raises(ValueError, match="search_in must be 'memory' for real queries"):
        SimilaritySearch(HASHER, store=uri, search_in="store", query="real")
    assert len(open_store(uri)) == 5


def test_rows_in_a_store_get_running_numbers_behind_those_that_are_there(uri):
    first = SimilaritySearch(HASHER, store=uri, search_in="store").add(X[:3], [4, 2, 7])
    assert list(first.add(X[3:5])) == [2, 4, 7, 8, 9]
    first.close()
    with_mirror = SimilaritySearch(HASHER, store=uri)
    assert list(with_mirror.add(X[5:6])) == [2, 4, 7, 8, 9, 10]
    with_mirror.close()


def test_a_store_without_rows_finds_nothing(uri):
    search = SimilaritySearch(HASHER, store=uri, search_in="store")
    assert len(search) == 0
    assert "a" not in search
    assert search.get([1]) == []
    assert search.search(X[:2], 3).ids.tolist() == [[-1] * 3] * 2
    assert len(search.within(X[:2], 16)[1].ids) == 0
    with pytest.raises(ValueError, match="ids must be in the search, got 5"):
        search.remove([5])
    with pytest.raises(ValueError, match="index needs codes in memory"):
        search.index  # noqa: B018


def test_within_a_distance_of_vectors_is_the_same_in_a_store(uri):
    mirrored = SimilaritySearch(HASHER, store=uri, keep_vectors="float32").add(X, NAMES)
    wanted = mirrored.within(X[:4], 2.0)
    mirrored.close()
    in_store = SimilaritySearch(HASHER, store=uri, search_in="store")
    found = in_store.within(X[:4], 2.0)
    in_store.close()
    assert len(found.ids) > 4
    assert found.ids.tolist() == wanted.ids.tolist()
    np.testing.assert_allclose(found.distances, wanted.distances, rtol=1e-4, atol=1e-5)


def test_codes_of_abh_live_in_a_store_and_are_searched_in_memory(uri):
    hasher = ABH(n_bits=24, random_state=0).fit(X)
    order = np.argsort(NAMES)
    wanted = SimilaritySearch(hasher).add(X[order], [NAMES[row] for row in order], [PAYLOADS[row] for row in order])
    search = SimilaritySearch(hasher, store=uri).add(X, NAMES, PAYLOADS)
    search.upsert(X[:1] + 1, NAMES[:1], PAYLOADS[:1])
    search.upsert(X[:1], NAMES[:1], PAYLOADS[:1])
    search.close()
    opened = SimilaritySearch(hasher, store=uri)
    for options in ({}, {"filter": {"year": {"$lt": 2010}}}):
        for one, other in zip(opened.search(X[:9], 5, **options), wanted.search(X[:9], 5, **options)):
            np.testing.assert_array_equal(one, other)
    opened.close()
    with pytest.raises(ValueError, match="search_in must be 'memory' for ABH"):
        SimilaritySearch(hasher, store=uri, search_in="store")
    with pytest.raises(ValueError, match="store must hold codes"):
        SimilaritySearch(LSH(n_bits=24, random_state=1).fit(X), store=uri)
