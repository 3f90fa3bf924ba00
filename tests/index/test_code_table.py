"""Stores of codes: a change gives another store and leaves the one before as it was."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hashlearn.index.code_table import CodeTable
from hashlearn.index.columns import Runs
from hashlearn.index.kernels.tiles import byte_layout, word_layout


def random_codes(n, n_bits, seed):
    return np.packbits(np.random.default_rng(seed).random((n, n_bits)) < 0.5, axis=1)


def content(store):
    """All that a store holds, by id."""
    positions = np.arange(len(store))
    corrections = store.corrections if store.corrected else np.zeros(len(store), np.uint8)
    rows = zip(store.ids_at(positions).tolist(), store.codes_at(positions).tolist(), corrections.tolist())
    return {key: (tuple(code), correction) for key, code, correction in rows}


class Changes(RuleBasedStateMachine):
    """Any changes, from any store there has been: each has what a dict would have, whatever came of the others."""

    def __init__(self):
        super().__init__()
        self.n_bits = 72
        self.states = [(CodeTable.empty(self.n_bits, byte_layout(self.n_bits), corrections=True), {})]
        self.seed = 0

    def rows(self, n):
        self.seed += 1
        return random_codes(n, self.n_bits, self.seed), np.random.default_rng(self.seed).integers(
            0, 256, n, dtype=np.uint8
        )

    def keep(self, store, wanted, codes, ids, corrections):
        new = zip(ids, ((tuple(code), correction) for code, correction in zip(codes.tolist(), corrections.tolist())))
        self.states.append((store, {**wanted, **dict(new)}))

    @rule(which=st.integers(0, 99), n=st.integers(0, 150))
    def append(self, which, n):
        store, wanted = self.states[-1 - which % min(3, len(self.states))]
        codes, corrections = self.rows(n)
        ids = range(store.next_id, store.next_id + n)
        self.keep(store.added(codes, None, corrections), wanted, codes, ids, corrections)

    @rule(which=st.integers(0, 99), ids=st.lists(st.integers(0, 300), unique=True, max_size=40))
    def upsert(self, which, ids):
        store, wanted = self.states[-1 - which % min(3, len(self.states))]
        codes, corrections = self.rows(len(ids))
        self.keep(store.upserted(codes, np.array(ids, np.int64), corrections), wanted, codes, ids, corrections)

    @rule(which=st.integers(0, 99), data=st.data())
    def remove(self, which, data):
        store, wanted = self.states[-1 - which % min(3, len(self.states))]
        if wanted:
            gone = data.draw(st.lists(st.sampled_from(sorted(wanted)), max_size=60))
            left = {key: row for key, row in wanted.items() if key not in gone}
            self.states.append((store.removed(np.array(gone, np.int64)), left))

    @invariant()
    def every_store_still_has_its_own_codes(self):
        for store, wanted in self.states:
            assert content(store) == wanted
            assert store.next_id > max(wanted, default=-1)

    @invariant()
    def running_numbers_take_no_memory(self):
        for store, wanted in self.states:
            assert (store.ids is None) == (sorted(wanted) == list(range(len(wanted))))


TestChanges = Changes.TestCase
TestChanges.settings = settings(deadline=None, max_examples=40, stateful_step_count=12)


@given(st.data())
@settings(deadline=None, max_examples=100)
def test_runs_put_every_code_where_deleting_and_inserting_would(data):
    n = data.draw(st.integers(0, 40))
    gone = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1)))) if n else [], np.int64)
    before = np.array(sorted(data.draw(st.lists(st.integers(0, n), max_size=10))), np.int64)
    expected = np.delete(np.insert(np.arange(n), before, -1), gone + np.searchsorted(before, gone, side="right"))
    found = np.full(n - len(gone) + len(before), -1)
    for start, length, target in zip(*Runs.kept(n, gone, before)):
        found[target : target + length] = np.arange(start, start + length)
    np.testing.assert_array_equal(found, expected)


def test_appending_shares_the_codes_and_hides_them_from_the_store_before():
    first = CodeTable.empty(64).added(random_codes(100, 64, 0))
    grown = first.added(random_codes(1, 64, 1))
    second = grown.added(random_codes(2, 64, 2))
    assert np.shares_memory(grown.tiles.front, second.tiles.front)
    assert (len(grown), len(second)) == (101, 103)
    np.testing.assert_array_equal(second.codes_at(np.arange(101)), grown.codes_at(np.arange(101)))


def test_two_stores_that_follow_the_same_one_do_not_write_over_each_other():
    first = CodeTable.empty(64).added(random_codes(100, 64, 0)).added(random_codes(1, 64, 1))
    one, other = (first.added(random_codes(3, 64, seed)) for seed in (2, 3))
    np.testing.assert_array_equal(one.codes_at(np.arange(101, 104)), random_codes(3, 64, 2))
    np.testing.assert_array_equal(other.codes_at(np.arange(101, 104)), random_codes(3, 64, 3))


@pytest.mark.parametrize("layout_of", [word_layout, byte_layout])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda store: pickle.loads(pickle.dumps(store))])
def test_a_copied_or_pickled_store_is_the_same(layout_of, copied):
    store = CodeTable.empty(100, layout_of(100), corrections=True, metadata={"model": "abc", "scale": 0.5})
    for rows in (0, 70):
        corrections = np.arange(rows, dtype=np.uint8)
        store = store.added(random_codes(rows, 100, 0), 3 * np.arange(rows), corrections)
        again = copied(store)
        assert content(again) == content(store)
        assert (again.n_bits, again.layout, again.next_id) == (store.n_bits, store.layout, store.next_id)
        assert again.metadata == {"model": "abc", "scale": 0.5}
        assert rows == 0 or again.tiles.front.ctypes.data % 64 == 0


@pytest.mark.parametrize(
    ("corrections", "message"),
    [
        (None, "corrections must be uint8 of shape (2,), got object of shape ()"),
        (np.zeros(3, np.uint8), "corrections must be uint8 of shape (2,), got uint8 of shape (3,)"),
        (np.zeros(2), "corrections must be uint8 of shape (2,), got float64 of shape (2,)"),
    ],
)
def test_corrections_must_be_a_byte_for_every_code(corrections, message):
    store = CodeTable.empty(8, corrections=True)
    with pytest.raises(ValueError, match="corrections") as caught:
        store.added(np.zeros((2, 1), np.uint8), None, corrections)
    assert str(caught.value) == message
    with pytest.raises(ValueError, match="corrections must be None"):
        CodeTable.empty(8).added(np.zeros((2, 1), np.uint8), None, np.zeros(2, np.uint8))
