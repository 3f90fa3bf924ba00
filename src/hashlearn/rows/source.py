"""Rows of files, and of streams of blocks."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import why_no_numbers
from hashlearn.rows.blocks import ArrayRows, Source, check_finite, dense, mapped_file
from hashlearn.rows.formats import read_vectors
from hashlearn.rows.forms import held_vectors

PathLike = str | os.PathLike


class Pieces(Source):
    """Several matrices, one below the other, as one matrix.

    Parameters
    ----------
    pieces : sequence of matrices of shape (any, d) with ``shape`` and ``dtype``, that can be sliced
    names : sequence of str, their names in errors
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
        if isinstance(rows, slice):
            return self._between(*rows.indices(self.shape[0])[:2])
        return self._at(np.asarray(rows))

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
            found[here] = dense(self.pieces[number][rows[here] - self.starts[number]])
        return found

    def place_of(self, row: int) -> str:
        """The piece that contains a row, and the number of the row in this piece."""
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"row {row - self.starts[number]} of {self.names[number]}"


class Files(Pieces):
    """The vectors of one or several files; mapped if the format allows it, otherwise read whole, one file at a time."""

    def __init__(self, paths: Sequence[PathLike], read: Callable[[Any], Any] = read_vectors):
        in_memory = _OneInMemory()
        self.paths = [os.fspath(path) for path in paths]
        super().__init__([_File(path, read, in_memory) for path in self.paths], self.paths)


class _OneInMemory:
    """The last file that had to be read whole."""

    path: str | None = None
    values: Any = None


class _File:
    """A file of vectors. A file that can be mapped is opened once. Other files are read again if another file was
    read in between."""

    def __init__(self, path: str, read: Callable[[Any], Any], in_memory: _OneInMemory):
        self.path, self.read, self.in_memory = path, read, in_memory
        values = read(path)
        self.shape, self.dtype = values.shape, values.dtype
        self.view = ArrayRows(values) if mapped_file(values) is not None else None
        if self.view is None:
            in_memory.path, in_memory.values = path, values

    def __getitem__(self, rows: Any) -> Any:
        if self.view is not None:
            return self.view[rows]
        if self.in_memory.path != self.path:
            self.in_memory.path, self.in_memory.values = self.path, self.read(self.path)
        return self.in_memory.values[rows]


class Stream(Source):
    """Blocks of a function that is called for every pass; the first pass counts and checks the rows.

    Attributes
    ----------
    shape : (n, d)
    dtype : the smallest type that holds the values of all blocks
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
        """The rows of adjoining slices, cut from the blocks of the stream."""
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
        """Rows by their numbers; this reads the whole stream."""
        wanted = np.arange(self.shape[0])[rows]
        order = np.argsort(wanted, kind="stable")
        found, first = np.empty((len(wanted), self.shape[1]), self.dtype), 0
        for block in self._checked():
            here = order[slice(*np.searchsorted(wanted[order], [first, first + block.shape[0]]))]
            if len(here):
                found[here] = dense(block[wanted[here] - first])
            first += block.shape[0]
        return found

    def _checked(self) -> Iterator[Any]:
        for block in self._held():
            if block.ndim != 2:
                raise ValueError(f"X() must give blocks of shape (any, n_features), got shape {block.shape}")
            reason = why_no_numbers(block.dtype)
            if reason is not None:
                raise ValueError(f"X() must give blocks of {reason}")
            yield block

    def _held(self) -> Iterator[Any]:
        for given in self.blocks():
            held = held_vectors(given, "a block of X()")
            yield from held if isinstance(held, list) else [held]


def _stacked(parts: Sequence[Any], width: int) -> NDArray:
    return np.concatenate([dense(part) for part in parts]) if parts else np.empty((0, width), np.float32)
