"""All that a result is made of."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.duplicates.contents import Contents, NearPairs
from hashlearn.duplicates.plan import Plan
from hashlearn.duplicates.vectors import Vectors
from hashlearn.duplicates.verify import Curve


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
