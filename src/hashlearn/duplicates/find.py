"""All near-duplicates among vectors: codes or projections propose pairs, the vectors decide."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer, check_number
from hashlearn.duplicates.candidates import SignCodes
from hashlearn.duplicates.contents import Contents, NearPairs
from hashlearn.duplicates.groups import Grouping, Keep
from hashlearn.duplicates.plan import Plan, Sample, choose_plan, radius_for, refuse_too_many, too_many
from hashlearn.duplicates.result import Duplicates
from hashlearn.duplicates.row_labels import check_ids, check_scores, distance_from_labels
from hashlearn.duplicates.state import State
from hashlearn.duplicates.vectors import Metric, Vectors, square_of_distance
from hashlearn.duplicates.verify import Curve, TooManyPairs, Verified, differing_bits, measured_curve, verified
from hashlearn.rows.inputs import as_ids
from hashlearn.threads import check_n_jobs

_MOST_ROUNDS = 3


def find_duplicates(
    vectors: Any,
    max_distance: float | None = None,
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

    You say what a duplicate is by the distance of the vectors. A sample decides how pairs are looked for (codes and
    their length and radius, or a projection), so that the expected share of the true pairs that is found is at least
    ``recall``. Every pair that is returned was compared on the vectors: there are no false ones. No matrix of n x n is
    made, and rows are read in blocks.

    The result does not depend on the number of threads. It depends on the order of the rows only where you ask for
    it, by ``keep="first"`` or ``"last"`` without ids.

    Parameters
    ----------
    vectors : array of shape (n, n_features), frame, column of vectors, sparse matrix, path, list of paths, or function
        See :func:`hashlearn.rows.as_rows`. Rows must be finite, and not zero under the cosine.
    max_distance : float
        Rows at this distance or less are duplicates. Needed unless ``labeled_pairs`` are given.
    metric : {"cosine", "euclidean"}
        The cosine distance is one minus the cosine, from 0 to 2.
    recall : float, default=0.99
        Above 0. At 1 the search is exact: all pairs are compared in a few principal components, which no near pair
        escapes. ``str(duplicates.plan)`` says what a search was expected to cost.
    grouping : {"leader", "components"}
        ``"leader"``: every member of a group is within ``max_distance`` of the row that is kept. ``"components"``:
        whatever is connected by pairs is one group, and long chains are possible.
    keep : {"center", "first", "last", "best"}, optional
        Which row of a group is kept: the one with the most duplicates; the lowest or the highest id, or position
        without ids; the one with the highest score. Among equals the lowest id is kept (names in natural order: im2
        before im2-copy and im10). By default ``"best"`` where there are scores, otherwise
        ``"center"``.
    scores : array of shape (n,), optional
        How good each row is, for ``keep="best"``: resolution, length of a text.
    ids : array of shape (n,), integers or strings, optional
        Names of the rows, each once; otherwise their positions.
    labeled_pairs : list of (id, id, bool), optional
        Pairs that you have judged, instead of ``max_distance``: the distance that agrees with them best is taken.
    max_pairs : int, default=10,000,000
        Where more pairs match, the search stops with an error that says how many, and which distance to try.
    random_state : int, default=0
        Determines sample and codes.
    n_jobs : int or None
        Threads: None is 1, -1 is all cores.

    Returns
    -------
    Duplicates
        Pairs, groups, what to keep and what to drop, and how the pairs were looked for.

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
    recall = check_number("recall", recall, high=1)
    if recall <= 0:
        raise ValueError(f"recall must be above 0 and at most 1, got {recall}")
    seed = check_integer("random_state", random_state, low=0, high=2**32 - 1)
    most = check_integer("max_pairs", max_pairs, low=1)
    threads = check_n_jobs(n_jobs)
    if (max_distance is None) == (labeled_pairs is None):
        raise ValueError("give either max_distance or labeled_pairs")
    if max_distance is not None:
        check_number("max_distance", max_distance, low=0)

    rows = Vectors(vectors, metric)
    names = check_ids(None if ids is None else as_ids(ids), len(rows))
    row_scores = check_scores(scores, len(rows))
    distance = distance_from_labels(rows, labeled_pairs, names) if max_distance is None else float(max_distance)
    rule: Keep = keep if keep is not None else ("center" if row_scores is None else "best")

    contents = Contents.of(rows.hashes)
    sample = Sample.of(rows, contents.row_of, seed)
    refuse_too_many(sample, distance, metric, most)
    plan = choose_plan(sample, square_of_distance(distance, metric), recall, seed)
    try:
        plan, described, found, curve = _searched(rows, contents, plan, distance, recall, most, threads)
    except TooManyPairs:
        raise too_many(sample, distance, metric, most, f"more than {most}") from None
    near = NearPairs.in_order(contents.of_row[found.first], contents.of_row[found.second], found.distances)
    state = State(rows, contents, near, plan, described, curve, distance, most, names, row_scores)
    return Duplicates(state, distance, grouping, rule)


def _searched(
    vectors: Vectors, contents: Contents, plan: Plan, distance: float, recall: float, max_pairs: int, n_jobs: int
) -> tuple[Plan, NDArray, Verified, Curve | None]:
    """Look for the pairs; with codes, again within a larger radius while the pairs found say that too many were missed.

    The radius was chosen for rows like those of the sample. Rows that have duplicates may be unlike them.
    """
    square = square_of_distance(distance, vectors.metric)
    described = plan.finder.describe(vectors)
    for rounds_left in reversed(range(_MOST_ROUNDS)):
        candidates = plan.finder.pairs(described, contents.row_of, square, n_jobs)
        found = verified(candidates, vectors, vectors, distance, max_pairs, n_jobs)
        if not isinstance(plan.finder, SignCodes):
            return plan, described, found, None
        differing = differing_bits(found, vectors, plan.finder)
        curve = measured_curve(found, plan.finder, differing, plan.recall)
        if not rounds_left or not len(differing) or curve.recall[-1] >= recall:
            break
        chances = plan.finder.found_share(differing)
        radius = radius_for(recall, plan.finder.n_bits, differing, 1 / np.maximum(chances, 1e-9))
        plan = plan._replace(finder=plan.finder._replace(radius=max(radius, plan.finder.radius + 1)))
    return plan, described, found, curve
