"""Changes of a journal that are put together come to the same as one after the other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hashlearn import ABH, ITQ, SimilaritySearch
from hashlearn.codes import Corrections
from hashlearn.search.changes import Change, as_texts, combined
from hashlearn.search.state import NewRows

IDS = st.integers(0, 6)
STEPS = st.lists(st.tuples(st.lists(IDS, unique=True), st.lists(IDS, unique=True)), min_size=1, max_size=8)


def change(number, removed, ids, named):
    """Of a step of that number, which is in every value of its rows."""
    n = len(ids)
    return Change(
        [f"n{id}" for id in removed] if named else removed,
        NewRows(
            as_texts([f"n{id}" for id in ids]) if named else np.array(ids, np.int64),
            np.full((n, 2), number, np.uint8),
            Corrections(np.full(n, number, np.uint8), 0.5, 1.0),
            [f'{{"step": {number}}}'] * n,
            np.full(n, 100 * number) + np.arange(n) if named else None,
        ),
        None,
        None,
    )


def values(rows):
    numbers = [None] * len(rows.ids) if rows.numbers is None else rows.numbers.tolist()
    return zip(rows.codes.tolist(), rows.corrections.values.tolist(), rows.payloads, numbers)


@given(STEPS, st.booleans())
def test_together_they_leave_the_rows_that_they_leave_one_after_the_other(steps, named):
    changes = [change(number, *step, named) for number, step in enumerate(steps)]
    expected = {}
    for each in changes:
        for id in each.removed:
            expected.pop(id, None)
        expected.update(zip(each.rows.ids.tolist(), values(each.rows)))
    together = combined(changes)
    ids = together.rows.ids.tolist()
    assert len(set(ids)) == len(ids)
    found = dict(zip(ids, values(together.rows)))
    assert found.keys() == {id for each in changes for id in each.rows.ids.tolist()}  # for the next running id
    for id in together.removed:
        found.pop(id, None)
    assert found == expected


def test_rows_with_other_corrections_are_not_put_together():
    one = change(0, [], [1], named=False)
    other = one.rows._replace(corrections=one.rows.corrections._replace(scale=0.25))
    assert combined([one, one._replace(rows=other)]) is None


@pytest.mark.parametrize("hasher", [ITQ(n_bits=8, random_state=0), ABH(n_bits=16, random_state=0)])
@pytest.mark.parametrize("named", [False, True])
def test_a_search_with_many_saves_is_opened_as_it_was(tmp_path, hasher, named):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8)).astype(np.float32)
    name = (lambda ids: [f"row {id}" for id in ids]) if named else list
    search = SimilaritySearch(hasher, keep_vectors="int8").fit(X).add(X[:100], ids=name(range(100)))
    search.save(tmp_path / "s")
    for step in range(40):
        ids = rng.choice(300, 5, replace=False)
        if step % 3:
            payloads = [{"step": step, "id": int(id)} for id in ids]
            search.upsert(X[ids] + step, ids=name(ids), payloads=payloads)
        else:
            there = [id for id in name(ids) if id in set(search.ids.tolist())]
            search.remove(there)
        search.save(tmp_path / "s")
    opened = SimilaritySearch.open(tmp_path / "s")
    assert opened.ids.tolist() == search.ids.tolist()
    for rerank in (False, None):  # by codes, by the vectors that are kept
        for a, b in zip(opened.search(X[:20], 10, rerank=rerank), search.search(X[:20], 10, rerank=rerank)):
            np.testing.assert_array_equal(a, b)
    assert opened.payloads(search.ids.tolist()) == search.payloads(search.ids.tolist())
