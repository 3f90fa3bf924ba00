"""The data of a result and its parts for users; checks of ids, scores and judged pairs; new rows that are added.

New rows are compared with known rows and with each other. Known rows are not compared again.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.duplicates.candidates import Described, Finder
from hashlearn.duplicates.groups import Contents, NearPairs
from hashlearn.duplicates.plan import Plan
from hashlearn.duplicates.vectors import MetricRows, Rows, square_of_distance
from hashlearn.duplicates.verify import Curve, TooManyPairs, Verified, verified
from hashlearn.rows.inputs import held_ids, ids_are_text

UNDECIDED, KEPT, DROPPED = 0, 1, -1


class FoundPairs(NamedTuple):
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


def added(state: FoundPairs, X: Any, ids: ArrayLike | None, scores: ArrayLike | None, n_jobs: int) -> FoundPairs:
    """The state with new rows, which are compared with all known rows and with each other."""
    new = state.vectors.new(X)
    all_ids = joined_ids(state.ids, check_ids(ids, len(new)))
    new_scores = check_scores(scores, len(new))
    if (new_scores is None) != (state.scores is None):
        raise ValueError(f"scores must be {'given' if new_scores is None else 'None'}, as for the known rows")
    vectors = state.vectors.joined(new)
    contents = Contents.of(vectors.hashes)
    n, n_known = len(state.vectors), len(state.contents.row_of)
    fresh = contents.row_of[n_known:] - n
    described = state.plan.finder.describe(new)
    square = square_of_distance(state.largest_distance, vectors.metric)
    try:
        old = near_known(state, new, fresh, n_jobs, described)
        found = state.plan.finder.pairs(new, described, fresh, square, n_jobs)
        among = verified(found, new, new, state.largest_distance, state.max_pairs, n_jobs)
    except TooManyPairs:
        raise ValueError(f"more than max_pairs={state.max_pairs} pairs match; nothing was added") from None
    first = contents.of_row[np.concatenate([old.first, among.first + n])]
    second = contents.of_row[np.concatenate([old.second, among.second]) + n]
    pairs = NearPairs.in_order(
        np.concatenate([state.pairs.first, first]),
        np.concatenate([state.pairs.second, second]),
        np.concatenate([state.pairs.distances, old.distances, among.distances]),
    )
    return state._replace(
        vectors=vectors,
        contents=contents,
        pairs=pairs,
        described=np.concatenate([state.described, described]),
        ids=all_ids,
        scores=None if new_scores is None else np.concatenate([state.scores, new_scores]),
        decided=np.concatenate([state.decided, np.zeros(len(new), np.int8)]),
    )


def near_known(
    state: FoundPairs, new: MetricRows, rows: Rows, n_jobs: int, described: NDArray | None = None
) -> Verified:
    """Near pairs of a known row and a selected new row that is not a copy."""
    finder: Finder = state.plan.finder
    of_new = finder.describe(new) if described is None else described
    square = square_of_distance(state.largest_distance, new.metric)
    known = Described(state.vectors, state.described, state.contents.row_of)
    found = finder.across(known, Described(new, of_new, rows), square, n_jobs)
    near = verified(found, state.vectors, new, state.largest_distance, state.max_pairs, n_jobs)
    is_copy = known_contents(state, new)[near.second] == state.contents.of_row[near.first]
    return near._replace(first=near.first[~is_copy], second=near.second[~is_copy], distances=near.distances[~is_copy])


def known_contents(state: FoundPairs, new: MetricRows) -> Rows:
    """For each new row the known content with equal numbers, or -1."""
    known = state.vectors.hashes[state.contents.row_of]
    both = Contents.of(np.concatenate([known, new.hashes])).of_row[len(known) :]
    return np.where(both < len(known), both, -1)
