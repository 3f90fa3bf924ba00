"""Filters and facets by columns say what the payloads themselves say, whatever is in them and whatever changed."""

import json
import tempfile
import threading
import warnings
from collections import Counter
from contextlib import closing
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hashlearn import LSH, SimilaritySearch
from hashlearn.search import columns
from hashlearn.stores.filters import kind_of, matches, parse_filter

HASHER = LSH(n_bits=8, random_state=0).fit(np.random.default_rng(0).standard_normal((20, 3)))
FIELDS = ["a", "ä漢", 'q"uote', "back\\slash", "line\nfeed", "a,b:{}[]", "\U0001f600", "\x7f", " "]
BIG = [2**53, 2**53 + 1, 2**63 - 1, -(2**63), float(2**53)]

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
plain = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, 1.0, True, False, -0.0, "1", "", "true", "null", *BIG]),
    st.integers(-3, 3),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.sampled_from(FIELDS),
)
nested = st.recursive(
    plain,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inside, max_size=3),
    max_leaves=6,
)
payloads = st.none() | st.dictionaries(st.sampled_from(FIELDS) | texts, nested, max_size=4)
wanted = st.one_of(
    st.booleans(),
    st.sampled_from([0, 1, 1.0, "1", "", "true", *BIG]),
    st.integers(-3, 3),
    st.floats(-1e300, 1e300, allow_nan=False),
    texts,
    st.sampled_from(FIELDS),
)
comparable = wanted.filter(lambda value: not isinstance(value, bool))
tests = st.one_of(
    wanted,
    st.fixed_dictionaries({"$ne": wanted}),
    st.fixed_dictionaries({"$in": st.lists(wanted, max_size=4)}),
    st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), comparable, min_size=1, max_size=2),
)
filters = st.recursive(
    st.dictionaries(st.sampled_from(FIELDS), tests, min_size=1, max_size=2),
    lambda inside: st.builds(
        lambda word, parts: {word: parts}, st.sampled_from(["$and", "$or"]), st.lists(inside, min_size=1, max_size=3)
    ),
    max_leaves=4,
)


class Mirror:
    """A search, and the payloads that its rows must have, by id."""

    def __init__(self, folder):
        self.search, self.rows = SimilaritySearch(HASHER), {}
        if folder is not None:
            self.search.save(folder)

    def upsert(self, ids, payloads):
        X = np.random.default_rng(len(ids)).standard_normal((len(ids), 3))
        self.search.upsert(X, ids, payloads)
        for id, payload in zip(ids, payloads):
            self.rows.pop(id, None)
            self.rows[id] = payload or {}

    def remove(self, ids):
        there = [id for id in ids if id in self.rows]
        self.search.remove(there)
        for id in there:
            del self.rows[id]

    def roll_back(self, ids, filter, field):
        with self.search.transaction():
            self.search.upsert(np.zeros((len(ids), 3)), ids, [{field: "given up"}] * len(ids))
            self.check(filter, field)  # readers see the state before
            raise ZeroDivisionError

    def check(self, filter, field):
        condition = parse_filter(filter)
        met = [id for id, payload in self.rows.items() if matches(condition, payload)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a field that nobody has had
            assert self.search.count(filter) == len(met)
            assert [record.id for record in self.search.scroll(filter).records] == met
            found = self.search.search(np.ones((1, 3)), max(1, len(self.rows)), filter=filter).ids[0]
            assert sorted(id for id in found.tolist() if id >= 0) == sorted(met)
            facets = self.search.facets(field, filter)
        values = [self.rows[id][field] for id in met if field in self.rows[id]]
        counted = Counter((kind_of(value), value) for value in values if kind_of(value) != "other")
        assert Counter({(kind_of(facet.value), facet.value): facet.count for facet in facets}) == counted
        assert [facet.count for facet in facets] == sorted(counted.values(), reverse=True)


changes = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), st.dictionaries(st.integers(0, 12), payloads, max_size=8)),
        st.tuples(st.just("remove"), st.sets(st.integers(0, 12), max_size=6)),
        st.tuples(st.just("compact"), st.none()),
        st.tuples(st.just("fail"), st.dictionaries(st.integers(0, 12), payloads, min_size=1, max_size=4)),
        st.tuples(st.just("open"), st.none()),
    ),
    min_size=1,
    max_size=6,
)


@given(
    steps=changes, filter=filters, field=st.sampled_from(FIELDS), few=st.sampled_from([0, 3, 256]), disk=st.booleans()
)
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
def test_columns_say_what_the_payloads_say(steps, filter, field, few, disk):
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(columns, "_FEW_ROWS", few):
        mirror = Mirror(Path(folder, "search") if disk else None)
        for step, given_rows in steps:
            if step == "upsert":
                mirror.upsert(list(given_rows), list(given_rows.values()))
            elif step == "remove":
                mirror.remove(given_rows)
            elif step == "compact":
                mirror.search.compact()
            elif step == "fail":
                with pytest.raises(ZeroDivisionError):
                    mirror.roll_back(list(given_rows), filter, field)
            elif disk:
                mirror.search.close()
                mirror.search = SimilaritySearch.open(Path(folder, "search"))
            mirror.check(filter, field)
        mirror.search.close()


@given(st.lists(payloads, min_size=1, max_size=6), st.sampled_from(FIELDS))
@settings(max_examples=150, deadline=None)
def test_the_field_of_a_text_is_that_of_its_json(rows, field):
    """The compiled reader, on texts as the catalog has them."""
    lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows if row]
    column = columns.Column()
    key = np.frombuffer(json.dumps(field, ensure_ascii=False).encode(), np.uint8)
    numbers = columns._numbered(column, columns.Ids.of_lines("\n".join(lines).encode(), len(lines)), key)
    found = [column.values[number] if number >= 0 else "nothing" for number in numbers.tolist()]
    expected = [row.get(field, "nothing") for row in rows if row]
    assert [repr(value) for value in found] == [repr(value) for value in expected]


@pytest.mark.parametrize("few", [0, 256])
def test_a_field_that_nobody_has_had_warns(few, monkeypatch):
    monkeypatch.setattr(columns, "_FEW_ROWS", few)
    search = SimilaritySearch(HASHER).add(np.zeros((3, 3)), payloads=[{"a": 1}, None, {"a": None}])
    line = "no row of this search has ever had a field 'color'"
    for ask in (
        lambda: search.count({"color": "red"}),
        lambda: search.search(np.zeros((1, 3)), filter={"color": {"$gt": 1}}),
        lambda: search.facets("color"),
    ):
        with pytest.warns(UserWarning, match=line) as warned:
            ask()
        assert len(warned) == 1
        assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert search.count({"color": {"$ne": "red"}}) == 3, "every row differs from a value that it does not have"
    search.upsert(np.zeros((1, 3)), [7], [{"color": "red"}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert search.count({"color": "red"}) == 1
        assert search.remove([7]).count({"color": "red"}) == 0
        assert SimilaritySearch(HASHER).count({"color": "red"}) == 0, "an empty search has no fields yet"


@pytest.mark.parametrize("few", [0, 256])
def test_few_columns_are_kept_and_none_of_a_field_that_nobody_has(few, monkeypatch):
    for name in ("_COLUMNS_KEPT", "_ABSENT_KEPT", "_MASKS_KEPT"):
        monkeypatch.setattr(columns, name, 2)
    monkeypatch.setattr(columns, "_FEW_ROWS", few)
    search = SimilaritySearch(HASHER).add(np.zeros((9, 3)), payloads=[{f"f{row % 4}": row} for row in range(9)])
    kept = search._rows.reader.columns
    for n_rows in (9, 10, 11):
        for field in [f"f{number}" for number in (*range(8), *range(8))] + ["x" * 2000]:
            expected = sum(field == f"f{row % 4}" for row in range(n_rows))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert search.count({field: {"$gte": 0}}) == expected
        assert len(kept._columns) == len(kept._absent) == 2
        assert all(column.values for column in kept._columns.values())
        search.upsert(np.zeros((1, 3)), [n_rows], [{f"f{n_rows % 4}": n_rows}])


def test_an_older_snapshot_sees_its_own_rows_in_longer_columns():
    search = SimilaritySearch(HASHER).add(np.zeros((3, 3)), payloads=[{"n": n} for n in range(3)])
    before = search._rows.reader
    search.upsert(np.zeros((2, 3)), [1, 9], [{"n": 1}, {"n": 2}])
    assert search.count({"n": {"$gte": 1}}) == 3
    assert before.rows_meeting({"n": {"$gte": 1}}).tolist() == [1, 2]
    assert search.count({"n": {"$gte": 1}}) == 3


def test_threads_that_ask_for_a_field_at_once_get_the_same(tmp_path):
    with closing(SimilaritySearch(HASHER)) as search:
        search.add(np.zeros((600, 3)), payloads=[{f"f{n % 5}": n, "all": n % 7} for n in range(600)]).save(
            tmp_path / "s"
        )
        answers = []

        def ask():
            answers.append([search.count({"all": n}) for n in range(7)] + [search.count({"f3": {"$gt": 100}})])

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [[*(sum(n % 7 == left for n in range(600)) for left in range(7)), 100]] * 6


def test_the_most_frequent_values_are_the_first_of_all_values():
    """Where more values are equally frequent than are wanted: strings, numbers, booleans, and what is no value."""
    values = [True, False, None, [1], *range(40), *(n / 7 for n in range(40)), 2**60, 2**60 + 1, 2**61]
    values += [*(f"name {n}" for n in range(60)), "name 3", 5, 5.0, "", True]
    X = np.random.default_rng(0).standard_normal((len(values), 8)).astype(np.float32)
    search = SimilaritySearch(LSH(n_bits=16, random_state=0)).fit(X)
    search.add(X, payloads=[{"value": value} for value in values])
    every = search.facets("value")
    for limit in (1, 2, 3, 4, 5, 6, 45, 46, 87, 88, 89, len(every) - 1, len(every)):
        assert search.facets("value", limit=limit) == every[:limit]
