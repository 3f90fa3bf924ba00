"""Ids are integers or strings, whatever holds them; what is neither is refused in one line."""

import enum
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hashlearn.rows.inputs import as_ids, check_unique, ids_are_text


@given(st.lists(st.integers(0, 2**63 - 1)))
def test_integers_stay_what_they_are(ids):
    found = as_ids(ids)
    assert found.dtype == np.int64
    assert found.tolist() == ids


@given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20), min_size=1))
def test_strings_stay_what_they_are(ids):
    found = as_ids(pd.Series(ids))
    assert ids_are_text(found)
    assert found.tolist() == ids
    assert {type(text) for text in found} == {str}


def test_an_enum_of_strings_is_its_value():
    kind = enum.StrEnum("kind", {"RED": "red", "BLUE": "blue"})
    old_kind = enum.Enum("old_kind", {"RED": "red", "BLUE": "blue"}, type=str)
    for each in (kind, old_kind):
        assert as_ids([each.RED, each.BLUE]).tolist() == ["red", "blue"]


def test_uuids_of_arrow_get_the_line_of_uuids():
    values = pa.array([uuid.UUID(int=1).bytes], pa.uuid())
    with pytest.raises(TypeError, match=r"got UUID; pass list\(map\(str, ids\)\)"):
        as_ids(values)
    assert as_ids(list(map(str, values))).tolist() == [str(uuid.UUID(int=1))]


@pytest.mark.parametrize(
    ("ids", "line"),
    [
        ("ab", r"ids must be a list of integers or of strings, got 'ab'; pass one id as \[id\]"),
        (7, "got 7; pass one id as"),
        (None, "got None"),
        ({"a": 1}, "ids must be a list"),
        ([1, "a"], "all of one kind, got int and str"),
        ([True], "got bool"),
        ([uuid.UUID(int=1)], r"all of one kind, got UUID; pass list\(map\(str, ids\)\)"),
        (pd.Series(["a", None]), "ids must not be missing: entry 1 is"),
        (pd.Series([1, None]), "ids must not be missing: entry 1 is nan"),
        (pd.Series([1, None], dtype="Int64"), "ids must not be missing: entry 1 is nan"),
        (pl.Series(["a", None]), "ids must not be missing: entry 1 is None"),
        (pa.array([1, None]), "ids must not be missing: entry 1 is nan"),
        (pl.Series([True]), r"got bool; pass list\(map\(str, ids\)\)"),
        (bytearray(b"ab"), "ids must be a list of integers or of strings"),
        (pd.Series([1.5]), r"integers or strings, got float64; pass ids.astype\(int\)"),
        (pd.Series(pd.to_datetime(["2024-01-01"])), "integers or strings, got datetime64"),
        ([1.0, 2.0], r"got float; pass list\(map\(int, ids\)\)"),
        ("id", r"got 'id'; pass one id as \[id\], a column of a table as table\['id'\]"),
        ([b"a"], r"got bytes; pass \[id.decode\(\) for id in ids\]"),
        (pd.DataFrame({"id": [1]}), r"one column, got a DataFrame; pass ids\['id'\]"),
        (pa.table({"a": [1]}), r"one column, got a Table; pass ids\['a'\]"),
        (np.zeros((2, 1), int), r"of shape \(n,\), got shape \(2, 1\)"),
        ([-1], "ids must be from 0 to 9223372036854775807, got -1"),
        (np.array([2**63], np.uint64), "ids must be from 0 to"),
        ([2**64], "got larger ones"),
        (["a", ""], "not empty"),
        (["a\n"], "without control characters"),
        (["\ud800"], "without control characters"),
        (["é" * 513], "at most 1024 bytes"),
    ],
    ids=str,
)
def test_what_is_no_id(ids, line):
    with pytest.raises((TypeError, ValueError), match=line) as caught:
        as_ids(ids)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 150


def test_an_id_that_comes_twice():
    for ids, line in (([3, 5, 3], "unique in a call, got 3|np.int64"), (["a", "b", "a"], "got 'a' more than once")):
        with pytest.raises(ValueError, match=line):
            check_unique(as_ids(ids))
    check_unique(as_ids([5, 3]))


def test_an_error_calls_the_ids_by_their_name():
    with pytest.raises(TypeError, match=r"^subset must be a list"):
        as_ids(None, "subset")
