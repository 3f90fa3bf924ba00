"""Tables and columns of pandas, polars, pyarrow and datasets, recognized by their attributes: none of these libraries
is imported."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.rows.arrow import is_list_type, is_number_type, matrix_of_lists

LIBRARIES = ("pandas", "polars", "pyarrow", "datasets", "torch")
Kind = Literal["numbers", "vectors", "other"]


def library_of(value: Any) -> str | None:
    """The library that a value comes from; for a subclass, the library of its base class."""
    roots = (base.__module__.partition(".")[0] for base in type(value).__mro__)
    return next((root for root in roots if root in LIBRARIES), None)


def is_table(value: Any) -> bool:
    """Whether a value has named columns: a frame, an Arrow table or record batch, or a ``datasets.Dataset``."""
    names = {"pandas": "columns", "polars": "columns", "pyarrow": "column_names", "datasets": "column_names"}
    library = library_of(value)
    if library not in names or hasattr(value, "collect"):  # a LazyFrame of polars has no values yet
        return False
    return hasattr(value, names[library]) and hasattr(value, "__getitem__")


def column_names(table: Any) -> list[Any]:
    """The names of the columns of a table."""
    return list(table.columns if library_of(table) in ("pandas", "polars") else table.column_names)


def column_of(table: Any, name: str, argument: str) -> Any:
    """A column of a table."""
    if not is_table(table):
        raise TypeError(f"column names a column of a table, and {argument} is no table, but {type(table).__name__}")
    names = column_names(table)
    if name not in names:
        raise ValueError(f"{argument} has no column {name!r}; it has {', '.join(map(str, names[:20])) or 'none'}")
    if library_of(table) == "datasets":
        return table.select_columns([name]).with_format("arrow")[:][name]
    return table[name]


def _columns(table: Any) -> Iterator[tuple[Any, Any]]:
    """The columns with their names; a pandas frame may have several columns of one name."""
    if library_of(table) == "pandas":
        return ((name, table.iloc[:, place]) for place, name in enumerate(table.columns))
    if library_of(table) == "datasets":
        table = table.with_format("arrow")[:]
    return ((name, table[name]) for name in column_names(table))


def columns_by_kind(table: Any) -> dict[Kind, list[Any]]:
    """The names of the columns that hold a number, a vector, or something else in every row."""
    kinds: dict[Kind, list[Any]] = {"numbers": [], "vectors": [], "other": []}
    for name, column in _columns(table):
        kinds[_kind_of(column)].append(name)
    return kinds


def is_frame_of_numbers(value: Any) -> bool:
    """Whether a value is a frame of pandas or polars that has a column for every feature."""
    if library_of(value) not in ("pandas", "polars") or not is_table(value):
        return False
    if library_of(value) == "pandas":
        return all(dtype.kind in "biuf" for dtype in value.dtypes)
    return len(columns_by_kind(value)["numbers"]) == len(column_names(value))


def matrix_of_table(table: Any, argument: str) -> Any:
    """The vectors of a table: its only column of vectors, or otherwise all its columns, which must be numbers."""
    kinds = columns_by_kind(table)
    if len(kinds["vectors"]) == 1:
        return values_of_column(column_of(table, kinds["vectors"][0], argument), argument)
    if kinds["vectors"]:
        names = ", ".join(map(repr, kinds["vectors"][:20]))
        raise ValueError(
            f"{argument} has several columns of vectors, {names}; pass one of them: {argument}[{kinds['vectors'][0]!r}]"
        )
    if kinds["other"]:
        raise ValueError(
            f"{argument} must have one column of vectors or only columns of numbers, and column {kinds['other'][0]!r} "
            f"has neither; pass the columns of the vectors alone"
        )
    columns = [values_of_column(column, argument) for _, column in _columns(table)]
    return np.column_stack(columns) if columns else np.empty((len(table), 0))


def values_of_column(column: Any, argument: str) -> Any:
    """The values of a column as an array: numbers of shape (n,), vectors of shape (n, d), or objects.

    A column of Arrow in several pieces is a list of matrices.
    """
    library = library_of(column)
    if library == "pyarrow":
        return _of_arrow(column, argument)
    if library == "polars":
        return _of_polars(column, argument)
    if library == "pandas":
        if hasattr(column.dtype, "pyarrow_dtype"):
            return _of_arrow(require("pyarrow", "parquet").array(column), argument)
        if column.dtype.kind in "biuf":
            return np.asarray(column.to_numpy(dtype=_numpy_dtype(column)))
    if library == "datasets" and is_table(column.source):
        return values_of_column(column_of(column.source, column.column_name, argument), argument)
    return np.asarray(column)


def _kind_of(column: Any) -> Kind:
    library = library_of(column)
    if library == "pyarrow":
        return _kind_of_arrow(column.type)
    if library == "polars":
        inner = getattr(column.dtype, "inner", None)
        if inner is not None:
            return "vectors" if inner.is_numeric() else "other"
        return "numbers" if column.dtype.is_numeric() or str(column.dtype) == "Boolean" else "other"
    if hasattr(column.dtype, "pyarrow_dtype"):
        return _kind_of_arrow(column.dtype.pyarrow_dtype)
    if column.dtype.kind in "biuf":
        return "numbers"
    first = next((value for value in column if not is_missing(value)), None)
    return "vectors" if is_vector(first) else "other"


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, or NA and NaT of pandas."""
    return (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
    )


def is_vector(value: Any) -> bool:
    """Whether a value in a column is a list of values and not a text."""
    if isinstance(value, (str, bytes)):
        return False
    return isinstance(value, Sequence) or (hasattr(value, "__array__") and np.ndim(value) > 0)


def _kind_of_arrow(kind: Any) -> Kind:
    if is_list_type(kind):
        return "vectors"
    return "numbers" if is_number_type(kind) or str(kind) == "bool" else "other"


def _of_arrow(column: Any, argument: str) -> Any:
    if hasattr(column, "as_py"):  # one row of a column of lists
        column = column.values
    if not is_list_type(column.type):
        return np.asarray(column)
    pieces = list(column.chunks) if hasattr(column, "chunks") else [column]
    try:
        matrices = [matrix_of_lists(piece) for piece in pieces if len(piece)]
    except ValueError as problem:
        raise ValueError(f"{argument} {problem}") from None
    if not matrices:
        return np.empty((0, 0), np.float32)
    return matrices[0] if len(matrices) == 1 else matrices


def _of_polars(series: Any, argument: str) -> NDArray:
    if getattr(series.dtype, "inner", None) is None:
        return series.to_numpy()
    missing = series.is_null().to_numpy()
    if missing.any():
        raise ValueError(f"{argument} has missing vectors: row {int(missing.argmax())} has none")
    if hasattr(series.dtype, "shape"):
        return series.to_numpy()
    lengths = series.list.len().to_numpy()
    if len(lengths) and (lengths != lengths[0]).any():
        raise ValueError(f"{argument} has vectors of different lengths, {lengths.min()} to {lengths.max()}")
    return series.explode().to_numpy().reshape(len(series), -1 if len(series) else 0)


def _numpy_dtype(column: Any) -> Any:
    """The numpy type of a pandas column; nullable types of pandas become floats, with NaN for missing values."""
    if isinstance(column.dtype, np.dtype):
        return column.dtype
    if column.isna().any():
        return np.float64
    return getattr(column.dtype, "numpy_dtype", None) or getattr(column.dtype, "subtype", np.float64)
