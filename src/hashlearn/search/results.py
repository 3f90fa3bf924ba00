"""What a search of an index returns beside :mod:`hashlearn.codes.results`."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Pairs(NamedTuple):
    """Pairs of codes: ``first[p] < second[p]`` are ids, at distance ``distances[p]``."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    distances: NDArray[np.int32]


class Record(NamedTuple):
    """One row of a similarity search; ``vector`` is None where none are kept."""

    id: Any
    code: NDArray[np.uint8]
    payload: dict[str, Any]
    vector: NDArray[np.float32] | None
