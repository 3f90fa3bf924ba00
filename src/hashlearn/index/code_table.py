"""The codes of an index at one moment, by their ids.

A table never changes: adding and removing return another one. So a table can be searched while a change makes the next
one. The cost of a change depends on its own codes: a removed code stays in its place and is marked, and new codes are
put behind the others.

Codes lie in two segments, each in the order of its ids: the **base** and the **tail**. Codes with ids above those of
the tail are appended to it, in room that both tables share. Others are sorted into the tail; when it has grown, or when
half of all codes are removed, the codes that are left are copied into one segment.
"""

import os
import threading
import weakref
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import plain_array
from hashlearn.index.kernels.tiles import (
    ALL_ALIVE,
    TILE,
    Layout,
    Tiles,
    Words,
    as_tile_words,
    n_tiles,
    read_tiles,
    room_for,
    word_layout,
    write_tiles,
)

_BLOCK = 65536  # codes moved at a time
_GROWTH = 1.125  # of the room, where codes are added little by little
_SMALL_TAIL = 4096
_TAIL_PER_ROOT = 16  # times the square root of the number of codes: the tail that others are sorted into
_LARGEST_ID = np.iinfo(np.int64).max
_NO_IDS = np.empty(0, np.int64)


class NewCodes(NamedTuple):
    """Codes to be stored, with their ids and, where the table has them, their corrections."""

    codes: NDArray[np.uint8]
    ids: NDArray[np.int64]
    corrections: NDArray[np.uint8] | None = None

    def take(self, order: NDArray[np.int64]) -> "NewCodes":
        corrections = None if self.corrections is None else self.corrections[order]
        return NewCodes(self.codes[order], self.ids[order], corrections)


_LOCKS: "weakref.WeakSet[Any]" = weakref.WeakSet()


def thread_lock() -> Any:
    """A reentrant lock for threads. In a forked process it is free if another thread held it: that thread is gone."""
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


def _free_locks() -> None:
    for lock in list(_LOCKS):
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_locks)

_TAKING = thread_lock()
"""Held for a moment, while a room is taken."""


class Room:
    """Memory for codes, of which the first ``used`` are written; the first table that asks gets the next ones."""

    def __init__(self, layout: Layout, capacity: int, *, ids: bool, corrections: bool):
        self.capacity, self.used = capacity, 0
        self.front = room_for(capacity, layout.n_front, layout.dtype)
        self.back = room_for(capacity, layout.n_back, layout.dtype)
        self.ids = np.empty(capacity, np.int64) if ids else None
        self.corrections = room_for(capacity, 1, np.dtype(np.uint8)) if corrections else None

    def take(self, first: int, n: int) -> bool:
        """Take the n places from ``first`` on, unless another table has, or there are fewer."""
        with _TAKING:
            if self.used != first or self.capacity < first + n:
                return False
            self.used = first + n
            return True

    def write(self, layout: Layout, first: int, rows: NewCodes) -> None:
        """Write codes from a position on."""
        tiles = Tiles(self.front, self.back, layout.n_front, layout.n_back, first + len(rows.ids))
        for start in range(0, len(rows.ids), _BLOCK):
            block = slice(start, start + _BLOCK)
            positions = np.arange(first + start, first + min(start + _BLOCK, len(rows.ids)))
            write_tiles(tiles, positions, as_tile_words(rows.codes[block], layout))
        here = slice(first, first + len(rows.ids))
        if self.ids is not None:
            self.ids[here] = rows.ids
        if self.corrections is not None and rows.corrections is not None:
            self.corrections[here] = rows.corrections


class Segment:
    """Codes in tiles, in the order of their ids; each is alive or removed.

    Attributes
    ----------
    n_bits : int
    layout : Layout
    ids : int64 array, or None
        Ascending. None where they are ``first_id``, ``first_id + 1``, ...
    alive : uint64 array
        A word for every tile, a bit for every code; :data:`ALL_ALIVE` where none is removed.
    n_removed : int
    room : Room or None
        Where more codes can be appended.
    """

    def __init__(
        self,
        n_bits: int,
        layout: Layout,
        tiles: Tiles,
        ids: NDArray[np.int64] | None,
        first_id: int = 0,
        corrections: NDArray[np.uint8] | None = None,
        room: Room | None = None,
        check: "Once | None" = None,
    ):
        self.n_bits, self.layout, self.room = n_bits, layout, room
        self.first_id = first_id
        self.alive: NDArray[np.uint64] = ALL_ALIVE
        self.n_removed = 0
        self._tiles = tiles._replace(front=_read_only(tiles.front), back=_read_only(tiles.back))
        self._ids = None if ids is None else _read_only(ids)
        self._corrections = None if corrections is None else _read_only(corrections)
        self._check = check

    def __len__(self) -> int:
        """Codes that have a place here, the removed ones too."""
        return self._tiles.n_codes

    @property
    def tiles(self) -> Tiles:
        """The codes as kernels want them."""
        self.verify()
        return self._tiles

    @property
    def ids(self) -> NDArray[np.int64] | None:
        self.verify()
        return self._ids

    @property
    def corrections(self) -> NDArray[np.uint8] | None:
        """One byte for every place of every tile, or None."""
        self.verify()
        return self._corrections

    @property
    def nbytes(self) -> int:
        arrays = (self._tiles.front, self._tiles.back, self._ids, self._corrections)
        return sum(array.nbytes for array in arrays if array is not None)

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
        return np.ascontiguousarray(as_bytes[:, : -(-self.n_bits // 8)])

    def ids_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        ids = self.ids
        if ids is None:
            return positions + self.first_id if self.first_id else positions
        return ids[positions]

    def last_id(self) -> int:
        return int(self.ids_at(np.array([len(self) - 1]))[0])

    def find(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where the codes with these ids are, and which of them are there and alive."""
        own = self.ids
        if own is None:
            positions = ids - self.first_id
            known = (positions >= 0) & (positions < len(self))
        else:
            positions = np.searchsorted(own, ids)
            known = positions < len(own)
            known[known] = own[positions[known]] == ids[known]
        if self.n_removed:
            known[known] = self.is_alive(positions[known])
        return positions, known

    def is_alive(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        if not self.n_removed:
            return np.ones(len(positions), bool)
        return bits_at(self.alive, positions)

    def live_positions(self) -> NDArray[np.int64]:
        """Positions of the codes that are alive, ascending."""
        if not self.n_removed:
            return np.arange(len(self))
        return np.flatnonzero(unpacked_mask(self.alive, len(self)))

    def rows_at(self, positions: NDArray[np.int64]) -> NewCodes:
        """Some codes with all that belongs to them."""
        corrections = None if self.corrections is None else self.corrections[positions]
        return NewCodes(self.codes_at(positions), self.ids_at(positions), corrections)

    def without(self, positions: NDArray[np.int64]) -> "Segment":
        """The same codes, with those at distinct positions, which are alive, marked as removed."""
        alive = self.alive if self.n_removed else packed_mask(np.ones(len(self), bool))
        return self._marked(without_bits(alive, positions), self.n_removed + len(positions))

    def appended(self, rows: NewCodes) -> "Segment | None":
        """With codes of higher ids, written into the room behind; None where there is none."""
        room, n = self.room, len(self)
        running = self._ids is None and rows.ids[0] == self.first_id + n and is_running(rows.ids)
        if room is None or (self._ids is None) != running or not room.take(n, len(rows.ids)):
            return None
        room.write(self.layout, n, rows)
        longer = _segment_of(self.n_bits, self.layout, room, n + len(rows.ids), self.first_id)
        if not self.n_removed:
            return longer
        return longer._marked(with_bits(self.alive, n, len(longer)), self.n_removed)

    def _marked(self, alive: NDArray[np.uint64], n_removed: int) -> "Segment":
        other = Segment(
            self.n_bits, self.layout, self._tiles, self._ids, self.first_id, self._corrections, self.room, self._check
        )
        other._tiles = self._tiles  # the same object: what was learned of these codes stays true
        other.alive, other.n_removed = alive, n_removed
        return other

    def has_codes_of(self, other: "Segment") -> bool:
        """Whether both are the same codes, whichever of them are removed."""
        return self._tiles is other._tiles


class CodeTable:
    """Codes of ``n_bits`` bits by id; see :class:`hashlearn.HammingIndex` for the outside.

    Make one by :meth:`empty`, by :func:`hashlearn.index.file.read_table`, or from another.

    Parameters
    ----------
    n_bits : int
    layout : Layout
    corrected : bool
        Does a code come with one byte more?
    metadata : dict
        What else is to be saved with the codes, as JSON can say it; not to be changed.
    segments : tuple of Segment
        Base and tail, or one of them, or none; none is empty.
    next_id : int
        Above every id there has ever been.
    fingerprint : str or None
        That of the file with all these codes, if they are as they were read from it.
    """

    def __init__(
        self,
        n_bits: int,
        layout: Layout,
        corrected: bool,
        metadata: Mapping[str, Any],
        segments: tuple[Segment, ...] = (),
        next_id: int = 0,
        fingerprint: str | None = None,
    ):
        self.n_bits, self.layout, self.corrected = n_bits, layout, corrected
        self.n_bytes = -(-n_bits // 8)
        self.metadata, self.segments, self.next_id, self.fingerprint = metadata, segments, next_id, fingerprint
        self.n_removed = sum(segment.n_removed for segment in segments)
        self._n_codes = sum(map(len, segments)) - self.n_removed

    @classmethod
    def empty(
        cls,
        n_bits: int,
        layout: Layout | None = None,
        *,
        corrections: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> "CodeTable":
        """A table without codes.

        Parameters
        ----------
        n_bits : int
        layout : Layout or None
            By default the one for Hamming distances.
        corrections : bool
            Does a code come with one byte more?
        metadata : dict or None
        """
        return cls(n_bits, layout or word_layout(n_bits), corrections, metadata or {})

    def __reduce__(self) -> tuple:
        made = (self.n_bits, self.layout, self.corrected, self.metadata)
        return _restored, (made, self.next_id, self.live())

    def __len__(self) -> int:
        return self._n_codes

    @property
    def nbytes(self) -> int:
        return sum(segment.nbytes for segment in self.segments)

    @cached_property
    def in_order(self) -> bool:
        """Are all ids of the tail above those of the base?"""
        return len(self.segments) < 2 or self.segments[0].last_id() < int(self.segments[1].ids_at(_FIRST)[0])

    def verify(self) -> None:
        """Do the checks that are still owed, if any."""
        for segment in self.segments:
            segment.verify()

    def with_metadata(self, metadata: Mapping[str, Any]) -> "CodeTable":
        return CodeTable(self.n_bits, self.layout, self.corrected, metadata, self.segments, self.next_id)

    def live(self) -> NewCodes:
        """All codes that are there, in the order of their ids."""
        parts = [segment.rows_at(segment.live_positions()) for segment in self.segments]
        if not parts:
            nothing = np.empty(0, np.uint8) if self.corrected else None
            return NewCodes(np.empty((0, self.n_bytes), np.uint8), _NO_IDS, nothing)
        return parts[0] if len(parts) == 1 else _joined(*parts)

    def live_ids(self) -> NDArray[np.int64]:
        """The ids, ascending."""
        parts = [segment.ids_at(segment.live_positions()) for segment in self.segments]
        ids = np.concatenate(parts) if parts else _NO_IDS
        return ids if self.in_order else np.sort(ids)

    def find(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """The segments that ids are in, their positions there, and which of them are there at all."""
        where, positions, known = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64), np.zeros(len(ids), bool)
        for number, segment in enumerate(self.segments):
            found, there = segment.find(ids)
            where[there], positions[there] = number, found[there]
            known |= there
        return where, positions, known

    def refuse_unknown(self, ids: ArrayLike, name: str = "ids") -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The segments and positions of ids, which must be there."""
        wanted = check_ids(ids, name)
        where, positions, known = self.find(wanted)
        if not known.all():
            raise ValueError(f"{name} must be in the index, got {wanted[~known][0]}, which is not")
        return where, positions

    def codes_of(self, ids: ArrayLike) -> NDArray[np.uint8]:
        """Packed codes of ids, in their order."""
        where, positions = self.refuse_unknown(ids)
        codes = np.empty((len(where), self.n_bytes), np.uint8)
        for number, segment in enumerate(self.segments):
            here = where == number
            codes[here] = segment.codes_at(positions[here])
        return codes

    def added(
        self, codes: NDArray[np.uint8], ids: ArrayLike | None = None, corrections: ArrayLike | None = None
    ) -> "CodeTable":
        """A table with these packed codes too; their ids must be new."""
        if ids is None:
            new_ids = ids_from(self.next_id, len(codes))
        else:
            new_ids = check_new_ids(ids, len(codes))
            if len(new_ids) and new_ids.min() < self.next_id:
                known = self.find(new_ids)[2]
                if known.any():
                    raise ValueError(f"ids must be new, got {new_ids[known][0]}, which is already in the index")
        return self._with(NewCodes(codes, new_ids, self._check_corrections(corrections, len(codes))))

    def upserted(self, codes: NDArray[np.uint8], ids: ArrayLike, corrections: ArrayLike | None = None) -> "CodeTable":
        """A table with these packed codes too, in the place of those that have the same ids."""
        new_ids = check_new_ids(ids, len(codes))
        rows = NewCodes(codes, new_ids, self._check_corrections(corrections, len(codes)))
        where, positions, known = self.find(new_ids)
        return self._marked(where[known], positions[known])._with(rows)._tidied()

    def removed(self, ids: ArrayLike) -> "CodeTable":
        """A table without the codes with these ids, which must be there."""
        wanted = check_ids(ids, "ids")
        where, positions = self.refuse_unknown(np.unique(wanted) if len(wanted) > 1 else wanted)
        return self._marked(where, positions)._tidied()

    def compacted(self) -> "CodeTable":
        """A table of one segment without removed codes."""
        if len(self.segments) <= 1 and not self.n_removed:
            return self
        return self._of(self.live())

    def subset(self, positions: list[NDArray[np.int64]]) -> "CodeTable":
        """Some of the codes, by ascending positions in each segment; their ids stay."""
        parts = [segment.rows_at(part) for segment, part in zip(self.segments, positions) if len(part)]
        if not parts:
            return CodeTable(self.n_bits, self.layout, self.corrected, self.metadata, (), self.next_id)
        return self._of(parts[0] if len(parts) == 1 else _joined(*parts))

    def _check_corrections(self, corrections: ArrayLike | None, n: int) -> NDArray[np.uint8] | None:
        if not self.corrected:
            if corrections is not None:
                raise ValueError("corrections must be None: the index was made without")
            return None
        array = np.asarray(corrections)
        if array.dtype != np.uint8 or array.shape != (n,):
            raise ValueError(f"corrections must be uint8 of shape ({n},), got {array.dtype} of shape {array.shape}")
        return array

    def _replaced(self, *segments: Segment, next_id: int = 0) -> "CodeTable":
        kept = tuple(segment for segment in segments if len(segment))
        return CodeTable(self.n_bits, self.layout, self.corrected, self.metadata, kept, max(self.next_id, next_id))

    def _of(self, rows: NewCodes) -> "CodeTable":
        """A table of one segment with these codes, which ascend in id."""
        return self._replaced(self._segment(rows, len(rows.ids)))

    def _segment(self, rows: NewCodes, capacity: int) -> Segment:
        """A segment of its own for codes that ascend in id."""
        running = is_running(rows.ids)
        room = Room(self.layout, capacity, ids=not running, corrections=self.corrected)
        room.take(0, len(rows.ids))
        room.write(self.layout, 0, rows)
        first_id = int(rows.ids[0]) if running and len(rows.ids) else 0
        return _segment_of(self.n_bits, self.layout, room, len(rows.ids), first_id)

    def _marked(self, where: NDArray[np.int64], positions: NDArray[np.int64]) -> "CodeTable":
        if not len(where):
            return self
        marked = list(self.segments)
        for number in np.unique(where).tolist():
            marked[number] = marked[number].without(positions[where == number])
        return self._replaced(*marked)

    def _with(self, rows: NewCodes) -> "CodeTable":
        """With codes whose ids are not there, in any order."""
        if not len(rows.ids):
            return self
        if len(rows.ids) > 1 and np.any(np.diff(rows.ids) < 0):
            rows = rows.take(np.argsort(rows.ids))
        next_id = int(rows.ids[-1]) + 1
        if not self.segments:
            return self._replaced(self._segment(rows, len(rows.ids)), next_id=next_id)
        *base, tail = self.segments
        if rows.ids[0] > tail.last_id():
            longer = tail.appended(rows)
            if longer is None and (base or tail.room is not None):  # no room: more of it, and the tail copied there
                longer = self._grown(tail, rows)
            if longer is None:  # the tail is a mapped file: it stays one
                longer = self._segment(rows, len(rows.ids))
                base = [tail]
            return self._replaced(*base, longer, next_id=next_id)
        if len(tail) <= max(_SMALL_TAIL, int(_TAIL_PER_ROOT * len(self) ** 0.5)):
            sorted_in = _joined(tail.rows_at(tail.live_positions()), rows)
            return self._replaced(*base, self._segment(sorted_in, len(sorted_in.ids)), next_id=next_id)
        if base:
            base = list(self.compacted().segments)
        return self._replaced(*(base or [tail]), self._segment(rows, len(rows.ids)), next_id=next_id)

    def _grown(self, tail: Segment, rows: NewCodes) -> Segment:
        """The tail and codes behind it, in larger room; removed codes keep their places."""
        together = _behind(tail.rows_at(np.arange(len(tail))), rows)
        longer = self._segment(together, max(len(together.ids), int(_GROWTH * len(tail)), _SMALL_TAIL))
        gone = np.flatnonzero(~tail.is_alive(np.arange(len(tail)))) if tail.n_removed else _NO_IDS
        return longer.without(gone) if len(gone) else longer

    def _tidied(self) -> "CodeTable":
        """Without removed codes once they are half of all."""
        return self.compacted() if self.n_removed > max(_SMALL_TAIL, len(self)) else self


_FIRST = np.zeros(1, np.int64)


class Once:
    """A call that is made once, whichever thread comes first; where it raises, the next one makes it again."""

    def __init__(self, call: Callable[[], None]):
        self._call = call
        self._made = False
        self._making = thread_lock()

    def __call__(self) -> None:
        if self._made:
            return
        with self._making:
            if not self._made:
                self._call()
                self._made = True


def _segment_of(n_bits: int, layout: Layout, room: Room, n: int, first_id: int) -> Segment:
    """The first n codes that are in a room."""
    tiles = Tiles(room.front, room.back, layout.n_front, layout.n_back, n)
    ids = None if room.ids is None else room.ids[:n]
    return Segment(n_bits, layout, tiles, ids, first_id, room.corrections, room)


def packed_mask(mask: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """A mask by position as a word for every tile."""
    words = np.zeros(-(-len(mask) // TILE) * (TILE // 8), np.uint8)
    packed = np.packbits(mask, bitorder="little")
    words[: len(packed)] = packed
    return words.view(np.uint64)


def unpacked_mask(words: NDArray[np.uint64], n: int) -> NDArray[np.bool_]:
    """The first n bits of a word for every tile, as a mask by position."""
    return np.unpackbits(words.view(np.uint8), count=n, bitorder="little").view(np.bool_)


def bits_at(words: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of some positions have their bits set in such words."""
    return (words[positions >> 6] >> (positions & 63).astype(np.uint64)) & np.uint64(1) != 0


def without_bits(words: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The same words without the bits of some positions."""
    cleared = words.copy()
    np.bitwise_and.at(cleared, positions >> 6, ~(np.uint64(1) << (positions & 63).astype(np.uint64)))
    return cleared


def with_bits(words: NDArray[np.uint64], first: int, last: int) -> NDArray[np.uint64]:
    """Words of ``first`` positions made longer, with the bits of the positions from there to below ``last``."""
    if last - first > TILE:
        return packed_mask(np.concatenate([unpacked_mask(words, first), np.ones(last - first, bool)]))
    longer, new = np.zeros(n_tiles(last), np.uint64), np.arange(first, last)
    longer[: len(words)] = words
    np.bitwise_or.at(longer, new >> 6, np.uint64(1) << (new & 63).astype(np.uint64))
    return longer


def is_running(ids: NDArray[np.int64]) -> bool:
    """Whether distinct ids that ascend are one number after the other."""
    return len(ids) == 0 or int(ids[-1]) - int(ids[0]) == len(ids) - 1


def _behind(first: NewCodes, second: NewCodes) -> NewCodes:
    corrections = None
    if first.corrections is not None and second.corrections is not None:
        corrections = np.concatenate([first.corrections, second.corrections])
    return NewCodes(np.concatenate([first.codes, second.codes]), np.concatenate([first.ids, second.ids]), corrections)


def _joined(first: NewCodes, second: NewCodes) -> NewCodes:
    """Two sets of codes in the order of their ids."""
    together = _behind(first, second)
    if len(first.ids) and len(second.ids) and first.ids[-1] > second.ids[0]:
        return together.take(np.argsort(together.ids, kind="stable"))
    return together


def _restored(made: tuple, next_id: int, live: tuple) -> CodeTable:
    """The table that was pickled or copied: the arguments of its constructor, its next id and its live rows."""
    table = CodeTable(*made).added(*live)
    table.next_id = next_id
    return table


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
    ascending = np.sort(array) if len(array) > 1 else array
    repeated = ascending[1:][ascending[1:] == ascending[:-1]]
    if len(repeated):
        raise ValueError(f"ids must be unique, got {repeated[0]} more than once")
    return array
