"""The door for vectors, ids and payloads: arrays and lists here, all other forms in :mod:`hashlearn.rows.forms`."""

import json
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from functools import partial
from math import isfinite, isnan
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_vectors, plain_array
from hashlearn.rows.blocks import RowBlocks, dense
from hashlearn.rows.cluster import dask_rows
from hashlearn.rows.formats import is_place_of_file, read_place
from hashlearn.rows.forms import (
    WITH_AN_ENCODER,
    column_names,
    column_of,
    held_vectors,
    is_missing,
    is_table,
    rows_of_table,
)
from hashlearn.rows.source import Files, PathLike, Pieces, Stream

MAX_ID_BYTES = 1024
"""The most bytes of a string id in UTF-8. PostgreSQL can index 2,700."""
NO_PAYLOAD = "{}"

_LONGEST_TEXT = 40  # characters that an error shows
_LOWEST, _LARGEST = -(2**63), 2**63 - 1
_WANTED_PAYLOADS = (
    "payloads must be dicts of JSON (string keys; strings without NUL, finite numbers, integers of 64 bits, booleans, "
    "None, dates, lists, dicts)"
)


class GivenVectors(NamedTuple):
    """Vectors that a user has passed.

    Attributes
    ----------
    rows : ndarray or csr_array of shape (n, n_features), or RowBlocks
        All functions that take rows take each of these types. RowBlocks hold files, streams, or arrays in several
        pieces.
    was_one_row : bool
        Whether the user passed one vector, of shape (n_features,), and not a matrix of one row.
    """

    rows: Any
    was_one_row: bool


def as_vectors(X: Any, column: str | None = None, name: str = "X") -> GivenVectors:
    """Vectors in any form, as rows; one vector is one row.

    Parameters
    ----------
    X : array, list, Series, frame, Arrow array or table, ``datasets.Dataset``, tensor, sparse matrix, or source of rows
        Of shape (n, n_features) or, for one vector, (n_features,). See :func:`as_rows` for sources, and
        docs/howto/input.md for everything. A table has one column of vectors, or a column for each feature.
    column : str or None
        The column of a table, or the array or column of a file, that holds the vectors.
    name : str
        The name of X in an error.

    Returns
    -------
    GivenVectors
        ``rows`` and ``was_one_row``. The numbers are not copied where numpy can view them.

    Examples
    --------
    >>> as_vectors([0.5, 1.5])
    GivenVectors(rows=array([[0.5, 1.5]]), was_one_row=True)
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"word": ["one", "two"], "embedding": [[1, 0], [0, 1]]})
    >>> as_vectors(frame).rows.tolist()
    [[1, 0], [0, 1]]
    """
    rows = plain_rows(X, column, name)
    if isinstance(rows, RowBlocks):
        return GivenVectors(rows, False)
    was_one_row = rows.ndim == 1 and len(rows) > 0
    if was_one_row:
        rows = rows[None]
    check_vectors(name, rows.shape, rows.dtype)
    return GivenVectors(rows, was_one_row)


def as_matrix(X: Any, column: str | None = None, name: str = "X") -> NDArray:
    """Vectors in any form as one dense array in memory, shape (n, n_features); the arguments of :func:`as_vectors`."""
    rows = as_vectors(X, column, name).rows
    if isinstance(rows, RowBlocks):
        return rows.take(np.arange(len(rows)))
    return dense(rows)


def as_rows(X: Any, column: str | None = None) -> RowBlocks:
    """The rows of X, to be read a block at a time.

    Parameters
    ----------
    X : whatever :func:`as_vectors` takes, path, list of paths, function, or dask array
        A path names a file of any format of :func:`hashlearn.rows.formats.read_vectors`; several are one source, in
        their order. A function takes nothing and returns a fresh iterator over blocks of shape (any, d) each time it is
        called. The length of a stream is not known, so one more pass counts and checks its blocks.
        The rows of a dask array are read where they are; for files on a cluster see
        :func:`hashlearn.rows.cluster.on_cluster`.
    column : str or None
        As for :func:`as_vectors`.

    Examples
    --------
    >>> import numpy as np
    >>> as_rows(lambda: [np.ones((3, 2)), np.zeros((4, 2))]).shape
    (7, 2)
    """
    rows = plain_rows(X, column)
    return rows if isinstance(rows, RowBlocks) else RowBlocks(rows, name="Input X")


def plain_rows(X: Any, column: str | None = None, name: str = "X") -> Any:
    """X as an ndarray or a CSR array of the same shape, or as RowBlocks if X is a source of rows."""
    if column is None and type(X) is np.ndarray and X.dtype.kind in "fiub":
        return X
    if isinstance(X, RowBlocks):
        return X
    if isinstance(X, (str, os.PathLike)):
        return _rows_of_files([X], column, name)
    if _are_paths(X):
        return _rows_of_files(X, column, name)
    if _is_dask(X):
        return dask_rows(X)
    if callable(X):
        stream = Stream(X)
        rows = RowBlocks(stream)
        rows.seen.until = len(rows)
        return rows
    held = held_vectors(X if column is None else column_of(X, column, name), name)
    if isinstance(held, list):
        return RowBlocks(Pieces(held, [f"piece {number}" for number in range(len(held))]))
    return held


def is_source(X: Any) -> bool:
    """Whether X is a source of rows and holds none itself: a path, a list of paths, a function, or rows made from
    these."""
    if isinstance(X, np.ndarray):
        return False
    return isinstance(X, (str, os.PathLike, RowBlocks)) or callable(X) or _are_paths(X) or _is_dask(X)


def check_holds_rows(X: Any, name: str = "X") -> None:
    """Refuse a value without rows, with a short error that does not print its numbers.

    Examples
    --------
    >>> check_holds_rows([0.5, 1.5])
    Traceback (most recent call last):
    ValueError: X must be 2-D, got one vector of length 2. Reshape your data: pass X[None] or [X]
    """
    if not is_source(X):
        held = held_vectors(X, name)
        if not isinstance(held, list) and held.dtype.kind != "O":
            check_vectors(name, held.shape, held.dtype)


def _rows_of_files(paths: Sequence[PathLike], column: str | None, name: str) -> RowBlocks:
    for path in paths:
        if isinstance(path, str) and not is_place_of_file(path) and not os.path.exists(path):
            text = path if len(path) <= _LONGEST_TEXT else path[:_LONGEST_TEXT] + "..."
            raise TypeError(f"{name} must hold vectors or name files, got the text {text!r}; {WITH_AN_ENCODER}")
    return RowBlocks(Files(paths, partial(read_place, array=column)))


def _are_paths(X: Any) -> bool:
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(path, (str, os.PathLike)) for path in X)


def _is_dask(X: Any) -> bool:
    return type(X).__module__.startswith("dask.array")


def as_ids(ids: Any, name: str = "ids") -> NDArray[Any]:
    """Ids as an array of shape (n,): int64, or objects that are strings.

    Parameters
    ----------
    ids : list, range, array, Series, Index, or Arrow, polars or ``datasets`` column
        Integers of at least 0, or strings without control characters of at most 1,024 bytes; not both.
    name : str
        The name of the ids in an error.

    Examples
    --------
    >>> as_ids(["b", "a"])
    array(['b', 'a'], dtype=object)
    >>> import pandas as pd
    >>> as_ids(pd.Index([7, 9]))
    array([7, 9])
    """
    held = held_ids(ids, name)
    if ids_are_text(held):
        _check_strings(held, name)
    elif len(held) and held.min() < 0:
        raise ValueError(f"{name} must be from 0 to {_LARGEST}, got {held.min()}")
    return held


def held_ids(ids: Any, name: str = "ids") -> NDArray[Any]:
    """As :func:`as_ids`, for any integers or strings, such as names of files. These ids need not fit into a
    database."""
    values = _values(ids, name)
    if isinstance(values, np.ndarray):
        return _integers(values, name)
    kinds = set(map(type, values))
    if all(issubclass(kind, str) for kind in kinds) and kinds:
        return _strings(values)
    if all(issubclass(kind, (int, np.integer)) and not issubclass(kind, bool) for kind in kinds):
        return _int64(values, name)
    missing = next((row for row, value in enumerate(values) if is_missing(value)), None)
    if missing is not None:
        raise TypeError(f"{name} must not be missing: entry {missing} is {values[missing]!r}")
    got = " and ".join(sorted(kind.__name__ for kind in kinds))
    call = {"float": f"list(map(int, {name}))", "bytes": f"[id.decode() for id in {name}]"}.get(
        got, f"list(map(str, {name}))"
    )
    raise TypeError(f"{name} must be integers or strings, all of one kind, got {got}; pass {call}")


def ids_are_text(ids: NDArray[Any]) -> bool:
    """Whether ids that :func:`as_ids` gave are strings."""
    return ids.dtype == object


def check_unique(ids: NDArray[Any], name: str = "ids") -> None:
    """Refuse ids that occur twice."""
    if ids_are_text(ids):
        if len(set(ids)) == len(ids):
            return
    elif np.all(ids[1:] > ids[:-1]) or len(np.unique(ids)) == len(ids):
        return
    values, counts = np.unique(ids, return_counts=True)
    raise ValueError(f"{name} must be unique in a call, got {values[counts > 1].tolist()[0]!r:.60} more than once")


def is_plain(text: str) -> bool:
    """Whether every database can hold a text: NUL and half surrogate pairs are not allowed."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _values(ids: Any, name: str) -> NDArray[Any] | list[Any]:
    """An array of integers, or a list of anything."""
    if isinstance(ids, list):
        return ids
    if is_table(ids):
        raise TypeError(f"{name} must be one column, got a {type(ids).__name__}; pass {name}[{_a_column(ids)!r:.40}]")
    if isinstance(ids, (str, bytes, bytearray, Mapping)) or not isinstance(ids, Iterable):
        raise TypeError(
            f"{name} must be a list of integers or of strings, got {ids!r:.60}; pass one id as [id], "
            "a column of a table as table['id']"
        )
    if hasattr(ids, "detach"):
        ids = ids.detach().cpu()
    if hasattr(getattr(ids, "type", None), "storage_type"):  # an extension type of Arrow, such as UUIDs
        return ids.to_pylist()
    if not hasattr(ids, "__array__"):
        return list(ids)
    array = plain_array(ids, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be a list of ids, of shape (n,), got shape {array.shape}")
    if array.dtype.kind in "iu" or not len(array):
        return array
    if array.dtype.kind in "OUT":
        return array.tolist()
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise TypeError(f"{name} must not be missing: entry {int(np.isnan(array).argmax())} is nan")
    kind = "int" if array.dtype.kind == "f" else "str"
    call = f"{name}.astype({kind})" if hasattr(ids, "astype") else f"list(map({kind}, {name}))"
    raise TypeError(f"{name} must be integers or strings, got {array.dtype}; pass {call}")


def _a_column(table: Any) -> Any:
    names = column_names(table)
    return "id" if "id" in names or not names else names[0]


def _int64(values: list[Any], name: str) -> NDArray[np.int64]:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        raise ValueError(f"{name} must be from 0 to {_LARGEST}, got larger ones") from None


def _integers(array: NDArray[Any], name: str) -> NDArray[np.int64]:
    if not len(array):
        return np.empty(0, np.int64)
    if array.max() > _LARGEST:
        raise ValueError(f"{name} must be from 0 to {_LARGEST}, got {array.max()}")
    return np.ascontiguousarray(array, np.int64)


def _strings(values: list[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = [value if type(value) is str else str.__str__(value) for value in values]  # an enum of strings
    return array


def _check_strings(ids: NDArray[Any], name: str) -> None:
    for text in ids:
        if not text or (not text.isprintable() and (_has_controls(text) or not is_plain(text))):
            raise ValueError(f"{name} must be strings without control characters, and not empty, got {text!r:.60}")
        if len(text) > MAX_ID_BYTES // 4 and len(text.encode()) > MAX_ID_BYTES:
            raise ValueError(f"{name} must be at most {MAX_ID_BYTES} bytes in UTF-8, got {text[:40]!r}...")


def _has_controls(text: str) -> bool:
    return any(letter < " " or letter == "\x7f" for letter in text)


class _NotJson(Exception):
    """A value that no payload can hold, and why."""


def as_payloads(payloads: Any, n: int, of: str = "codes") -> list[str]:
    """Payloads of n rows as JSON texts.

    Numbers of numpy become plain numbers, NaN and other missing values become null, dates become ISO 8601, arrays and
    tuples become lists.

    Parameters
    ----------
    payloads : list or iterator of n dicts, frame, Arrow table, ``datasets.Dataset``, column of dicts, or None
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
    if isinstance(payloads, (list, tuple)):
        return payloads
    if isinstance(payloads, Iterator):
        return list(payloads)
    rows = rows_of_table(payloads)
    if rows is not None:
        return rows
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
        if not isinstance(payload, dict):
            where = "; pass a table of one column as table[['name']]"
        raise ValueError(f"{_WANTED_PAYLOADS}, got {reprlib.repr(payload):.60}{where}") from None


def _plain(value: Any) -> Any:
    """A value as JSON has it; the caller checks the whole text for characters that databases refuse."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        if not _LOWEST <= value <= _LARGEST:
            raise _NotJson(f"the integer {value!r:.30}")
        return value
    if isinstance(value, float):
        if isfinite(value):
            return value
        if isnan(value):
            return None
        raise _NotJson(f"the number {value}")
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise _NotJson(f"the key {key!r:.30}")
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind != "M":
        return _plain(value.tolist())
    if isinstance(value, np.ndarray) and value.ndim:
        return [_plain(each) for each in value]
    if is_missing(value) or (isinstance(value, np.datetime64) and np.isnat(value)):
        return None
    if (text := date_text(value)) is not None:
        return text
    if isinstance(value, Decimal):
        return _plain(float(value))
    if isinstance(value, UUID):
        return str(value)
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


def date_text(value: Any) -> str | None:
    """A date, a time or both in ISO 8601, the same for Python, numpy and pandas; None for what is no date.

    Examples
    --------
    >>> date_text(date(2024, 2, 29)), date_text(np.datetime64("2024-02-29T12:00", "ns"))
    ('2024-02-29', '2024-02-29T12:00:00')
    """
    if isinstance(value, (date, time)):  # a datetime, and a Timestamp of pandas, is a date
        return None if is_missing(value) else value.isoformat()
    if not isinstance(value, (np.datetime64, np.ndarray)) or value.dtype.kind != "M" or np.isnat(value):
        return None
    has_time = np.datetime_data(value)[0] not in ("Y", "M", "W", "D")
    rounded = value.astype("datetime64[us]") if has_time else value
    held = rounded.item() if rounded == value else None  # years that Python has not are integers
    return held.isoformat() if isinstance(held, date) else np.datetime_as_string(value).item()


def _integer_or_float(text: str) -> int | float:
    value = int(text)
    return value if _LOWEST <= value <= _LARGEST else float(text)
