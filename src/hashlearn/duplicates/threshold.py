"""Choosing the distance up to which rows are duplicates: from the rows, or from judged pairs.

Two handwritten digits "1" are nearly equal but are two pictures; two photos of different things are never so near. So
the distance between copies and other rows depends on the data. Among unrelated rows the number of pairs within a
distance x grows like ``x^k``, where k is the correlation dimension (P. Grassberger and I. Procaccia, Physica D 1983).
Pairs that are too far apart to be duplicates give k, and with k the expected number of unrelated pairs at small
distances.

- :func:`distance_by_chance` is for users who know a range for the distance.
- :func:`chance_level` and :func:`emptiest_distance` are for ``max_distance="auto"``: pairs nearer than chance allows
  are searched, and the distance lies where copies end.
- :func:`distance_from_labels` is for judged pairs.
"""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_number
from hashlearn.duplicates.groups import Contents
from hashlearn.duplicates.plan import OrderedSample
from hashlearn.duplicates.vectors import Metric, MetricRows, RowMetric, distance_of_square, square_of_distance
from hashlearn.linalg.anchors.search import squared_distances

PER_ROW = 1e-4
"""Number of pairs for each row that may be near by chance."""

SEARCHED_PER_ROW = 1e-2
"""The same number for the search for a gap between copies and other pairs."""

_NEAR_SHARE, _FAR_SHARE = 1e-3, 1e-2
"""The power law is measured between these shares of all pairs of the sample."""

_REPEATED = 0.25
"""Rows of the sample count once if they are nearer than this share of the usual (squared) distance to the nearest
row."""

_GAP, _BEFORE_GAP = 2.0, 50
"""A factor of 2 between neighboring (squared) distances, beyond the 50 smallest, is taken for a gap behind copies:
without copies there is none."""

_WIDTH = 1.5
"""The (squared) distances from x / 1.5 to 1.5 x are counted together."""

_EMPTIER = 2
"""In the gap between copies and others, there are at most half as many pairs as among copies."""

_SHARP = 6
"""Copies end at once where this many times as many pairs are right before as right behind."""

_CERTAIN_GAP, _CERTAIN_EDGE = 2.2, 3.5
"""Standard deviations by which one number of pairs must be below another, in the gap and behind an edge."""

_GIVEN_UP = 0.01
"""The share of other pairs that is accepted to be sure that copies behind the edge are found."""

_NEARLY = 0.9
"""Steps count as good as the best one from this share of its standard deviations on."""

_FEWEST = 5
_JUDGED_ALONE = 2000
"""Up to this number of judged pairs, each pair is left out once to estimate precision and recall; more pairs are left
out in groups."""


class ThresholdChoice(NamedTuple):
    """A distance and why it was chosen.

    Attributes
    ----------
    distance : float
    reason : str
        One sentence.
    precision, recall : float or None
        Expected precision and recall, if pairs were judged: the share of judged pairs within the distance that are
        duplicates, and the share of duplicates within it. Each pair is judged by a distance that was chosen without
        this pair.
    """

    distance: float
    reason: str
    precision: float | None = None
    recall: float | None = None


def distance_by_chance(vectors: Any, low: float, high: float, *, metric: Metric = "cosine", seed: int = 0) -> float:
    """The largest distance from ``low`` to ``high`` within which almost no pair is near by chance.

    Parameters
    ----------
    vectors : array of shape (n, n_features), or another source as for :func:`hashlearn.find_duplicates`
        The rows, duplicates or not.
    low, high : float
        ``low``: copies may always differ by this much. ``high``: pairs further apart are never duplicates.
    metric : {"cosine", "euclidean"}
        As for :func:`hashlearn.find_duplicates`.
    seed : int
        Of the sample.

    Returns
    -------
    float
        The ``max_distance`` for :func:`hashlearn.find_duplicates`.

    Examples
    --------
    Rows in a plane are near each other, rows in many dimensions are far apart:

    >>> import numpy as np
    >>> rng = np.random.RandomState(0)
    >>> plane, space = rng.standard_normal((1000, 2)), rng.standard_normal((1000, 40))
    >>> distance_by_chance(plane, 0.001, 1.0, metric="euclidean") < 0.1
    True
    >>> distance_by_chance(space, 0.001, 1.0, metric="euclidean")
    1.0
    """
    least = check_number("low", low, low=0)
    most = check_number("high", high, low=least)
    rows = MetricRows(vectors, metric)
    sample = OrderedSample.of(rows, Contents.of(rows.hashes).row_of, seed)
    within = _chance_distance(distance_of_square(sample.squares.astype(np.float64), metric), sample, most)
    return float(np.clip(within, least, most))


def _chance_distance(distances: NDArray[np.float64], sample: OrderedSample, high: float) -> float:
    """Where the power law through the counts of pairs from ``high`` to ``2 high`` meets the number that is allowed.

    With ``N(x) = c x^k``, the pairs between high and 2 high and those between high and sqrt(2) high have the ratio
    ``2^(k/2) + 1``.
    """
    near, far = (np.count_nonzero((distances > high) & (distances <= times * high)) for times in (2**0.5, 2))
    if near == 0 or far == near:  # no pairs to estimate the power law from
        return high
    dimension = 2 * np.log2(max(far / near - 1, 1 + 1e-9))
    of_sample = far / (2**dimension - 1)
    at_high = of_sample * sample.n_pairs / len(distances)
    return float(high * (PER_ROW * sample.n / at_high) ** (1 / dimension))


def chance_level(sample: OrderedSample, metric: RowMetric, per_row: float = PER_ROW) -> float:
    """The distance within which only a given number of unrelated pairs for each row is near by chance.

    The power law is measured on the nearest thousandth to hundredth of the pairs of a sample. Rows of the sample that
    repeat others are left out.
    """
    squares = _without_repeats(sample)
    near, far = np.quantile(squares, [_NEAR_SHARE, _FAR_SHARE]) if len(squares) else (0.0, 0.0)
    if not 0 < near < far:
        return 0.0
    dimension = np.log(_FAR_SHARE / _NEAR_SHARE) / np.log(far / near)
    allowed = per_row * sample.n / max(1.0, sample.n_pairs)
    square = near * min(1.0, allowed / _NEAR_SHARE) ** (1 / dimension)
    return float(distance_of_square(np.array(square), metric))


def emptiest_distance(
    distances: NDArray[np.float64], searched: float, chance: float, metric: RowMetric
) -> ThresholdChoice:
    """Where copies end, given the distances of all pairs within a distance that was searched.

    Counted by the logarithm of the distance, pairs of unrelated rows become more and more. So where they become fewer,
    copies end. The distance is behind the copies, before the emptiest range (the gap); without a gap, where the number
    of pairs falls most (the edge); without an edge, it is the level of chance.
    """
    squares = np.sort(square_of_distance(distances[distances > 0], metric))
    last = float(square_of_distance(searched, metric)) / _WIDTH
    by_chance = ThresholdChoice(chance, f"within {chance:.3g} almost no pair of unrelated rows is near by chance")
    if np.count_nonzero(squares <= last) < _FEWEST:
        return by_chance
    steps = np.geomspace(squares[0], last, 400)
    nearer, within, further = (np.searchsorted(squares, x, "right") for x in (steps / _WIDTH, steps, _WIDTH * steps))
    gap = _gap(squares, steps, further - nearer)
    square = gap if gap is not None else _edge(squares, within - nearer, further - within, within)
    if square is None:
        return by_chance
    distance = float(distance_of_square(np.array(min(square, _WIDTH * last)), metric))
    n_nearer = int(np.count_nonzero(distances <= distance))
    rest = f"the other {len(distances) - n_nearer} pairs within {searched:.3g}"
    if gap is not None:
        reason = f"{n_nearer} pairs are within {distance:.3g}; between them and {rest} there are fewest"
    else:
        reason = f"{n_nearer} pairs are within {distance:.3g}, where their number falls most; {rest} begin at once"
    return ThresholdChoice(distance, reason)


def _gap(squares: NDArray[np.float64], steps: NDArray[np.float64], counts: NDArray[np.int64]) -> float | None:
    """The middle of the emptiest steps behind steps with many more pairs, or the sharp end of the copies before it;
    None if there are no such steps."""
    peaks = np.maximum.accumulate(counts)
    falls = _deviations(peaks, counts)
    is_gap = (_EMPTIER * counts <= peaks) & (falls >= _CERTAIN_GAP)
    if not is_gap.any():
        return None
    is_gap &= falls >= _NEARLY * falls[is_gap].max()
    places = np.flatnonzero(is_gap & (counts == counts[is_gap].min()))
    widest = max(np.split(places, np.flatnonzero(np.diff(places) > 1) + 1), key=len)
    middle = float(np.sqrt(steps[widest[0]] * steps[widest[-1]]))
    return _sharp_end(squares, middle) or middle


def _sharp_end(squares: NDArray[np.float64], middle: float) -> float | None:
    """Right behind the last copy, if copies end at once; None if their number falls slowly.

    Pairs that are near by nature are in the gap, too, on both sides of its middle.
    """
    last = np.arange(np.searchsorted(squares, middle / _WIDTH**2), np.searchsorted(squares, middle, "right"))
    before = last + 1 - np.searchsorted(squares, squares[last] / _WIDTH)
    behind = np.searchsorted(squares, squares[last] * _WIDTH, "right") - last - 1
    falls = np.where(before >= _SHARP * np.maximum(behind, 1), _deviations(before, behind), 0)
    if not falls.any():
        return None
    n = last[np.flatnonzero(falls >= _NEARLY * falls.max())[-1]]
    return None if n == last[-1] else float(np.sqrt(squares[n] * squares[n + 1]))


def _edge(
    squares: NDArray[np.float64], before: NDArray[np.int64], behind: NDArray[np.int64], within: NDArray[np.int64]
) -> float | None:
    """The furthest step at which the number of pairs falls nearly the most; None if it nowhere falls enough."""
    falls = _deviations(before, behind)
    if falls.max() < _CERTAIN_EDGE:
        return None
    n = int(within[np.flatnonzero(falls >= _NEARLY * falls.max())[-1]])
    rest = squares[n + int(_GIVEN_UP * n) :]
    return float(np.sqrt(squares[n - 1] * rest[0])) if len(rest) else float(squares[-1])


def _deviations(larger: NDArray[np.int64], smaller: NDArray[np.int64]) -> NDArray[np.float64]:
    """By how many standard deviations one count is above another, if both are counts of random events."""
    return (larger - smaller) / np.sqrt(np.maximum(larger + smaller, 1))


def distance_from_labels(distances: NDArray[np.float64], labels: NDArray[np.bool_]) -> ThresholdChoice:
    """The largest distance that agrees best with judged pairs.

    It is the distance of one of the judged duplicates: the one with the fewest mistakes, where both kinds of mistakes
    count the same. With duplicates only, it is the largest. Nothing is known beyond the furthest judged duplicate.
    """
    distance = _best_threshold(distances, labels)
    if labels.all():
        return ThresholdChoice(
            distance, f"the furthest of {len(labels)} pairs that you judged to be duplicates", None, 1.0
        )
    is_found = _found_without_them(distances, labels)
    hits = int(np.count_nonzero(is_found & labels))
    n_found, n_true = int(np.count_nonzero(is_found)), int(np.count_nonzero(labels))
    precision, recall = hits / n_found if n_found else 0.0, hits / n_true
    reason = (
        f"it agrees best with {n_true} pairs that you judged to be duplicates and {len(labels) - n_true} that are "
        f"none; expected precision {precision:.3f} ({_interval(hits, n_found)}) among pairs like these, "
        f"expected recall {recall:.3f} ({_interval(hits, n_true)})"
    )
    return ThresholdChoice(distance, reason, precision, recall)


def _best_threshold(distances: NDArray[np.float64], labels: NDArray[np.bool_]) -> float:
    thresholds = np.sort(distances[labels])
    if labels.all():
        return float(thresholds[-1])
    missed = 1 - np.arange(1, len(thresholds) + 1) / len(thresholds)
    wrong = np.searchsorted(np.sort(distances[~labels]), thresholds, side="right") / np.count_nonzero(~labels)
    return float(thresholds[np.argmin(missed + wrong)])


def _found_without_them(distances: NDArray[np.float64], labels: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each pair is within the distance that is chosen without this pair."""
    n = len(labels)
    fold = np.arange(n) if n <= _JUDGED_ALONE else np.random.RandomState(0).randint(0, 100, n)
    is_found = np.zeros(n, np.bool_)
    for number in np.unique(fold):
        others = fold != number
        if labels[others].any():
            is_found[~others] = distances[~others] <= _best_threshold(distances[others], labels[others])
    return is_found


def _interval(hits: int, n: int) -> str:
    """The interval of 95 % of a share (E. Wilson, JASA 1927)."""
    if not n:
        return "unknown"
    z = 1.96
    center, spread = (hits + z * z / 2) / (n + z * z), z / (n + z * z) * sqrt(hits * (n - hits) / n + z * z / 4)
    return f"{max(0.0, center - spread):.2f} to {min(1.0, center + spread):.2f}"


def _gap_of_copies(squares: NDArray) -> float:
    """A squared distance between those of copies and those of other rows, from the ascending distances of the sample; 0
    if there is no gap."""
    near = squares[_BEFORE_GAP : int(len(squares) * _FAR_SHARE)].astype(np.float64)
    if len(near) < 2:
        return 0.0
    ratios = near[1:] / np.maximum(near[:-1], np.finfo(np.float32).tiny)
    widest = int(ratios.argmax())
    return float(np.sqrt(near[widest] * near[widest + 1])) if ratios[widest] >= _GAP else 0.0


def _without_repeats(sample: OrderedSample) -> NDArray[np.float64]:
    """Squared distances of all pairs of the sample, without rows that repeat others."""
    m = len(sample.vectors)
    if m < 2:
        return np.empty(0)
    centered = sample.vectors - sample.mean
    squares = squared_distances(centered, centered).astype(np.float64)
    np.fill_diagonal(squares, np.inf)
    usual = _REPEATED * float(np.median(squares.min(axis=1)))
    near = squares < max(usual, _gap_of_copies(np.sort(sample.squares)))
    is_kept = np.ones(m, np.bool_)
    for row in range(m):
        if is_kept[row]:
            is_kept[row + 1 :] &= ~near[row, row + 1 :]
    rows = np.flatnonzero(is_kept)
    return squares[np.ix_(rows, rows)][np.triu_indices(len(rows), 1)]
