"""Memory that is used again: what is fresh has to be got from the system, page by page, and takes longer than the sums
that are written to it."""

import threading
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

_kept = threading.local()
_lent: WeakValueDictionary[int, NDArray] = WeakValueDictionary()
_spare: dict[tuple[int, ...], list[NDArray[np.float64]]] = {}


def scratch(name: str, shape: tuple[int, ...], dtype: np.dtype) -> NDArray:
    """A matrix that a thread writes to and is done with before it asks for that name again."""
    kept, size = getattr(_kept, name, None), int(np.prod(shape)) * dtype.itemsize
    if kept is None or len(kept) < size:
        kept = np.empty(size, np.uint8)
        setattr(_kept, name, kept)
    return kept[:size].view(dtype).reshape(shape)


def zeros_again(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Zeros for the sums of a block, where another block's were that has been :func:`done_with`."""
    try:
        sums = _spare[shape].pop()
        sums.fill(0)
    except (KeyError, IndexError):
        sums = np.zeros(shape)
    _lent[id(sums)] = sums
    return sums


def done_with(sums: NDArray) -> None:
    """Nobody reads these sums any more; any that are not from :func:`zeros_again` are left alone."""
    if _lent.pop(id(sums), None) is sums:
        _spare.setdefault(sums.shape, []).append(sums)


def forget_spare() -> None:
    """Give the memory of all that is done with back to the system."""
    _spare.clear()
