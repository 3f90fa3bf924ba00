"""Kept vectors as records of a file, and how a few at a time are read where they lie in mapped memory.

The file is only appended to (:class:`~hashlearn.search.VectorFile`):

===============  =======================================================================================================
bytes            content
===============  =======================================================================================================
8                ``HLVECTS`` and a line feed
4, 4             version of this format (3); length of the header
as told          the header, JSON: ``n_features``, ``dtype`` (``float32``, ``float16`` or ``int8``), ``id`` (16
                 hexadecimal digits, drawn for this file), and for int8 the ``calibration``: ``offset`` and ``scale`` of
                 every feature; a value is offset + scale * byte
4                CRC-32 of all that stands before
8, 4             number of records, and the CRC-32 of these 8 bytes
records          the values of a vector, zeros up to a multiple of 4 bytes, and the checksum of the record (4 bytes)
===============  =======================================================================================================

Numbers are little-endian. The number of records begins at the first multiple of 4096 behind the header, the records
4096 bytes later. The file may be longer than its records. Where a file belongs to a search, the catalog of the search
says how many records count. :mod:`hashlearn.search.kernels.records` says how checksums are computed; the id, read as
a number, is the state that their multipliers come from. The checksum of a record is compared whenever it is read: a
damaged vector, or one of another file, is an error, and never a wrong distance.
"""

import ctypes
import mmap
import os
import sys
import time
from collections.abc import Iterable
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.durable.files import PAGE, check_regular, read_header, reading_header
from hashlearn.index.code_table import check_ids
from hashlearn.index.kernels.rerank import METRIC_NUMBERS
from hashlearn.linalg.projections import unit_rows
from hashlearn.rows import as_rows, fold
from hashlearn.rows.blocks import Source
from hashlearn.search.kernels.records import FIRST, RecordArrays, copy_checked, nearest_records, write_checksums

MAGIC = b"HLVECTS\n"
VERSION = 3
DTYPES = ("float32", "float16", "int8")

_LARGEST_BYTE = 127
_BLOCK = 1 << 14

_GAP = 1 << 14
"""Bytes between two parts up to which they are asked for together."""

_LOOKS, _PAGES_A_LOOK, _SECONDS = 64, 16, 1.0
"""Residency is looked up in this many places of a file, this many pages in each, at most once in this time."""


class Calibration(NamedTuple):
    """What the bytes of int8 vectors mean: a value is ``offset + scale * byte``, the byte from -127 to 127.

    Attributes
    ----------
    offset, scale : ndarray of shape (n_features,), float32
    """

    offset: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def of(cls, X: Any) -> "Calibration":
        """Of training vectors: the bytes of a feature reach from its least to its largest value.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows (:func:`hashlearn.rows.as_rows`)

        Examples
        --------
        >>> calibration = Calibration.of([[0.0, -1.0], [2.54, 1.0]])
        >>> calibration.offset.round(2), calibration.scale.round(4)
        (array([1.27, 0.  ], dtype=float32), array([0.01  , 0.0079], dtype=float32))
        """
        rows = as_rows(X)
        if not len(rows):
            raise ValueError("X must have at least one row to calibrate by, got 0")
        low, high = fold(rows, _range_of_block, _wider)
        tiny = np.finfo(np.float32).tiny
        scale = np.where(high > low, np.maximum((high - low) / (2 * _LARGEST_BYTE), tiny), 1.0)
        return cls(((low + high) / 2).astype(np.float32), scale.astype(np.float32))


class VectorLayout:
    """What does not change in a file: what its values mean, and where things are.

    Attributes
    ----------
    n_features : int
    dtype : one of DTYPES
    calibration : Calibration or None
        For int8 what the bytes mean.
    id : str
    count_at, records_at : int
        Where the number of records is, and where the records begin.
    stored_dtype : dtype
    row_words : int
        Words of 32 bits that hold the values of a vector; the checksum is one more.
    record_bytes : int
    multipliers : uint64 array
        Of the checksums.
    """

    def __init__(self, n_features: int, dtype: str, calibration: Calibration | None, id: str, count_at: int):
        self.n_features, self.dtype, self.calibration, self.id = n_features, dtype, calibration, id
        self.count_at, self.records_at = count_at, count_at + PAGE
        self.stored_dtype = np.dtype(dtype).newbyteorder("<")
        self.row_words = -(-n_features * self.stored_dtype.itemsize // 4)
        self.record_bytes = 4 * (self.row_words + 1)
        self.multipliers = _multipliers(int(id, 16), self.row_words)

    @classmethod
    def read(cls, file: FileIO, path: Path) -> Self:
        """The layout of an open file, as its header says."""
        said, end, _ = read_header(file, path, MAGIC, VERSION, "a vector file", {"n_features": 1})
        n_features, calibration = said["n_features"], None
        with reading_header(path):
            dtype = said["dtype"]
            if dtype not in DTYPES:
                raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
            if dtype == "int8":
                arrays = (np.array(said["calibration"][name], np.float32) for name in Calibration._fields)
                calibration = checked_calibration(n_features, Calibration(*arrays))
            return cls(n_features, dtype, calibration, said["id"], end)

    def size(self, n_records: int) -> int:
        """Bytes of a file with room for ``n_records``."""
        return self.records_at + n_records * self.record_bytes

    def stored(self, block: NDArray) -> tuple[NDArray, int]:
        """The values of vectors as they are kept, and how many of them were out of range and are clipped."""
        if self.calibration is None:
            values, limit = block, float(np.finfo(self.dtype).max)
        else:
            values, limit = np.rint((block - self.calibration.offset) / self.calibration.scale), float(_LARGEST_BYTE)
        n_clipped = int(np.count_nonzero(np.abs(values) > limit))
        return np.clip(values, -limit, limit).astype(self.stored_dtype), n_clipped

    def floats(self, stored: NDArray) -> NDArray[np.float32]:
        """The values that are meant."""
        if self.calibration is None:
            return stored.astype(np.float32, copy=False)
        values = stored.astype(np.float32)
        values *= self.calibration.scale
        values += self.calibration.offset
        return values

    def records_of(self, stored: NDArray, first: int) -> NDArray[np.uint32]:
        """Vectors with their checksums, for records from number ``first`` on; shape (n, row_words + 1)."""
        records = np.zeros((len(stored), self.row_words + 1), "<u4")
        values = np.ascontiguousarray(stored).view(np.uint8)
        records.view(np.uint8)[:, : values.shape[1]] = values
        checks = np.empty(len(stored), np.uint32)
        write_checksums(np.ascontiguousarray(records[:, :-1]), first, self.multipliers, checks)
        records[:, -1] = checks
        return records


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
        self._mapping, self.layout = mapping, mapping.layout
        self.n_features = self.layout.n_features
        self.shape = (n, self.n_features)

    @classmethod
    def open(cls, path: Path, n: int) -> Self:
        """The first n vectors of a file."""
        with FileIO(check_regular(path)) as file:
            return cls(VectorMapping(path, file, VectorLayout.read(file, path), n), n)

    def first(self, n: int) -> "VectorView | None":
        """The first n vectors of the file; None where more are wanted than were mapped."""
        return VectorView(self._mapping, n) if n <= self._mapping.n_records else None

    def __len__(self) -> int:
        return self.shape[0]

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot copy or pickle a view of {self._mapping.name}; take its VectorFile")

    def __repr__(self) -> str:
        layout = self.layout
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
        return self.layout.floats(self.stored(places))

    def as_kept(self, block: NDArray) -> NDArray[np.float32]:
        """Vectors as they would be read again if they were kept here."""
        return self._mapping.layout.floats(self._mapping.layout.stored(block)[0])

    def is_whole(self, places: NDArray[np.int64]) -> bool:
        """Whether the vectors at these places match their checksums."""
        try:
            self.stored(places)
        except ValueError:
            return False
        return True

    def stored(self, places: NDArray[np.int64]) -> NDArray:
        """The vectors at these places as they are kept, once they are seen to match their checksums."""
        layout = self.layout
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


def checked_calibration(n_features: int, calibration: Any) -> Calibration:
    """Raise unless int8 vectors have a calibration of ``n_features`` features."""
    if not isinstance(calibration, Calibration):
        raise ValueError(f"int8 vectors need a calibration, Calibration.of(training vectors), got {calibration!r}")
    offset, scale = (np.asarray(values, np.float32) for values in calibration)
    if offset.shape != (n_features,) or scale.shape != (n_features,):
        raise ValueError(
            f"calibration must have an offset and a scale for each of {n_features} features, "
            f"got shapes {offset.shape} and {scale.shape}"
        )
    if not np.isfinite(offset).all() or not np.isfinite(scale).all() or scale.min() <= 0:
        raise ValueError("calibration must be finite, with scales above zero")
    return Calibration(offset, scale)


def _multipliers(seed: int, n_words: int) -> NDArray[np.uint64]:
    """Those of the checksums of records of ``n_words`` words in a file with this seed."""
    with np.errstate(over="ignore"):
        z = np.arange(1, n_words + FIRST + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)


def _range_of_block(block: NDArray, first: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return block.min(axis=0).astype(np.float64), block.max(axis=0).astype(np.float64)


def _wider(
    left: tuple[NDArray[np.float64], NDArray[np.float64]], right: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.minimum(left[0], right[0]), np.maximum(left[1], right[1])
