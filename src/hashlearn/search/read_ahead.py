"""Tell the operating system which parts of a mapped file are read next, so that the disk has many requests at once."""

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GAP = 1 << 14
"""Bytes between two parts up to which they are asked for together."""


def expect_rows(mapped: mmap.mmap, starts: NDArray[np.int64], n_bytes: int) -> None:
    """Have the system begin to read parts of a mapped file.

    Parameters
    ----------
    mapped : mmap
    starts : ndarray of int64
        Where the parts begin, ascending.
    n_bytes : int
        Length of a part.
    """
    if not hasattr(mmap, "MADV_WILLNEED") or not len(starts):
        return
    first = starts // mmap.PAGESIZE * mmap.PAGESIZE
    end = starts + n_bytes
    begins = np.concatenate([[True], first[1:] - end[:-1] > _GAP])
    lengths = end[np.append(begins[1:], True)] - first[begins]
    for start, length in zip(first[begins].tolist(), lengths.tolist()):
        mapped.madvise(mmap.MADV_WILLNEED, start, length)


def expect_nothing_else(mapped: mmap.mmap) -> None:
    """Have the system read only what is asked for, and nothing around it."""
    if hasattr(mmap, "MADV_RANDOM"):
        mapped.madvise(mmap.MADV_RANDOM)


def mapping_of(array: Any) -> tuple[mmap.mmap, int] | None:
    """The mapped file that the rows of an array lie in, one after the other, and where they begin; None if in none."""
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous or not array.size:
        return None
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if not isinstance(base, mmap.mmap):
        return None
    begin = np.frombuffer(base, np.uint8).ctypes.data
    return base, int(array.ctypes.data - begin)
