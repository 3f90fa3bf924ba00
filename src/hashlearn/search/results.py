"""What a search of an index returns beside :mod:`hashlearn.codes.results`."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Record(NamedTuple):
    """One row of a similarity search; ``vector`` is None where none are kept."""

    id: Any
    code: NDArray[np.uint8]
    payload: dict[str, Any]
    vector: NDArray[np.float32] | None
