"""Memory that is used again: what is fresh has to be got from the system, page by page, and takes longer than the sums
that are written to it."""

import threading

import numpy as np
from numpy.typing import NDArray

_kept = threading.local()


def scratch(name: str, shape: tuple[int, ...], dtype: np.dtype) -> NDArray:
    """A matrix that a thread writes to and is done with before it asks for that name again."""
    kept, size = getattr(_kept, name, None), int(np.prod(shape)) * dtype.itemsize
    if kept is None or len(kept) < size:
        kept = np.empty(size, np.uint8)
        setattr(_kept, name, kept)
    return kept[:size].view(dtype).reshape(shape)
