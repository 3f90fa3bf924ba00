"""Rows of whatever a user has: an array, a file, several files, a stream, a dask array."""

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from numbers import Number
from typing import Any

import numpy as np
import scipy.sparse

from hashlearn.checks import check_vectors
from hashlearn.rows.blocks import RowBlocks
from hashlearn.rows.cluster import dask_rows
from hashlearn.rows.formats import has_known_suffix
from hashlearn.rows.source import Files, PathLike, Stream

LONGEST_TEXT = 40
"""Characters of a text that an error shows."""

_NO_ROWS = (type(None), Number, bytes, Mapping, Set)


def is_source(X: Any) -> bool:
    """Whether X names rows rather than holding them: a path, a list of paths, a function, or rows made of these."""
    if isinstance(X, np.ndarray):
        return False
    return isinstance(X, (str, os.PathLike, RowBlocks)) or callable(X) or _are_paths(X) or _is_dask(X)


def named_rows(X: Any) -> RowBlocks | None:
    """The rows that X names (:func:`is_source`); None where it holds them itself. What does neither is refused."""
    if is_source(X):
        return as_rows(X)
    check_holds_rows(X)
    return None


def check_holds_rows(X: Any) -> None:
    """Refuse what holds no rows, in a short line that does not print the numbers in it.

    What it lets pass may still be refused by scikit-learn's checks.

    Examples
    --------
    >>> check_holds_rows([0.5, 1.5])
    Traceback (most recent call last):
    ValueError: X must be 2-D, got one vector of length 2. Reshape your data: pass X[None] or X.reshape(1, -1)
    """
    if isinstance(X, _NO_ROWS) and not scipy.sparse.issparse(X):  # a dok_matrix is a mapping, too
        raise TypeError(f"X must hold vectors, shape (n, n_features), got {type(X).__name__}")
    if isinstance(X, Iterator):
        raise TypeError("X must be a function that returns a fresh iterator for every pass, got an iterator")
    if isinstance(X, (list, tuple)):
        if len(X) > 0 and isinstance(X[0], str):
            raise TypeError(f"X must hold vectors, shape (n, n_features), got a {type(X).__name__} of texts")
        if len(X) > 0 and np.ndim(X[0]) == 0:
            check_vectors("X", (len(X),), np.dtype(float))
    elif isinstance(X, np.ndarray):
        if X.dtype.kind != "O":
            check_vectors("X", X.shape, X.dtype)
        if np.ma.is_masked(X):
            raise ValueError("X must not be masked; fill it with X.filled(value)")


def as_rows(X: Any) -> RowBlocks:
    """The rows of X, to be read a block at a time.

    Parameters
    ----------
    X : array, memmap, sparse matrix, path, list of paths, function, or dask array
        A path names a file of any format of :func:`hashlearn.rows.formats.read_vectors`; several are one source, in
        their order. A function takes nothing and returns a fresh iterator over blocks of shape (any, d) each time it is
        called. A stream does not say how long it is, so its blocks are counted, and checked, in one pass more.
        The rows of a dask array are read where they are; for files on a cluster see
        :func:`hashlearn.rows.cluster.on_cluster`.

    Examples
    --------
    >>> import numpy as np
    >>> as_rows(lambda: [np.ones((3, 2)), np.zeros((4, 2))]).shape
    (7, 2)
    """
    if isinstance(X, RowBlocks):
        return X
    if isinstance(X, (str, os.PathLike)):
        return _rows_of_files([X])
    if _are_paths(X):
        return _rows_of_files(X)
    if _is_dask(X):
        return dask_rows(X)
    if callable(X):
        stream = Stream(X)
        rows = RowBlocks(stream)
        rows.seen.until = len(rows)
        return rows
    check_holds_rows(X)
    if scipy.sparse.issparse(X):
        return RowBlocks(X.tocsr())
    return RowBlocks(np.asanyarray(X))


def _rows_of_files(paths: Sequence[PathLike]) -> RowBlocks:
    for path in paths:
        if isinstance(path, str) and not has_known_suffix(path) and not os.path.exists(path):
            text = path if len(path) <= LONGEST_TEXT else path[:LONGEST_TEXT] + "..."
            raise TypeError(f"X must hold vectors or name files of vectors, got the text {text!r}; pass its embedding")
    return RowBlocks(Files(paths))


def _are_paths(X: Any) -> bool:
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(path, (str, os.PathLike)) for path in X)


def _is_dask(X: Any) -> bool:
    return type(X).__module__.startswith("dask.array")
