"""Filters mean the same in every store: what ``matches`` says."""

import datetime
import json
from functools import reduce

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hashlearn.stores.filters import Among, Compares, Differs, Joined, matches, parse_filter

INJECTION = "' OR '1'='1"
STRINGS = [
    "",
    "a",
    "B",
    "é",
    "日本",
    "😀",
    "true",
    "1",
    "1.0",
    INJECTION,
    '" or 1 == 1 or "',
    "\\",
    "%s",
    "{x}",
    "a'b\"c",
]
NUMBERS = [0, 1, -1, 2.5, -0.0, 1e-9, 1e9, 2**40, 3]
OTHER = [True, False, None, [1], ["a"], {"a": 1}]
FIELDS = ["year", "größe", "two words", "a/b~c", "a.b", 'quo"te', "it's", "$", "x\\y", "0", "%s"]

PAYLOADS = [{field: value} for field in FIELDS[:2] for value in [*STRINGS, *NUMBERS, *OTHER]]
PAYLOADS += [{field: number, "year": number % 3} for number, field in enumerate(FIELDS)]
PAYLOADS += [{}, {"a": {"b": 1}}, {"year": "a", "größe": 1}, {"year": 1, "größe": "a"}, {"nested": {"year": 1}}]


def nested(depth: int) -> dict:
    """A filter with so many $and and $or inside one another, which rows with n from 150 to 199 meet."""
    filter = {"n": {"$gte": 150}}
    for level in range(depth):
        filter = {"$and": [filter, {"n": {"$lt": 200}}]} if level % 2 else {"$or": [filter, {"n": {"$lt": 0}}]}
    return filter


def values(*kinds):
    return st.sampled_from([value for kind in kinds for value in kind])


def comparisons():
    bounds = values(STRINGS, NUMBERS)
    anything = values(STRINGS, NUMBERS, [True, False])
    ranges = st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), bounds, min_size=1, max_size=2)
    return st.one_of(
        anything,
        ranges,
        st.builds(lambda value: {"$ne": value}, anything),
        st.builds(lambda listed: {"$in": listed}, st.lists(anything, max_size=4)),
    )


def filters():
    fields = st.dictionaries(st.sampled_from([f for f in FIELDS if f != "$"]), comparisons(), min_size=1, max_size=2)
    joined = st.builds(
        lambda word, parts: {word: parts}, st.sampled_from(["$and", "$or"]), st.lists(fields, min_size=1)
    )
    return st.one_of(fields, joined, st.builds(lambda a, b: {**a, **b}, fields, joined))


@pytest.fixture
def store(make):
    store = make(8)
    codes = np.arange(len(PAYLOADS), dtype=np.uint8)[:, None]
    store.upsert(range(len(PAYLOADS)), codes, payloads=PAYLOADS)
    return store


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example({"year": INJECTION})
@example({"it's": {"$ne": INJECTION}})
@example({"year": {"$in": []}})
@example({"year": {"$in": ["a", 1, True, INJECTION]}})
@example({"$or": [{"year": {"$gt": 0}}, {"größe": {"$lte": "日本"}}]})
@given(filter=filters())
def test_every_store_chooses_the_rows_that_match(store, filter):
    condition = parse_filter(filter)
    wanted = [row for row, payload in enumerate(PAYLOADS) if matches(condition, payload)]
    assert sorted(id for block in store.scan(filter=filter) for id in block.ids.tolist()) == wanted
    assert store.count(filter) == len(wanted)
    nearest = store.search(np.zeros((1, 1), np.uint8), k=len(PAYLOADS), filter=filter)
    assert sorted(id for id in nearest.ids[0].tolist() if id >= 0) == wanted


def test_a_filter_that_looks_like_sql_harms_nothing(store):
    for attack in ["'; DROP TABLE codes; --", "x' OR 1=1 --", '") or (1 == 1', "$.year", "{}", "?"]:
        assert store.count({"year": attack}) == 0
        assert store.count({attack: 1} if attack != "$.year" else {"x$.year": 1}) == 0
    assert len(store) == len(PAYLOADS)


@pytest.mark.parametrize(
    ("filter", "condition"),
    [
        (None, None),
        ({}, None),
        ({"a": 1}, Among("a", (1.0,))),
        ({"a": {"$in": ["x", True]}}, Among("a", ("x", True))),
        ({"a": {"$ne": np.int32(3)}}, Differs("a", 3.0)),
        ({"a": {"$gt": 1, "$lt": 2}}, Joined("and", (Compares("a", ">", 1.0), Compares("a", "<", 2.0)))),
        ({"$or": [{"a": 1}, {"b": 2}]}, Joined("or", (Among("a", (1.0,)), Among("b", (2.0,))))),
        ({"$and": [{"a": 1}]}, Among("a", (1.0,))),
        ({"a": pd.Timestamp("2024-02-29")}, Among("a", ("2024-02-29T00:00:00",))),
        ({"a": {"$gte": datetime.date(2024, 2, 29)}}, Compares("a", ">=", "2024-02-29")),
        ({"a": {"$lt": np.datetime64("2024-02-29T12:00", "ns")}}, Compares("a", "<", "2024-02-29T12:00:00")),
        ({"a": {"$in": np.arange(2)}}, Among("a", (0.0, 1.0))),
        ({"a": {"$in": pd.Series(["x", "y"])}}, Among("a", ("x", "y"))),
        ({"a": {"$in": pl.Series(["x"])}}, Among("a", ("x",))),
        ({"a": {"$in": pa.array(["x"])}}, Among("a", ("x",))),
    ],
)
def test_what_a_filter_states(filter, condition):
    assert parse_filter(filter) == condition


@pytest.mark.parametrize(
    ("filter", "says"),
    [
        ("year > 3", "filter must be a dict"),
        ([{"a": 1}], "filter must be a dict"),
        ({"a": None}, "with a string, a date, a number of double precision or a boolean"),
        ({"a": [1]}, "with a string, a date, a number of double precision or a boolean"),
        ({"a": float("nan")}, "with a string, a date, a number of double precision or a boolean"),
        ({"a": "nul\0"}, "with a string, a date, a number of double precision or a boolean"),
        ({"a": 10**400}, "or a boolean, got an integer of 1329 bits"),
        ({"a": {"$gt": -(10**400)}}, "or a boolean, got an integer of 1329 bits"),
        ({"a": {"$in": [1, 10**5000]}}, "or a boolean, got an integer of 16610 bits"),
        ({"a": np.longdouble("1e400")}, "with a string, a date, a number of double precision or a boolean"),
        (nested(3000), "filter must nest \\$and and \\$or at most 32 deep"),
        (nested(33), "filter must nest \\$and and \\$or at most 32 deep"),
        (reduce(lambda inner, _: {"a": inner}, range(3000), 1), "by one of"),
        ({"a": reduce(lambda inner, _: [inner], range(3000), [])}, "or a boolean, got "),
        ({"a": {"$in": [1] * 100_001}}, "filter must have at most 100,000 values, got 100,001"),
        ({"a": {"$in": [1] * 60_000}, "b": {"$in": [1] * 60_000}}, "at most 100,000 values, got 120,000"),
        ({"$or": [{"a": 1}] * 501}, "filter must have at most 500 tests, got 501"),
        ({"$or": [{"$or": [{"a": 1}] * 300}] * 2}, "filter must have at most 500 tests, got 600"),
        ({f"field {number}": 1 for number in range(501)}, "filter must have at most 500 tests, got 501"),
        ({"a": {}}, "a value or a test"),
        ({"a": {"$like": "x"}}, "by one of"),
        ({"a": {"$gt": True}}, "a number or a string"),
        ({"a": {"$in": "x"}}, "a list after \\$in"),
        ({"a": {"$in": np.zeros((2, 2))}}, "or a boolean, got "),
        ({"a": pd.NaT}, "or a boolean, got NaT"),
        ({"$or": []}, "a list of filters after \\$or"),
        ({"$or": [{}]}, "no empty filter"),
        ({"$not": {"a": 1}}, "names of fields, \\$and or \\$or"),
        ({"": 1}, "names of fields, \\$and or \\$or"),
        ({3: 1}, "names of fields, \\$and or \\$or"),
    ],
)
def test_a_filter_that_is_none_gets_one_line(filter, says):
    with pytest.raises((ValueError, TypeError), match=says) as caught:
        parse_filter(filter)
    assert "\n" not in str(caught.value)


def test_the_largest_filters_are_answered_by_every_store(make):
    store = make(8)
    store.upsert(range(200), np.zeros((200, 1), np.uint8), payloads=[{"n": n, "s": f"{n}"} for n in range(200)])
    for filter, wanted in (
        ({"$or": [{"n": number} for number in range(100, 600)]}, 100),
        ({"$and": [{"n": {"$ne": number}} for number in range(100, 600)]}, 100),
        ({"n": {"$in": list(range(150, 100_150))}}, 50),
        ({"s": {"$in": [f"{number}" for number in range(150, 100_150)]}}, 50),
        (nested(32), 50),
    ):
        assert store.count(filter) == wanted


def test_a_long_list_is_looked_up_and_not_gone_through():
    """100,000 rows and as many values: pairs would take an hour."""
    condition = parse_filter({"n": {"$in": list(range(0, 200_000, 2))}})
    assert sum(matches(condition, {"n": number}) for number in range(100_000)) == 50_000


def test_kinds_are_never_equal_to_one_another():
    for value in ("1", 1, True):
        condition = parse_filter({"a": value})
        equal = [other for other in ("1", 1, True) if matches(condition, {"a": other})]
        assert json.dumps(equal) == json.dumps([value])


@pytest.mark.parametrize("kind", ["milvus"], indirect=True)
def test_milvus_lite_refuses_what_it_cannot_quote(make):
    with pytest.raises(ValueError, match="without control characters in Milvus"):
        make(8).count({"year": "new\nline"})
