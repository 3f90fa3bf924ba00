"""Tell the operating system which parts of a mapped file are read next, so that the disk has many requests at once."""

import ctypes
import mmap
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GAP = 1 << 14
"""Bytes between two parts up to which they are asked for together."""

_LOOKS, _PAGES_A_LOOK, _SECONDS = 64, 16, 1.0
"""Residency is looked up in this many places of a file, this many pages in each, at most once in this time."""


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


class Residency:
    """Whether a mapped array is in memory. To ask for every row costs more than to read it; some pages tell."""

    def __init__(self, array: NDArray):
        self._array = array
        self._looked_at, self._is_likely = -np.inf, False

    def is_likely(self) -> bool:
        """Were all pages in memory that were looked at, a moment ago?"""
        now = time.monotonic()
        if now - self._looked_at > _SECONDS:
            self._is_likely, self._looked_at = self._look(), now
        return self._is_likely

    def _look(self) -> bool:
        page = mmap.PAGESIZE
        begin = -(-self._array.ctypes.data // page) * page
        n_pages = (self._array.ctypes.data + self._array.nbytes - begin) // page
        if _MINCORE is None or n_pages <= 0:
            return False
        n = min(_PAGES_A_LOOK, n_pages)
        found = (ctypes.c_ubyte * n)()
        for first in np.linspace(0, n_pages - n, min(_LOOKS, -(-n_pages // n))).astype(np.int64).tolist():
            if _MINCORE(ctypes.c_void_p(begin + first * page), ctypes.c_size_t(n * page), found) != 0:
                return False
            if not all(byte & 1 for byte in found):
                return False
        return True


def _mincore() -> Any:
    """The system's call that says which pages are in memory, where there is one."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None).mincore
    except (OSError, AttributeError):
        return None


_MINCORE = _mincore()


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
