"""Scores of a ranking with ties, from the sizes of its groups alone.

Codes of b bits have b + 1 distances, so a ranking by Hamming distance is a sequence of groups of items that are equally
far. The value of a metric depends on the order inside the groups, which the codes do not give:

- ``expected``: the mean over all orders inside the groups (the library's default; no order of the database changes it);
- ``optimistic``, ``pessimistic``: relevant items first, or last, in every group;
- ``stable``: the order of the database, as a stable sort gives it and as the MATLAB programs of this field report it.

The first three need three numbers for every group: the items before it, the items in it, and the relevant items in it.
A stable ranking has the same form with groups of one item, so that it needs no formulas of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_choice

Ties = Literal["expected", "stable", "optimistic", "pessimistic"]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TieGroups:
    """The groups of one ranking or of many, along the last axis, nearest first.

    Groups without relevant items may be left out: they contribute nothing.

    Attributes
    ----------
    before, size, relevant : ndarray of shape (..., n_groups)
        Items ranked before the group, items in it, and relevant items in it.
    """

    before: NDArray[np.int64]
    size: NDArray[np.int64]
    relevant: NDArray[np.int64]

    @classmethod
    def of_histograms(cls, counts: NDArray[np.int64], relevant: NDArray[np.int64]) -> "TieGroups":
        """Groups from the number of items and of relevant items at every distance."""
        return cls(np.cumsum(counts, axis=-1) - counts, counts, relevant)

    @classmethod
    def of_hits(cls, positions: NDArray[np.int64]) -> "TieGroups":
        """Groups of one for the relevant items of a full order, found at these 1-based positions (ascending)."""
        one = np.ones_like(positions)
        return cls(positions - 1, one, one)

    def until(self, position: int) -> "TieGroups":
        """The groups of a single ranking that begin before ``position``."""
        stop = np.searchsorted(self.before, position)
        return TieGroups(self.before[:stop], self.size[:stop], self.relevant[:stop])

    @property
    def relevant_before(self) -> NDArray[np.int64]:
        """Relevant items ranked before the group."""
        return np.cumsum(self.relevant, axis=-1) - self.relevant


def check_ties(ties: str) -> Ties:
    """Return ``ties`` if it names a rule, or raise."""
    return check_choice("ties", ties, get_args(Ties))  # type: ignore[return-value]


def check_positions(positions: ArrayLike) -> NDArray[np.int64]:
    """Return the positions N of a curve as int64, or raise unless they are whole numbers of at least 1."""
    array = np.asarray(positions)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.size == 0 or array.min() < 1:
        raise ValueError(f"positions must be a list of whole numbers of at least 1, got {positions!r}")
    return array.astype(np.int64)


def groups_average_precision(groups: TieGroups, ties: Ties = "expected") -> Floats:
    """Average precision of every ranking: ``(1/R) sum_t t / p_t`` with the relevant items at positions p_1 < ... < p_R.

    A ranking without relevant items gets 0. ``ties="stable"`` is the same as any other rule for groups of one.
    """
    n_relevant = groups.relevant.sum(axis=-1)
    total = _PRECISION_SUMS[ties](groups).sum(axis=-1)
    return np.where(n_relevant > 0, total / np.maximum(n_relevant, 1), 0.0)


def groups_hits(groups: TieGroups, positions: NDArray[np.int64], ties: Ties = "expected") -> Floats:
    """Relevant items among the first N of every ranking, for every N of ``positions``; shape (..., n_positions)."""
    hits = [_HITS[ties](groups, np.clip(n - groups.before, 0, groups.size)).sum(axis=-1) for n in positions]
    return np.stack(hits, axis=-1).astype(np.float64)


def _expected_sum(groups: TieGroups) -> Floats:
    """Expectation of the group's part of ``sum_t t / p_t`` over all orders of its n items, r of them relevant.

    There are a items before the group, h of them relevant. Place s of the group holds a relevant item with probability
    r/n. If it does, (s-1) c other relevant items of the group are expected before it, with c = (r-1)/(n-1), and 0 for n
    = 1::

        sum_{s=1..n} (r/n) (h + 1 + (s-1) c) / (a+s)  =  (r/n) (c n + (h + 1 - c (a+1)) sum_{s=1..n} 1/(a+s))

    Reference: McSherry and Najork, Computing information retrieval performance measures efficiently in the presence of
    tied scores, ECIR 2008.
    """
    a, n, r, h = groups.before, groups.size, groups.relevant, groups.relevant_before
    c = np.where(n > 1, (r - 1) / np.maximum(n - 1, 1), 0.0)
    return r / np.maximum(n, 1) * (c * n + (h + 1 - c * (a + 1)) * harmonic_sum(a, n))


def _optimistic_sum(groups: TieGroups) -> Floats:
    """``sum_{s=1..r} (h+s) / (a+s)``: the r relevant items stand first."""
    return _consecutive_sum(groups, groups.before)


def _pessimistic_sum(groups: TieGroups) -> Floats:
    """``sum_{s=1..r} (h+s) / (a+n-r+s)``: the r relevant items stand last."""
    return _consecutive_sum(groups, groups.before + groups.size - groups.relevant)


def _consecutive_sum(groups: TieGroups, start: NDArray[np.int64]) -> Floats:
    """``sum_{s=1..r} (h+s) / (start+s)``, the relevant items standing in one run after ``start`` items."""
    return groups.relevant + (groups.relevant_before - start) * harmonic_sum(start, groups.relevant)


_PRECISION_SUMS: dict[str, Callable[[TieGroups], Floats]] = {
    "expected": _expected_sum,
    "stable": _expected_sum,
    "optimistic": _optimistic_sum,
    "pessimistic": _pessimistic_sum,
}

# The first ``room`` items of a group are among the first N; the expectation is that of the hypergeometric distribution.
_HITS: dict[str, Callable[[TieGroups, NDArray[np.int64]], NDArray]] = {
    "expected": lambda groups, room: groups.relevant * room / np.maximum(groups.size, 1),
    "stable": lambda groups, room: groups.relevant * room / np.maximum(groups.size, 1),
    "optimistic": lambda groups, room: np.minimum(room, groups.relevant),
    "pessimistic": lambda groups, room: np.maximum(room - (groups.size - groups.relevant), 0),
}

_TABLE_END = 64
_HARMONIC = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, _TABLE_END + 1))])


def harmonic_sum(start: ArrayLike, count: ArrayLike) -> Floats:
    """``sum_{s=1..count} 1 / (start + s)`` without cancellation, however late in the ranking the sum starts.

    Harmonic numbers up to 64 come from a table. Larger ones come from their expansion at m = i + 1/2, ``H_i = log m +
    gamma + 1/(24 m^2) - 7/(960 m^4) + 31/(8064 m^6) - ...``, whose logarithms are subtracted as ``log1p``.

    >>> float(harmonic_sum(1, 2))  # 1/2 + 1/3
    0.8333333333333333
    """
    start, end = np.asarray(start), np.asarray(start) + np.asarray(count)
    table = _HARMONIC[np.minimum(end, _TABLE_END)] - _HARMONIC[np.minimum(start, _TABLE_END)]
    low, high = np.maximum(start, _TABLE_END) + 0.5, np.maximum(end, _TABLE_END) + 0.5
    total = table + np.log1p((high - low) / low) + (_expansion(high) - _expansion(low))
    return np.where(end - start == 1, 1.0 / (start + 1), total)


def _expansion(m: Floats) -> Floats:
    inverse = 1.0 / (m * m)
    return inverse * (1 / 24 - inverse * (7 / 960 - inverse * (31 / 8064)))
