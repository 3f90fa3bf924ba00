"""What the caller says about each row: its id, its score, and which pairs have been judged."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def check_ids(ids: ArrayLike | None, n: int) -> NDArray | None:
    """One id a row, integers or strings, each once; None stays."""
    if ids is None:
        return None
    array = np.asarray(ids)
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array.ravel()):
        array = array.astype(str)
    if array.dtype.kind not in "iuU":
        raise TypeError(f"ids must be integers or strings, got {array.dtype}")
    if array.shape != (n,):
        raise ValueError(f"ids must have one entry a row, shape ({n},), got {array.shape}")
    values, counts = np.unique(array, return_counts=True)
    if len(values) < n:
        raise ValueError(f"ids must be there once each, got {values[counts.argmax()].item()!r} {counts.max()} times")
    return array if array.dtype.kind == "U" else array.astype(np.int64)


def joined_ids(known: NDArray | None, new: NDArray | None) -> NDArray | None:
    """The ids of known rows and new ones."""
    if (known is None) != (new is None):
        raise ValueError(f"ids must be {'given' if new is None else 'None'}, as for the known rows")
    if known is None or new is None:
        return None
    if known.dtype.kind != new.dtype.kind:
        raise TypeError(f"ids must be of the kind of the known ones, {known.dtype}, got {new.dtype}")
    taken = np.intersect1d(known, new)
    if len(taken):
        raise ValueError(f"ids must be new, got {taken[0].item()!r}, which is known")
    return np.concatenate([known, new])


def check_scores(scores: ArrayLike | None, n: int) -> NDArray[np.float64] | None:
    """One finite number a row; None stays."""
    if scores is None:
        return None
    try:
        array = np.asarray(scores, np.float64)
    except (TypeError, ValueError):
        raise TypeError("scores must be numbers, one a row") from None
    if array.shape != (n,):
        raise ValueError(f"scores must have one entry a row, shape ({n},), got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"scores must be finite, row {int(np.argmin(np.isfinite(array)))} has {array.min()}")
    return array


def check_labeled_pairs(pairs: Any, n: int, ids: NDArray | None) -> tuple[NDArray, NDArray, NDArray[np.bool_]]:
    """The rows of judged pairs, and whether they are duplicates."""
    rows = list(pairs)
    if not rows or any(len(row) != 3 for row in rows):
        raise ValueError("labeled_pairs must be a list of (id, id, whether they are duplicates), got another shape")
    labels = np.array([bool(row[2]) for row in rows])
    if not labels.any():
        raise ValueError("labeled_pairs must have at least one pair that is a duplicate, got none")
    names = {value: row for row, value in enumerate(range(n) if ids is None else ids.tolist())}
    try:
        ends = np.array([(names[a], names[b]) for a, b, _ in rows], np.int64)
    except (KeyError, TypeError) as error:
        raise ValueError(f"labeled_pairs must name known ids, got {error}") from None
    return ends[:, 0], ends[:, 1], labels
