"""Ids of rows in any form: integers of at least 0 or strings, all of one kind."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import plain_array
from hashlearn.rows.inputs.columns import is_missing

MAX_ID_BYTES = 1024
"""The most bytes of a string id in UTF-8. PostgreSQL can index 2,700."""

_LARGEST = np.iinfo(np.int64).max


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
    raise TypeError(f"{name} must be integers or strings, all of one kind, got {got}; pass list(map(str, {name}))")


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
    raise ValueError(f"{name} must be unique in a call, got {values[counts > 1][0]!r:.60} more than once")


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
    if isinstance(ids, (str, bytes, Mapping)) or not isinstance(ids, Iterable):
        raise TypeError(f"{name} must be a list of integers or of strings, got {ids!r:.60}; pass one id as [id]")
    if hasattr(ids, "detach"):
        ids = ids.detach().cpu()
    if not hasattr(ids, "__array__"):
        return list(ids)
    array = plain_array(ids, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be a list of ids, of shape (n,), got shape {array.shape}")
    if array.dtype.kind in "iu" or not len(array):
        return array
    if array.dtype.kind in "OUT":
        return array.tolist()
    hint = f"; pass {name}.astype({'int' if array.dtype.kind == 'f' else 'str'})"
    if array.dtype.kind == "f" and np.isnan(array).any():
        hint = " with missing values"
    raise TypeError(f"{name} must be integers or strings, got {array.dtype}{hint}")


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
    array[:] = [value if type(value) is str else str(value) for value in values]
    return array


def _check_strings(ids: NDArray[Any], name: str) -> None:
    for text in ids:
        if not text or (not text.isprintable() and (_has_controls(text) or not is_plain(text))):
            raise ValueError(f"{name} must be strings without control characters, and not empty, got {text!r:.60}")
        if len(text) > MAX_ID_BYTES // 4 and len(text.encode()) > MAX_ID_BYTES:
            raise ValueError(f"{name} must be at most {MAX_ID_BYTES} bytes in UTF-8, got {text[:40]!r}...")


def _has_controls(text: str) -> bool:
    return any(letter < " " or letter == "\x7f" for letter in text)
