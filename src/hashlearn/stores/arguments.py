"""Checks of what users hand to a store: ids, payloads, vectors, corrections."""

import json
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_matrix, check_number, plain_array
from hashlearn.codes import Corrections
from hashlearn.stores.base import CorrectionScale, IdType
from hashlearn.stores.filters import is_plain

MAX_ID_BYTES = 1024
"""Of a string in UTF-8. PostgreSQL indexes no more than 2,700."""
NO_PAYLOAD = "{}"

_INT64 = np.iinfo(np.int64)


def check_ids(ids: Any, id_type: IdType) -> NDArray[Any]:
    """Ids, integers of at least 0 or strings, as an array of shape (n,): int64, or objects that are strings."""
    if isinstance(ids, np.ndarray):
        ids = plain_array(ids, "ids")
    return _integers(ids) if id_type == "int64" else _strings(ids)


def check_new_ids(ids: Any, id_type: IdType, n: int) -> NDArray[Any]:
    """As :func:`check_ids`, of n rows to be written: no id comes twice."""
    array = check_ids(ids, id_type)
    if len(array) != n:
        raise ValueError(f"ids must be as many as the codes, got {len(array)} for {n}")
    _refuse_repeated(array)
    return array


def distinct(ids: NDArray[Any]) -> NDArray[Any]:
    """Every id once."""
    if ids.dtype != object:
        return np.unique(ids)
    once = list(dict.fromkeys(ids))
    array = np.empty(len(once), object)
    array[:] = once
    return array


def payload_texts(payloads: Any, n: int) -> list[str]:
    """Payloads as JSON texts; None is no payload."""
    if payloads is None:
        return [NO_PAYLOAD] * n
    if isinstance(payloads, (str, bytes, Mapping)) or not isinstance(payloads, Sequence):
        raise TypeError(f"payloads must be a list of dicts, got {type(payloads).__name__}")
    if len(payloads) != n:
        raise ValueError(f"payloads must be as many as the codes, got {len(payloads)} for {n}")
    return [NO_PAYLOAD if payload is None else _payload_text(payload) for payload in payloads]


def payload_of(text: str) -> dict[str, Any]:
    """The payload in a JSON text.

    PostgreSQL writes a large float as an integer. Integers of a payload fit in 64 bits, so a larger one is a float.
    """
    return json.loads(text, parse_int=_integer_or_float)


def check_vectors(vectors: ArrayLike | None, n: int, n_features: int | None) -> NDArray[np.float32] | None:
    """Vectors as float32 of shape (n, n_features); a store keeps them of all its rows or of none."""
    if n_features is None:
        if vectors is not None:
            raise ValueError("vectors must be None: this store was made without n_features and keeps none")
        return None
    if vectors is None:
        raise ValueError(f"vectors must be given: this store keeps one of {n_features} features with every code")
    with np.errstate(over="ignore"):
        array = check_matrix("vectors", vectors, (n, n_features)).astype(np.float32)
    if not np.isfinite(array).all():
        raise ValueError("vectors must fit in float32, got larger values")
    return array


def check_corrections(corrections: Any, n: int, scale: CorrectionScale | None) -> NDArray[np.uint8] | None:
    """Correction bytes of shape (n,); a store has them of all its rows or of none."""
    if scale is None:
        if corrections is not None:
            raise ValueError("corrections must be None: this store was made without them, for codes compared by bits")
        return None
    if corrections is None:
        raise ValueError("corrections must be given: this store keeps one byte of them with every code")
    if isinstance(corrections, Corrections):
        own = CorrectionScale(corrections.scale, corrections.offset)
        if own != scale:
            raise ValueError(f"corrections must have {_scale_text(scale)}, as the store, got {_scale_text(own)}")
        corrections = corrections.values
    array = plain_array(corrections, "corrections")
    if array.dtype != np.uint8:
        raise TypeError(f"corrections must be bytes of dtype uint8, got {array.dtype}")
    if array.shape != (n,):
        raise ValueError(f"corrections must have shape ({n},), one for each code, got {array.shape}")
    return np.ascontiguousarray(array)


def _scale_text(scale: CorrectionScale) -> str:
    return f"scale {scale.scale:g} and offset {scale.offset:g}"


def check_correction_scale(corrections: Any) -> CorrectionScale:
    """Scale and offset of the correction bytes of a store."""
    if not isinstance(corrections, (tuple, list)) or len(corrections) != 2:
        raise TypeError(f"corrections must be a pair of scale and offset, got {reprlib.repr(corrections):.60}")
    return CorrectionScale(
        check_number("the scale of corrections", corrections[0], low=1e-30, high=1e30),
        check_number("the offset of corrections", corrections[1], low=-1e38, high=1e38),
    )


def check_key(key: Any) -> str:
    """The key of a note."""
    if not isinstance(key, str) or not re.fullmatch(r"[A-Za-z0-9 _.-]{1,100}", key):
        raise ValueError(f"key must be 1 to 100 letters, digits, spaces or _.-, got {key!r:.60}")
    return key


def _integers(ids: Any) -> NDArray[np.int64]:
    array = ids if isinstance(ids, np.ndarray) else _array_of(ids, (int, np.integer), "integers")
    if array.ndim != 1:
        raise ValueError(f"ids must be a list of ids, of shape (n,), got shape {array.shape}")
    if not len(array):
        return np.empty(0, np.int64)
    if array.dtype == object:
        array = _array_of(array.tolist(), (int, np.integer), "integers")
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"ids must be integers in this store, got dtype {array.dtype}")
    low, high = array.min(), array.max()
    if low < 0 or high > _INT64.max:
        raise ValueError(f"ids must be from 0 to {_INT64.max}, got {low if low < 0 else high}")
    return array.astype(np.int64)


def _strings(ids: Any) -> NDArray[Any]:
    if isinstance(ids, np.ndarray) and ids.ndim != 1:
        raise ValueError(f"ids must be a list of ids, of shape (n,), got shape {ids.shape}")
    listed = ids.tolist() if isinstance(ids, np.ndarray) else ids
    array = _array_of(listed, (str,), "strings")
    for text in array:
        if not text or any(letter < " " or letter == "\x7f" for letter in text) or not is_plain(text):
            raise ValueError(f"ids must be strings without control characters, and not empty, got {text!r:.60}")
        if len(text) > MAX_ID_BYTES // 4 and len(text.encode()) > MAX_ID_BYTES:
            raise ValueError(f"ids must be at most {MAX_ID_BYTES} bytes in UTF-8, got {text[:40]!r}...")
    return array


def _array_of(ids: Any, kinds: tuple[type, ...], name: str) -> NDArray[Any]:
    """A list of ids as an array, once every one is known to be of a kind: numpy would turn 1 beside "a" into "1"."""
    if isinstance(ids, (str, bytes, Mapping)) or not isinstance(ids, Iterable):
        raise TypeError(f"ids must be a list of {name}, got {ids!r:.60}")
    listed = list(ids)
    for kind in set(map(type, listed)):
        if not issubclass(kind, kinds) or issubclass(kind, (bool, np.bool_)):
            raise TypeError(f"ids must be {name} in this store, got {kind.__name__} among them")
    if kinds == (str,):
        array = np.empty(len(listed), object)
        array[:] = listed
        return array
    try:
        return np.array(listed, np.int64)
    except OverflowError:
        raise ValueError(f"ids must be from 0 to {_INT64.max}, got larger ones") from None


def _refuse_repeated(ids: NDArray[Any]) -> None:
    if ids.dtype == object:
        if len(set(ids)) == len(ids):
            return
    elif np.all(ids[1:] > ids[:-1]) or len(np.unique(ids)) == len(ids):
        return
    values, counts = np.unique(ids, return_counts=True)
    raise ValueError(f"ids must be unique in a call, got {values[counts > 1][0]!r:.60} more than once")


def _payload_text(payload: Any) -> str:
    try:
        text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        same = isinstance(payload, dict) and json.loads(text, parse_int=_int64) == payload and _all_plain(text, payload)
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise ValueError(
            "payloads must be dicts of JSON (string keys; strings without NUL, finite numbers, integers of 64 bits, "
            f"booleans, None, lists, dicts), got {reprlib.repr(payload):.60}"
        )
    return text


def _int64(text: str) -> int:
    value = int(text)
    if not _INT64.min <= value <= _INT64.max:
        raise ValueError(f"{text} does not fit in int64")
    return value


def _integer_or_float(text: str) -> int | float:
    value = int(text)
    return value if _INT64.min <= value <= _INT64.max else float(text)


def _all_plain(text: str, payload: Any) -> bool:
    """Whether every database can hold the strings of a payload, whose JSON is ``text``."""
    text.encode()
    return "\\u0000" not in text or "\0" not in "".join(_strings_in(payload))


def _strings_in(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for each in value:
            yield from _strings_in(each)
        for each in value.values() if isinstance(value, dict) else ():
            yield from _strings_in(each)
