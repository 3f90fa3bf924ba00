"""Vectors in other forms than an array: lists, tables and columns, tensors, and objects with a protocol.

Pandas, polars, pyarrow, datasets and torch are recognized by their attributes: none of them is imported.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from numbers import Number
from typing import Any, Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hashlearn.extras import require

LIBRARIES = ("pandas", "polars", "pyarrow", "datasets", "torch")
Kind = Literal["numbers", "vectors", "other"]
WITH_AN_ENCODER = "pass its embedding; with an encoder, text= or texts="
"""What to do with a text in the place of a vector."""

_NO_ROWS = (type(None), Number, bytes, Mapping, Set)

_TABLES: dict[str, Callable[[Any], list[Any]]] = {
    "pandas": lambda frame: _records(frame),
    "polars": lambda frame: frame.to_dicts(),
    "datasets": lambda dataset: dataset.to_list(),
}
"""The rows of a table as dicts, by the library that it comes from."""


def held_vectors(X: Any, name: str) -> Any:
    """The numbers of X as an array of the same shape, or as a list of matrices if X has several pieces."""
    if scipy.sparse.issparse(X):  # before mappings: a dok_matrix is one
        return X.tocsr()
    if isinstance(X, _NO_ROWS):
        hint = _vectors_in(X, name) if isinstance(X, Mapping) else ""
        raise TypeError(f"{name} must hold vectors, shape (n, n_features), got {type(X).__name__}{hint}")
    if hasattr(X, "read_all"):  # a stream of record batches of pyarrow
        X = X.read_all()
    elif library_of(X) == "pyarrow" and hasattr(X, "to_table"):  # a pyarrow.dataset, or a scan of one
        X = X.to_table()
    if isinstance(X, Iterator):
        raise TypeError(
            f"{name} must be a function that returns a fresh iterator for every pass, got an iterator; "
            f"pass list({name}) if its vectors fit in memory"
        )
    if np.ma.is_masked(X):
        raise ValueError(f"{name} must not be masked; fill it with {name}.filled(value)")
    if isinstance(X, (np.ndarray, memoryview)):
        return _of_array(np.asarray(X), name)
    if isinstance(X, (list, tuple)):
        return _of_list(X, name)
    if hasattr(X, "detach"):
        return _of_tensor(X, name)
    if library_of(X) in (None, "torch"):
        return _of_protocol(X, name)
    if library_of(X) == "polars" and hasattr(X, "collect"):
        raise TypeError(f"{name} must hold vectors, got a LazyFrame; pass {name}.collect()")
    if library_of(X) == "datasets" and not hasattr(X, "__len__"):
        raise TypeError(
            f"{name} must hold vectors, got {type(X).__name__}; pass a function that returns blocks of them, such as "
            "lambda: (block['embedding'] for block in dataset.iter(1000))"
        )
    if library_of(X) == "polars" and not hasattr(X, "__len__"):  # an expression
        raise TypeError(f"{name} must hold vectors, got {type(X).__name__}, which has no values")
    values = matrix_of_table(X, name) if is_table(X) else values_of_column(X, name)
    return values if isinstance(values, list) else _of_array(values, name)


def _vectors_in(held: Mapping[Any, Any], name: str) -> str:
    """How to pass the vectors of a mapping: one for each key, or all of them under one key."""
    if not held:
        return ""
    depths = [_depth(value) for value in held.values()]
    if all(depth == 1 for depth in depths):
        return f"; pass list({name}.values()), and ids=list({name})"
    key = next((key for key, depth in zip(held, depths) if depth == 2), next(iter(held)))
    return f"; pass its vectors, such as {name}[{key!r:.40}]"


def _depth(value: Any) -> int:
    """0 of a number or a text, 1 of a vector, 2 of a list of vectors."""
    if isinstance(value, (list, tuple)):
        return 1 + (len(value) > 0 and is_vector(value[0]))
    return getattr(value, "ndim", 0)


def _of_array(array: NDArray, name: str) -> NDArray:
    if array.dtype.kind == "O" and array.ndim == 1:
        return _of_list(array.tolist() if _are_lists(array) else list(array), name)
    if array.dtype.name.startswith(("bfloat", "float8")):  # of ml_dtypes, as JAX has them
        return array.astype(np.float32)
    return _without_objects(array, name)


def _without_objects(array: NDArray, name: str) -> NDArray:
    """Numbers that are Python objects, such as decimals, as float64."""
    if array.dtype.kind != "O" or not array.size:
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as problem:
        deep = next((value for value in array.flat if is_vector(value)), None)
        if deep is not None:
            raise ValueError(f"{name} must be vectors of numbers, got a vector of {type(deep).__name__}") from None
        raise type(problem)(f"{name} must be numbers: {problem}") from None


def _are_lists(array: NDArray) -> bool:
    return len(array) > 0 and isinstance(array[0], (list, tuple))


def _of_list(values: Sequence[Any], name: str) -> NDArray:
    """Numbers as one vector, or vectors as a matrix."""
    if len(values) == 0:
        return np.asarray(values, np.float64)
    missing = next((row for row, each in enumerate(values) if is_missing(each)), None)
    if missing is not None and any(map(is_vector, values)):
        raise ValueError(f"{name} has missing vectors: row {missing} has none")
    if isinstance(values[0], str):
        hint = f"pass [json.loads(text) for text in {name}]" if values[0].startswith("[") else WITH_AN_ENCODER
        raise TypeError(
            f"{name} must hold vectors, shape (n, n_features), got a {type(values).__name__} of texts; {hint}"
        )
    if isinstance(values[0], bytes):
        raise TypeError(
            f"{name} must hold vectors, got bytes; pass [np.frombuffer(each, np.float32) for each in {name}]"
        )
    if scipy.sparse.issparse(values[0]):
        return held_vectors(scipy.sparse.vstack(values), name)
    known = (np.ndarray, list, tuple, Number)
    vectors: list[Any] = [each if isinstance(each, known) else held_vectors(each, name) for each in values]
    try:
        stacked = np.stack(vectors) if all(isinstance(each, np.ndarray) for each in vectors) else np.array(vectors)
    except ValueError:
        lengths = [np.size(each) for each in vectors if np.ndim(each) <= 1] or [0]
        raise ValueError(
            f"{name} must hold vectors of one length, got lengths from {min(lengths)} to {max(lengths)}"
        ) from None
    return _without_objects(stacked, name)


def _of_tensor(tensor: Any, name: str) -> NDArray:
    """A tensor of torch, without its gradient and on the CPU; types that numpy lacks as float32."""
    try:
        held = tensor.detach().cpu()
        try:
            return held.numpy()
        except TypeError:
            return held.float().numpy()
    except (TypeError, RuntimeError) as problem:  # sparse, quantized, nested, or without values
        raise TypeError(_unreadable(name, problem)) from None


def _unreadable(name: str, problem: Exception) -> str:
    return f"{name} cannot be read as an array of numpy: {str(problem).partition(chr(10))[0]}"


def _of_protocol(X: Any, name: str) -> Any:
    """The numbers of an object that has a protocol: an array, DLPack, Arrow, or a sequence."""
    if hasattr(X, "__array__") or hasattr(X, "__array_interface__"):
        try:
            array = np.asarray(X)
        except (TypeError, RuntimeError) as problem:  # of a GPU
            raise TypeError(_unreadable(name, problem)) from None
        return _of_array(array, name)
    if hasattr(X, "__arrow_c_stream__"):
        arrow = require("pyarrow", "parquet")
        try:
            return held_vectors(arrow.table(X), name)
        except (arrow.ArrowInvalid, TypeError):  # a stream of a single column
            return held_vectors(arrow.chunked_array(X), name)
    if hasattr(X, "__arrow_c_array__"):
        return held_vectors(require("pyarrow", "parquet").array(X), name)
    if hasattr(X, "__dlpack__"):
        try:
            return _of_array(np.from_dlpack(X), name)
        except (BufferError, RuntimeError, TypeError) as problem:
            raise TypeError(f"{name} must be on the CPU and of a type that numpy has: {problem}") from None
    if isinstance(X, Collection):
        return _of_list(list(X), name)
    call = f"lambda: iter({name}) if it gives blocks of rows" if hasattr(X, "__iter__") else f"np.asarray({name})"
    raise TypeError(
        f"{name} must hold vectors: an array of shape (n, n_features), a list of vectors, a frame or a column of "
        f"vectors, got {type(X).__name__}; pass {call}"
    )


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


def rows_of_table(value: Any) -> list[Any] | None:
    """The rows of a table as dicts, or the values of a column; None where a value is neither."""
    library = library_of(value)
    if library == "pyarrow":
        return value.to_pylist()
    if is_table(value):
        return _TABLES[str(library)](value)
    return list(value) if library in ("pandas", "polars", "datasets") else None


def _records(frame: Any) -> list[Any]:
    if not frame.columns.is_unique:
        name = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"payloads must have a name for each column, got several columns named {name!r}")
    return frame.to_dict("records")


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
    """Whether a value is a frame of pandas or polars that has a column for every feature, each with its own name."""
    if library_of(value) not in ("pandas", "polars") or not is_table(value) or not len(value.columns):
        return False
    if library_of(value) == "pandas":
        return value.columns.is_unique and all(dtype.kind in "biuf" for dtype in value.dtypes)
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
    if isinstance(first, Number):
        return "numbers"
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
    if require("pyarrow", "parquet").types.is_struct(column.type):
        return matrix_of_table(require("pyarrow", "parquet").Table.from_struct_array(column), argument)
    if is_list_type(column.type) and column.null_count:
        row = require("pyarrow.compute", "parquet").index(column.is_null(), value=True).as_py()
        raise ValueError(f"{argument} has missing vectors: row {row} has none")
    if not is_list_type(column.type):
        is_decimal = require("pyarrow", "parquet").types.is_decimal(column.type)
        return np.asarray(column.cast("float64") if is_decimal else column)
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


def is_list_type(kind: Any) -> bool:
    """Whether an Arrow type is a list of numbers: a vector in every row."""
    check = require("pyarrow", "parquet").types
    kind = getattr(kind, "storage_type", kind)  # an extension, such as a tensor of a fixed shape
    lists = check.is_list(kind) or check.is_large_list(kind) or check.is_fixed_size_list(kind)
    return lists and is_number_type(kind.value_type) and not check.is_decimal(kind.value_type)


def is_number_type(kind: Any) -> bool:
    """Whether an Arrow type is a number."""
    check = require("pyarrow", "parquet").types
    return check.is_integer(kind) or check.is_floating(kind) or check.is_decimal(kind)


def matrix_of_lists(lists: Any) -> NDArray:
    """The vectors of an Arrow array of lists, shape (n, d).

    Raises
    ------
    ValueError
        If the column has no vectors of one length. The message follows the name of the column: "has missing vectors".
    """
    lists = getattr(lists, "storage", lists)
    if lists.null_count:
        raise ValueError("has missing vectors")
    lengths = require("pyarrow.compute", "parquet").list_value_length(lists).to_numpy(zero_copy_only=False)
    if len(lengths) and (lengths != lengths[0]).any():
        raise ValueError(f"has vectors of different lengths, {lengths.min()} to {lengths.max()}")
    values = lists.flatten()
    if values.null_count:
        raise ValueError("has missing values")
    return values.to_numpy(zero_copy_only=False).reshape(len(lists), -1 if len(lists) else 0)
