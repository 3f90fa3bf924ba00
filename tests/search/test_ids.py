"""Ids by place find what dicts find: appended, removed, with gaps, given up, and with equal digests."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.index.code_table import packed_mask
from hashlearn.search import ids as ids_module
from hashlearn.search.ids import Growing, IdColumn, Ids, given_ids, given_new_ids

letters = st.characters(exclude_categories=["Cs", "Cc"])
strings = st.text(letters, min_size=1, max_size=4)
integers = st.one_of(st.integers(0, 20), st.integers(0, 2**63 - 1))


def array(values, kind):
    if kind == "int64":
        return np.array(values, np.int64)
    found = np.empty(len(values), object)
    found[:] = values
    return found


def of(values, kind):
    return Ids.of(array(values, kind))


def everywhere(n):
    return packed_mask(np.ones(n, bool))


kinds = st.sampled_from(["int64", "str"])
lists = {"int64": st.lists(integers, unique=True, max_size=12), "str": st.lists(strings, unique=True, max_size=12)}


@given(st.data(), kinds)
@settings(max_examples=150, deadline=None)
def test_ids_are_an_array(data, kind):
    values = data.draw(lists[kind])
    ids = of(values, kind)
    assert len(ids) == len(values)
    assert ids.all().tolist() == values
    places = np.array(data.draw(st.lists(st.integers(-1, len(values) - 1), max_size=6)), np.int64).reshape(-1)
    nothing = -1 if kind == "int64" else None
    assert ids.at(places).tolist() == [values[place] if place >= 0 else nothing for place in places]
    there = places[places >= 0]
    assert ids.take(there).all().tolist() == [values[place] for place in there]
    assert ids.at(np.full((2, 3), -1)).tolist() == [[nothing] * 3] * 2


@given(st.data(), kinds, st.sampled_from(["as they are", "all equal", "two values"]))
@settings(max_examples=150, deadline=None)
def test_a_column_of_ids_is_a_dict(data, kind, digests):
    """Appends, removals, changes that are given up, and readers of earlier states; digests may say little."""

    def weak(self):
        n = len(self)
        if digests == "all equal":
            return np.full(n, 77, np.uint64)
        return np.array([len(str(id)) % 2 for id in self.all().tolist()], np.uint64).reshape(n)

    patch = (
        mock.patch.object(Ids, "digests", weak)
        if digests != "as they are"
        else mock.patch.object(ids_module, "_KINDS", ids_module._KINDS)
    )
    with patch:
        column, alive, known = None, [], {}
        kept = []
        for _ in range(data.draw(st.integers(1, 5))):
            new = [id for id in data.draw(lists[kind]) if id not in known]
            gone = data.draw(st.sets(st.sampled_from(sorted(known)))) if known else set()
            given_up = data.draw(st.booleans())
            longer = IdColumn.of(of(new, kind)) if column is None else column.appended(of(new, kind))
            if given_up and column is not None:
                # somebody looked for them inside of the change, before it was given up
                mask = packed_mask(np.array([*alive, *[True] * len(new)], bool))
                assert longer.find(of(new, kind), mask).tolist() == list(range(len(column), len(longer)))
                continue
            for id in gone:
                alive[known.pop(id)] = False
            known |= {id: len(alive) + place for place, id in enumerate(new)}
            alive += [True] * len(new)
            column = longer
            kept.append((column, packed_mask(np.array(alive, bool)), dict(known)))
        asked = data.draw(lists[kind])
        for column, mask, expected in kept:
            wanted = [*asked, *expected]
            found = column.find(of(wanted, kind), mask).tolist()
            assert found == [expected.get(id, -1) for id in wanted]


@given(st.data(), kinds)
@settings(max_examples=100, deadline=None)
def test_nothing_is_found_in_gaps(data, kind):
    values = data.draw(lists[kind])
    n = len(values) + data.draw(st.integers(0, 10))
    places = np.array(sorted(data.draw(st.permutations(range(n)))[: len(values)]), np.int64)
    column = IdColumn.with_gaps(of(values, kind), places, n)
    mask = np.zeros(n, bool)
    mask[places] = True
    assert len(column) == n
    others = data.draw(lists[kind])
    where = dict(zip(values, places.tolist()))
    wanted = [*values, *others, *([""] if kind == "str" else [])]
    found = column.find(of(wanted, kind), packed_mask(mask))
    assert found.tolist() == [where.get(id, -1) for id in wanted]
    more = [id for id in others if id not in where]
    longer = column.appended(of(more, kind))
    mask = np.append(mask, np.ones(len(more), bool))
    assert longer.find(of(more, kind), packed_mask(mask)).tolist() == list(range(n, n + len(more)))
    assert longer.ids.at(places).tolist() == values


def test_many_ids_are_found_as_the_table_grows():
    column, n = IdColumn.of(Ids.of(np.arange(10))), 10
    older = column
    while n < 5000:
        column = column.appended(Ids.of(np.arange(n, n + 97)))
        n += 97
        assert column.find(Ids.of(np.array([0, n - 1, n])), everywhere(n)).tolist() == [0, n - 1, -1]
    assert column.find(Ids.of(np.arange(n)), everywhere(n)).tolist() == list(range(n))
    assert older.find(Ids.of(np.array([9, 10, 4000])), everywhere(10)).tolist() == [9, -1, -1]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=12))
@settings(max_examples=100, deadline=None)
def test_values_that_grow_never_change_for_who_holds_them(steps):
    """Each step appends to one of the states before: also twice to the same one."""
    states = [(Growing(np.arange(3)), [0, 1, 2])]
    for number, (which, n) in enumerate(steps):
        growing, values = states[which % len(states)]
        new = [100 * number + i for i in range(n)]
        states.append((growing.appended(np.array(new, np.int64)), values + new))
    for growing, values in states:
        assert growing.values.tolist() == values


def test_kinds_are_told_apart():
    assert given_ids(["a"], None).tolist() == ["a"]
    assert given_ids(np.array([1]), None).dtype == given_ids([], None).dtype == np.int64
    assert len(given_ids([], "str")) == 0
    with pytest.raises(TypeError, match="ids must be strings, as those of this search, got integers"):
        given_ids([1], "str")
    with pytest.raises(TypeError, match="ids must be integers, as those of this search, got strings"):
        given_ids(["1"], "int64")
    with pytest.raises(TypeError, match="integers or strings, all of one kind"):
        given_ids(["1", 1], None)
    with pytest.raises(ValueError, match="ids must be unique"):
        given_new_ids([1, 1], None, 2)
    with pytest.raises(ValueError, match="ids must be as many as the rows of X, got 1 for 2"):
        given_new_ids([1], None, 2)
