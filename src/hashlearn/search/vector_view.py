"""The vectors of a file as they are at one moment."""

import mmap
import os
from collections.abc import Iterable
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.index.code_table import check_ids
from hashlearn.rows.blocks import Source
from hashlearn.search.read_ahead import expect_nothing_else, expect_rows
from hashlearn.search.record_table import NOWHERE, RecordTable
from hashlearn.search.vector_checks import copy_checked
from hashlearn.search.vector_layout import KEY_CHECKS_IN_SEGMENT, ROWS_IN_SEGMENT, SEGMENT, Layout, State, key_checks
from hashlearn.search.vector_values import Calibration


class VectorView(Source):
    """Vectors and their ids, mapped into memory. It never changes: a change of its file makes another one.

    It is also a source of rows, in the order of their ids: ``RowBlocks(view)`` goes over them in blocks.

    Attributes
    ----------
    shape : (n, n_features)
    dtype : float32
    inode : tuple of int
        Device and number of the file, whatever its name.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, name: Path | str, file: FileIO, layout: Layout, state: State, table: RecordTable | None = None):
        self.name, self.layout, self.state = name, layout, state
        if table is not None:
            self.table = table
        status = os.fstat(file.fileno())
        self.inode = status.st_dev, status.st_ino
        self._mapped = mmap.mmap(file.fileno(), layout.size(state.n_records), access=mmap.ACCESS_READ)
        expect_nothing_else(self._mapped)
        self._keys = self._of_segments("<i8", (SEGMENT,), 0)
        self._key_checks = self._of_segments("<u4", (SEGMENT,), KEY_CHECKS_IN_SEGMENT)
        self._rows = self._of_segments("<u4", (SEGMENT, layout.row_words + 1), ROWS_IN_SEGMENT)

    def __len__(self) -> int:
        return self.table.n_ids

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot copy or pickle a view of {self.name}; take its VectorFile, or open the file again")

    def __contains__(self, id: Any) -> bool:
        return bool(self.find(check_ids([id], "id"))[0] != NOWHERE)

    def __repr__(self) -> str:
        return f"VectorView({self.name}, {len(self)} vectors of {self.n_features} x {self.layout.values.dtype})"

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return len(self), self.n_features

    @property
    def n_features(self) -> int:
        return self.layout.n_features

    @property
    def n_records(self) -> int:
        """Records of the log: vectors that were added, and removals."""
        return self.state.n_records

    @property
    def calibration(self) -> Calibration | None:
        """What the bytes mean, of an int8 file."""
        return self.layout.values.calibration

    @property
    def n_clipped(self) -> int:
        """Values, of all vectors that were written, that were out of range and are clipped."""
        return self.state.n_clipped

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """The ids, ascending."""
        return self.table.ids()

    @cached_property
    def table(self) -> RecordTable:
        """Where the ids are. It is made when it is first needed, from the keys of all records."""
        expect_rows(self._mapped, self.layout.keys_at(np.arange(0, self.n_records, SEGMENT)), ROWS_IN_SEGMENT)
        keys = self._keys.reshape(-1)[: self.n_records].astype(np.int64, copy=False)
        if (key_checks(keys, 0) != self._key_checks.reshape(-1)[: self.n_records]).any():
            raise ValueError(f"{self.name}: ids do not match their checksums; the file was edited or damaged")
        return RecordTable.of(keys)

    def find(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of ids in the file; -1 for those that are not there."""
        return self.table.find(ids)

    def places_of(self, ids: ArrayLike, name: str = "ids") -> NDArray[np.int64]:
        """The places of ids, which must be there."""
        wanted = check_ids(ids, name)
        places = self.find(wanted)
        missing = places == NOWHERE
        if missing.any():
            raise ValueError(
                f"{name} must be in {self.name}, got {wanted[missing][0]}, which is not among its {len(self)} vectors"
            )
        return places

    def expect(self, places: NDArray[np.int64]) -> None:
        """Have the operating system begin to read the vectors at these places, which ascend."""
        expect_rows(self._mapped, self.layout.rows_at(places), self.layout.row_bytes)

    def read(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors at these places."""
        return self.layout.values.floats(self.stored(places))

    def stored(self, places: NDArray[np.int64]) -> NDArray:
        """The vectors at these places as they are kept, once they are seen to match their checksums."""
        words = np.empty((len(places), self.layout.row_words), "<u4")
        damaged = copy_checked(self._rows, places, words)
        if damaged >= 0:
            raise ValueError(
                f"{self.name}: the vector of record {damaged} does not match its checksum; "
                "the file was edited or damaged"
            )
        return words.view(self.layout.values.stored_dtype)[:, : self.n_features]

    def content(self) -> memoryview:
        """The bytes of a file with these records."""
        return memoryview(self._mapped)

    def verify(self) -> None:
        """Read everything, and raise ValueError if something does not match its checksum."""
        for start in range(0, len(self), SEGMENT):
            self[start : start + SEGMENT]

    def take(self, ids: ArrayLike) -> NDArray[np.float32]:
        """The vectors of ids, in their order, shape (n, n_features); each is read once, in the order of the file."""
        places, order = np.unique(self.places_of(ids), return_inverse=True)
        self.expect(places)
        return self.read(places)[order]

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        """Vectors by their numbers in the order of the ids."""
        return self.take(self.ids[rows])

    def in_order(self, slices: Iterable[slice]) -> Any:
        return ((rows, self[rows]) for rows in slices)

    def place_of(self, row: int) -> str:
        return f"id {self.ids[row]} of {self.name}"

    def _of_segments(self, dtype: Any, shape: tuple[int, ...], offset: int) -> NDArray:
        """A part of every segment, as one array of shape (n_segments, *shape)."""
        n_segments = -(-self.n_records // SEGMENT)
        part = np.empty(shape, dtype)
        if not n_segments:
            return part[None][:0]
        strides = (self.layout.segment_bytes, *part.strides)
        return np.ndarray((n_segments, *shape), dtype, self._mapped, self.layout.segments_at + offset, strides)
