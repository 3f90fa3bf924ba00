"""Parquet: one column of lists, or one numeric column per dimension.

The file is decoded a batch of rows at a time into the array that is returned. Where the writer has stored checksums of
the pages, they are compared.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.rows.arrow import is_list_type, is_number_type, matrix_of_lists
from hashlearn.rows.formats.format import listing
from hashlearn.rows.formats.limits import check_expansion
from hashlearn.rows.formats.problems import FileProblem, reading

BATCH_ROWS = 1 << 10
"""Rows that are decoded at a time."""


class Parquet:
    """The vectors of a column of lists, shape (n, d); a numeric column, shape (n,); or all numeric columns together.

    Without a name it is the only column of lists, or else all numeric columns.
    """

    def names(self, path: Path) -> list[str]:
        return []

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> NDArray:
        parquet = require("pyarrow.parquet", "parquet")
        with reading(path, "parquet"), parquet.ParquetFile(path, page_checksum_verification=True) as file:
            types = {field.name: field.type for field in file.schema_arrow}
            chosen = _choose(path, types, name)
            if is_list_type(types[chosen[0]]):
                return _read_lists(path, file, chosen[0], types[chosen[0]], max_bytes)
            matrix = _read_numbers(path, file, chosen, types, max_bytes)
            return matrix if name is None else matrix[:, 0]


def _choose(path: Path, types: dict[str, Any], column: str | None) -> list[str]:
    lists = [name for name, kind in types.items() if is_list_type(kind)]
    numbers = [name for name, kind in types.items() if is_number_type(kind)]
    if column is not None:
        if column not in lists and column not in numbers:
            raise FileProblem(path, f"no column of numbers named {column!r}; it has {listing(lists + numbers)}")
        return [column]
    if len(lists) > 1:
        raise FileProblem(path, f"several columns of vectors; name one with array=: {listing(lists)}")
    if not lists and not numbers:
        raise FileProblem(path, "no column of vectors or numbers")
    return lists or numbers


def _read_lists(path: Path, file: Any, column: str, kind: Any, max_bytes: int | None) -> NDArray:
    dtype = np.dtype(kind.value_type.to_pandas_dtype())
    vectors = np.empty((0, 0), dtype)
    for rows, batch in _batches(path, file, [column]):
        try:
            block = matrix_of_lists(batch.column(0))
        except ValueError as problem:
            raise FileProblem(path, f"column {column!r} {problem}") from None
        if rows.start == 0:
            vectors = _room(path, file, block.shape[1], dtype, max_bytes)
        if block.shape[1] != vectors.shape[1]:
            raise FileProblem(path, f"column {column!r} has vectors of different lengths")
        vectors[rows] = block
    return vectors


def _read_numbers(path: Path, file: Any, columns: list[str], types: dict[str, Any], max_bytes: int | None) -> NDArray:
    dtype = np.result_type(*(types[name].to_pandas_dtype() for name in columns))
    matrix = _room(path, file, len(columns), dtype, max_bytes)
    for rows, batch in _batches(path, file, columns):
        for place, name in enumerate(columns):
            values = batch.column(batch.schema.get_field_index(name))
            if values.null_count:
                raise FileProblem(path, f"column {name!r} has missing values")
            matrix[rows, place] = values.to_numpy(zero_copy_only=False)
    return matrix


def _room(path: Path, file: Any, width: int, dtype: np.dtype, max_bytes: int | None) -> NDArray:
    """Room for all rows that the footer promises."""
    n = file.metadata.num_rows
    check_expansion(path, n * width * dtype.itemsize, max_bytes)
    return np.empty((n, width), dtype)


def _batches(path: Path, file: Any, columns: list[str]) -> Iterator[tuple[slice, Any]]:
    """Batches with the slice of their rows.

    All rows that the footer promises come, or it is an error: a row without values would show what the memory held
    before. The footer is not asked about groups and columns: where these are damaged, pyarrow ends the process.
    """
    filled, n = 0, file.metadata.num_rows
    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=columns):
        if batch.num_rows == 0:
            continue
        if filled + batch.num_rows > n:
            raise FileProblem(path, f"more rows than the {n} that its footer promises")
        yield slice(filled, filled + batch.num_rows), batch
        filled += batch.num_rows
    if filled != n:
        raise FileProblem(path, f"{filled} rows, its footer promises {n}")
