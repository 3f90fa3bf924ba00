"""The arrays that hold the codes of a store.

Every array is laid out in tiles (see :mod:`hashlearn.index.kernels.tiles`). One with one word for every code, such as
that of the ids, is then a plain array by position.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.index.kernels.tiles import TILE, Layout, copy_runs, n_tiles, room_for

Arrays = dict[str, NDArray]


class Column(NamedTuple):
    """What one array holds for every code: so many words of a type."""

    dtype: np.dtype
    n_words: int

    def n_bytes(self, n_codes: int) -> int:
        """Of so many codes, in whole tiles."""
        return n_tiles(n_codes) * TILE * self.n_words * self.dtype.itemsize


def columns_of(layout: Layout, *, ids: bool, corrections: bool) -> dict[str, Column]:
    """The columns of a store by name; ids and corrections are there where they are needed."""
    columns = {"front": Column(layout.dtype, layout.n_front), "back": Column(layout.dtype, layout.n_back)}
    if ids:
        columns["ids"] = Column(np.dtype(np.int64), 1)
    if corrections:
        columns["corrections"] = Column(np.dtype(np.uint8), 1)
    return columns


class Runs(NamedTuple):
    """Codes that stand side by side and are copied together: from where, how many, and to where."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    target_starts: NDArray[np.int64]

    @classmethod
    def everything(cls, n_codes: int) -> "Runs":
        """To copy so many codes to where they are."""
        return cls(np.zeros(1, np.int64), np.array([n_codes]), np.zeros(1, np.int64))

    @classmethod
    def of_positions(cls, positions: NDArray[np.int64]) -> "Runs":
        """To copy the codes at ascending positions to the positions 0, 1, 2, ...

        >>> Runs.of_positions(np.array([3, 4, 5, 9]))
        Runs(starts=array([3, 9]), lengths=array([3, 1]), target_starts=array([0, 3]))
        """
        firsts = np.flatnonzero(np.diff(positions, prepend=-2) != 1)
        return cls(positions[firsts], np.diff(firsts, append=len(positions)), firsts)

    @classmethod
    def kept(cls, n_codes: int, gone: NDArray[np.int64], before: NDArray[np.int64]) -> "Runs":
        """To copy all codes but those gone, with a gap for a new code before each position of ``before``.

        >>> Runs.kept(6, gone=np.array([1]), before=np.array([4, 6]))
        Runs(starts=array([0, 2, 4]), lengths=array([1, 2, 2]), target_starts=array([0, 1, 4]))
        """
        cuts = np.unique(np.concatenate([[0], gone, gone + 1, before]))
        cuts = cuts[cuts < n_codes]
        lengths = np.diff(cuts, append=n_codes)
        stays = ~np.isin(cuts, gone)
        starts = cuts[stays]
        shift = np.searchsorted(before, starts, side="right") - np.searchsorted(gone, starts)
        return cls(starts, lengths[stays], starts + shift)


class Room(NamedTuple):
    """Arrays by name, for so many codes."""

    arrays: Arrays
    capacity: int

    @classmethod
    def empty(cls, columns: Mapping[str, Column], capacity: int) -> "Room":
        arrays = {name: room_for(capacity, column.n_words, column.dtype) for name, column in columns.items()}
        return cls(arrays, capacity)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


def copy_columns(columns: Mapping[str, Column], source: Arrays, target: Arrays, runs: Runs) -> None:
    """Copy runs of codes in every column."""
    for name, column in columns.items():
        copy_runs(source[name], target[name], column.n_words, *runs)
