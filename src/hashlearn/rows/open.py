"""Rows of whatever a user has: an array, a file, several files, a stream, a dask array."""

import os
from typing import Any

import numpy as np
import scipy.sparse

from hashlearn.rows.blocks import RowBlocks
from hashlearn.rows.cluster import dask_rows
from hashlearn.rows.source import Files, Stream


def is_source(X: Any) -> bool:
    """Whether X names rows rather than holding them: a path, a list of paths, a function, or rows made of these."""
    if isinstance(X, np.ndarray):
        return False
    return isinstance(X, (str, os.PathLike, RowBlocks)) or callable(X) or _are_paths(X) or _is_dask(X)


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
        return RowBlocks(Files([X]))
    if _are_paths(X):
        return RowBlocks(Files(X))
    if _is_dask(X):
        return dask_rows(X)
    if callable(X):
        stream = Stream(X)
        rows = RowBlocks(stream)
        rows.seen.until = len(rows)
        return rows
    if scipy.sparse.issparse(X):
        return RowBlocks(X.tocsr())
    return RowBlocks(np.asanyarray(X))


def _are_paths(X: Any) -> bool:
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(path, (str, os.PathLike)) for path in X)


def _is_dask(X: Any) -> bool:
    return type(X).__module__.startswith("dask.array")
