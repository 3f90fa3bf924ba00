"""Keys ascend as the strings do, however the strings come."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.search import string_keys
from hashlearn.search.row_columns import Names
from hashlearn.search.string_keys import keys_of_new


def as_objects(texts):
    array = np.empty(len(texts), object)
    array[:] = texts
    return array


def check(names: Names, texts: set) -> None:
    assert names.texts.tolist() == sorted(texts)
    assert np.all(np.diff(names.keys) > 0)
    assert len(names.keys) == 0 or names.keys[0] >= 0
    assert len(set(names.numbers.tolist())) == len(texts)


@given(st.lists(st.lists(st.text("abc漢", min_size=1, max_size=3), unique=True, max_size=20), max_size=8), st.data())
@settings(deadline=None, max_examples=60)
def test_keys_ascend_with_the_strings(batches, data):
    names, there = Names.empty(), set()
    for batch in batches:
        new = [text for text in batch if text not in there]
        numbers = dict(zip(names.texts, names.numbers))
        names = names.added(as_objects(new))
        there |= set(new)
        check(names, there)
        assert all(number == names.numbers[names.texts.tolist().index(text)] for text, number in numbers.items())
        if there:
            gone = data.draw(st.lists(st.sampled_from(sorted(there)), unique=True, max_size=5))
            positions = np.sort(names.find(as_objects(gone))[0])
            names, there = names.without(positions), there - set(gone)
            check(names, there)
            assert names.of_keys(names.keys).tolist() == names.texts.tolist()


def test_a_run_of_single_strings_in_the_middle_never_ends(monkeypatch):
    """Ascending, descending, and always halfway: where no gap is left, all get new keys."""
    monkeypatch.setattr(string_keys, "STEP", 64)
    monkeypatch.setattr(string_keys, "RUN", 4)
    for order in (range(200), range(199, -1, -1), [n * 77 % 200 for n in range(200)]):
        names = Names.empty().added(as_objects(["a", "c"]))
        for number in order:
            names = names.added(as_objects([f"b{number:03}"]))
        check(names, {"a", "c", *(f"b{number:03}" for number in order)})


def test_old_keys_stay_while_there_is_room():
    names = Names.empty().added(as_objects(["b", "d", "f"]))
    more = keys_of_new(names.texts, names.keys, as_objects(["a", "c", "e", "g"]))
    assert more.old is names.keys
    assert np.all(np.diff(np.sort(np.concatenate([more.old, more.new]))) > 0)


def test_keys_near_the_ends_of_the_integers():
    texts, keys = as_objects(["b", "c"]), np.array([5, 2**63 - 5])
    more = keys_of_new(texts, keys, as_objects(["a", "d"]))
    assert np.all(np.diff(np.array([more.new[0], *more.old, more.new[1]])) > 0)
