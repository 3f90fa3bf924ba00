"""A distance that fits the rows: one within which hardly a pair is near by chance.

Two handwritten ones are nearly the same and yet two pictures; two photos of different things never are. So the distance
that tells copies apart depends on the rows. Among unrelated rows the number of pairs within a distance x grows like
``x^k``, k being the correlation dimension (P. Grassberger and I. Procaccia, Physica D 1983). Pairs that are too far
from each other to be duplicates tell k, and so how many unrelated pairs to expect where duplicates are.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_number
from hashlearn.duplicates.contents import Contents
from hashlearn.duplicates.plan import Sample
from hashlearn.duplicates.vectors import Metric, Vectors, distance_of_square

PER_ROW = 1e-4
"""Pairs that may be near by chance, for each row."""


def distance_by_chance(vectors: Any, low: float, high: float, *, metric: Metric = "cosine", seed: int = 0) -> float:
    """The largest distance from ``low`` to ``high`` within which hardly a pair is near by chance.

    Parameters
    ----------
    vectors : array of shape (n, n_features), or another source as for :func:`hashlearn.find_duplicates`
        The rows, duplicates or not.
    low, high : float
        ``low``: copies differ by that much in any case. ``high``: pairs further apart are no duplicates, whatever the
        rows.
    metric : {"cosine", "euclidean"}
        As for :func:`hashlearn.find_duplicates`.
    seed : int
        Of the sample.

    Returns
    -------
    float
        What to pass as ``max_distance`` to :func:`hashlearn.find_duplicates`.

    Examples
    --------
    Rows in a plane crowd, those in many dimensions keep away from each other:

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
    rows = Vectors(vectors, metric)
    sample = Sample.of(rows, Contents.of(rows.hashes).row_of, seed)
    within = _chance_distance(distance_of_square(sample.squares.astype(np.float64), metric), sample, most)
    return float(np.clip(within, least, most))


def _chance_distance(distances: NDArray[np.float64], sample: Sample, high: float) -> float:
    """Where the power law through the counts of pairs from ``high`` to ``2 high`` meets the number that is allowed.

    With ``N(x) = c x^k``, the pairs between high and 2 high and those between high and sqrt(2) high have the ratio
    ``2^(k/2) + 1``.
    """
    near, far = (np.count_nonzero((distances > high) & (distances <= times * high)) for times in (2**0.5, 2))
    if near == 0 or far == near:  # nothing there says that unrelated rows come so near
        return high
    dimension = 2 * np.log2(max(far / near - 1, 1 + 1e-9))
    of_sample = far / (2**dimension - 1)
    at_high = of_sample * sample.n_pairs / len(distances)
    return float(high * (PER_ROW * sample.n / at_high) ** (1 / dimension))
