"""All near-duplicates among vectors: codes or projections find candidate pairs, and the vectors are compared."""

import sys
from collections.abc import Iterable
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer, check_number
from hashlearn.duplicates.candidates import SignCodes
from hashlearn.duplicates.groups import Contents, Grouping, Keep, NearPairs
from hashlearn.duplicates.plan import OrderedSample, Plan, choose_plan, radius_for, refuse_too_many, too_many
from hashlearn.duplicates.result import Duplicates
from hashlearn.duplicates.state import Checked, FoundPairs, check_ids, check_labeled_pairs, check_scores
from hashlearn.duplicates.texts import TextRows, TextWords, plan_of_texts
from hashlearn.duplicates.threshold import (
    SEARCHED_PER_ROW,
    ThresholdChoice,
    chance_level,
    distance_from_labels,
    emptiest_distance,
)
from hashlearn.duplicates.vectors import Metric, MetricRows, square_of_distance
from hashlearn.duplicates.verify import Curve, TooManyPairs, Verified, differing_bits, measured_curve, verified
from hashlearn.rows import as_rows
from hashlearn.threads import check_n_jobs

TEXT_DISTANCE = 0.1
"""The default share of the words of two texts that may differ."""

_MOST_ROUNDS = 3
_TEXTS_AT_ONCE = 1 << 16


def find_duplicates(
    vectors: Any,
    max_distance: float | Literal["auto"] | None = None,
    *,
    metric: Metric = "cosine",
    recall: float = 0.99,
    grouping: Grouping = "leader",
    keep: Keep | None = None,
    scores: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    labeled_pairs: Any = None,
    max_pairs: int = 10_000_000,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Duplicates:
    """Find rows that are nearly the same, group them, and say which to keep.

    A duplicate is defined by the distance of the vectors. A sample decides how pairs are searched (codes with a length
    and a radius, or a projection), so that the expected share of the true pairs that are found is at least ``recall``.
    Every returned pair was compared by the vectors, so there are no false pairs. No matrix of n x n is made, and rows
    are read in blocks.

    The result does not depend on the number of threads. It depends on the order of the rows only with ``keep="first"``
    or ``"last"`` without ids.

    Parameters
    ----------
    vectors : array of shape (n, n_features), frame, column of vectors, sparse matrix, path, list of paths, or function
        See :func:`hashlearn.rows.as_rows`. Rows must be finite, and not zero under the cosine.
    max_distance : float or "auto"
        Rows at this distance or less are duplicates. ``"auto"`` chooses it from the rows: in the gap between copies and
        other near pairs; without a gap, where the number of pairs falls; otherwise at the distance where unrelated rows
        are near by chance.
        ``duplicates.reason`` explains the choice in a sentence. Needed unless ``labeled_pairs`` are given.
    metric : {"cosine", "euclidean"}
        The cosine distance is one minus the cosine, from 0 to 2.
    recall : float, default=0.99
        Above 0. At 1 the search is exact: all pairs are compared in a few principal components, which miss no near
        pair. ``str(duplicates.plan)`` says what a search was expected to cost.
    grouping : {"leader", "components"}
        ``"leader"``: every member of a group is within ``max_distance`` of the row that is kept. ``"components"``:
        all rows that are connected by pairs are one group, and long chains are possible.
    keep : {"center", "first", "last", "best"}, optional
        Which row of a group is kept: the one with the most duplicates; the lowest or the highest id, or position
        without ids; the one with the highest score. Among equals the lowest id is kept (names in natural order: im2
        before im2-copy and im10). By default ``"best"`` with scores, otherwise ``"center"``.
    scores : array of shape (n,), optional
        How good each row is, for ``keep="best"``: resolution, length of a text.
    ids : array of shape (n,), integers or strings, optional
        Names of the rows, each once; otherwise their positions.
    labeled_pairs : list of (id, id, bool), optional
        Pairs that you have judged, instead of ``max_distance``: the distance that agrees with them best is taken, and
        ``duplicates.reason`` says which precision and recall to expect.
    max_pairs : int, default=10,000,000
        If more pairs match, the search stops with an error that says how many, and which distance to try.
    random_state : int, default=0
        Determines sample and codes.
    n_jobs : int or None
        Threads: None is 1, -1 is all cores.

    Returns
    -------
    Duplicates
        Pairs, groups, ids to keep and to drop, and how the pairs were searched.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.RandomState(0).standard_normal((1000, 32))
    >>> X[1] = X[0] + 0.01
    >>> X[2] = X[0]
    >>> duplicates = find_duplicates(X, max_distance=0.01)
    >>> [(group.kept, group.members.tolist(), group.is_copy.tolist()) for group in duplicates.groups]
    [(0, [2, 1], [True, False])]
    >>> duplicates.dropped
    array([1, 2])
    """
    search = _checked(recall, random_state, max_pairs, n_jobs)
    if (max_distance is None) == (labeled_pairs is None):
        raise ValueError("give either max_distance or labeled_pairs")
    if max_distance is not None and max_distance != "auto":
        check_number("max_distance", max_distance, low=0)

    rows = MetricRows(vectors, metric)
    names, row_scores = check_ids(ids, len(rows)), check_scores(scores, len(rows))
    rule = _rule(keep, row_scores)
    if max_distance == "auto":
        sample = OrderedSample.of(rows, Contents.of(rows.hashes).row_of, search.seed)
        furthest = chance_level(sample, metric, SEARCHED_PER_ROW)
        state = _state(rows, furthest, names, row_scores, search)
        choice = emptiest_distance(state.pairs.distances, furthest, chance_level(sample, metric), metric)
        return Duplicates(state, choice.distance, grouping, rule, choice.reason)
    if max_distance is None:
        first, second, labels = check_labeled_pairs(labeled_pairs, len(rows), names)
        choice = distance_from_labels(rows.distances(first, second), labels)
    else:
        choice = ThresholdChoice(float(max_distance), f"max_distance={max_distance:g} was given")
    state = _state(rows, choice.distance, names, row_scores, search)
    return Duplicates(state, choice.distance, grouping, rule, choice.reason)


def find_duplicate_texts(
    texts: Iterable[str],
    max_distance: float = TEXT_DISTANCE,
    *,
    grouping: Grouping = "leader",
    keep: Keep | None = None,
    scores: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    max_pairs: int = 10_000_000,
    n_jobs: int | None = None,
) -> Duplicates:
    """Find texts that are nearly the same, group them, and say which to keep.

    Texts are compared by their words. Within the default distance at most a tenth of the words differ (rounded to whole
    words; a replaced word counts once), at most a fifth of their weight, rare words weighing more, and at most three
    tenths of the pairs of neighboring words. Of the different words of both texts, at most a quarter is in one of them
    only; with ``max_distance=0.08`` at most a tenth. Texts of fewer than 20 words must have the same words. Every such
    pair is found. See :mod:`hashlearn.duplicates.texts`.

    Parameters
    ----------
    texts : iterable of str
        Each has at least one word. The result keeps their words, not the texts.
    max_distance : float, default=0.1
        The share of words that may differ.
    grouping, keep, scores, ids, max_pairs, n_jobs
        As for :func:`hashlearn.find_duplicates`.

    Returns
    -------
    Duplicates
        Its ``check`` and ``add`` take texts.

    Examples
    --------
    >>> texts = ["Development files for foo", "Development files for bar", "development  files for foo"]
    >>> find_duplicate_texts(texts).dropped
    array([2])
    """
    search = _checked(1.0, 0, max_pairs, n_jobs)
    distance = check_number("max_distance", max_distance, low=0)
    rows = texts if isinstance(texts, TextRows) else TextRows(TextWords.of(texts))
    names, row_scores = check_ids(ids, len(rows)), check_scores(scores, len(rows))
    state = _state(rows, distance, names, row_scores, search)
    reason = f"at most {100 * distance:g} % of the words differ, and {200 * distance:g} % of their weight"
    return Duplicates(state, distance, grouping, _rule(keep, row_scores), reason)


def check_against(
    vectors: Any,
    against: Any,
    max_distance: float = 0.05,
    *,
    metric: Metric = "cosine",
    recall: float = 0.99,
    ids: ArrayLike | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Checked:
    """Find the rows of one set that are near a row of another: training rows that are in the test set.

    Rows of the same set are not compared with each other. Only ``against`` is kept; ``vectors`` are read a block at a
    time.

    Parameters
    ----------
    vectors : array of shape (n, n_features), or another source as for :func:`hashlearn.find_duplicates`
        The rows to check, such as training data.
    against : array of shape (m, n_features), or another source as for :func:`hashlearn.find_duplicates`
        The rows that should not be repeated, such as test data.
    max_distance : float, default=0.05
        Rows at this distance or less are duplicates.
    metric : {"cosine", "euclidean"}
        As for :func:`hashlearn.find_duplicates`.
    recall : float, default=0.99
        As for :func:`hashlearn.find_duplicates`.
    ids : array of shape (m,), optional
        Names of the rows of ``against``; otherwise their positions.
    random_state, n_jobs : int
        As for :func:`hashlearn.find_duplicates`.

    Returns
    -------
    Checked
        Which rows of ``vectors`` are new, and which rows the others repeat.

    Examples
    --------
    >>> check_against([[1.0, 0.0], [1.0, 1.0]], [[2.0, 0.01], [0.0, 1.0]], 0.01).duplicate_of
    array([ 0, -1])
    """
    search = _checked(recall, random_state, 1, n_jobs)
    distance = check_number("max_distance", max_distance, low=0)
    rows, others = as_rows(vectors), MetricRows(against, metric)
    if rows.shape[1] != others.width:
        raise ValueError(f"vectors must have {others.width} columns, as against has, got {rows.shape[1]}")
    known = _known(others, distance, ids, search)
    parts = [known.check(block, n_jobs=n_jobs) for _, block in rows.as_stored()]
    return Checked(*(np.concatenate(values) for values in zip(*parts)))


def check_texts_against(
    texts: Iterable[str],
    against: Iterable[str],
    max_distance: float = TEXT_DISTANCE,
    *,
    ids: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Checked:
    """Find the texts of one set that are nearly a text of another; see :func:`check_against`.

    Parameters
    ----------
    texts : iterable of str
        The texts to check, read some at a time.
    against : iterable of str
        The texts that should not be repeated.
    max_distance : float, default=0.1
        The share of words that may differ, as for :func:`find_duplicate_texts`.
    ids, n_jobs
        As for :func:`check_against`.

    Returns
    -------
    Checked
        Which texts are new, and which texts the others repeat.

    Examples
    --------
    >>> check_texts_against(["A red fox", "a blue fox"], ["a red fox", "a dog"]).is_new
    array([False,  True])
    """
    search = _checked(1.0, 0, 1, n_jobs)
    distance = check_number("max_distance", max_distance, low=0)
    known = _known(TextRows(TextWords.of(against)), distance, ids, search)
    rest = iter(texts)
    parts = []
    while block := list(islice(rest, _TEXTS_AT_ONCE)):
        parts.append(known.check(block, n_jobs=n_jobs))
    if not parts:
        raise ValueError("texts must be some, got none")
    return Checked(*(np.concatenate(values) for values in zip(*parts)))


def _known(rows: MetricRows, distance: float, ids: ArrayLike | None, search: "_PairSearch") -> Duplicates:
    """Known rows for comparison; they are not compared with each other."""
    names = check_ids(ids, len(rows))
    contents = Contents.of(rows.hashes)
    if isinstance(rows, TextRows):
        plan = plan_of_texts(distance)
    else:
        sample = OrderedSample.of(rows, contents.row_of, search.seed)
        plan = choose_plan(sample, square_of_distance(distance, rows.metric), search.recall, search.seed)
    none = NearPairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    decided, apart = np.zeros(len(rows), np.int8), np.empty((0, 2), np.int64)
    described = plan.finder.describe(rows)
    state = FoundPairs(rows, contents, none, plan, described, None, distance, sys.maxsize, names, None, decided, apart)
    return Duplicates(state, distance, "leader", "center", f"max_distance={distance:g} was given")


class _PairSearch(NamedTuple):
    """The plan of a search for pairs."""

    recall: float
    seed: int
    max_pairs: int
    n_jobs: int


def _checked(recall: float, random_state: int, max_pairs: int, n_jobs: int | None) -> _PairSearch:
    recall = check_number("recall", recall, high=1)
    if recall <= 0:
        raise ValueError(f"recall must be above 0 and at most 1, got {recall}")
    seed = check_integer("random_state", random_state, low=0, high=2**32 - 1)
    return _PairSearch(recall, seed, check_integer("max_pairs", max_pairs, low=1), check_n_jobs(n_jobs))


def _rule(keep: Keep | None, scores: NDArray | None) -> Keep:
    if keep is not None:
        return keep
    return "center" if scores is None else "best"


def _state(
    rows: MetricRows, distance: float, ids: NDArray | None, scores: NDArray[np.float64] | None, search: _PairSearch
) -> FoundPairs:
    """Find the pairs within a distance."""
    contents = Contents.of(rows.hashes)
    sample = None if isinstance(rows, TextRows) else OrderedSample.of(rows, contents.row_of, search.seed)
    if sample is None:
        plan = plan_of_texts(distance)
    else:
        refuse_too_many(sample, distance, rows.metric, search.max_pairs)
        plan = choose_plan(sample, square_of_distance(distance, rows.metric), search.recall, search.seed)
    try:
        plan, described, found, curve = _searched(rows, contents, plan, distance, search)
    except TooManyPairs:
        count = f"more than {search.max_pairs}"
        if sample is not None:
            raise too_many(sample, distance, rows.metric, search.max_pairs, count) from None
        raise ValueError(f"max_distance={distance:g} matches {count} (max_pairs) pairs of texts; pass less") from None
    near = NearPairs.in_order(contents.of_row[found.first], contents.of_row[found.second], found.distances)
    decided, apart = np.zeros(len(rows), np.int8), np.empty((0, 2), np.int64)
    return FoundPairs(
        rows, contents, near, plan, described, curve, distance, search.max_pairs, ids, scores, decided, apart
    )


def _searched(
    vectors: MetricRows, contents: Contents, plan: Plan, distance: float, search: _PairSearch
) -> tuple[Plan, NDArray, Verified, Curve | None]:
    """Find the pairs; with codes, search again within a larger radius while the estimated recall is too low.

    The radius was chosen for typical rows of the sample. Rows with duplicates may be different.
    """
    square = square_of_distance(distance, vectors.metric)
    described = plan.finder.describe(vectors)
    for rounds_left in reversed(range(_MOST_ROUNDS)):
        candidates = plan.finder.pairs(vectors, described, contents.row_of, square, search.n_jobs)
        found = verified(candidates, vectors, vectors, distance, search.max_pairs, search.n_jobs)
        if not isinstance(plan.finder, SignCodes):
            return plan, described, found, None
        differing = differing_bits(found, vectors, plan.finder)
        curve = measured_curve(found, plan.finder, differing, plan.recall)
        if not rounds_left or not len(differing) or curve.recall[-1] >= search.recall:
            break
        chances = plan.finder.found_share(differing)
        radius = radius_for(search.recall, plan.finder.n_bits, differing, 1 / np.maximum(chances, 1e-9))
        plan = plan._replace(finder=plan.finder._replace(radius=max(radius, plan.finder.radius + 1)))
    return plan, described, found, curve
