"""What a search of an index returns beside :mod:`hashlearn.codes.results`."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Pairs(NamedTuple):
    """Pairs of codes: ``first[p] < second[p]`` are ids, at distance ``distances[p]``."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    distances: NDArray[np.int32]
