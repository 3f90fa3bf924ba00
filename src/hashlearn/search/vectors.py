"""The file of kept vectors: made, appended to and copied. :mod:`hashlearn.search.vector_records` reads it."""

import os
import secrets
import struct
import tempfile
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from io import FileIO
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_choice, check_integer
from hashlearn.durable.files import (
    PAGE,
    check_regular,
    naming,
    opened_within,
    packed_header,
    replacing,
    write_at,
    writing_new,
)
from hashlearn.durable.locks import exclusive
from hashlearn.index.code_table import thread_lock
from hashlearn.rows import RowBlocks, as_rows
from hashlearn.search.vector_records import (
    DTYPES,
    MAGIC,
    VERSION,
    Calibration,
    VectorLayout,
    VectorMapping,
    VectorView,
    checked_calibration,
)

_COUNT = struct.Struct("<QI")

_BLOCK = 1 << 14  # vectors copied at a time
_MORE_RECORDS = 1024  # room that a file gets beyond what is written, at least; and an eighth of what it has
_NAMELESS = "a vector file without a name"
_IN_MEMORY = "vectors of a search without a folder are kept in memory: set TMPDIR to a folder that can be written"


class VectorFile:
    """A file of vectors, mapped into memory; candidates' vectors are read where they lie.

    Make one with :meth:`create`, open one with :meth:`open`. A vector is known by its row: 0, 1, 2, ... Several
    processes may read a file while one appends to it.

    Attributes
    ----------
    path : Path or None
    layout : VectorLayout
    n_features : int
    dtype : {"float32", "float16", "int8"}
        How values are kept.
    calibration : Calibration or None
        What the bytes mean, of an int8 file.
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
        self.path, self.layout, self.n_clipped = path, layout, 0
        self.n_features, self.dtype, self.calibration = layout.n_features, layout.dtype, layout.calibration
        self._file = file
        self._mapping: VectorMapping | None = None
        self._changing = thread_lock()
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
        if check_choice("dtype", dtype, DTYPES) == "int8":
            calibration = checked_calibration(n_features, calibration)
        elif calibration is not None:
            raise ValueError(f"calibration must be None with dtype={dtype!r}: only int8 has one")
        if path is None:
            return cls.new(None, n_features, dtype, calibration)
        head, layout = _head_and_layout(n_features, dtype, calibration)
        with replacing(path) as (beside,):
            beside.write_bytes(head)
        path = Path(os.path.realpath(path))
        return cls(path, FileIO(path), layout)

    @classmethod
    def new(cls, path: Path | None, n_features: int, dtype: str, calibration: Calibration | None) -> Self:
        """As :meth:`create`, where no file is and nobody else knows the path."""
        if path is None:  # nobody opens it, so that it needs no header
            with _naming_temporary_folder():
                file, layout = _temporary_file(), VectorLayout(n_features, dtype, calibration, _new_id(), 0)
                file.truncate(layout.size(0))
                return cls(None, file, layout)
        head, layout = _head_and_layout(n_features, dtype, calibration)
        with writing_new(path) as out:
            out.write(head)
        return cls(path, FileIO(path), layout)

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
            return cls(path, file, VectorLayout.read(file, path))
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
    def view(self) -> VectorView:
        """The vectors that were added."""
        return self.first(len(self))

    def first(self, n: int) -> VectorView:
        """The first n vectors. The view stays as it is, whatever is appended.

        Raises ValueError where the file is too short for them.
        """
        with self._changing:
            mapping = self._mapping
            if mapping is None or mapping.n_records < n:
                mapping = self._mapping = VectorMapping(self.path or _NAMELESS, self._file, self.layout, n)
        return VectorView(mapping, n)

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
        with self._changing, nullcontext() if self.path is None else exclusive(self.path):
            first = _read_count(self._file, self.layout) if self.path is not None else self._n_added
            n = first + self.write(rows, first)
            with self._writable() as out:
                write_at(out, self.layout.count_at, _packed_count(n))
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
        stored, n_clipped = self.layout.stored(block)
        records = self.layout.records_of(stored, first)
        with self._named():
            write_at(out, self.layout.size(first), records)
        self.n_clipped += n_clipped
        return records

    def _sync(self, out: FileIO) -> None:
        if self.path is not None:
            with self._named():
                getattr(os, "fdatasync", os.fsync)(out.fileno())

    @classmethod
    def copied(cls, path: Path | None, places: NDArray[np.int64], view: VectorView) -> Self:
        """A file that is not there yet, with an id of its own; its first records are vectors of a view."""
        like = view.layout
        copy = cls.new(path, like.n_features, like.dtype, like.calibration)
        with copy._writable() as out, copy._named():
            for n in range(0, len(places), _BLOCK):
                block = places[n : n + _BLOCK]
                view.expect(block)
                write_at(out, copy.layout.size(n), copy.layout.records_of(view.stored(block), n))
            copy._sync(out)
        return copy

    def verify(self) -> Self:
        """Read everything, and raise ValueError if something does not match its checksum."""
        self.view.verify()
        return self

    def close(self) -> None:
        """Close the file; views of it can still be read."""
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()

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


def _packed_count(n: int) -> bytes:
    count = struct.pack("<Q", n)
    return count + struct.pack("<I", zlib.crc32(count))


def _new_id() -> str:
    return secrets.token_hex(8)


def _head_and_layout(n_features: int, dtype: str, calibration: Calibration | None) -> tuple[bytes, VectorLayout]:
    """What a new file begins with, and the layout that this says."""
    said: dict[str, Any] = {"n_features": n_features, "dtype": dtype, "id": _new_id()}
    if calibration is not None:
        said["calibration"] = {name: array.tolist() for name, array in calibration._asdict().items()}
    head, _ = packed_header(MAGIC, VERSION, said)
    layout = VectorLayout(n_features, dtype, calibration, said["id"], len(head))
    return head + _packed_count(0).ljust(PAGE, b"\0"), layout


def _read_count(file: FileIO, layout: VectorLayout) -> int:
    file.seek(layout.count_at)
    said = file.read(_COUNT.size)
    n, crc32 = _COUNT.unpack(said) if len(said) == _COUNT.size else (0, -1)
    if crc32 != zlib.crc32(said[:8]):
        raise ValueError(f"{file.name}: the number of records does not match its checksum; the file was damaged")
    if os.fstat(file.fileno()).st_size < layout.size(n):
        raise ValueError(f"{file.name}: too short for its {n} records; it was truncated")
    return n
