"""What a result is asked for: pairs, groups, and which new rows are known."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class DuplicatePairs(NamedTuple):
    """Pairs of ids and their distances; exact copies have distance 0."""

    first: NDArray
    second: NDArray
    distances: NDArray[np.float64]


class Group(NamedTuple):
    """Rows that stand for the same thing.

    Attributes
    ----------
    kept : int or str
        The id of the row that is kept.
    members : ndarray
        The ids of the others, nearest first, ties by id.
    distances : ndarray of float64
        Their distances from the kept row; NaN where a member hangs on it through others only (components).
    is_copy : ndarray of bool
        Whether a member is an exact copy of the kept row.
    """

    kept: Any
    members: NDArray
    distances: NDArray[np.float64]
    is_copy: NDArray[np.bool_]


class Checked(NamedTuple):
    """New rows against those that are known: an entry for each.

    Attributes
    ----------
    is_new : ndarray of bool
        Nothing within the largest distance was found.
    duplicate_of : ndarray
        The id of the nearest known row (ties: the lowest id); where a row is new, -1 or an empty string.
    distances : ndarray of float64
        How far that is; infinite where a row is new.
    is_copy : ndarray of bool
        Whether the known row has equal numbers.
    """

    is_new: NDArray[np.bool_]
    duplicate_of: NDArray
    distances: NDArray[np.float64]
    is_copy: NDArray[np.bool_]
