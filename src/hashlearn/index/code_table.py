"""The codes of an index at one moment, in tiles, and their ids.

A store never changes: adding and removing give another one. Whoever holds a store can search it while others make the
next. A change copies the codes, once; codes appended behind the others go into room that both stores share.

Codes are kept in the order of their ids. So ties by the lowest position are ties by the lowest id, a code is found
from its id by bisection, and running numbers need no memory: ``ids`` is None while the id of a code is its position.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import plain_array
from hashlearn.index.columns import Arrays, Column, Room, Runs, columns_of, copy_columns
from hashlearn.index.kernels.tiles import Layout, Tiles, Words, as_tile_words, read_tiles, word_layout, write_tiles

_BLOCK = 65536  # codes moved at a time
_GROWTH = 1.125  # of the room, where codes are added little by little
_LARGEST_ID = np.iinfo(np.int64).max
_NOWHERE = np.empty(0, np.int64)


class Rows(NamedTuple):
    """Codes to be stored, with their ids and, where the store has them, their corrections."""

    codes: NDArray[np.uint8]
    ids: NDArray[np.int64]
    corrections: NDArray[np.uint8] | None = None

    def take(self, order: NDArray[np.int64]) -> "Rows":
        corrections = None if self.corrections is None else self.corrections[order]
        return Rows(self.codes[order], self.ids[order], corrections)


class CodeTable:
    """Codes of ``n_bits`` bits by position; see :class:`hashlearn.search.HammingIndex` for the outside.

    Make one by :meth:`empty`, by :func:`hashlearn.index.file.read_store`, or from another.

    Parameters
    ----------
    n_bits : int
    layout : Layout
    room : Room
        Its first ``n_codes`` are those of this store.
    n_codes : int
    next_id : int
        Above every id there has ever been.
    metadata : dict
        What else is to be saved with the codes, as JSON can say it; not to be changed.
    check : callable or None
        Called once, before the codes or ids are used for the first time; raises where they are damaged.
    """

    def __init__(
        self,
        n_bits: int,
        layout: Layout,
        room: Room,
        n_codes: int,
        next_id: int,
        metadata: Mapping[str, Any],
        check: Callable[[], None] | None = None,
    ):
        self.n_bits = n_bits
        self.n_bytes = -(-n_bits // 8)
        self.layout = layout
        self.n_codes = n_codes
        self.next_id = next_id
        self.metadata = metadata
        self._room = room
        # The places behind the codes go to the first store made by appending; taking them out of a list is one step.
        self._places_behind = [room]
        self._check = None if check is None else _Once(check)
        front, back = (_read_only(room.arrays[name]) for name in ("front", "back"))
        self._tiles = Tiles(front, back, layout.n_front, layout.n_back, n_codes)
        self._ids, self._corrections = (
            _read_only(room.arrays[name][:n_codes]) if name in room.arrays else None for name in ("ids", "corrections")
        )

    @classmethod
    def empty(
        cls,
        n_bits: int,
        layout: Layout | None = None,
        *,
        corrections: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> "CodeTable":
        """A store without codes.

        Parameters
        ----------
        n_bits : int
        layout : Layout or None
            By default the one for Hamming distances.
        corrections : bool
            Does a code come with one byte more?
        metadata : dict or None
        """
        layout = layout or word_layout(n_bits)
        room = Room.empty(columns_of(layout, ids=False, corrections=corrections), 0)
        return cls(n_bits, layout, room, 0, 0, metadata or {})

    def __reduce__(self) -> tuple:
        made = (self.n_bits, self.layout, self.metadata, self.next_id)
        return _restored, (*made, self.codes_at(np.arange(len(self))), self.ids, self.corrections)

    def __len__(self) -> int:
        return self.n_codes

    @property
    def tiles(self) -> Tiles:
        """The codes as kernels want them."""
        self.verify()
        return self._tiles

    @property
    def ids(self) -> NDArray[np.int64] | None:
        """The ids, ascending, or None where they are the positions."""
        self.verify()
        return self._ids

    @property
    def corrections(self) -> NDArray[np.uint8] | None:
        """One byte for every code, or None where the store was made without."""
        self.verify()
        return self._corrections

    @property
    def corrected(self) -> bool:
        """Does the store have corrections?"""
        return self._corrections is not None

    @property
    def arrays(self) -> Arrays:
        """All columns by name, as they lie in memory, with room behind the codes."""
        self.verify()
        return self._room.arrays

    @property
    def nbytes(self) -> int:
        return self._room.nbytes

    def verify(self) -> None:
        """Do the check that is still owed, if any."""
        if self._check is not None:
            self._check()

    def words_of(self, codes: NDArray[np.uint8]) -> Words:
        """Packed codes as words of the tiles' type, of shape (n, n_words)."""
        return as_tile_words(codes, self.layout)

    def codes_at(self, positions: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Packed codes, of shape (n, n_bytes)."""
        words = np.empty((len(positions), self.layout.n_words), self.layout.dtype)
        read_tiles(self.tiles, positions, words)
        as_bytes = words.view(np.uint8).reshape(len(words), self.layout.n_words * self.layout.dtype.itemsize)
        return np.ascontiguousarray(as_bytes[:, : self.n_bytes])

    def ids_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        ids = self.ids
        return positions if ids is None else ids[positions]

    def find(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where the codes with these ids are, and which of them are there at all."""
        own = self.ids
        if own is None:
            return ids, (ids >= 0) & (ids < self.n_codes)
        positions = np.searchsorted(own, ids)
        known = positions < len(own)
        known[known] = own[positions[known]] == ids[known]
        return positions, known

    def positions_of(self, ids: ArrayLike, name: str = "ids") -> NDArray[np.int64]:
        """Where the codes with these ids are; raises if one is not there."""
        wanted = check_ids(ids, name)
        positions, known = self.find(wanted)
        if not known.all():
            raise ValueError(f"{name} must be in the index, got {wanted[~known][0]}, which is not")
        return positions

    def added(
        self, codes: NDArray[np.uint8], ids: ArrayLike | None = None, corrections: ArrayLike | None = None
    ) -> "CodeTable":
        """A store with these packed codes too; their ids must be new."""
        if ids is None:
            new_ids = ids_from(self.next_id, len(codes))
        else:
            new_ids = check_new_ids(ids, len(codes))
            known = self.find(new_ids)[1]
            if known.any():
                raise ValueError(f"ids must be new, got {new_ids[known][0]}, which is already in the index")
        rows = Rows(codes, new_ids, self._check_corrections(corrections, len(codes)))
        return self._changed(rows, gone=_NOWHERE)

    def upserted(self, codes: NDArray[np.uint8], ids: ArrayLike, corrections: ArrayLike | None = None) -> "CodeTable":
        """A store with these packed codes too, in the place of those that have the same ids."""
        new_ids = check_new_ids(ids, len(codes))
        positions, known = self.find(new_ids)
        rows = Rows(codes, new_ids, self._check_corrections(corrections, len(codes)))
        return self._changed(rows, gone=np.sort(positions[known]))

    def removed(self, ids: ArrayLike) -> "CodeTable":
        """A store without the codes with these ids, which must be there."""
        no_rows = Rows(np.empty((0, self.n_bytes), np.uint8), _NOWHERE)
        return self._changed(no_rows, gone=np.unique(self.positions_of(ids)))

    def subset(self, positions: NDArray[np.int64]) -> "CodeTable":
        """Some of the codes, in the order of the positions, which ascend; their ids stay."""
        columns = columns_of(self.layout, ids=True, corrections=self.corrected)
        room = Room.empty(columns, len(positions))
        copy_columns(columns, self._source(columns), room.arrays, Runs.of_positions(positions))
        return CodeTable(self.n_bits, self.layout, room, len(positions), self.next_id, self.metadata)

    def _source(self, columns: Mapping[str, Column]) -> Arrays:
        """The arrays to copy these columns from; running numbers are written out where they are wanted."""
        if "ids" in columns and self._ids is None:
            return {**self.arrays, "ids": np.arange(self.n_codes, dtype=np.int64)}
        return self.arrays

    def _check_corrections(self, corrections: ArrayLike | None, n: int) -> NDArray[np.uint8] | None:
        if not self.corrected:
            if corrections is not None:
                raise ValueError("corrections must be None: the index was made without")
            return None
        array = np.asarray(corrections)
        if array.dtype != np.uint8 or array.shape != (n,):
            raise ValueError(f"corrections must be uint8 of shape ({n},), got {array.dtype} of shape {array.shape}")
        return array

    def _changed(self, rows: Rows, gone: NDArray[np.int64]) -> "CodeTable":
        """A store without the codes at some positions, which ascend, and with some rows, in any order, besides."""
        if not len(rows.ids) and not len(gone):
            return self
        if np.any(np.diff(rows.ids) < 0):
            rows = rows.take(np.argsort(rows.ids))
        if not len(gone) and (not len(self) or rows.ids[0] > self._last_id()):
            return self._appended(rows)
        return self._merged(rows, gone)

    def _last_id(self) -> int:
        return int(self.ids_at(np.array([self.n_codes - 1]))[0])

    def _appended(self, rows: Rows) -> "CodeTable":
        n_before, n_after = len(self), len(self) + len(rows.ids)
        running = rows.ids[-1] == n_after - 1  # the ids are distinct, so the last of 0, 1, 2, ... tells
        columns = columns_of(self.layout, ids=not running, corrections=self.corrected)
        room = self._take_places_behind()
        if room.capacity < n_after or room.arrays.keys() != columns.keys():
            room = Room.empty(columns, max(n_after, int(_GROWTH * n_before)))
            copy_columns(columns, self._source(columns), room.arrays, Runs.everything(n_before))
        return self._written(room, n_after, rows, np.arange(n_before, n_after))

    def _take_places_behind(self) -> Room:
        """The room of this store, or one without places if another store has taken them."""
        self.verify()
        try:
            return self._places_behind.pop()
        except IndexError:
            return Room({}, 0)

    def _merged(self, rows: Rows, gone: NDArray[np.int64]) -> "CodeTable":
        ids = self.ids
        before = np.minimum(rows.ids, len(self)) if ids is None else np.searchsorted(ids, rows.ids)
        runs = Runs.kept(len(self), gone, before)
        n_after = len(self) - len(gone) + len(rows.ids)
        last_kept = self.ids_at(runs.starts[-1:] + runs.lengths[-1:] - 1)
        running = np.concatenate([last_kept, rows.ids[-1:]]).max(initial=-1) == n_after - 1
        columns = columns_of(self.layout, ids=not running, corrections=self.corrected)
        room = Room.empty(columns, n_after)
        copy_columns(columns, self._source(columns), room.arrays, runs)
        positions = before - np.searchsorted(gone, before) + np.arange(len(before))
        return self._written(room, n_after, rows, positions)

    def _written(self, room: Room, n_codes: int, rows: Rows, positions: NDArray[np.int64]) -> "CodeTable":
        """The store of the first codes of a room, once these rows, with ascending ids, are written to it."""
        arrays, layout = room.arrays, self.layout
        tiles = Tiles(arrays["front"], arrays["back"], layout.n_front, layout.n_back, n_codes)
        for start in range(0, len(positions), _BLOCK):
            block = slice(start, start + _BLOCK)
            write_tiles(tiles, positions[block], self.words_of(rows.codes[block]))
        if "ids" in arrays:
            arrays["ids"][positions] = rows.ids
        if rows.corrections is not None:
            arrays["corrections"][positions] = rows.corrections
        next_id = max(self.next_id, int(rows.ids[-1]) + 1 if len(rows.ids) else 0)
        return CodeTable(self.n_bits, layout, room, n_codes, next_id, self.metadata)


class _Once:
    """A call that is made once, whichever thread comes first; where it raises, the next one makes it again."""

    def __init__(self, call: Callable[[], None]):
        self._call = call
        self._made = False
        self._making = threading.RLock()

    def __call__(self) -> None:
        if self._made:
            return
        with self._making:
            if not self._made:
                self._call()
                self._made = True


def _restored(
    n_bits: int,
    layout: Layout,
    metadata: Mapping[str, Any],
    next_id: int,
    codes: NDArray[np.uint8],
    ids: NDArray[np.int64] | None,
    corrections: NDArray[np.uint8] | None,
) -> CodeTable:
    """The store that was pickled or copied as these parts."""
    store = CodeTable.empty(n_bits, layout, corrections=corrections is not None, metadata=metadata)
    store = store.added(codes, ids, corrections)
    store.next_id = next_id
    return store


def _read_only(array: NDArray) -> NDArray:
    view = array.view()
    view.flags.writeable = False
    return view


def check_ids(ids: ArrayLike, name: str, n_wanted: int | None = None, of: str = "codes") -> NDArray[np.int64]:
    """Return ids as int64 of shape (n,), or raise naming the argument."""
    array = plain_array(ids, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be a list of ids, of shape (n,), got shape {array.shape}")
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} must be integers, got dtype {array.dtype}")
    if n_wanted is not None and len(array) != n_wanted:
        raise ValueError(f"{name} must be as many as the {of}, got {len(array)} for {n_wanted}")
    if array.dtype == np.uint64 and array.size and array.max() > _LARGEST_ID:
        raise ValueError(f"{name} must fit in int64, got {array.max()}")
    return np.ascontiguousarray(array, dtype=np.int64)


def ids_from(first: int, n: int) -> NDArray[np.int64]:
    """The n integers from ``first`` on."""
    if n and first + n - 1 > _LARGEST_ID:
        raise ValueError(f"ids must be given: {_LARGEST_ID} is taken, and there are no running numbers above it")
    return np.arange(n, dtype=np.int64) + (first if n else 0)


def check_new_ids(ids: ArrayLike, n_wanted: int, of: str = "codes") -> NDArray[np.int64]:
    """Ids of codes, or of something else, to be stored: not negative, and each only once."""
    array = check_ids(ids, "ids", n_wanted, of)
    if len(array) and array.min() < 0:
        raise ValueError(f"ids must not be negative, got {array.min()}")
    ascending = np.sort(array)
    repeated = ascending[1:][ascending[1:] == ascending[:-1]]
    if len(repeated):
        raise ValueError(f"ids must be unique, got {repeated[0]} more than once")
    return array
