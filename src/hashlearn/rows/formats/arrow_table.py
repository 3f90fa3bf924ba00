"""The columns of an Arrow table that is read a batch at a time: vectors, numbers, or texts."""

import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.rows.formats.format import ID_NAMES, Format, listing, objects_of
from hashlearn.rows.formats.limits import check_expansion
from hashlearn.rows.formats.problems import FileProblem
from hashlearn.rows.forms import is_list_type, is_number_type, matrix_of_lists

_MOST_IN_MEMORY = 1 << 30
"""Bytes of an array; a larger one lies in a temporary file, and in memory as far as the system has room."""


class ArrowTable(NamedTuple):
    """A table in a file.

    Attributes
    ----------
    path : Path
    types : dict of str to Arrow type
    n_rows : int
        As the file says.
    batches : function
        Takes names of columns and gives record batches with these columns.
    max_bytes : int or None
        See :func:`~hashlearn.rows.formats.limits.check_expansion`.
    """

    path: Path
    types: dict[str, Any]
    n_rows: int
    batches: Callable[[list[str]], Iterator[Any]]
    max_bytes: int | None

    def read(self, name: str | None) -> NDArray:
        """A column of vectors, shape (n, d); of numbers or texts, shape (n,).

        Without a name: the only column of vectors, or otherwise all columns of numbers together.
        """
        chosen = self._choose(name)
        kind = self.types[chosen[0]]
        if is_list_type(kind):
            return self._vectors(chosen[0], kind)
        if is_number_type(kind):
            matrix = self._numbers(chosen)
            return matrix if name is None else matrix[:, 0]
        return self._values(chosen[0])

    def describe(self) -> dict[str, str]:
        """The columns, as a line, and those that are no part of the vectors."""
        taken = [name for name, kind in self.types.items() if is_list_type(kind)] or self._columns_of_numbers()
        left_out = [name for name in self.types if name not in taken] if len(taken) > 1 else []
        hint = f"; no numbers of a vector: {listing(left_out)}" if left_out else ""
        return {"columns": listing([f"{name} ({kind})" for name, kind in self.types.items()]) + hint}

    def _choose(self, column: str | None) -> list[str]:
        if column is not None:
            if column not in self.types:
                raise FileProblem(self.path, f"no column named {column!r}; it has {listing(list(self.types))}")
            return [column]
        lists = [name for name, kind in self.types.items() if is_list_type(kind)]
        numbers = self._columns_of_numbers()
        if len(lists) > 1:
            raise FileProblem(self.path, f"several columns of vectors; name one with array=: {listing(lists)}")
        if not lists and not numbers and len(self.types) == 1:
            return list(self.types)
        if not lists and not numbers:
            raise FileProblem(self.path, "no column of vectors or numbers")
        return lists or numbers

    def _columns_of_numbers(self) -> list[str]:
        """The columns of numbers, without a column of integers whose name says that they are ids."""
        check = require("pyarrow", "parquet").types
        numbers = [name for name, kind in self.types.items() if is_number_type(kind)]
        others = [name for name in numbers if name.lower() not in ID_NAMES or not check.is_integer(self.types[name])]
        return others or numbers

    def _vectors(self, column: str, kind: Any) -> NDArray:
        dtype = np.dtype(getattr(kind, "storage_type", kind).value_type.to_pandas_dtype())
        vectors = np.empty((0, 0), dtype)
        for rows, batch in self._filled([column]):
            try:
                block = matrix_of_lists(batch.column(0))
            except ValueError as problem:
                raise FileProblem(self.path, f"column {column!r} {problem}") from None
            if rows.start == 0:
                vectors = self._room(block.shape[1], dtype)
            if block.shape[1] != vectors.shape[1]:
                raise FileProblem(self.path, f"column {column!r} has vectors of different lengths")
            vectors[rows] = block
        return vectors

    def _numbers(self, columns: list[str]) -> NDArray:
        check = require("pyarrow", "parquet").types
        decimals = {name for name in columns if check.is_decimal(self.types[name])}
        dtype = np.result_type(*(float if each in decimals else self.types[each].to_pandas_dtype() for each in columns))
        matrix = self._room(len(columns), dtype)
        for rows, batch in self._filled(columns):
            for place, name in enumerate(columns):
                values = batch.column(batch.schema.get_field_index(name))
                if values.null_count:
                    raise FileProblem(self.path, f"column {name!r} has missing values")
                values = values.cast("float64") if name in decimals else values
                matrix[rows, place] = values.to_numpy(zero_copy_only=False)
        return matrix

    def _values(self, column: str) -> NDArray:
        check = require("pyarrow", "parquet").types
        if check.is_nested(self.types[column]) or check.is_binary(self.types[column]):
            raise FileProblem(self.path, f"column {column!r} holds no numbers or texts, but {self.types[column]}")
        values: list[Any] = []
        for _, batch in self._filled([column]):
            values += batch.column(0).to_pylist()
        return objects_of(values)

    def _room(self, width: int, dtype: np.dtype) -> NDArray:
        """An empty array for all rows that the file announces."""
        n_bytes = self.n_rows * width * dtype.itemsize
        check_expansion(self.path, n_bytes, self.max_bytes)
        pages = _pages(n_bytes) if n_bytes > _MOST_IN_MEMORY else None
        if pages is None:
            return np.empty((self.n_rows, width), dtype)
        return np.frombuffer(pages, dtype).reshape(self.n_rows, width)

    def _filled(self, columns: list[str]) -> Iterator[tuple[slice, Any]]:
        """Batches with the slice of their rows.

        Fewer rows than the file announces are an error: rows without values would show old memory.
        """
        filled = 0
        for batch in self.batches(columns):
            if batch.num_rows == 0:
                continue
            if filled + batch.num_rows > self.n_rows:
                raise FileProblem(self.path, f"more rows than the {self.n_rows} that it promises")
            yield slice(filled, filled + batch.num_rows), batch
            filled += batch.num_rows
        if filled != self.n_rows:
            raise FileProblem(self.path, f"{filled} rows, and it promises {self.n_rows}")


def _pages(n_bytes: int) -> mmap.mmap | None:
    """A mapped temporary file without a name, which ends with the array; None where the disk has no room for it."""
    try:
        with tempfile.TemporaryFile() as file:
            os.posix_fallocate(file.fileno(), 0, n_bytes)  # without it a full disk would end the process
            return mmap.mmap(file.fileno(), n_bytes)
    except (OSError, AttributeError):  # no room, or a system without posix_fallocate
        return None


@dataclass(frozen=True)
class ArrowFormat(Format):
    """A format whose files are tables of Arrow: a column, or the vectors of a file; see :meth:`ArrowTable.read`."""

    opened: Callable[[Path, int | None], AbstractContextManager[ArrowTable]]

    def names(self, path: Path) -> list[str]:
        return []

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> NDArray:
        with self.opened(path, max_bytes) as table:
            return table.read(name)

    def describe(self, path: Path) -> dict[str, str]:
        with self.opened(path, None) as table:
            return table.describe()
