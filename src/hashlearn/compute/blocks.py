"""Rows of a data matrix, read a block at a time.

Everything that goes over the data does so through :class:`RowBlocks`, so that memory is bounded by a block and the
model: whatever the source holds (bytes, integers, half floats, a memmap, a sparse matrix), only one block of it is a
float matrix.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

BLOCK_ELEMENTS = 4 << 20
"""Numbers in a block: large enough that BLAS runs at full speed, small enough to be forgotten (16 MB of float32)."""

MAX_BLOCK_ROWS = 8192
"""Rows in a block of narrow data: a block also meets hundreds of anchors or kernel bases, and that product is wider."""


def row_slices(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows such that one of them, ``width`` columns wide, is a block."""
    rows = _rows_of_block(width)
    for start in range(0, n, rows):
        yield slice(start, min(start + rows, n))


def _rows_of_block(width: int) -> int:
    return min(MAX_BLOCK_ROWS, max(256, BLOCK_ELEMENTS // max(1, width)))


class RowBlocks:
    """The rows of ``source`` as float blocks, shifted and scaled on the way: ``(x - shift) / scale``.

    Parameters
    ----------
    source : array-like of shape (n, d) with slicing, or CSR matrix
    shift : ndarray of shape (d,) or None
    scale : float

    Attributes
    ----------
    shape : (n, d)
    dtype : float64 where the source has more precision than a float32 holds, else float32.
    """

    def __init__(self, source: Any, *, shift: NDArray | None = None, scale: float = 1.0):
        self.source = source
        self.shape: tuple[int, int] = source.shape
        self.dtype = np.promote_types(source.dtype, np.float32)
        self.shift = None if shift is None else np.asarray(shift, self.dtype)
        self.scale = scale

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[tuple[slice, NDArray]]:
        """Pairs of the rows' slice and the block."""
        for rows in row_slices(*self.shape):
            yield rows, self._as_floats(self.source[rows])

    @property
    def block_rows(self) -> int:
        """Rows of a block (the last may have fewer)."""
        return _rows_of_block(self.shape[1])

    @property
    def n_blocks(self) -> int:
        return -(-len(self) // self.block_rows)

    def take(self, rows: NDArray[np.integer]) -> NDArray:
        """The named rows, in that order."""
        return self._as_floats(self.source[rows])

    def shifted(self, shift: NDArray, scale: float = 1.0) -> "RowBlocks":
        """The same rows, seen from ``shift`` in units of ``scale``."""
        return RowBlocks(self.source, shift=shift, scale=scale)

    def _as_floats(self, rows: Any) -> NDArray:
        block = rows.toarray() if scipy.sparse.issparse(rows) else np.asarray(rows)
        if self.shift is not None:
            block = np.subtract(block, self.shift, dtype=self.dtype)
        else:
            block = np.ascontiguousarray(block, dtype=self.dtype)
        if self.scale != 1.0:
            block = block / self.dtype.type(self.scale)
        return block
