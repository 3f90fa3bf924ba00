"""Payloads of rows in any form, as JSON texts."""

import json
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from math import isfinite, isnan
from typing import Any
from uuid import UUID

import numpy as np

from hashlearn.rows.inputs.columns import is_missing, is_table, library_of
from hashlearn.rows.inputs.ids import is_plain

NO_PAYLOAD = "{}"

_TABLES: dict[str, Callable[[Any], list[Any]]] = {
    "pandas": lambda frame: frame.to_dict("records"),
    "polars": lambda frame: frame.to_dicts(),
    "datasets": lambda dataset: dataset.to_list(),
}
"""The rows of a table as dicts, by the library that it comes from."""

_LOWEST, _LARGEST = -(2**63), 2**63 - 1
_WANTED = (
    "payloads must be dicts of JSON (string keys; strings without NUL, finite numbers, integers of 64 bits, booleans, "
    "None, dates, lists, dicts)"
)


class _NotJson(Exception):
    """A value that no payload can hold."""


def as_payloads(payloads: Any, n: int, of: str = "codes") -> list[str]:
    """Payloads of n rows as JSON texts.

    Numbers of numpy become plain numbers, NaN and other missing values become null, dates become ISO 8601, arrays and
    tuples become lists.

    Parameters
    ----------
    payloads : list of n dicts, frame, Arrow table, ``datasets.Dataset``, column of dicts, or None
        A row of a table is a payload. None, or None in place of a dict, is no payload.
    n : int
        The number of payloads that is expected.
    of : str
        The name of the rows in an error.

    Examples
    --------
    >>> as_payloads([{"year": np.int64(1999), "price": float("nan")}, None], 2)
    ['{"year":1999,"price":null}', '{}']
    """
    if payloads is None:
        return [NO_PAYLOAD] * n
    rows = _rows_of(payloads)
    if len(rows) != n:
        raise ValueError(f"payloads must be as many as the {of}, got {len(rows)} for {n}")
    return [NO_PAYLOAD if row is None else _text_of(row) for row in rows]


def payload_of(text: str) -> dict[str, Any]:
    """The payload in a JSON text.

    PostgreSQL writes a large float as an integer. Integers of a payload fit in 64 bits, so a larger one is a float.
    """
    return json.loads(text, parse_int=_integer_or_float)


def _rows_of(payloads: Any) -> Sequence[Any]:
    """One object for every row."""
    library = library_of(payloads)
    if library == "pyarrow":
        return payloads.to_pylist()
    if is_table(payloads):
        return _TABLES[str(library)](payloads)
    if library in ("pandas", "polars", "datasets"):
        return list(payloads)
    if isinstance(payloads, np.ndarray) and payloads.ndim == 1:
        return payloads.tolist()
    if isinstance(payloads, (str, bytes, Mapping)) or not isinstance(payloads, Sequence):
        raise TypeError(f"payloads must be a list of dicts or a frame, got {type(payloads).__name__}")
    return payloads


def _text_of(payload: Any) -> str:
    try:
        if not isinstance(payload, dict):
            raise _NotJson
        text = json.dumps(_plain(payload), ensure_ascii=False, separators=(",", ":"))
        if not is_plain(text) or ("\\u0000" in text and "\0" in "".join(_strings_in(payload))):
            raise _NotJson
        return text
    except (_NotJson, RecursionError) as problem:
        where = f", for {problem}" if str(problem) and isinstance(problem, _NotJson) else ""
        raise ValueError(f"{_WANTED}, got {reprlib.repr(payload):.60}{where}") from None


def _plain(value: Any) -> Any:
    """A value as JSON has it; the caller checks the whole text for characters that databases refuse."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        if not _LOWEST <= value <= _LARGEST:
            raise _NotJson
        return value
    if isinstance(value, float):
        if isfinite(value):
            return value
        if isnan(value):
            return None
        raise _NotJson
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise _NotJson
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (np.generic, np.ndarray)):
        return _plain(_without_numpy(value))
    if is_missing(value):
        return None
    if isinstance(value, Decimal):
        return _plain(float(value))
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, (date, time)):  # a datetime, and a Timestamp of pandas, is a date
        return value.isoformat()
    raise _NotJson(f"a value of type {type(value).__name__}")


def _strings_in(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _strings_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _strings_in(each)


def _without_numpy(value: Any) -> Any:
    if value.dtype.kind != "M":
        return value.tolist()
    return None if value.ndim == 0 and np.isnat(value) else np.datetime_as_string(value).tolist()


def _integer_or_float(text: str) -> int | float:
    value = int(text)
    return value if _LOWEST <= value <= _LARGEST else float(text)
