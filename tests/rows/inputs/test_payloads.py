"""Payloads become JSON, and say the same when they are read back."""

import datetime
import decimal
import json
import uuid

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hashlearn.rows.inputs import as_payloads, payload_of

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(texts, values, max_size=4), max_size=4))
def test_json_comes_back_as_it_was(payloads):
    read = [payload_of(text) for text in as_payloads(payloads, len(payloads))]
    assert read == payloads
    assert json.dumps(read) == json.dumps(payloads)  # equal numbers of other types, such as 1 and True, differ here


def test_what_json_does_not_have():
    payload = {
        "scalar": np.int8(3),
        "flag": np.bool_(True),
        "nan": np.nan,
        "NA": pd.NA,
        "NaT": np.datetime64("NaT"),
        "day": datetime.date(2024, 2, 29),
        "time": pd.Timestamp("2024-02-29 12:00", tz="UTC"),
        "pair": (1, np.float64(2.5)),
        "array": np.array([[1, 2], [3, 4]], np.uint8),
        "days": np.array(["2024-02-29"], "M8[D]"),
        "moments": np.array(["2024-02-29T12:00", "NaT"], "M8[ns]"),
        "nanosecond": np.datetime64("2024-02-29T12:00:00.000000001"),
        "long ago": np.datetime64("-5000-01-01"),
        "price": decimal.Decimal("1.25"),
        "key": uuid.UUID(int=7),
    }
    assert payload_of(as_payloads([payload], 1)[0]) == {
        "scalar": 3,
        "flag": True,
        "nan": None,
        "NA": None,
        "NaT": None,
        "day": "2024-02-29",
        "time": "2024-02-29T12:00:00+00:00",
        "pair": [1, 2.5],
        "array": [[1, 2], [3, 4]],
        "days": ["2024-02-29"],
        "moments": ["2024-02-29T12:00:00", None],
        "nanosecond": "2024-02-29T12:00:00.000000001",
        "long ago": "-5000-01-01",
        "price": 1.25,
        "key": "00000000-0000-0000-0000-000000000007",
    }


def test_an_iterator_of_dicts():
    assert as_payloads(({"n": n} for n in range(2)), 2) == ['{"n":0}', '{"n":1}']


def test_none_is_no_payload():
    assert as_payloads(None, 2) == ["{}", "{}"]
    assert as_payloads([None, {}], 2) == ["{}", "{}"]


@pytest.mark.parametrize(
    ("payloads", "line"),
    [
        ({"a": 1}, "payloads must be a list of dicts or a frame, got dict"),
        ("text", "got str"),
        (np.ones(1), "payloads must be dicts of JSON"),
        (pd.Series([0.5]), r"got 0.5; pass a table of one column as table\[\['name'\]\]"),
        ([{"a": 1}, {}], "as many as the codes, got 2 for 1"),
        ([{"a": np.inf}], "finite numbers.*, for the number inf"),
        ([{1: 2}], "string keys.*, for the key 1"),
        (pd.DataFrame({0: [1]}), "string keys.*, for the key 0"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "a name for each column, got several columns named 'a'"),
        ([{"a": {1, 2}}], "for a value of type set"),
        ([{"a": datetime.timedelta(1)}], "for a value of type timedelta"),
        ([{"a": b"b"}], "for a value of type bytes"),
        ([{"a": 2**63}], "integers of 64 bits.*, for the integer 9223372036854775808"),
    ],
    ids=str,
)
def test_what_is_no_payload(payloads, line):
    with pytest.raises((TypeError, ValueError), match=line) as caught:
        as_payloads(payloads, 1)
    assert "\n" not in str(caught.value)
