"""Integers that stand for strings, in the order of the strings.

An index knows integers and breaks ties by the lowest. So that ties go to the lowest string, every string gets a key,
and keys ascend as the strings do. There are gaps between keys. A string behind all others takes a step, one before all
others a step back, and one between two others a place in their gap. Where a gap is full, all strings get new keys.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

STEP = 1 << 32
"""Between the keys of strings that were added behind one another."""
RUN = 1 << 14
"""The largest step inside a gap: strings that come in ascending order, one at a time, fill it slowly."""

_END = 1 << 63


class NewKeys(NamedTuple):
    """Keys of strings that were there before, and of new ones.

    Attributes
    ----------
    old : ndarray of shape (n,), int64
        As they were, or all anew.
    new : ndarray of shape (m,), int64
    """

    old: NDArray[np.int64]
    new: NDArray[np.int64]


def keys_of_new(names: NDArray[Any], keys: NDArray[np.int64], new: NDArray[Any]) -> NewKeys:
    """Keys for new strings.

    Parameters
    ----------
    names : object array of shape (n,), strings that ascend
    keys : int64 array of shape (n,)
        Their keys, which ascend too.
    new : object array of shape (m,), strings that ascend
        None of them is among the names.

    Examples
    --------
    >>> names, new = np.array(["b", "d"], object), np.array(["a", "c", "e"], object)
    >>> keys = keys_of_new(names, np.array([STEP, 2 * STEP]), new)
    >>> np.diff(np.sort(np.concatenate(keys))) // RUN
    array([262144,      1, 262143, 262144])
    """
    places = np.searchsorted(names, new)
    found = _in_gaps(keys, places)
    if found is not None:
        return NewKeys(keys, found)
    everything = _spread(len(names) + len(new))
    is_new = np.zeros(len(everything), bool)
    is_new[places + np.arange(len(new))] = True
    return NewKeys(everything[~is_new], everything[is_new])


def _in_gaps(keys: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Keys for new strings before these places; None where a gap has too little room."""
    if not len(keys):
        return _spread(len(places))
    n_before, n_behind = np.count_nonzero(places == 0), np.count_nonzero(places == len(keys))
    first, last = int(keys[0]), int(keys[-1])
    if first < STEP * n_before or last + STEP * n_behind >= _END:
        return None
    inner = places[n_before : len(places) - n_behind]
    gap, starts, counts = np.unique(inner, return_index=True, return_counts=True)
    steps = np.minimum((keys[gap] - keys[gap - 1]) // (counts + 1), RUN)
    if not np.all(steps):
        return None
    rank = np.arange(len(inner)) - np.repeat(starts, counts) + 1
    between = np.repeat(keys[gap - 1], counts) + np.repeat(steps, counts) * rank
    before = first - STEP * np.arange(n_before, 0, -1)
    behind = last + STEP * np.arange(1, n_behind + 1)
    return np.concatenate([before, between, behind]).astype(np.int64)


def _spread(n: int) -> NDArray[np.int64]:
    """Keys for n strings around the middle of the integers."""
    step = min(STEP, _END // 2 // max(1, n))
    return _END // 2 + step * (np.arange(n) - n // 2)
