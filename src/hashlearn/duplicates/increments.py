"""New rows against known rows. Known rows are not compared with each other again."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.duplicates.candidates import Described, Finder
from hashlearn.duplicates.groups import Contents, NearPairs
from hashlearn.duplicates.state import State, check_ids, check_scores, joined_ids
from hashlearn.duplicates.vectors import MetricRows, Rows, square_of_distance
from hashlearn.duplicates.verify import TooManyPairs, Verified, verified


def added(state: State, X: Any, ids: ArrayLike | None, scores: ArrayLike | None, n_jobs: int) -> State:
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


def near_known(state: State, new: MetricRows, rows: Rows, n_jobs: int, described: NDArray | None = None) -> Verified:
    """Near pairs of a known row and a selected new row that is not a copy."""
    finder: Finder = state.plan.finder
    of_new = finder.describe(new) if described is None else described
    square = square_of_distance(state.largest_distance, new.metric)
    known = Described(state.vectors, state.described, state.contents.row_of)
    found = finder.across(known, Described(new, of_new, rows), square, n_jobs)
    near = verified(found, state.vectors, new, state.largest_distance, state.max_pairs, n_jobs)
    is_copy = known_contents(state, new)[near.second] == state.contents.of_row[near.first]
    return near._replace(first=near.first[~is_copy], second=near.second[~is_copy], distances=near.distances[~is_copy])


def known_contents(state: State, new: MetricRows) -> Rows:
    """For each new row the known content with equal numbers, or -1."""
    known = state.vectors.hashes[state.contents.row_of]
    both = Contents.of(np.concatenate([known, new.hashes])).of_row[len(known) :]
    return np.where(both < len(known), both, -1)
