"""The codes of a partitioned index at one moment, list by list.

A table never changes: adding and removing return another one. So a table can be searched while a change makes the
next. A list has whole tiles one behind the other, with room for more codes in the last of them or behind. Codes added
go into that room, which both tables share. A list without room for them moves to the end of the tiles; the place where
it was is lost until all lists are copied, one behind the other.

The corrections of a list are bytes between its least and its largest. A list whose new codes have corrections beyond
these ends moves, too.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.index.kernels.list_queries import LARGEST_LEVEL, Lists
from hashlearn.index.kernels.lists import KEY_SHIFT
from hashlearn.index.kernels.simd import TILE
from hashlearn.index.kernels.tiles import n_tiles, room_for, write_list_codes
from hashlearn.index.partition import EncodedRows

_GROWTH = 1.125  # of a list that moves, and of the room for all tiles
_MOST_LOST = 0.25  # of the tiles; beyond, all lists are copied
_LEVELS = 255


class ListArrays(NamedTuple):
    """Where each list is, arrays of shape (n_lists,), and what its corrections stand for: ``offset + scale * byte``.

    ``room`` is the number of tiles of a list.
    """

    first_tiles: NDArray[np.int64]
    room: NDArray[np.int64]
    sizes: NDArray[np.int64]
    offsets: NDArray[np.float64]
    scales: NDArray[np.float64]

    @classmethod
    def empty(cls, n_lists: int) -> "ListArrays":
        first_tiles, room, sizes = np.zeros((3, n_lists), np.int64)
        offsets, scales = np.zeros((2, n_lists))
        return cls(first_tiles, room, sizes, offsets, scales)

    def copy(self) -> "ListArrays":
        return ListArrays._make(array.copy() for array in self)


class ListTable:
    """Codes in lists.

    Parameters
    ----------
    n_bytes : int
        Of a code, without its correction.
    tiles : ndarray, uint8
        ``64 * (n_bytes + 1)`` bytes a tile, more than are used at the end, perhaps.
    rows : ndarray, uint32 or int64
        Of every place.
    lists : ListArrays
    n_used : int
        Tiles that belong, or belonged, to a list.
    next_row : int
        Above every row there has ever been.
    removed : ndarray of uint8, or None
        A bit for every row, the first the lowest of the first byte: is it gone, or has it never been?
    n_removed : int
        Removed rows whose codes are still in the lists.
    """

    def __init__(
        self,
        n_bytes: int,
        tiles: NDArray[np.uint8],
        rows: NDArray[np.integer],
        lists: ListArrays,
        n_used: int = 0,
        next_row: int = 0,
        removed: NDArray[np.uint8] | None = None,
        n_removed: int = 0,
    ):
        self.n_bytes, self.tiles, self.rows, self.lists = n_bytes, tiles, rows, lists
        self.n_used, self.next_row, self.removed, self.n_removed = n_used, next_row, removed, n_removed
        self.n_codes = int(lists.sizes.sum())
        self._room_behind = [True] if tiles.flags.writeable else []  # taken by the first table that adds to this one

    def for_kernels(self, levels: NDArray[np.float32]) -> Lists:
        """The lists as kernels want them. ``levels`` are those that lists have if they have codes."""
        lists, used = self.lists, self.lists.sizes > 0
        offsets, scales = lists.offsets[used], lists.scales[used]
        lowest = float(offsets.min(initial=LARGEST_LEVEL))
        spread = float((offsets + _LEVELS * scales).max(initial=lowest) - lowest)
        return Lists(
            _read_only(self.tiles),
            _read_only(self.rows),
            lists.first_tiles,
            lists.sizes,
            lists.sizes.astype(np.float32),
            np.where(used, levels, np.float32(LARGEST_LEVEL)),
            lists.offsets,
            lists.scales,
            lowest,
            spread,
            float(scales.max(initial=0.0)),
            self.n_bytes,
        )

    @classmethod
    def empty(cls, n_lists: int, n_bytes: int) -> "ListTable":
        return cls(n_bytes, *_room(0, n_bytes, np.dtype(np.uint32)), ListArrays.empty(n_lists))

    def __len__(self) -> int:
        return self.n_codes - self.n_removed

    @property
    def n_lists(self) -> int:
        return len(self.lists.sizes)

    @property
    def nbytes(self) -> int:
        """Bytes of the tiles and rows, and of what says where lists are."""
        arrays = [self.tiles, self.rows, *self.lists]
        return sum(array.nbytes for array in arrays) + (0 if self.removed is None else self.removed.nbytes)

    def added(self, new: EncodedRows, rows: NDArray[np.int64]) -> "ListTable":
        """This table and more codes, with rows that ascend and are not below ``next_row``."""
        next_row = int(rows[-1]) + 1 if len(rows) else self.next_row
        if next_row > 1 << KEY_SHIFT:
            raise ValueError(f"rows must be below {1 << KEY_SHIFT}, got {next_row - 1}")
        arrays = self.lists.copy()
        counts = np.bincount(new.lists, minlength=self.n_lists)
        arrays.sizes[:] += counts
        moved = _wider(arrays, new, counts)
        moved |= tiles_of(arrays.sizes) > arrays.room
        wide = next_row > np.iinfo(self.rows.dtype).max
        room = np.where(moved, _with_growth(arrays.sizes), arrays.room)
        n_tiles_moved = int(room[moved].sum())
        fits = not wide and (self.n_used + n_tiles_moved) * TILE <= len(self.rows)
        if fits and self._took_room():
            arrays.room[:] = room
            firsts = self.n_used + np.cumsum(np.where(moved, room, 0)) - np.where(moved, room, 0)
            arrays.first_tiles[moved] = firsts[moved]
            tiles, row_numbers, n_used = self.tiles, self.rows, self.n_used + n_tiles_moved
        else:
            moved = np.ones(self.n_lists, bool)
            arrays.room[:] = tiles_of(arrays.sizes) if self.n_codes == 0 else _with_growth(arrays.sizes)
            arrays.first_tiles[:] = np.cumsum(arrays.room) - arrays.room
            n_used = int(arrays.room.sum())
            behind = 0 if self.n_codes == 0 else int((_GROWTH - 1) * n_used)
            row_type = np.dtype(np.int64) if wide else self.rows.dtype
            tiles, row_numbers = _room(n_used + behind, self.n_bytes, row_type)
        self._move(moved, arrays, tiles, row_numbers)
        self._write(new, rows, counts, arrays, tiles, row_numbers)
        removed = _with_gaps(self.removed, self.next_row, rows, next_row)
        return ListTable(self.n_bytes, tiles, row_numbers, arrays, n_used, next_row, removed, self.n_removed)

    def removing(self, rows: NDArray[np.int64]) -> "ListTable":
        """This table without some rows; ValueError where one is not there."""
        present = self.present()
        known = (rows >= 0) & (rows < self.next_row)
        known[known] = present[rows[known]]
        if not known.all():
            raise ValueError(f"rows must be in the index, got {int(rows[~known][0])}")
        present[rows] = False
        n_gone = len(np.unique(rows))
        removed = np.packbits(~present, bitorder="little")
        return self._replaced(removed=removed, n_removed=self.n_removed + n_gone)

    def present(self) -> NDArray[np.bool_]:
        """Which rows are there, shape (next_row,)."""
        if self.removed is None:
            return np.ones(self.next_row, bool)
        return np.unpackbits(self.removed, count=self.next_row, bitorder="little") == 0

    def lists_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The list of each of some rows, of any shape; 0 for rows that are not there."""
        wanted, places = np.unique(rows, return_inverse=True)
        lists = np.zeros(len(wanted), np.int64)
        for number, (first, size) in enumerate(zip(self.lists.first_tiles.tolist(), self.lists.sizes.tolist())):
            here = self.rows[first * TILE : first * TILE + size]
            at = np.searchsorted(wanted[:-1], here)
            lists[at[wanted[at] == here]] = number
        return lists[places].reshape(rows.shape)

    @property
    def is_out_of_shape(self) -> bool:
        """Whether a copy pays: many tiles are lost, or many codes are removed."""
        lost = self.n_used - int(tiles_of(self.lists.sizes).sum())
        return lost > _MOST_LOST * max(1, self.n_used) or self.n_removed > _MOST_LOST * max(1, self.n_codes)

    def compacted(self) -> "ListTable":
        """A copy in which lists stand one behind the other, without the removed rows."""
        parts = [self.list_content(number) for number in range(self.n_lists)]
        sizes = np.array([len(rows) for _, rows in parts], np.int64)
        room = tiles_of(sizes)
        arrays = ListArrays(np.cumsum(room) - room, room, sizes, self.lists.offsets, self.lists.scales)
        tiles, rows = _room(int(room.sum()), self.n_bytes, self.rows.dtype)
        for first, (planes, numbers) in zip(arrays.first_tiles.tolist(), parts):
            start = first * TILE
            tiles[start * (self.n_bytes + 1) : start * (self.n_bytes + 1) + planes.size] = planes
            rows[start : start + len(numbers)] = numbers
            rows[start + len(numbers) : start + n_tiles(len(numbers)) * TILE] = 0
        return ListTable(self.n_bytes, tiles, rows, arrays, int(room.sum()), self.next_row, self.removed, 0)

    def list_content(self, number: int) -> tuple[NDArray[np.uint8], NDArray[np.integer]]:
        """The tiles of a list, zeros where they have no code, and the rows of its codes; without the removed rows."""
        first, size = int(self.lists.first_tiles[number]), int(self.lists.sizes[number])
        rows = self.rows[first * TILE : first * TILE + size]
        planes = self.n_bytes + 1
        here = self.tiles[first * TILE * planes : (first + n_tiles(size)) * TILE * planes]
        codes = here.reshape(-1, planes, TILE).transpose(0, 2, 1).reshape(-1, planes)[:size]
        if self.n_removed:
            kept = self.present()[rows]
            codes, rows = codes[kept], rows[kept]
        filled = np.zeros((n_tiles(len(rows)) * TILE, planes), np.uint8)
        filled[: len(rows)] = codes
        return np.ascontiguousarray(filled.reshape(-1, TILE, planes).transpose(0, 2, 1)).reshape(-1), rows

    def _replaced(self, *, removed: NDArray[np.uint8], n_removed: int) -> "ListTable":
        other = ListTable(
            self.n_bytes, self.tiles, self.rows, self.lists, self.n_used, self.next_row, removed, n_removed
        )
        other._room_behind = self._room_behind  # whichever of both adds first
        return other

    def _took_room(self) -> bool:
        try:
            return self._room_behind.pop()
        except IndexError:
            return False

    def _move(self, moved: NDArray[np.bool_], arrays: ListArrays, tiles: NDArray, rows: NDArray) -> None:
        """Copy the codes of the lists that move, with their corrections in the new scale."""
        old, planes = self.lists, self.n_bytes + 1
        numbers = np.flatnonzero(moved & (old.sizes > 0))
        for number in numbers.tolist():
            source, target, n = old.first_tiles[number], arrays.first_tiles[number], n_tiles(old.sizes[number])
            copied = tiles[target * TILE * planes : (target + n) * TILE * planes]
            copied[:] = self.tiles[source * TILE * planes : (source + n) * TILE * planes]
            rows[target * TILE : (target + n) * TILE] = self.rows[source * TILE : (source + n) * TILE]
            change = old.offsets[number] != arrays.offsets[number] or old.scales[number] != arrays.scales[number]
            if change:
                values = copied.reshape(n, planes, TILE)[:, -1]
                values[:] = _in_bytes(
                    old.offsets[number] + old.scales[number] * values, arrays.offsets[number], arrays.scales[number]
                )

    def _write(self, new: EncodedRows, rows: NDArray, counts: NDArray, arrays: ListArrays, tiles, row_numbers) -> None:
        order = np.argsort(new.lists, kind="stable")
        lists = new.lists[order]
        before = np.cumsum(counts) - counts
        within = np.arange(len(order)) - before[lists]
        places = arrays.first_tiles[lists] * TILE + arrays.sizes[lists] - counts[lists] + within
        values = _in_bytes(new.corrections[order], arrays.offsets[lists], arrays.scales[lists])
        write_list_codes(tiles, row_numbers, places, order, new.codes, values, rows)


def _wider(arrays: ListArrays, new: EncodedRows, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Widen the ends of the lists' corrections to those of new codes; returns which lists' were changed."""
    low, high = np.full(len(counts), np.inf), np.full(len(counts), -np.inf)
    np.minimum.at(low, new.lists, new.corrections)
    np.maximum.at(high, new.lists, new.corrections)
    had = arrays.sizes > counts
    before = arrays.offsets + _LEVELS * arrays.scales
    half = arrays.scales / 2  # rounding bears as much
    changed = (counts > 0) & ~(had & (low >= arrays.offsets - half) & (high <= before + half))
    low = np.where(had, np.minimum(low, arrays.offsets), low)
    high = np.where(had, np.maximum(high, before), high)
    arrays.offsets[changed] = low[changed]
    arrays.scales[changed] = (high - low)[changed] / _LEVELS
    return changed


def _in_bytes(numbers: NDArray, offsets: NDArray, scales: NDArray) -> NDArray[np.uint8]:
    steps = np.where(scales > 0, scales, 1)
    return np.clip(np.rint((numbers - offsets) / steps), 0, _LEVELS).astype(np.uint8)


def tiles_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tiles that hold lists of these sizes."""
    return -(-sizes // TILE)


def _with_growth(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return tiles_of(np.ceil(_GROWTH * sizes).astype(np.int64))


def _room(n: int, n_bytes: int, row_type: np.dtype) -> tuple[NDArray[np.uint8], NDArray]:
    return room_for(n * TILE, n_bytes + 1, np.dtype(np.uint8)), room_for(n * TILE, 1, row_type)


def _with_gaps(
    removed: NDArray[np.uint8] | None, first: int, rows: NDArray[np.int64], next_row: int
) -> NDArray[np.uint8] | None:
    """The bits of removed rows, with those between ``first`` and ``next_row`` that were left out."""
    if removed is None and next_row - first == len(rows):
        return None
    gone = np.ones(next_row, bool)
    gone[:first] = False if removed is None else np.unpackbits(removed, count=first, bitorder="little")
    gone[rows] = False
    return np.packbits(gone, bitorder="little")


def _read_only(array: NDArray) -> NDArray:
    view = array.view()
    view.flags.writeable = False  # one type for the kernels, whether in memory or in a mapped file
    return view
