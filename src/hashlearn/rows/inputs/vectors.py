"""Vectors in any form: an array, a frame, a column, a tensor, a file, several files, a stream."""

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hashlearn.checks import check_vectors
from hashlearn.extras import require
from hashlearn.rows.blocks import RowBlocks, dense
from hashlearn.rows.cluster import dask_rows
from hashlearn.rows.formats import is_place_of_file, read_place
from hashlearn.rows.inputs.columns import (
    column_of,
    is_missing,
    is_table,
    is_vector,
    library_of,
    matrix_of_table,
    values_of_column,
)
from hashlearn.rows.source import Files, PathLike, Pieces, Stream

LONGEST_TEXT = 40
"""Characters of a text that an error shows."""

_NO_ROWS = (type(None), Number, bytes, Mapping, Set)


class GivenVectors(NamedTuple):
    """Vectors that a user has passed.

    Attributes
    ----------
    rows : ndarray or csr_array of shape (n, n_features), or RowBlocks
        All functions that take rows take each of these types. RowBlocks hold files, streams, or arrays in several
        pieces.
    was_one_row : bool
        Whether the user passed one vector, of shape (n_features,), and not a matrix of one row.
    """

    rows: Any
    was_one_row: bool


def as_vectors(X: Any, column: str | None = None, name: str = "X") -> GivenVectors:
    """Vectors in any form, as rows; one vector is one row.

    Parameters
    ----------
    X : array, list, Series, frame, Arrow array or table, ``datasets.Dataset``, tensor, sparse matrix, or source of rows
        Of shape (n, n_features) or, for one vector, (n_features,). See :func:`as_rows` for sources, and
        docs/howto/input.md for everything. A table has one column of vectors, or a column for each feature.
    column : str or None
        The column of a table, or the array or column of a file, that holds the vectors.
    name : str
        The name of X in an error.

    Returns
    -------
    GivenVectors
        ``rows`` and ``was_one_row``. The numbers are not copied where numpy can view them.

    Examples
    --------
    >>> as_vectors([0.5, 1.5])
    GivenVectors(rows=array([[0.5, 1.5]]), was_one_row=True)
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"word": ["one", "two"], "embedding": [[1, 0], [0, 1]]})
    >>> as_vectors(frame).rows.tolist()
    [[1, 0], [0, 1]]
    """
    rows = plain_rows(X, column, name)
    if isinstance(rows, RowBlocks):
        return GivenVectors(rows, False)
    was_one_row = rows.ndim == 1 and len(rows) > 0
    if was_one_row:
        rows = rows[None]
    check_vectors(name, rows.shape, rows.dtype)
    return GivenVectors(rows, was_one_row)


def as_matrix(X: Any, column: str | None = None, name: str = "X") -> NDArray:
    """Vectors in any form as one dense array in memory, shape (n, n_features); the arguments of :func:`as_vectors`."""
    rows = as_vectors(X, column, name).rows
    if isinstance(rows, RowBlocks):
        return rows.take(np.arange(len(rows)))
    return dense(rows)


def as_rows(X: Any, column: str | None = None) -> RowBlocks:
    """The rows of X, to be read a block at a time.

    Parameters
    ----------
    X : whatever :func:`as_vectors` takes, path, list of paths, function, or dask array
        A path names a file of any format of :func:`hashlearn.rows.formats.read_vectors`; several are one source, in
        their order. A function takes nothing and returns a fresh iterator over blocks of shape (any, d) each time it is
        called. The length of a stream is not known, so one more pass counts and checks its blocks.
        The rows of a dask array are read where they are; for files on a cluster see
        :func:`hashlearn.rows.cluster.on_cluster`.
    column : str or None
        As for :func:`as_vectors`.

    Examples
    --------
    >>> import numpy as np
    >>> as_rows(lambda: [np.ones((3, 2)), np.zeros((4, 2))]).shape
    (7, 2)
    """
    rows = plain_rows(X, column)
    return rows if isinstance(rows, RowBlocks) else RowBlocks(rows, name="Input X")


def plain_rows(X: Any, column: str | None = None, name: str = "X") -> Any:
    """X as an ndarray or a CSR array of the same shape, or as RowBlocks if X is a source of rows."""
    if column is None and type(X) is np.ndarray and X.dtype.kind in "fiub":
        return X
    if isinstance(X, RowBlocks):
        return X
    if isinstance(X, (str, os.PathLike)):
        return _rows_of_files([X], column, name)
    if _are_paths(X):
        return _rows_of_files(X, column, name)
    if _is_dask(X):
        return dask_rows(X)
    if callable(X):
        stream = Stream(X)
        rows = RowBlocks(stream)
        rows.seen.until = len(rows)
        return rows
    held = _held(X if column is None else column_of(X, column, name), name)
    if isinstance(held, list):
        return RowBlocks(Pieces(held, [f"piece {number}" for number in range(len(held))]))
    return held


def is_source(X: Any) -> bool:
    """Whether X is a source of rows and holds none itself: a path, a list of paths, a function, or rows made from
    these."""
    if isinstance(X, np.ndarray):
        return False
    return isinstance(X, (str, os.PathLike, RowBlocks)) or callable(X) or _are_paths(X) or _is_dask(X)


def check_holds_rows(X: Any, name: str = "X") -> None:
    """Refuse a value without rows, with a short error that does not print its numbers.

    Examples
    --------
    >>> check_holds_rows([0.5, 1.5])
    Traceback (most recent call last):
    ValueError: X must be 2-D, got one vector of length 2. Reshape your data: pass X[None] or [X]
    """
    if not is_source(X):
        held = _held(X, name)
        if not isinstance(held, list) and held.dtype.kind != "O":
            check_vectors(name, held.shape, held.dtype)


def _held(X: Any, name: str) -> Any:
    """The numbers of X as an array of the same shape; a list of matrices if X is in several pieces."""
    if scipy.sparse.issparse(X):  # before mappings: a dok_matrix is one
        return X.tocsr()
    if isinstance(X, _NO_ROWS):
        raise TypeError(f"{name} must hold vectors, shape (n, n_features), got {type(X).__name__}")
    if hasattr(X, "read_all"):  # a stream of record batches of pyarrow
        X = X.read_all()
    if isinstance(X, Iterator):
        raise TypeError(f"{name} must be a function that returns a fresh iterator for every pass, got an iterator")
    if np.ma.is_masked(X):
        raise ValueError(f"{name} must not be masked; fill it with {name}.filled(value)")
    if isinstance(X, (np.ndarray, memoryview)):
        return _of_array(np.asarray(X), name)
    if isinstance(X, (list, tuple)):
        return _of_list(X, name)
    if hasattr(X, "detach"):
        return _of_tensor(X)
    if library_of(X) is None:
        return _of_protocol(X, name)
    if library_of(X) == "polars" and hasattr(X, "collect"):
        raise TypeError(f"{name} must hold vectors, got a LazyFrame; pass {name}.collect()")
    values = matrix_of_table(X, name) if is_table(X) else values_of_column(X, name)
    return values if isinstance(values, list) else _of_array(values, name)


def _of_array(array: NDArray, name: str) -> NDArray:
    if array.dtype.kind == "O" and array.ndim == 1:
        return _of_list(array.tolist() if _are_lists(array) else list(array), name)
    if array.dtype.name == "bfloat16":  # of ml_dtypes, as JAX has it
        return array.astype(np.float32)
    return array


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
        raise TypeError(f"{name} must hold vectors, shape (n, n_features), got a {type(values).__name__} of texts")
    known = (np.ndarray, list, tuple, Number)
    vectors: list[Any] = [each if isinstance(each, known) else _held(each, name) for each in values]
    try:
        return np.stack(vectors) if all(isinstance(each, np.ndarray) for each in vectors) else np.array(vectors)
    except ValueError:
        lengths = [np.size(each) for each in vectors if np.ndim(each) <= 1] or [0]
        raise ValueError(
            f"{name} must hold vectors of one length, got lengths from {min(lengths)} to {max(lengths)}"
        ) from None


def _of_tensor(tensor: Any) -> NDArray:
    """A tensor of torch, without its gradient and on the CPU; types that numpy lacks as float32."""
    held = tensor.detach().cpu()
    try:
        return held.numpy()
    except TypeError:
        return held.float().numpy()


def _of_protocol(X: Any, name: str) -> Any:
    """The numbers of an object that has a protocol: an array, DLPack, Arrow, or a sequence."""
    if hasattr(X, "__array__"):
        return _of_array(np.asarray(X), name)
    if hasattr(X, "__arrow_c_stream__"):
        arrow = require("pyarrow", "parquet")
        try:
            return _held(arrow.table(X), name)
        except (arrow.ArrowInvalid, TypeError):  # a stream of a single column
            return _held(arrow.chunked_array(X), name)
    if hasattr(X, "__arrow_c_array__"):
        return _held(require("pyarrow", "parquet").array(X), name)
    if hasattr(X, "__dlpack__"):
        try:
            return _of_array(np.from_dlpack(X), name)
        except (BufferError, RuntimeError, TypeError) as problem:
            raise TypeError(f"{name} must be on the CPU and of a type that numpy has: {problem}") from None
    if isinstance(X, Sequence):
        return _of_list(list(X), name)
    raise TypeError(
        f"{name} must hold vectors: an array of shape (n, n_features), a list of vectors, a frame or a column of "
        f"vectors, got {type(X).__name__}; pass np.asarray({name})"
    )


def _rows_of_files(paths: Sequence[PathLike], column: str | None, name: str) -> RowBlocks:
    for path in paths:
        if isinstance(path, str) and not is_place_of_file(path) and not os.path.exists(path):
            text = path if len(path) <= LONGEST_TEXT else path[:LONGEST_TEXT] + "..."
            raise TypeError(
                f"{name} must hold vectors or name files of vectors, got the text {text!r}; pass its embedding"
            )
    return RowBlocks(Files(paths, partial(read_place, array=column)))


def _are_paths(X: Any) -> bool:
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(path, (str, os.PathLike)) for path in X)


def _is_dask(X: Any) -> bool:
    return type(X).__module__.startswith("dask.array")
