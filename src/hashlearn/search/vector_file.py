"""Vectors on disk, to be read a few at a time: what candidates are reranked by."""

import os
import tempfile
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer
from hashlearn.durable.files import naming, opened_within, replacing, write_at
from hashlearn.durable.locks import exclusive
from hashlearn.index.code_table import check_new_ids, ids_from
from hashlearn.rows import RowBlocks, as_rows
from hashlearn.search.record_table import NOWHERE
from hashlearn.search.vector_layout import (
    SEGMENT,
    Layout,
    State,
    head_of_file,
    key_checks,
    read_layout,
    read_state,
)
from hashlearn.search.vector_values import Calibration, Values
from hashlearn.search.vector_view import VectorView

_NAMELESS = "a vector file without a name"
_IN_MEMORY = "vectors that are not saved yet are kept in memory: set TMPDIR to a folder that can be written"


class VectorFile:
    """A file of vectors and their ids, mapped into memory; candidates' vectors are read where they lie.

    Make one with :meth:`create`, open one with :meth:`open`. Several processes may read it while one changes it. What
    another process has changed is seen after opening it again, or after a change of one's own.

    The file is a log: changes are appended, and an older vector of an id stays until :meth:`compact`.

    Attributes
    ----------
    path : Path or None
    view : VectorView
        The vectors as they are now. A change makes another view and leaves this one as it is, so whoever holds it can
        read on meanwhile.

    Examples
    --------
    >>> import tempfile
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = VectorFile.create(f"{folder}/vectors.hlv", 2, "int8", Calibration.of(X)).add(X, ids=[7, 3, 5])
    ...     file.take([5, 7]).round(1).tolist(), file.n_clipped
    ([[4.0, 5.0], [0.0, 1.0]], 0)
    """

    def __init__(
        self, path: Path | None, view: VectorView, *, nameless: FileIO | None = None, pinned: int | None = None
    ):
        self.path, self.view = path, view
        self._nameless, self._pinned = nameless, pinned
        self._process = os.getpid()
        self._changing = threading.RLock()
        if nameless is not None:
            weakref.finalize(self, nameless.close)

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
        head = head_of_file(n_features, Values.checked(n_features, dtype, calibration), State(0, 0, 0, 0))
        if path is None:
            file = _nameless_file(head)
            return cls(None, _view_of(file, _NAMELESS), nameless=file)
        with replacing(path) as (beside,):
            beside.write_bytes(head)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path, n_records: int | None = None) -> Self:
        """Open a file; its vectors are not read.

        Parameters
        ----------
        path : str or Path
        n_records : int or None
            See only the first so many records, where the number that counts is kept elsewhere. The next change writes
            behind them, in place of what is there.
        """
        path = Path(os.path.realpath(path))
        with FileIO(path) as file:
            view = _view_of(file, path)
            if n_records is None:
                return cls(path, view)
            n_records = check_integer("n_records", n_records, low=0)
            if n_records > view.n_records:
                raise ValueError(
                    f"{path}: {view.n_records} records, {n_records} are wanted; it is older than what names it"
                )
            first = VectorView(path, file, view.layout, view.state._replace(n_records=n_records))
            return cls(path, first, pinned=n_records)

    def __reduce__(self) -> Any:
        if self.path is None:
            raise TypeError(f"cannot copy or pickle {_NAMELESS}; save it to a path, and open that")
        return type(self).open, (self.path, self._pinned)

    def __len__(self) -> int:
        return len(self.view)

    def __contains__(self, id: Any) -> bool:
        return id in self.view

    def __repr__(self) -> str:
        return f"VectorFile({self.path}, {len(self)} vectors of {self.n_features} x {self.dtype})"

    @property
    def n_features(self) -> int:
        return self.view.n_features

    @property
    def dtype(self) -> str:
        """How values are kept: "float32", "float16" or "int8"."""
        return self.view.layout.values.dtype

    @property
    def calibration(self) -> Calibration | None:
        """What the bytes mean, of an int8 file."""
        return self.view.calibration

    @property
    def n_clipped(self) -> int:
        """Values, of all vectors that were written, that were out of range and are clipped."""
        return self.view.n_clipped

    @property
    def n_records(self) -> int:
        """Records of the log: vectors that were added, and removals."""
        return self.view.n_records

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return self.view.layout.size(self.n_records)

    @property
    def ids(self) -> NDArray[np.int64]:
        """The ids, ascending."""
        return self.view.ids

    def take(self, ids: ArrayLike) -> NDArray[np.float32]:
        """The vectors of these ids, in their order, shape (n, n_features)."""
        return self.view.take(ids)

    def add(self, vectors: Any, ids: ArrayLike | None = None) -> Self:
        """Add vectors; they are on the disk when this returns, and if it raises the file is as it was.

        Parameters
        ----------
        vectors : array of shape (n, n_features), or another source of rows (:func:`hashlearn.rows.as_rows`)
        ids : array of shape (n,), integers >= 0, or None
            They must be new. By default running numbers: one more than the largest id so far, and so on.
        """
        rows = self._checked_rows(vectors)
        given = None if ids is None else check_new_ids(ids, len(rows), "vectors")
        with self._change() as change:
            before = change.before
            new_ids = ids_from(before.state.next_id, len(rows)) if given is None else given
            known = before.find(new_ids) != NOWHERE
            if known.any():
                raise ValueError(f"ids must be new, got {new_ids[known][0]}, which is already in {before.name}")
            self.view = change.appended(new_ids, rows)
        return self

    def upsert(self, vectors: Any, ids: ArrayLike) -> Self:
        """As :meth:`add`, with ids of which some or all may be there: they get the new vectors."""
        rows = self._checked_rows(vectors)
        new_ids = check_new_ids(ids, len(rows), "vectors")
        with self._change() as change:
            self.view = change.appended(new_ids, rows)
        return self

    def remove(self, ids: ArrayLike) -> Self:
        """Remove vectors by id; raises, and removes none, if one is not there."""
        with self._change() as change:
            change.before.places_of(ids)
            gone = np.unique(np.asarray(ids, np.int64))
            self.view = change.appended(-1 - gone, None)
        return self

    def save(self, path: str | Path) -> None:
        """Write a file of the vectors that are there, without replaced and removed ones, ordered by id."""
        view = self.view
        state = State(0, len(view), view.state.next_id, view.state.n_clipped)
        layout = view.layout
        with replacing(path) as (beside,), beside.open("wb") as file:
            file.write(head_of_file(layout.n_features, layout.values, state))
            for start in range(0, len(view), SEGMENT):
                file.write(_segment(view, start))

    def verify(self) -> Self:
        """Read everything, and raise ValueError if something does not match its checksum."""
        self.view.verify()
        return self

    def compact(self) -> Self:
        """Free the room of replaced and removed vectors; the file is replaced in one step."""
        if self.path is None:
            raise ValueError(f"compact needs a file with a name, got {_NAMELESS}; save it to a path")
        with self._change() as change:
            self.view = change.before
            self.save(self.path)
            with FileIO(self.path) as file:
                self.view = _view_of(file, self.path)
        return self

    def _checked_rows(self, vectors: Any) -> RowBlocks:
        rows = as_rows(vectors)
        if rows.shape[1] != self.n_features:
            raise ValueError(f"vectors must have {self.n_features} features, got {rows.shape[1]}")
        return rows

    @contextmanager
    def _change(self) -> Iterator["_Change"]:
        """Be alone with the file, and know what is in it now."""
        with self._changing:
            if self._nameless is not None:
                self._own_file()
                yield _Change(self._nameless, self._nameless, self.view, _naming_temporary_folder, is_durable=False)
                return
            assert self.path is not None
            named = partial(naming, self.path)
            with exclusive(self.path), opened_within(self.path) as out, FileIO(self.path) as file:
                with named():
                    now = self._view_now(out, file)
                yield _Change(out, file, now, named, is_durable=True)
                self._pinned = None

    def _own_file(self) -> None:
        """In a process that was forked: a nameless file is of the other process, which writes to it too."""
        if self._process == os.getpid():
            return
        with _naming_temporary_folder():
            self._nameless = _nameless_file(self.view.content())
        weakref.finalize(self, self._nameless.close)
        self.view, self._process = _view_of(self._nameless, _NAMELESS), os.getpid()

    def _view_now(self, out: FileIO, file: FileIO) -> VectorView:
        """What the file holds, changes of others too; of one opened for fewer records, only these are left."""
        now = _view_of(file, self.view.name)
        if self._pinned is None:
            is_known = (now.inode, now.state) == (self.view.inode, self.view.state)
            return self.view if is_known else now
        state = now.state._replace(sequence=now.state.sequence + 1, n_records=self._pinned)
        _write_state(out, now.layout, state, is_durable=True)
        return VectorView(self.view.name, file, now.layout, state)


class _Change(NamedTuple):
    """A file that is being changed, and what is in it.

    Attributes
    ----------
    out, file : FileIO
        To write to, and to read from.
    before : VectorView
    named : context manager
        Has errors of writing name the file; those of reading the rows, which may be in another file, name that.
    is_durable : bool
        Wait for the disk?
    """

    out: FileIO
    file: FileIO
    before: VectorView
    named: Callable[[], AbstractContextManager[None]]
    is_durable: bool

    def appended(self, keys: NDArray[np.int64], rows: RowBlocks | None) -> VectorView:
        """What the file holds once these records are in it; without rows they are removals."""
        view, layout = self.before, self.before.layout
        n_before, n_after = view.n_records, view.n_records + len(keys)
        size = os.fstat(self.out.fileno()).st_size
        try:
            with self.named():
                self.out.truncate(max(size, layout.size(n_after)))
                self._write_keys(layout, n_before, keys)
            n_clipped = sum(self._write(layout, n_before + part.start, block) for part, block in rows or ())
            if self.is_durable:
                with self.named():
                    os.fsync(self.out.fileno())
        except BaseException:
            self.out.truncate(size)
            raise
        largest = int(keys.max(initial=-1))
        before = view.state
        state = State(before.sequence + 1, n_after, max(before.next_id, largest + 1), before.n_clipped + n_clipped)
        with self.named():
            _write_state(self.out, layout, state, is_durable=self.is_durable)
        return VectorView(view.name, self.file, layout, state, view.table.extended(keys, n_before))

    def _write_keys(self, layout: Layout, first: int, keys: NDArray[np.int64]) -> None:
        for place, run in _runs_within_segments(keys, first):
            write_at(self.out, int(layout.keys_at(place)), np.ascontiguousarray(run, "<i8"))
            write_at(self.out, int(layout.key_checks_at(place)), key_checks(run, place))

    def _write(self, layout: Layout, first: int, block: NDArray) -> int:
        """Write vectors from a place on; returns how many of their values were clipped."""
        stored, n_clipped = layout.values.stored(block)
        with self.named():
            for place, run in _runs_within_segments(stored, first):
                write_at(self.out, int(layout.rows_at(place)), layout.checked_rows(run, place))
        return n_clipped


def _write_state(out: FileIO, layout: Layout, state: State, *, is_durable: bool) -> None:
    """Write both states; that the second is on the disk is not waited for."""
    first, second = layout.states_at
    write_at(out, first, state.packed())
    if is_durable:
        os.fsync(out.fileno())
    write_at(out, second, state.packed())


def _runs_within_segments(records: NDArray, first: int) -> Iterator[tuple[int, NDArray]]:
    """Records from place ``first`` on, cut where a segment ends, each piece with its first place."""
    start = 0
    while start < len(records):
        end = min(len(records), start + SEGMENT - (first + start) % SEGMENT)
        yield first + start, records[start:end]
        start = end


def _segment(view: VectorView, start: int) -> bytes:
    """The bytes of a segment that holds the ids from number ``start`` on, as they are kept."""
    layout, ids = view.layout, view.ids[start : start + SEGMENT]
    places = view.find(ids)
    order = np.argsort(places)
    view.expect(places[order])
    rows = np.zeros((SEGMENT, layout.n_features), layout.values.stored_dtype)
    rows[order] = view.stored(places[order])
    keys = np.zeros(SEGMENT, "<i8")
    keys[: len(ids)] = ids
    parts = keys, key_checks(keys, start), layout.checked_rows(rows, start)
    return b"".join(part.tobytes() for part in parts).ljust(layout.segment_bytes, b"\0")


def _view_of(file: FileIO, name: Path | str) -> VectorView:
    layout = read_layout(file, name)
    return VectorView(name, file, layout, read_state(file, name, layout))


def _nameless_file(content: Any) -> FileIO:
    with _naming_temporary_folder():
        file = _temporary_file()
        write_at(file, 0, content)
    return file


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
            error.errno, f"{error.strerror} for vectors that are not saved yet; set TMPDIR to another folder", folder
        ) from error
