"""Kept vectors in mapped memory, read where they lie; the system is told before which ones it has to read."""

import ctypes
import mmap
import os
import sys
import time
from collections.abc import Iterable
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.index.code_table import check_ids
from hashlearn.index.kernels.rerank import METRIC_NUMBERS
from hashlearn.linalg.projections import unit_rows
from hashlearn.rows.blocks import Source
from hashlearn.search.kernels.checksums import copy_checked
from hashlearn.search.kernels.records import RecordArrays, nearest_records
from hashlearn.search.vector_layout import VectorLayout

_BLOCK = 1 << 14

_GAP = 1 << 14
"""Bytes between two parts up to which they are asked for together."""

_LOOKS, _PAGES_A_LOOK, _SECONDS = 64, 16, 1.0
"""Residency is looked up in this many places of a file, this many pages in each, at most once in this time."""


class VectorMapping:
    """The records of a file as arrays in mapped memory."""

    def __init__(self, name: Path | str, file: FileIO, layout: VectorLayout, n_wanted: int):
        size = os.fstat(file.fileno()).st_size
        if size < layout.size(n_wanted):
            raise ValueError(f"{name}: {size} bytes long, its {n_wanted} records need {layout.size(n_wanted)}")
        self.name, self.layout = name, layout
        self.n_records = (size - layout.records_at) // layout.record_bytes
        self._mapped = mmap.mmap(file.fileno(), layout.size(self.n_records), access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_RANDOM"):  # read only what is asked for, and nothing around it
            self._mapped.madvise(mmap.MADV_RANDOM)
        n_words = self.n_records * (layout.row_words + 1)
        self.words = np.frombuffer(self._mapped, "<u4", n_words, layout.records_at)
        self.records = self.words.reshape(self.n_records, layout.row_words + 1)
        self._first_words = self.words[: n_wanted * (layout.row_words + 1)]
        self._looked_at, self._was_resident = -np.inf, False
        stored = np.uint16 if layout.dtype == "float16" else layout.stored_dtype
        offsets, scales = layout.calibration or (None, None)
        self.for_kernels = RecordArrays(
            self.words, self.words.view(stored), layout.row_words, offsets, scales, layout.multipliers
        )

    def is_resident(self) -> bool:
        """Were all pages in memory that were looked at, a moment ago? To ask for every row costs more than to read."""
        now = time.monotonic()
        if now - self._looked_at > _SECONDS:
            self._was_resident, self._looked_at = self._are_pages_in_memory(), now
        return self._was_resident

    def expect(self, places: NDArray[np.int64]) -> None:
        """Have the operating system begin to read these records, which ascend, unless they are in memory."""
        if not self.is_resident():
            layout = self.layout
            expect_rows(self._mapped, layout.records_at + places * layout.record_bytes, layout.record_bytes)

    def _are_pages_in_memory(self) -> bool:
        page = mmap.PAGESIZE
        begin = -(-self._first_words.ctypes.data // page) * page
        n_pages = (self._first_words.ctypes.data + self._first_words.nbytes - begin) // page
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


class VectorView(Source):
    """The first vectors of a file. It never changes, whatever is appended to the file.

    It is also a source of rows: ``RowBlocks(view)`` goes over them in blocks.

    Attributes
    ----------
    shape : (n, n_features)
    dtype : float32
    """

    dtype = np.dtype(np.float32)

    def __init__(self, mapping: VectorMapping, n: int):
        self._mapping = mapping
        self.n_features = mapping.layout.n_features
        self.shape = (n, self.n_features)

    def __len__(self) -> int:
        return self.shape[0]

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot copy or pickle a view of {self._mapping.name}; take its VectorFile")

    def __repr__(self) -> str:
        layout = self._mapping.layout
        return f"VectorView({self._mapping.name}, {len(self)} vectors of {layout.n_features} x {layout.dtype})"

    def places_of(self, rows: ArrayLike, name: str = "rows") -> NDArray[np.int64]:
        """Rows as an array of int64; raises where one is not there."""
        wanted = check_ids(rows, name)
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= len(self)):
            wrong = wanted[(wanted < 0) | (wanted >= len(self))][0]
            raise ValueError(
                f"{name} must be in {self._mapping.name}, got {wrong}, which is not among its {len(self)} vectors"
            )
        return wanted

    @property
    def is_resident(self) -> bool:
        """Are the vectors in memory, as far as a look at some of them tells?"""
        return self._mapping.is_resident()

    def expect(self, places: NDArray[np.int64]) -> None:
        """Be told which vectors will be read next, by ascending places."""
        self._mapping.expect(places)

    def read(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors at these places."""
        return self._mapping.layout.floats(self.stored(places))

    def is_whole(self, places: NDArray[np.int64]) -> bool:
        """Whether the vectors at these places match their checksums."""
        try:
            self.stored(places)
        except ValueError:
            return False
        return True

    def stored(self, places: NDArray[np.int64]) -> NDArray:
        """The vectors at these places as they are kept, once they are seen to match their checksums."""
        layout = self._mapping.layout
        words = np.empty((len(places), layout.row_words), "<u4")
        if len(places):
            self._refuse(copy_checked(self._mapping.records, places, layout.multipliers, words))
        return words.view(layout.stored_dtype)[:, : layout.n_features]

    def take(self, rows: ArrayLike) -> NDArray[np.float32]:
        """The vectors of rows, in their order, shape (n, n_features); each is read once, in the order of the file."""
        places, order = np.unique(self.places_of(rows), return_inverse=True)
        self.expect(places)
        return self.read(places)[order]

    def nearest(
        self, queries: NDArray[np.floating], candidates: NDArray[np.int64], k: int, metric: str
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Distances and places of the k nearest of the candidates of each query, in one compiled call.

        Parameters
        ----------
        queries : array of shape (n_queries, n_features)
            Finite.
        candidates : int64 array of shape (n_queries, n_candidates)
            Places; -1 is no candidate.
        k : int
        metric : {"euclidean", "cosine", "dot"}

        Returns
        -------
        distances, places : arrays of shape (n_queries, k), float32 and int64
            Nearest first, ties by the lowest place; infinity and -1 where there are fewer candidates.
        """
        if metric == "cosine" and queries.dtype != np.float32:
            queries = unit_rows(queries)  # in its own precision, which single precision may not hold
        asked = np.ascontiguousarray(queries, np.float32)
        distances, places = np.empty((len(asked), k), np.float32), np.empty((len(asked), k), np.int64)
        self._refuse(
            nearest_records(
                self._mapping.for_kernels,
                asked,
                np.ascontiguousarray(candidates),
                METRIC_NUMBERS[metric],
                distances,
                places,
            )
        )
        return distances, places

    def verify(self) -> None:
        """Read everything, and raise ValueError if something does not match its checksum."""
        for start in range(0, len(self), _BLOCK):
            self[start : start + _BLOCK]

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        return self.take(np.arange(len(self))[rows])

    def in_order(self, slices: Iterable[slice]) -> Any:
        return ((rows, self[rows]) for rows in slices)

    def place_of(self, row: int) -> str:
        return f"row {row} of {self._mapping.name}"

    def _refuse(self, damaged: int) -> None:
        if damaged >= 0:
            raise ValueError(
                f"{self._mapping.name}: the vector of record {damaged} does not match its checksum; "
                "the file was edited or damaged, or is of another search"
            )


def _mincore() -> Any:
    """The system's call that says which pages are in memory, where there is one."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None).mincore
    except (OSError, AttributeError):
        return None


_MINCORE = _mincore()


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
