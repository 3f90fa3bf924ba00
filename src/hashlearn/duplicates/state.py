"""All that a result is made of."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.duplicates.contents import Contents, NearPairs
from hashlearn.duplicates.plan import Plan
from hashlearn.duplicates.vectors import Rows, Vectors
from hashlearn.duplicates.verify import Curve

UNDECIDED, KEPT, DROPPED = 0, 1, -1


class State(NamedTuple):
    """All that a result is made of.

    Attributes
    ----------
    vectors : Vectors
    contents : Contents
    pairs : NearPairs
        Pairs of contents within ``largest_distance``.
    plan : Plan
    described : ndarray of shape (n, any)
        What the plan's finder compares: the codes of the rows, or the rows in few dimensions.
    curve : Curve or None
        None where the search was exact.
    largest_distance : float
        Pairs up to this one are stored.
    max_pairs : int
    ids : ndarray of shape (n,), or None
    scores : ndarray of shape (n,), or None
    decided : ndarray of shape (n,), int8
        What somebody has decided about each row: ``KEPT``, ``DROPPED`` or ``UNDECIDED``.
    apart : ndarray of shape (any, 2), int64
        Pairs of contents, the lower first, that somebody has judged to be different.
    """

    vectors: Vectors
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
