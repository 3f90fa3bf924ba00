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
from hashlearn.rows.formats.format import listing
from hashlearn.rows.formats.limits import check_expansion
from hashlearn.rows.formats.problems import FileProblem, reading

BATCH_VALUES = 1 << 20
"""Numbers that are decoded at a time."""


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
            if _is_list(types[chosen[0]]):
                return _read_lists(path, file, chosen[0], types[chosen[0]], max_bytes)
            matrix = _read_numbers(path, file, chosen, types, max_bytes)
            return matrix if name is None else matrix[:, 0]


def _choose(path: Path, types: dict[str, Any], column: str | None) -> list[str]:
    lists = [name for name, kind in types.items() if _is_list(kind)]
    numbers = [name for name, kind in types.items() if _is_number(kind)]
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
    lengths_of = require("pyarrow.compute", "parquet").list_value_length
    dtype = np.dtype(kind.value_type.to_pandas_dtype())
    n, n_values = _n_rows(path, file), _n_values(file, column)
    check_expansion(path, n_values * dtype.itemsize, max_bytes)
    if n == 0 or n_values % n:
        raise FileProblem(path, f"column {column!r} has missing vectors, or vectors of different lengths")
    vectors = np.empty((n, n_values // n), dtype)
    for rows, batch in _batches(path, file, [column], n, vectors.shape[1]):
        lists = batch.column(0)
        if lists.null_count:
            raise FileProblem(path, f"column {column!r} has missing vectors")
        if (lengths_of(lists).to_numpy(zero_copy_only=False) != vectors.shape[1]).any():
            raise FileProblem(path, f"column {column!r} has vectors of different lengths")
        values = lists.flatten()
        if values.null_count:
            raise FileProblem(path, f"column {column!r} has missing values")
        vectors[rows] = values.to_numpy(zero_copy_only=False).reshape(len(lists), -1)
    return vectors


def _read_numbers(path: Path, file: Any, columns: list[str], types: dict[str, Any], max_bytes: int | None) -> NDArray:
    dtype = np.result_type(*(types[name].to_pandas_dtype() for name in columns))
    n = _n_rows(path, file)
    check_expansion(path, n * len(columns) * dtype.itemsize, max_bytes)
    matrix = np.empty((n, len(columns)), dtype)
    for rows, batch in _batches(path, file, columns, n, len(columns)):
        for place, name in enumerate(columns):
            values = batch.column(batch.schema.get_field_index(name))
            if values.null_count:
                raise FileProblem(path, f"column {name!r} has missing values")
            matrix[rows, place] = values.to_numpy(zero_copy_only=False)
    return matrix


def _batches(path: Path, file: Any, columns: list[str], n: int, width: int) -> Iterator[tuple[slice, Any]]:
    """Batches with the slice of their rows. All n rows come, or it is an error: none is left as memory was."""
    filled = 0
    for batch in file.iter_batches(batch_size=max(1, BATCH_VALUES // max(1, width)), columns=columns):
        if filled + batch.num_rows > n:
            raise FileProblem(path, f"more rows than the {n} its footer says")
        yield slice(filled, filled + batch.num_rows), batch
        filled += batch.num_rows
    if filled != n:
        raise FileProblem(path, f"{filled} rows, its footer says {n}")


def _n_rows(path: Path, file: Any) -> int:
    groups = sum(file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups))
    if file.metadata.num_rows != groups:
        raise FileProblem(path, f"its footer says {file.metadata.num_rows} rows, its groups have {groups}")
    return groups


def _n_values(file: Any, column: str) -> int:
    """Numbers in all lists of a column, as the footer says."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    return sum(chunk.num_values for chunk in chunks if chunk.path_in_schema.partition(".")[0] == column)


def _is_list(kind: Any) -> bool:
    check = require("pyarrow", "parquet").types
    lists = check.is_list(kind) or check.is_large_list(kind) or check.is_fixed_size_list(kind)
    return lists and _is_number(kind.value_type)


def _is_number(kind: Any) -> bool:
    check = require("pyarrow", "parquet").types
    return check.is_integer(kind) or check.is_floating(kind)
