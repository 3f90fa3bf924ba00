"""Tables of codes: a change gives another table and leaves the one before as it was."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hashlearn.index import code_table
from hashlearn.index.code_table import CodeTable
from hashlearn.index.kernels.tiles import byte_layout, word_layout


def random_codes(n, n_bits, seed):
    return np.packbits(np.random.default_rng(seed).random((n, n_bits)) < 0.5, axis=1)


def content(table):
    """All that a table holds, by id."""
    codes, ids, corrections = table.live()
    if corrections is None:
        corrections = np.zeros(len(table), np.uint8)
    assert (np.diff(ids) > 0).all()
    rows = zip(ids.tolist(), codes.tolist(), corrections.tolist(), strict=True)
    return {key: (tuple(code), correction) for key, code, correction in rows}


class Changes(RuleBasedStateMachine):
    """Any changes, from any table there has been: each has what a dict would have, whatever came of the others."""

    def __init__(self):
        super().__init__()
        self.n_bits = 72
        self.states = [(CodeTable.empty(self.n_bits, byte_layout(self.n_bits), corrections=True), {})]
        self.seed = 0
        self.small, code_table._SMALL_TAIL = code_table._SMALL_TAIL, 16  # all the ways to keep codes are taken

    def teardown(self):
        code_table._SMALL_TAIL = self.small

    def rows(self, n):
        self.seed += 1
        return random_codes(n, self.n_bits, self.seed), np.random.default_rng(self.seed).integers(
            0, 256, n, dtype=np.uint8
        )

    def keep(self, table, wanted, codes, ids, corrections):
        new = zip(ids, ((tuple(code), correction) for code, correction in zip(codes.tolist(), corrections.tolist())))
        self.states.append((table, {**wanted, **dict(new)}))

    @rule(which=st.integers(0, 99), n=st.integers(0, 150))
    def append(self, which, n):
        table, wanted = self.states[-1 - which % min(3, len(self.states))]
        codes, corrections = self.rows(n)
        ids = range(table.next_id, table.next_id + n)
        self.keep(table.added(codes, None, corrections), wanted, codes, ids, corrections)

    @rule(which=st.integers(0, 99), ids=st.lists(st.integers(0, 300), unique=True, max_size=40))
    def upsert(self, which, ids):
        table, wanted = self.states[-1 - which % min(3, len(self.states))]
        codes, corrections = self.rows(len(ids))
        self.keep(table.upserted(codes, np.array(ids, np.int64), corrections), wanted, codes, ids, corrections)

    @rule(which=st.integers(0, 99), data=st.data())
    def remove(self, which, data):
        table, wanted = self.states[-1 - which % min(3, len(self.states))]
        if wanted:
            gone = data.draw(st.lists(st.sampled_from(sorted(wanted)), max_size=60))
            left = {key: row for key, row in wanted.items() if key not in gone}
            self.states.append((table.removed(np.array(gone, np.int64)), left))

    @invariant()
    def every_table_still_has_its_own_codes(self):
        for table, wanted in self.states:
            assert content(table) == wanted
            assert table.next_id > max(wanted, default=-1)

    @invariant()
    def ids_are_found_where_they_are(self):
        for table, wanted in self.states:
            asked = np.arange(0, 310, 3)
            assert table.find(asked)[2].tolist() == [key in wanted for key in asked.tolist()]
            known = [key for key in asked.tolist() if key in wanted]
            assert [tuple(code) for code in table.codes_of(known).tolist()] == [wanted[key][0] for key in known]


TestChanges = Changes.TestCase
TestChanges.settings = settings(deadline=None, max_examples=40, stateful_step_count=12)


def test_appending_shares_the_codes_and_hides_them_from_the_table_before():
    first = CodeTable.empty(64).added(random_codes(100, 64, 0))
    grown = first.added(random_codes(1, 64, 1))
    second = grown.added(random_codes(2, 64, 2))
    assert np.shares_memory(grown.segments[-1].tiles.front, second.segments[-1].tiles.front)
    assert (len(grown), len(second)) == (101, 103)
    np.testing.assert_array_equal(second.codes_of(np.arange(101)), grown.codes_of(np.arange(101)))


@pytest.mark.parametrize("small", [4, 4096])
def test_running_numbers_take_no_memory_and_removed_codes_are_dropped_in_the_end(small, monkeypatch):
    monkeypatch.setattr(code_table, "_SMALL_TAIL", small)
    table = CodeTable.empty(64).added(random_codes(100, 64, 0))
    assert [segment.ids for segment in table.segments] == [None]
    table = table.removed(np.arange(0, 40))
    assert table.n_removed == 40
    table = table.removed(np.arange(40, 80))
    assert table.n_removed == (0 if small == 4 else 80)
    assert table.live_ids().tolist() == list(range(80, 100))
    assert table.compacted().segments[0].ids is None


@pytest.mark.parametrize("small", [4, 4096])
def test_a_removal_and_a_replacement_copy_no_codes(small, monkeypatch):
    monkeypatch.setattr(code_table, "_SMALL_TAIL", small)
    table = CodeTable.empty(64).added(random_codes(1000, 64, 0))
    changed = table.removed([5]).upserted(random_codes(1, 64, 1), [7])
    assert any(np.shares_memory(part.tiles.front, table.segments[0].tiles.front) for part in changed.segments) == (
        small == 4
    )
    assert len(changed) == 999


def test_two_tables_that_follow_the_same_one_do_not_write_over_each_other():
    first = CodeTable.empty(64).added(random_codes(100, 64, 0)).added(random_codes(1, 64, 1))
    one, other = (first.added(random_codes(3, 64, seed)) for seed in (2, 3))
    np.testing.assert_array_equal(one.codes_of(np.arange(101, 104)), random_codes(3, 64, 2))
    np.testing.assert_array_equal(other.codes_of(np.arange(101, 104)), random_codes(3, 64, 3))


@pytest.mark.parametrize("layout_of", [word_layout, byte_layout])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda table: pickle.loads(pickle.dumps(table))])
def test_a_copied_or_pickled_table_is_the_same(layout_of, copied):
    table = CodeTable.empty(100, layout_of(100), corrections=True, metadata={"model": "abc", "scale": 0.5})
    for rows in (0, 70):
        corrections = np.arange(rows, dtype=np.uint8)
        table = table.added(random_codes(rows, 100, 0), 3 * np.arange(rows), corrections)
        again = copied(table)
        assert content(again) == content(table)
        assert (again.n_bits, again.layout, again.next_id) == (table.n_bits, table.layout, table.next_id)
        assert again.metadata == {"model": "abc", "scale": 0.5}
        assert rows == 0 or again.segments[0].tiles.front.ctypes.data % 64 == 0


@pytest.mark.parametrize(
    ("corrections", "message"),
    [
        (None, "corrections must be uint8 of shape (2,), got object of shape ()"),
        (np.zeros(3, np.uint8), "corrections must be uint8 of shape (2,), got uint8 of shape (3,)"),
        (np.zeros(2), "corrections must be uint8 of shape (2,), got float64 of shape (2,)"),
    ],
)
def test_corrections_must_be_a_byte_for_every_code(corrections, message):
    table = CodeTable.empty(8, corrections=True)
    with pytest.raises(ValueError, match="corrections") as caught:
        table.added(np.zeros((2, 1), np.uint8), None, corrections)
    assert str(caught.value) == message
    with pytest.raises(ValueError, match="corrections must be None"):
        CodeTable.empty(8).added(np.zeros((2, 1), np.uint8), None, np.zeros(2, np.uint8))
