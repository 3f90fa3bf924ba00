"""The data of a result, its parts for users, and checks of ids, scores and judged pairs."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.duplicates.groups import Contents, NearPairs
from hashlearn.duplicates.plan import Plan
from hashlearn.duplicates.vectors import MetricRows, Rows
from hashlearn.duplicates.verify import Curve
from hashlearn.rows.inputs import held_ids, ids_are_text

UNDECIDED, KEPT, DROPPED = 0, 1, -1


class State(NamedTuple):
    """The data of a result.

    Attributes
    ----------
    vectors : MetricRows
    contents : Contents
    pairs : NearPairs
        Pairs of contents within ``largest_distance``.
    plan : Plan
    described : ndarray of shape (n, any)
        The descriptions that the plan's finder compares: codes, or rows in few dimensions.
    curve : Curve or None
        None if the search was exact.
    largest_distance : float
        Pairs up to this distance are stored.
    max_pairs : int
    ids : ndarray of shape (n,), or None
    scores : ndarray of shape (n,), or None
    decided : ndarray of shape (n,), int8
        The decision about each row: ``KEPT``, ``DROPPED`` or ``UNDECIDED``.
    apart : ndarray of shape (any, 2), int64
        Pairs of contents, the lower first, that a user has judged to be different.
    """

    vectors: MetricRows
    contents: Contents
    pairs: NearPairs
    plan: Plan
    described: NDArray
    curve: Curve | None
    largest_distance: float
    max_pairs: int
    ids: NDArray | None
    scores: NDArray[np.float64] | None
    decided: NDArray[np.int8]
    apart: Rows


class DuplicatePairs(NamedTuple):
    """Pairs of ids and their distances; exact copies have distance 0."""

    first: NDArray
    second: NDArray
    distances: NDArray[np.float64]


class Group(NamedTuple):
    """A group of duplicates.

    Attributes
    ----------
    kept : int or str
        The id of the row that is kept.
    members : ndarray
        The ids of the others, nearest first, ties by id.
    distances : ndarray of float64
        Their distances from the kept row; NaN if a member is connected with it only through other rows (components).
    is_copy : ndarray of bool
        Whether a member is an exact copy of the kept row.
    """

    kept: Any
    members: NDArray
    distances: NDArray[np.float64]
    is_copy: NDArray[np.bool_]


class Checked(NamedTuple):
    """New rows compared with known rows: one entry for each new row.

    Attributes
    ----------
    is_new : ndarray of bool
        Whether no known row is within the largest distance.
    duplicate_of : ndarray
        The id of the nearest known row (ties: the lowest id); -1 or an empty string if the row is new.
    distances : ndarray of float64
        The distance of this known row; infinite if the row is new.
    is_copy : ndarray of bool
        Whether the known row has equal numbers.
    """

    is_new: NDArray[np.bool_]
    duplicate_of: NDArray
    distances: NDArray[np.float64]
    is_copy: NDArray[np.bool_]


def check_ids(ids: ArrayLike | None, n: int) -> NDArray | None:
    """One id a row, integers or strings, each once; None stays."""
    if ids is None:
        return None
    given = held_ids(ids)
    array = given.astype(str) if ids_are_text(given) else given
    if array.shape != (n,):
        raise ValueError(f"ids must have one entry a row, shape ({n},), got {array.shape}")
    values, counts = np.unique(array, return_counts=True)
    if len(values) < n:
        raise ValueError(f"ids must be unique, got {values[counts.argmax()].item()!r} {counts.max()} times")
    return array


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
