"""Changes of a HammingIndex, its ids, and what happens to it when it is copied or sent away."""

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from brute_force import check_search, check_within, clustered
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hashlearn.index import HammingIndex, code_table, cost_model
from hashlearn.index.choose import SEARCH_METHODS

LENGTHS = st.sampled_from([1, 7, 8, 13, 16, 31, 32, 64, 65, 96, 100, 128, 192, 256, 4096])


@pytest.fixture(autouse=True)
def _tables_for_few_codes(monkeypatch):
    """Let the tables be used for as few codes as a test can afford."""
    monkeypatch.setattr(cost_model, "FEWEST_CODES", 2)


def change(index, kept, next_id, data, seed):
    """Add, upsert or remove; ``kept`` is what a dict would hold then."""
    n_bits = index.n_bits
    kind = data.draw(st.sampled_from(["append", "add", "upsert", "remove"]))
    if kind == "remove" and kept:
        gone = data.draw(st.lists(st.sampled_from(sorted(kept)), unique=True))
        index.remove(gone)
        return {key: code for key, code in kept.items() if key not in gone}
    codes = clustered(data.draw(st.integers(0, 70)), n_bits, seed)
    rng = np.random.default_rng(seed)
    if kind == "append":
        ids = np.arange(next_id, next_id + len(codes))
        index.add(codes)
    elif kind == "upsert":
        ids = rng.permutation(next_id + 70)[: len(codes)]
        index.upsert(codes, ids)
    else:
        ids = rng.permutation(np.setdiff1d(np.arange(3 * next_id + 200), list(kept)))[: len(codes)]
        index.add(codes, ids)
    return {**kept, **dict(zip(ids.tolist(), codes))}


@pytest.fixture(params=["one segment", "two segments"])
def _kept_in(request, monkeypatch):
    """Let few codes be kept in the ways that many are."""
    if request.param == "two segments":
        monkeypatch.setattr(code_table, "_SMALL_TAIL", 8)
        monkeypatch.setattr(code_table, "_TAIL_PER_ROOT", 0)


@pytest.mark.usefixtures("_kept_in")
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LENGTHS, st.data())
def test_changes_in_any_order_leave_the_codes_that_should_be_there(n_bits, data):
    index, kept, next_id = HammingIndex(n_bits), {}, 0
    states = []
    for step in range(data.draw(st.integers(1, 6))):
        kept = change(index, kept, next_id, data, seed=step)
        next_id = max([next_id, *(key + 1 for key in kept)])
        states.append((index.copy(), kept))
        if data.draw(st.booleans()):
            index = pickle.loads(pickle.dumps(index))
    queries = clustered(3, n_bits, seed=9)
    for state, wanted in states:
        ids = np.array(sorted(wanted), np.int64)
        codes = np.array([wanted[key] for key in sorted(wanted)], np.uint8).reshape(len(ids), -(-n_bits // 8))
        assert len(state) == len(ids)
        assert list(state) == ids.tolist()
        np.testing.assert_array_equal(state.codes(), codes)
        np.testing.assert_array_equal(state.codes(ids[::-1]), codes[::-1])
        method = data.draw(st.sampled_from(SEARCH_METHODS))
        check_search(state, queries, codes, ids, k=5, method=method)
        check_within(state, queries, codes, ids, radius=n_bits // 3, method=method)
        chosen = np.random.default_rng(len(ids)).random(len(ids)) < data.draw(st.sampled_from([0.05, 0.5, 0.95]))
        by_id = np.zeros(state.next_id, bool)
        by_id[ids[chosen]] = True
        anew = HammingIndex(n_bits).add(codes[chosen], ids[chosen])
        for subset in (chosen, ids[chosen], by_id):
            for found, expected in (
                (state.search(queries, 5, subset=subset), anew.search(queries, 5)),
                (state.within(queries, n_bits // 3, subset=subset), anew.within(queries, n_bits // 3)),
            ):
                np.testing.assert_array_equal(found.ids, expected.ids)
                np.testing.assert_array_equal(found.distances, expected.distances)
        if len(codes):
            whole = HammingIndex(n_bits).add(codes, ids)
            assert pairs_of(state, n_bits // 4) == pairs_of(whole, n_bits // 4)


def pairs_of(index, radius):
    return sorted(
        row for pairs in index.pairs_within(radius) for row in zip(*(column.tolist() for column in pairs), strict=True)
    )


def test_default_ids_go_on_after_the_largest_there_has_been():
    index = HammingIndex(8).add(np.zeros((3, 1), np.uint8)).remove([2])
    assert index.add(np.zeros((1, 1), np.uint8)).ids.tolist() == [0, 1, 3]
    assert index.add(np.zeros((2, 1), np.uint8), [50, 20]).add(np.zeros((1, 1), np.uint8)).ids.tolist() == [
        0,
        1,
        3,
        20,
        50,
        51,
    ]


def test_upsert_replaces_known_codes_and_adds_the_others():
    codes = clustered(10, 64, seed=0)
    index = HammingIndex(64).add(codes[:5])
    index.upsert(codes[5:9], [3, 1, 7, 4])
    assert list(index) == [0, 1, 2, 3, 4, 7]
    np.testing.assert_array_equal(index.codes(), codes[[0, 6, 2, 5, 8, 7]])
    assert index.add(codes[:1]).ids[-1] == 8


def test_an_id_is_in_the_index_or_not():
    index = HammingIndex(8).add(np.zeros((3, 1), np.uint8), [4, 2, 2**63 - 1])
    assert 4 in index
    assert np.int64(2) in index
    assert 2**63 - 1 in index
    for other in (3, -1, 2**63, 2**70, 4.0, "4", None, True):
        assert other not in index


def test_the_largest_id_works_and_leaves_no_running_numbers():
    codes = clustered(2, 64, seed=0)
    index = HammingIndex(64).add(codes[:1], [2**63 - 1])
    assert index.search(codes[:1], 1).ids.tolist() == [[2**63 - 1]]
    with pytest.raises(ValueError, match=f"ids must be given: {2**63 - 1} is taken"):
        index.add(codes[1:])
    assert index.add(codes[1:], [5]).ids.tolist() == [5, 2**63 - 1]
    assert index.remove([2**63 - 1]).ids.tolist() == [5]


def test_a_copy_costs_nothing_and_changes_alone():
    codes = clustered(300, 64, seed=0)
    index = HammingIndex(64, model="digest").add(codes[:200]).add(codes[200:201])
    copies = [index.copy(), copy.copy(index)]
    own = index.view.engines[0].segment.tiles.front
    assert all(np.shares_memory(other.view.engines[0].segment.tiles.front, own) for other in copies)
    copies[0].add(codes[201:202])
    index.add(codes[202:])
    copies[1].remove([0])
    assert [len(each) for each in (index, *copies)] == [299, 202, 200]
    np.testing.assert_array_equal(copies[0].codes([201]), codes[201:202])
    np.testing.assert_array_equal(index.codes([201]), codes[202:203])
    copies[0].model = "other"
    assert [each.model for each in (index, *copies)] == ["digest", "other", "digest"]


def test_without_n_bits_the_first_codes_tell_it():
    index = HammingIndex()
    assert (index.n_bits, len(index), list(index)) == (0, 0, [])
    assert index.search(np.zeros((2, 5), np.uint8), 3).ids.tolist() == [[-1] * 3] * 2
    assert index.within(np.zeros((2, 5), np.uint8), 3).counts.tolist() == [0, 0]
    assert list(index.pairs_within(3)) == []
    assert index.codes().shape[0] == 0
    with pytest.raises(ValueError, match="ids must be in the index"):
        index.remove([0])
    with pytest.raises(ValueError, match="ids must be unique"):
        index.add(np.zeros((2, 5), np.uint8), [1, 1])
    assert index.n_bits == 0
    with pytest.raises(ValueError, match="must have codes to be saved"):
        index.save("never.hli")
    assert index.add(np.ones((2, 5), np.uint8)).n_bits == 40
    with pytest.raises(ValueError, match=r"codes must have shape \(n, 5\)"):
        index.add(np.ones((2, 4), np.uint8))


@pytest.mark.parametrize("kind", ["in memory", "opened", "with tables", "empty"])
def test_an_index_can_be_pickled_copied_and_sent_to_a_process(tmp_path, kind):
    codes, queries = clustered(500, 96, seed=0), clustered(4, 96, seed=1)
    index = HammingIndex(96, model="abc").add(codes[:0] if kind == "empty" else codes)
    if kind == "opened":
        index.save(tmp_path / "codes.hli")
        index = HammingIndex.open(tmp_path / "codes.hli")
    if kind == "with tables":
        index.search(queries, 3, method="multi-index")
        assert index.view.engines[0].tables is not None
    expected = index.search(queries, 3)
    for other in (pickle.loads(pickle.dumps(index)), copy.deepcopy(index), copy.copy(index)):
        np.testing.assert_array_equal(other.search(queries, 3).ids, expected.ids)
        assert other.model == "abc"
        other.add(codes[:1])
        assert len(other) == len(index) + 1


def test_an_index_can_be_searched_in_a_spawned_process():
    codes = clustered(500, 96, seed=0)
    index = HammingIndex(96).add(codes)
    index.search(codes[:2], 3, method="multi-index")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(index.search, codes[:4], 3).result()
    np.testing.assert_array_equal(found.ids, index.search(codes[:4], 3).ids)


def test_pairs_are_those_of_the_codes_there_were_when_they_were_asked_for():
    codes = np.zeros((4, 8), np.uint8)
    index = HammingIndex(64).add(codes)
    pairs = index.pairs_within(0)
    index.remove([0, 1])
    assert sum(len(block.first) for block in pairs) == 6
