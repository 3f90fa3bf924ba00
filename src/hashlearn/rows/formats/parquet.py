"""Vectors in parquet files: one column of lists, or one numeric column per dimension."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.rows.formats.problems import file_problem, reading


def read_parquet(path: Path, column: str | None = None) -> NDArray:
    """The vectors of a column of lists, shape (n, d); a numeric column, shape (n,); or all numeric columns together.

    Without ``column`` it is the only column of lists, or else all numeric columns. The file is decoded a batch of rows
    at a time into the array that is returned.
    """
    with reading(path, "parquet"):
        file = require("pyarrow.parquet", "parquet").ParquetFile(path)
        types = {field.name: field.type for field in file.schema_arrow}
        chosen = _choose(path, types, column)
        if _is_list(types[chosen[0]]):
            return _read_lists(path, file, chosen[0], types[chosen[0]])
        matrix = _read_numbers(path, file, chosen, types)
        return matrix if column is None else matrix[:, 0]


def _choose(path: Path, types: dict[str, Any], column: str | None) -> list[str]:
    lists = [name for name, kind in types.items() if _is_list(kind)]
    numbers = [name for name, kind in types.items() if _is_number(kind)]
    if column is not None:
        if column not in lists and column not in numbers:
            raise file_problem(path, f"no column of numbers named {column!r}; it has {_listing(lists + numbers)}")
        return [column]
    if len(lists) > 1:
        raise file_problem(path, f"several columns of vectors; name one with array=: {_listing(lists)}")
    if not lists and not numbers:
        raise file_problem(path, "no column of vectors or numbers")
    return lists or numbers


def _read_lists(path: Path, file: Any, column: str, kind: Any) -> NDArray:
    lengths_of = require("pyarrow.compute", "parquet").list_value_length
    n, filled = file.metadata.num_rows, 0
    vectors = np.empty((0, 0))
    for batch in file.iter_batches(columns=[column]):
        lists = batch.column(0)
        if lists.null_count:
            raise file_problem(path, f"column {column!r} has missing vectors")
        lengths = lengths_of(lists).to_numpy(zero_copy_only=False)
        if filled == 0 and len(lengths):
            vectors = np.empty((n, int(lengths[0])), kind.value_type.to_pandas_dtype())
        if (lengths != vectors.shape[1]).any():
            raise file_problem(path, f"column {column!r} has vectors of different lengths")
        values = lists.flatten()
        if values.null_count:
            raise file_problem(path, f"column {column!r} has missing values")
        part = values.to_numpy(zero_copy_only=False).reshape(len(lists), -1)
        vectors[filled : filled + len(lists)] = part
        filled += len(lists)
    return vectors


def _read_numbers(path: Path, file: Any, columns: list[str], types: dict[str, Any]) -> NDArray:
    dtype = np.result_type(*(types[name].to_pandas_dtype() for name in columns))
    matrix = np.empty((file.metadata.num_rows, len(columns)), dtype)
    filled = 0
    for batch in file.iter_batches(columns=columns):
        for place, name in enumerate(columns):
            values = batch.column(batch.schema.get_field_index(name))
            if values.null_count:
                raise file_problem(path, f"column {name!r} has missing values")
            matrix[filled : filled + len(values), place] = values.to_numpy(zero_copy_only=False)
        filled += batch.num_rows
    return matrix


def _is_list(kind: Any) -> bool:
    check = require("pyarrow", "parquet").types
    lists = check.is_list(kind) or check.is_large_list(kind) or check.is_fixed_size_list(kind)
    return lists and _is_number(kind.value_type)


def _is_number(kind: Any) -> bool:
    check = require("pyarrow", "parquet").types
    return check.is_integer(kind) or check.is_floating(kind)


def _listing(names: list[str]) -> str:
    return ", ".join(names[:20]) or "none"
