"""A search sent to another process finds there what it finds here."""

import copy
import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor
from operator import methodcaller

import numpy as np
import pytest
from replay import HASHER, N_FEATURES

from hashlearn import ABH, SimilaritySearch
from hashlearn.stores import open_store

X = np.random.default_rng(3).standard_normal((60, N_FEATURES)).astype(np.float32)
NAMES = [f"row {n}" for n in range(60)]
PAYLOADS = [{"even": n % 2 == 0} for n in range(60)]


def answers(search: SimilaritySearch) -> list:
    found = search.search(X[:5], 4, filter={"even": True})
    return [found.distances.tolist(), found.ids.tolist(), list(search), search.metric]


def test_a_search_goes_to_a_new_process_and_back(tmp_path):
    search = SimilaritySearch(HASHER, metric="cosine", keep_vectors="int8").add(X, NAMES, PAYLOADS)
    search.save(tmp_path / "search")
    ask = methodcaller("search", X[:5], 4, filter={"even": True})
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(ask, search).result()
    wanted = ask(search)
    assert found.ids.tolist() == wanted.ids.tolist()
    assert found.distances.tolist() == wanted.distances.tolist()


def test_changes_go_with_it_and_can_be_saved_there(tmp_path):
    search = SimilaritySearch(HASHER).add(X[:50], NAMES[:50], PAYLOADS[:50])
    search.save(tmp_path / "search")
    search.add(X[50:], NAMES[50:], PAYLOADS[50:]).remove(NAMES[:3])
    other = pickle.loads(pickle.dumps(search))
    assert answers(other) == answers(search)
    other.save()
    assert answers(SimilaritySearch.open(tmp_path / "search")) == answers(search)
    other.remove(NAMES[3:4])
    assert NAMES[3] in search


def test_real_queries_and_copies():
    search = SimilaritySearch(ABH(n_bits=8, random_state=0)).fit(X).add(X, payloads=PAYLOADS)
    assert answers(copy.deepcopy(search)) == answers(search)


@pytest.mark.parametrize("search_in", ["memory", "store"])
def test_over_a_store(tmp_path, search_in):
    pytest.importorskip("sqlite_vec")
    uri = f"sqlite://{tmp_path}/rows.db"
    search = SimilaritySearch(HASHER, store=uri, search_in=search_in, keep_vectors="float32").add(X, NAMES, PAYLOADS)
    other = pickle.loads(pickle.dumps(search))
    assert answers(other) == answers(search)
    other.close()
    search.close()
    with open_store(uri) as store, pytest.raises(TypeError, match="make it with the URI"):
        pickle.dumps(SimilaritySearch(HASHER, store=store, search_in=search_in))


def test_vectors_that_are_nowhere_else_are_told_to_be_saved():
    search = SimilaritySearch(HASHER, keep_vectors="float32").add(X)
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="save the search to a folder first"):
            copied(search)


def test_a_search_over_saved_vectors_is_copied(tmp_path):
    search = SimilaritySearch(HASHER, keep_vectors="float32").add(X[:50])
    search.save(tmp_path / "search")
    for copied in (copy.copy(search), copy.deepcopy(search)):
        copied.add(X[50:])
        np.testing.assert_array_equal(copied.get([0, 59])[1].vector, X[59])
    assert len(search) == 50


def test_a_copy_in_another_folder_has_vectors_of_its_own(tmp_path):
    """Whoever adds to one of the two writes nothing into the other."""
    SimilaritySearch(HASHER, keep_vectors="float32").add(X).save(tmp_path / "one")
    SimilaritySearch.open(tmp_path / "one").save(tmp_path / "other")
    for name, rows in (("one", X + 1), ("other", X + 2)):
        SimilaritySearch.open(tmp_path / name).add(rows[:5]).save()
    for name, rows in (("one", X + 1), ("other", X + 2)):
        found = SimilaritySearch.open(tmp_path / name).get([0, 60, 64])
        np.testing.assert_array_equal([row.vector for row in found], [X[0], rows[0], rows[4]])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork there")
def test_vectors_of_a_forked_process_are_its_own():
    search = SimilaritySearch(HASHER, keep_vectors="float32").add(X[:50])
    child = os.fork()
    if child == 0:
        search.add(X[50:55] + 1)
        np.testing.assert_array_equal(search.get([0, 50])[1].vector, X[50] + 1)
        os._exit(0)
    search.add(X[50:55] + 2)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(search.get([0, 50])[1].vector, X[50] + 2)
