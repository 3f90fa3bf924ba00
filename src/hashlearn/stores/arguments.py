"""Checks of the arguments of a store: ids, payloads, vectors, corrections."""

import re
import reprlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_matrix, check_number, plain_array
from hashlearn.codes import Corrections
from hashlearn.rows.inputs import MAX_ID_BYTES, NO_PAYLOAD, as_ids, as_matrix, check_unique, ids_are_text, payload_of
from hashlearn.rows.inputs import as_payloads as payload_texts
from hashlearn.stores.base import CorrectionScale, IdType

__all__ = [
    "MAX_ID_BYTES",
    "NO_PAYLOAD",
    "check_correction_scale",
    "check_corrections",
    "check_ids",
    "check_key",
    "check_new_ids",
    "check_vectors",
    "distinct",
    "payload_of",
    "payload_texts",
]
"""The public names: the checks of this module, and those of :mod:`hashlearn.rows.inputs` that go with them."""

_KINDS = {"int64": "integers", "str": "strings"}


def check_ids(ids: Any, id_type: IdType) -> NDArray[Any]:
    """Ids as :func:`~hashlearn.rows.inputs.as_ids` gives them; they must be of the kind of the store."""
    array = as_ids(ids)
    given: IdType = "str" if ids_are_text(array) else "int64"
    if not len(array):
        return np.empty(0, object if id_type == "str" else np.int64)
    if given != id_type:
        raise TypeError(f"ids must be {_KINDS[id_type]} in this store, got {_KINDS[given]}")
    return array


def check_new_ids(ids: Any, id_type: IdType, n: int) -> NDArray[Any]:
    """As :func:`check_ids`, for n rows to be written: no id may come twice."""
    array = check_ids(ids, id_type)
    if len(array) != n:
        raise ValueError(f"ids must be as many as the codes, got {len(array)} for {n}")
    check_unique(array)
    return array


def distinct(ids: NDArray[Any]) -> NDArray[Any]:
    """Every id once."""
    if ids.dtype != object:
        return np.unique(ids)
    once = list(dict.fromkeys(ids))
    array = np.empty(len(once), object)
    array[:] = once
    return array


def check_vectors(vectors: Any, n: int, n_features: int | None) -> NDArray[np.float32] | None:
    """Vectors as float32 of shape (n, n_features); a store keeps vectors for all its rows or for none."""
    if n_features is None:
        if vectors is not None:
            raise ValueError("vectors must be None: this store was made without n_features and keeps none")
        return None
    if vectors is None:
        raise ValueError(f"vectors must be given: this store keeps one of {n_features} features with every code")
    with np.errstate(over="ignore"):
        array = check_matrix("vectors", as_matrix(vectors, name="vectors"), (n, n_features)).astype(np.float32)
    if not np.isfinite(array).all():
        raise ValueError("vectors must fit in float32, got larger values")
    return array


def check_corrections(corrections: Any, n: int, scale: CorrectionScale | None) -> NDArray[np.uint8] | None:
    """Correction bytes of shape (n,); a store keeps corrections for all its rows or for none."""
    if scale is None:
        if corrections is not None:
            raise ValueError("corrections must be None: this store was made without them, for codes compared by bits")
        return None
    if corrections is None:
        raise ValueError("corrections must be given: this store keeps one correction byte with every code")
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
