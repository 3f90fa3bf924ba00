"""Vectors on disk, to be read a few at a time: what candidates are reranked by.

The file is only appended to:

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
says how many records count. :mod:`hashlearn.search.kernels.checksums` says how checksums are computed; the id, read as
a number, is the state that their multipliers come from. The checksum of a record is compared whenever it is read: a
damaged vector, or one of another file, is an error, and never a wrong distance.
"""

import json
import mmap
import os
import secrets
import struct
import tempfile
import threading
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer, check_regular
from hashlearn.durable.files import naming, opened_within, replacing, sync, write_at
from hashlearn.durable.json_files import parsed_json
from hashlearn.durable.locks import exclusive
from hashlearn.index.code_table import check_ids
from hashlearn.index.kernels.rerank import METRIC_NUMBERS
from hashlearn.linalg.projections import unit_rows
from hashlearn.rows import RowBlocks, as_rows
from hashlearn.rows.blocks import Source
from hashlearn.search.kernels.checksums import copy_checked, multipliers, write_checksums
from hashlearn.search.kernels.records import Records, nearest_records
from hashlearn.search.read_ahead import Residency, expect_nothing_else, expect_rows
from hashlearn.search.vector_values import Calibration, Values

MAGIC = b"HLVECTS\n"
VERSION = 3

_PAGE = 4096
_PREFIX = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
_COUNT = struct.Struct("<QI")
_LONGEST_HEADER = 1 << 24
_MORE_RECORDS = 1024  # room that a file gets beyond what is written, at least; and an eighth of what it has
_BLOCK = 1 << 14
_NAMELESS = "a vector file without a name"
_IN_MEMORY = "vectors of a search without a folder are kept in memory: set TMPDIR to a folder that can be written"


class VectorLayout(NamedTuple):
    """What does not change in a file, and where things are."""

    n_features: int
    values: Values
    id: str
    count_at: int

    @property
    def row_words(self) -> int:
        """Words of 32 bits that hold the values of a vector; the checksum is one more."""
        return -(-self.n_features * self.values.stored_dtype.itemsize // 4)

    @property
    def record_bytes(self) -> int:
        return 4 * (self.row_words + 1)

    @property
    def records_at(self) -> int:
        return self.count_at + _PAGE

    @property
    def multipliers(self) -> NDArray[np.uint64]:
        return multipliers(int(self.id, 16), self.row_words)

    def size(self, n_records: int) -> int:
        """Bytes of a file with room for ``n_records``."""
        return self.records_at + n_records * self.record_bytes

    def records_of(self, stored: NDArray, first: int) -> NDArray[np.uint32]:
        """Vectors with their checksums, for records from number ``first`` on; shape (n, row_words + 1)."""
        records = np.zeros((len(stored), self.row_words + 1), "<u4")
        values = np.ascontiguousarray(stored).view(np.uint8)
        records.view(np.uint8)[:, : values.shape[1]] = values
        checks = np.empty(len(stored), np.uint32)
        write_checksums(np.ascontiguousarray(records[:, :-1]), first, self.multipliers, checks)
        records[:, -1] = checks
        return records


class VectorFile:
    """A file of vectors, mapped into memory; candidates' vectors are read where they lie.

    Make one with :meth:`create`, open one with :meth:`open`. A vector is known by its row: 0, 1, 2, ... Several
    processes may read a file while one appends to it.

    Attributes
    ----------
    path : Path or None
    layout : VectorLayout
    n_clipped : int
        Values that this object has written, were out of range, and are clipped.

    Examples
    --------
    >>> import tempfile
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = VectorFile.create(f"{folder}/vectors.hlv", 2, "int8", Calibration.of(X)).add(X)
    ...     file.take([2, 0]).round(1).tolist(), file.n_clipped
    ([[4.0, 5.0], [0.0, 1.0]], 0)
    """

    def __init__(self, path: Path | None, file: FileIO, layout: VectorLayout):
        self.path, self.layout = path, layout
        self.n_clipped = 0
        self._file = file
        self._mapping: VectorMapping | None = None
        self._changing = threading.RLock()
        self._n_added = _read_count(file, layout) if path is not None else 0

    @classmethod
    def create(
        cls,
        path: str | Path | None,
        n_features: int,
        dtype: str = "float32",
        calibration: Calibration | None = None,
    ) -> Self:
        """Make a file without vectors, in place of one that may be there.

        Parameters
        ----------
        path : str, Path or None
            Customary suffix ``.hlv``. None is a file without a name in the temporary folder, which is gone when nobody
            uses it any more.
        n_features : int
        dtype : {"float32", "float16", "int8"}
            float16 halves the file and int8 quarters it.
        calibration : Calibration or None
            For int8 what its bytes mean, learned from training vectors: :meth:`Calibration.of`.
        """
        n_features = check_integer("n_features", n_features, low=1)
        head = _head(n_features, Values.checked(n_features, dtype, calibration))
        if path is None:
            with _naming_temporary_folder():
                file = _temporary_file()
                write_at(file, 0, head)
            return cls(None, file, _read_layout(file, _NAMELESS))
        with replacing(path) as (beside,):
            beside.write_bytes(head)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a file; its vectors are not read.

        Parameters
        ----------
        path : str or Path
        """
        path = Path(os.path.realpath(check_regular(path)))
        file = FileIO(path)
        try:
            return cls(path, file, _read_layout(file, path))
        except BaseException:
            file.close()
            raise

    def __reduce__(self) -> Any:
        if self.path is None:
            raise TypeError(f"cannot copy or pickle {_NAMELESS}; save it to a path, and open that")
        return type(self).open, (self.path,)

    def __len__(self) -> int:
        return self._n_added

    def __repr__(self) -> str:
        return f"VectorFile({self.path}, {len(self)} vectors of {self.n_features} x {self.dtype})"

    @property
    def n_features(self) -> int:
        return self.layout.n_features

    @property
    def dtype(self) -> str:
        """How values are kept: "float32", "float16" or "int8"."""
        return self.layout.values.dtype

    @property
    def calibration(self) -> Calibration | None:
        """What the bytes mean, of an int8 file."""
        return self.layout.values.calibration

    @property
    def view(self) -> "VectorView":
        """The vectors that were added."""
        return self.first(len(self))

    def first(self, n: int) -> "VectorView":
        """The first n vectors. The view stays as it is, whatever is appended.

        Raises ValueError where the file is too short for them.
        """
        with self._changing:
            mapping = self._mapping
            if mapping is None or mapping.n_records < n:
                mapping = self._mapping = VectorMapping(self.path or _NAMELESS, self._file, self.layout, n)
        return VectorView(mapping, n)

    def has_room_for(self, n: int) -> bool:
        """Whether the file is long enough for n records."""
        return os.fstat(self._file.fileno()).st_size >= self.layout.size(n)

    def take(self, rows: ArrayLike) -> NDArray[np.float32]:
        """The vectors of these rows, in their order, shape (n, n_features)."""
        return self.view.take(rows)

    def add(self, vectors: Any) -> Self:
        """Append vectors; they are on the disk when this returns, and if it raises the file is as it was.

        Parameters
        ----------
        vectors : array of shape (n, n_features), or another source of rows (:func:`hashlearn.rows.as_rows`)
        """
        rows = as_rows(vectors)
        if rows.shape[1] != self.n_features:
            raise ValueError(f"vectors must have {self.n_features} features, got {rows.shape[1]}")
        with self._changing, self._alone():
            first = _read_count(self._file, self.layout) if self.path is not None else self._n_added
            n = first + self.write(rows, first)
            count = struct.pack("<Q", n)
            with self._writable() as out:
                write_at(out, self.layout.count_at, count + _CRC.pack(zlib.crc32(count)))
                os.fsync(out.fileno())
            self._n_added = n
        return self

    def write(self, rows: RowBlocks, first: int) -> int:
        """Write vectors as the records from ``first`` on, and wait for the disk; returns how many.

        They count once the caller has written their number. If it raises, the records before ``first`` are unchanged.
        """
        with self._writable() as out:
            self._make_room(out, first + len(rows))
            for part, block in rows:
                self._write_block(out, block, first + part.start)
            self._sync(out)
        return len(rows)

    def write_few(self, rows: RowBlocks, first: int) -> NDArray[np.uint32]:
        """As :meth:`write`, without waiting for the disk; returns the records, for :meth:`write_again`."""
        with self._writable() as out:
            self._make_room(out, first + len(rows))
            return self._write_block(out, rows.take(np.arange(len(rows))), first)

    def write_again(self, records: Iterable[tuple[int, bytes]]) -> None:
        """Write records that may not have reached the disk, by their numbers."""
        with self._writable() as out, self._named():
            for number, record in records:
                self._make_room(out, number + 1)
                write_at(out, self.layout.size(number), record)
            self._sync(out)
        self._mapping = None

    def sync(self) -> None:
        """Wait until all that was written is on the disk."""
        with self._writable() as out:
            self._sync(out)

    def _make_room(self, out: FileIO, n: int) -> None:
        if os.fstat(out.fileno()).st_size < self.layout.size(n):
            with self._named():
                out.truncate(self.layout.size(n + max(_MORE_RECORDS, n // 8)))

    def _write_block(self, out: FileIO, block: NDArray, first: int) -> NDArray[np.uint32]:
        stored, n_clipped = self.layout.values.stored(block)
        records = self.layout.records_of(stored, first)
        with self._named():
            write_at(out, self.layout.size(first), records)
        self.n_clipped += n_clipped
        return records

    def _sync(self, out: FileIO) -> None:
        if self.path is not None:
            with self._named():
                getattr(os, "fdatasync", os.fsync)(out.fileno())

    def copied(self, path: Path | None, rows: Iterable[NDArray[np.int64]], view: "VectorView") -> "VectorFile":
        """Another file, with an id of its own, of blocks of rows of a view; they become its first records."""
        other = VectorFile.create(path, self.n_features, self.dtype, self.calibration)
        n = 0
        with other._writable() as out, other._named():
            for block in rows:
                view.expect(block)
                write_at(out, other.layout.size(n), other.layout.records_of(view.stored(block), n))
                n += len(block)
            os.fsync(out.fileno())
        if path is not None:
            sync(path.parent)
        return other

    def verify(self) -> Self:
        """Read everything, and raise ValueError if something does not match its checksum."""
        self.view.verify()
        return self

    def close(self) -> None:
        """Close the file; views of it can still be read."""
        self._file.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self.path is None:
            yield
            return
        with exclusive(self.path):
            yield

    @contextmanager
    def _writable(self) -> Iterator[FileIO]:
        if self.path is None:
            yield self._file
            return
        with self._named(), opened_within(self.path) as out:
            if not os.path.samestat(os.fstat(out.fileno()), os.fstat(self._file.fileno())):
                raise ValueError(f"{self.path} is another file than the one that was opened; open it again")
            yield out

    def _named(self) -> Any:
        return naming(self.path) if self.path is not None else _naming_temporary_folder()


class VectorMapping:
    """The records of a file as arrays in mapped memory."""

    def __init__(self, name: Path | str, file: FileIO, layout: VectorLayout, n_wanted: int):
        size = os.fstat(file.fileno()).st_size
        if size < layout.size(n_wanted):
            raise ValueError(f"{name}: {size} bytes long, its {n_wanted} records need {layout.size(n_wanted)}")
        self.name, self.layout = name, layout
        self.n_records = (size - layout.records_at) // layout.record_bytes
        self._mapped = mmap.mmap(file.fileno(), layout.size(self.n_records), access=mmap.ACCESS_READ)
        expect_nothing_else(self._mapped)
        n_words = self.n_records * (layout.row_words + 1)
        self.words = np.frombuffer(self._mapped, "<u4", n_words, layout.records_at)
        self.records = self.words.reshape(self.n_records, layout.row_words + 1)
        self.residency = Residency(self.words[: n_wanted * (layout.row_words + 1)])
        values = layout.values
        stored = np.uint16 if values.dtype == "float16" else values.stored_dtype
        meaning = values.calibration or (None, None)
        self.for_kernels = Records(self.words, self.words.view(stored), layout.row_words, *meaning, layout.multipliers)

    def expect(self, places: NDArray[np.int64]) -> None:
        """Have the operating system begin to read these records, which ascend, unless they are in memory."""
        if not self.residency.is_likely():
            layout = self.layout
            expect_rows(self._mapped, layout.records_at + places * layout.record_bytes, layout.record_bytes)


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
        self.shape = (n, mapping.layout.n_features)

    def __len__(self) -> int:
        return self.shape[0]

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot copy or pickle a view of {self._mapping.name}; take its VectorFile")

    def __repr__(self) -> str:
        layout = self._mapping.layout
        return f"VectorView({self._mapping.name}, {len(self)} vectors of {layout.n_features} x {layout.values.dtype})"

    @property
    def n_features(self) -> int:
        return self.shape[1]

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
        return self._mapping.residency.is_likely()

    def expect(self, places: NDArray[np.int64]) -> None:
        """Be told which vectors will be read next, by ascending places."""
        self._mapping.expect(places)

    def read(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors at these places."""
        return self._mapping.layout.values.floats(self.stored(places))

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
        return words.view(layout.values.stored_dtype)[:, : layout.n_features]

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


def _head(n_features: int, values: Values) -> bytes:
    """The bytes before the records."""
    said: dict[str, Any] = {"n_features": n_features, "dtype": values.dtype, "id": secrets.token_hex(8)}
    if values.calibration is not None:
        said["calibration"] = {name: array.tolist() for name, array in values.calibration._asdict().items()}
    text = json.dumps(said).encode()
    head = _PREFIX.pack(MAGIC, VERSION, len(text)) + text
    head += _CRC.pack(zlib.crc32(head))
    nothing = struct.pack("<Q", 0)
    return head.ljust(_aligned(len(head)), b"\0") + (nothing + _CRC.pack(zlib.crc32(nothing))).ljust(_PAGE, b"\0")


def _read_layout(file: FileIO, path: Path | str) -> VectorLayout:
    """What the header says, once its checksum is seen to be right."""
    file.seek(0)
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size or not prefix.startswith(MAGIC):
        raise ValueError(f"{path}: not a vector file of hashlearn")
    _, version, length = _PREFIX.unpack(prefix)
    if version != VERSION:
        raise ValueError(f"{path}: version {version} of the format of vector files; this hashlearn reads {VERSION}")
    rest = file.read(length + _CRC.size) if length <= _LONGEST_HEADER else b""
    text, crc32 = rest[:length], rest[length:]
    if len(crc32) < _CRC.size or _CRC.unpack(crc32)[0] != zlib.crc32(prefix + text):
        raise ValueError(f"{path}: the header does not match its checksum; the file was truncated, edited or damaged")
    try:
        said = parsed_json(text.decode())
        n_features = check_integer("n_features", said["n_features"], low=1)
        calibration = None
        if "calibration" in said:
            calibration = Calibration(*(np.array(said["calibration"][name], "f4") for name in Calibration._fields))
        values = Values.checked(n_features, said["dtype"], calibration)
        int(said["id"], 16)
        return VectorLayout(n_features, values, said["id"], _aligned(len(prefix) + len(rest)))
    except KeyError as missing:
        raise ValueError(f"{path}: the header says no {missing}") from None
    except (TypeError, AttributeError, ValueError) as wrong:
        raise ValueError(f"{path}: {wrong}") from None


def _read_count(file: FileIO, layout: VectorLayout) -> int:
    file.seek(layout.count_at)
    said = file.read(_COUNT.size)
    n, crc32 = _COUNT.unpack(said) if len(said) == _COUNT.size else (0, -1)
    if crc32 != zlib.crc32(said[:8]):
        raise ValueError(f"{file.name}: the number of records does not match its checksum; the file was damaged")
    if os.fstat(file.fileno()).st_size < layout.size(n):
        raise ValueError(f"{file.name}: too short for its {n} records; it was truncated")
    return n


def _temporary_file() -> FileIO:
    try:
        with tempfile.TemporaryFile(buffering=0) as file:  # on Windows it has a name, and goes with its last descriptor
            return FileIO(os.dup(file.fileno()), "r+")
    except FileNotFoundError:
        if not hasattr(os, "memfd_create"):
            raise
        warnings.warn(_IN_MEMORY, stacklevel=2)
        return FileIO(os.memfd_create("hashlearn"), "r+")


@contextmanager
def _naming_temporary_folder() -> Iterator[None]:
    """Have errors name the folder of files without a name, and what sets it."""
    try:
        yield
    except OSError as error:
        folder = tempfile.tempdir or "no folder"
        raise OSError(
            error.errno, f"{error.strerror} for vectors of a search without a folder; set TMPDIR to another", folder
        ) from error


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // _PAGE) * _PAGE
