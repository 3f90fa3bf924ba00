"""Where rows come from when they are no array: files, several files as one, and streams of blocks.

A source has ``shape`` and ``dtype`` and gives the rows of a slice or of a list of row numbers, like an array;
:class:`~hashlearn.rows.RowBlocks` asks it for a block at a time. :func:`as_rows` makes one of whatever a user has.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hashlearn.rows.blocks import RowBlocks, check_finite
from hashlearn.rows.formats import read_vectors

PathLike = str | os.PathLike


def is_source(X: Any) -> bool:
    """Whether X names rows rather than holding them: a path, a list of paths, a function, or rows made of these."""
    return isinstance(X, (str, os.PathLike, RowBlocks)) or callable(X) or _are_paths(X) or _is_dask(X)


def as_rows(X: Any) -> RowBlocks:
    """The rows of X, to be read a block at a time.

    Parameters
    ----------
    X : array, memmap, CSR matrix, path, list of paths, function, or dask array
        A path names a file of any format of :func:`hashlearn.rows.formats.read_vectors`; several are one source, in
        their order. A function takes nothing and returns a fresh iterator over blocks of shape (any, d) each time it is
        called. A stream does not say how long it is, so its blocks are counted, and checked, in one pass more.
        The rows of a dask array are read where they are; for files on a cluster see
        :func:`hashlearn.rows.cluster.on_cluster`.
    """
    if isinstance(X, RowBlocks):
        return X
    if isinstance(X, (str, os.PathLike)):
        return RowBlocks(Files([X]))
    if _are_paths(X):
        return RowBlocks(Files(X))
    if _is_dask(X):
        return import_module("hashlearn.rows.cluster").dask_rows(X)
    if callable(X):
        stream = Stream(X)
        rows = RowBlocks(stream)
        rows.seen.until = len(rows)
        return rows
    return RowBlocks(X if hasattr(X, "shape") else np.asarray(X))


def _are_paths(X: Any) -> bool:
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(path, (str, os.PathLike)) for path in X)


def _is_dask(X: Any) -> bool:
    return type(X).__module__.startswith("dask.array")


class Pieces:
    """Matrices one below the other, as one.

    Parameters
    ----------
    pieces : sequence of matrices of shape (any, d) with ``shape`` and ``dtype``, sliced as arrays are
    names : sequence of str, what errors call them
    """

    def __init__(self, pieces: Sequence[Any], names: Sequence[str]):
        for piece, name in zip(pieces, names):
            if piece.shape[1] != pieces[0].shape[1]:
                raise ValueError(
                    f"{name} has {piece.shape[1]} features, {names[0]} has {pieces[0].shape[1]}; "
                    "files that are read as one must have the same number"
                )
        self.pieces, self.names = pieces, names
        self.starts = np.cumsum([0, *(piece.shape[0] for piece in pieces)])
        self.shape = (int(self.starts[-1]), int(pieces[0].shape[1]))
        self.dtype = np.result_type(*(piece.dtype for piece in pieces))

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> Any:
        return self._between(*rows.indices(len(self))[:2]) if isinstance(rows, slice) else self._at(np.asarray(rows))

    def __len__(self) -> int:
        return self.shape[0]

    def _between(self, start: int, stop: int) -> Any:
        parts = []
        for first, piece in zip(self.starts, self.pieces):
            low, high = max(start - first, 0), min(stop - first, piece.shape[0])
            if low < high:
                parts.append(piece[low:high])
        return parts[0] if len(parts) == 1 else _stacked(parts, self.shape[1])

    def _at(self, rows: NDArray[np.integer]) -> NDArray:
        found = np.empty((len(rows), self.shape[1]), self.dtype)
        piece_of = np.searchsorted(self.starts, rows, side="right") - 1
        for number in np.unique(piece_of):
            here = piece_of == number
            found[here] = _dense(self.pieces[number][rows[here] - self.starts[number]])
        return found

    def place_of(self, row: int) -> str:
        """The piece a row lies in, and its number there."""
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"row {row - self.starts[number]} of {self.names[number]}"


class Files(Pieces):
    """The vectors of one or several files; mapped where the format allows, otherwise read whole, one file at a time."""

    def __init__(self, paths: Sequence[PathLike], read: Callable[[Any], Any] | None = None):
        shelf = _OneInMemory()
        self.paths = [os.fspath(path) for path in paths]
        super().__init__([_File(path, read or read_vectors, shelf) for path in self.paths], self.paths)


class _OneInMemory:
    """The last file that had to be read whole."""

    path: str | None = None
    values: Any = None


class _File:
    def __init__(self, path: str, read: Callable[[Any], Any], shelf: _OneInMemory):
        self.path, self.read, self.shelf = path, read, shelf
        values = read(path)
        self.shape, self.dtype = values.shape, values.dtype
        self.mapped = values if _is_mapped(values) else None
        if self.mapped is None:
            shelf.path, shelf.values = path, values

    def __getitem__(self, rows: Any) -> Any:
        if self.mapped is not None:
            return self.mapped[rows]
        if self.shelf.path != self.path:
            self.shelf.path, self.shelf.values = self.path, self.read(self.path)
        return self.shelf.values[rows]


class Stream:
    """Blocks that a function gives anew for every pass; the first pass counts the rows and checks them.

    Attributes
    ----------
    shape : (n, d)
    dtype : the least type that holds the values of all blocks
    """

    def __init__(self, blocks: Callable[[], Iterable[Any]]):
        self.blocks = blocks
        n, width, dtype = 0, None, np.dtype(np.bool_)
        for block in self._checked():
            if width is not None and block.shape[1] != width:
                raise ValueError(f"X() gave a block of {block.shape[1]} features at row {n}, those before have {width}")
            check_finite(block, n)
            n, width, dtype = n + block.shape[0], block.shape[1], np.promote_types(dtype, block.dtype)
        if width is None:
            raise ValueError("X() gave no blocks: 0 sample(s) while a minimum of 1 is required")
        self.shape, self.dtype = (n, width), dtype

    def in_order(self, slices: Iterable[slice]) -> Iterator[tuple[slice, Any]]:
        """The rows of adjoining slices, cut from the blocks as they come."""
        blocks, first = self._checked(), 0
        kept: list[Any] = []
        for rows in slices:
            while first + sum(part.shape[0] for part in kept) < rows.stop:
                block = next(blocks, None)
                if block is None:
                    raise ValueError(f"X() gave fewer than {rows.stop} rows, the first time {self.shape[0]}")
                kept.append(block)
            whole = kept[0] if len(kept) == 1 else _stacked(kept, self.shape[1])
            yield rows, whole[rows.start - first : rows.stop - first]
            kept, first = [whole[rows.stop - first :]], rows.stop

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray:
        """Rows by their numbers, for which the whole stream is read."""
        wanted = np.arange(self.shape[0])[rows]
        order = np.argsort(wanted, kind="stable")
        found, first = np.empty((len(wanted), self.shape[1]), self.dtype), 0
        for block in self._checked():
            here = order[slice(*np.searchsorted(wanted[order], [first, first + block.shape[0]]))]
            if len(here):
                found[here] = _dense(block[wanted[here] - first])
            first += block.shape[0]
        return found

    def _checked(self) -> Iterator[Any]:
        for given in self.blocks():
            block = given.tocsr() if scipy.sparse.issparse(given) else np.asarray(given)
            if block.ndim != 2 or block.dtype.kind not in "buif":
                raise ValueError(
                    f"X() must give blocks of numbers of shape (any, n_features), got {block.dtype} of {block.shape}"
                )
            yield block


def _is_mapped(values: Any) -> bool:
    while isinstance(values, np.ndarray):
        if isinstance(values, np.memmap):
            return True
        values = values.base
    return False


def _dense(block: Any) -> NDArray:
    return block.toarray() if scipy.sparse.issparse(block) else np.asarray(block)


def _stacked(parts: Sequence[Any], width: int) -> NDArray:
    return np.concatenate([_dense(part) for part in parts]) if parts else np.empty((0, width), np.float32)
