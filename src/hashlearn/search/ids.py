"""The ids of the rows of a search, by place: integers, or strings one behind the other in one array.

A place is the number of a row, counted from the first row that the search still has. Ids are only appended; a row that
is removed keeps its place until the search is compacted. A reader
that holds the first places only is therefore right about them, whatever was appended since.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes.results import NO_ID
from hashlearn.index.code_table import thread_lock
from hashlearn.rows.inputs import as_ids, check_unique, ids_are_text
from hashlearn.search.kernels.texts import (
    EMPTY,
    digests_of_numbers,
    digests_of_texts,
    find_numbers,
    find_texts,
    insert_places,
    split_lines,
)
from hashlearn.stores.base import IdType

_KINDS = {"int64": "integers", "str": "strings"}
_MOST_FULL = 0.6
_NEWLINE = 10


_TAKING = thread_lock()
"""Held for a moment, while room is taken."""


class _Space:
    """An array with room for more values; the first ``used`` are taken."""

    def __init__(self, room: NDArray, used: int):
        self.room, self.used = room, used


class Growing:
    """Values to which more can be appended; an object does not see values that are appended after it was made."""

    __slots__ = ("_space", "values")

    def __init__(self, values: NDArray, space: _Space | None = None):
        self.values = values
        self._space = space or _Space(values, len(values))

    def appended(self, new: NDArray) -> "Growing":
        n, n_after, space = len(self.values), len(self.values) + len(new), self._space
        with _TAKING:
            has_room = space.used == n and len(space.room) >= n_after
            if has_room:
                space.used = n_after
        if not has_room:
            space = _Space(np.empty(max(n_after, n + n // 8 + 1024), self.values.dtype), n_after)
            space.room[:n] = self.values
        space.room[n:n_after] = new
        return Growing(space.room[:n_after], space)


class Ids(NamedTuple):
    """Some ids: numbers, or the bytes of texts and where each of them ends."""

    numbers: NDArray[np.int64] | None
    text: NDArray[np.uint8]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, ids: NDArray[Any]) -> "Ids":
        """Of an array of int64, or of objects that are strings without control characters."""
        if ids.dtype != object:
            return cls(ids, np.empty(0, np.uint8), np.empty(0, np.int64))
        return cls.of_lines("\n".join(ids.tolist()).encode(), len(ids))

    @classmethod
    def of_lines(cls, lines: bytes, n: int) -> "Ids":
        """Of n strings with a line feed between them; raises where there are not n."""
        if not n:
            return cls(None, np.empty(0, np.uint8), np.empty(0, np.int64))
        text, ends = np.empty(len(lines), np.uint8), np.empty(n, np.int64)
        if split_lines(np.frombuffer(lines, np.uint8), text, ends) != n:
            raise ValueError(f"not {n} lines")
        return cls(None, text[: ends[-1]], ends)

    @property
    def id_type(self) -> IdType:
        return "str" if self.numbers is None else "int64"

    def __len__(self) -> int:
        return len(self.ends) if self.numbers is None else len(self.numbers)

    @property
    def starts(self) -> NDArray[np.int64]:
        starts = np.zeros(len(self.ends), np.int64)
        starts[1:] = self.ends[:-1]
        return starts

    def digests(self) -> NDArray[np.uint64]:
        found = np.empty(len(self), np.uint64)
        if self.numbers is None:
            digests_of_texts(self.text, self.starts, self.ends, found)
        else:
            digests_of_numbers(self.numbers, found)
        return found

    def take(self, places: NDArray[np.int64]) -> "Ids":
        if self.numbers is not None:
            return Ids(self.numbers[places], self.text, self.ends)
        return Ids.of(self.at(places))

    def at(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """The ids at places, of any shape; -1 or None for a place of -1."""
        if self.numbers is not None:
            if not len(self.numbers):
                return np.full(places.shape, NO_ID, np.int64)
            found = self.numbers[places]
            found[places < 0] = NO_ID
            return found
        texts = np.full(places.shape, None, object)
        flat, text, ends = texts.reshape(-1), self.text, self.ends
        for i, place in enumerate(places.reshape(-1).tolist()):
            if place >= 0:
                flat[i] = text[ends[place - 1] if place else 0 : ends[place]].tobytes().decode()
        return texts

    def all(self) -> NDArray[Any]:
        """All ids, in the order of their places."""
        if self.numbers is not None:
            return self.numbers
        if not len(self):
            return np.empty(0, object)
        with_breaks = np.empty(len(self.text) + len(self) - 1, np.uint8)
        is_break = np.zeros(len(with_breaks), bool)
        is_break[(self.ends + np.arange(len(self)))[:-1]] = True
        with_breaks[is_break], with_breaks[~is_break] = _NEWLINE, self.text
        texts = np.empty(len(self), object)
        texts[:] = with_breaks.tobytes().decode().split("\n")
        return texts


class _Table:
    """Places by the digests of their ids."""

    def __init__(self) -> None:
        self.slots = np.full(64, EMPTY, np.int32)
        self.n_inserted = 0
        self.filling = thread_lock()

    def upto(self, n: int, digests: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The slots, with all places below n."""
        with self.filling:
            if n > self.n_inserted:
                if n > _MOST_FULL * len(self.slots):
                    slots = np.full(1 << int(n / _MOST_FULL * 1.5).bit_length(), EMPTY, np.int32)
                    insert_places(slots, digests, 0, n)
                    self.slots = slots
                else:
                    insert_places(self.slots, digests, self.n_inserted, n)
                self.n_inserted = n
            return self.slots


class IdColumn:
    """The ids of all places of a search, and how to find them. It never changes; :meth:`appended` gives another."""

    def __init__(
        self, numbers: Growing | None, text: Growing, ends: Growing, digests: Growing, table: _Table | None = None
    ):
        self._numbers, self._text, self._ends, self._digests = numbers, text, ends, digests
        self._table = table or _Table()

    @classmethod
    def of(cls, ids: Ids) -> "IdColumn":
        numbers = None if ids.numbers is None else Growing(ids.numbers)
        return cls(numbers, Growing(ids.text), Growing(ids.ends), Growing(ids.digests()))

    @classmethod
    def with_gaps(cls, ids: Ids, places: NDArray[np.int64], n: int) -> "IdColumn":
        """Of n places, of which only some, ascending, have ids; nothing is found at the others."""
        digests = np.empty(n, np.uint64)
        digests_of_numbers(np.arange(n), digests)  # different ones, for equal digests would be slow to look up
        digests[places] = ids.digests()
        if ids.numbers is not None:
            numbers = np.full(n, NO_ID, np.int64)
            numbers[places] = ids.numbers
            return cls(Growing(numbers), Growing(ids.text), Growing(ids.ends), Growing(digests))
        lengths = np.zeros(n, np.int64)
        lengths[places] = ids.ends - ids.starts
        return cls(None, Growing(ids.text), Growing(np.cumsum(lengths)), Growing(digests))

    @property
    def ids(self) -> Ids:
        numbers = None if self._numbers is None else self._numbers.values
        return Ids(numbers, self._text.values, self._ends.values)

    @property
    def digests(self) -> NDArray[np.uint64]:
        return self._digests.values

    @property
    def id_type(self) -> IdType:
        return self.ids.id_type

    def __len__(self) -> int:
        return len(self._digests.values)

    def appended(self, new: Ids, digests: NDArray[np.uint64] | None = None) -> "IdColumn":
        """With ids behind the others."""
        numbers = None if self._numbers is None or new.numbers is None else self._numbers.appended(new.numbers)
        base = len(self._text.values)
        # Where a change was given up, places behind these were found by ids that are not there: begin anew.
        table = self._table if self._table.n_inserted <= len(self) else None
        return IdColumn(
            numbers,
            self._text.appended(new.text),
            self._ends.appended(new.ends + base),
            self._digests.appended(new.digests() if digests is None else digests),
            table,
        )

    def find(self, wanted: Ids, alive: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The places of ids among those that are alive; -1 for ids that are not there."""
        found = np.full(len(wanted), EMPTY, np.int64)
        n, own = len(self), self.ids
        if not n or not len(wanted):
            return found
        slots, digests = self._table.upto(n, self._digests.values), wanted.digests()
        if own.numbers is not None and wanted.numbers is not None:
            find_numbers(slots, self.digests, own.numbers, alive, n, wanted.numbers, digests, found)
        else:
            find_texts(slots, self.digests, own.text, own.ends, alive, n, wanted.text, wanted.ends, digests, found)
        return found


def given_ids(ids: Any, known: IdType | None, name: str = "ids") -> NDArray[Any]:
    """Ids that a user gives, of the kind that the rows have, or of any kind where there are no rows."""
    array = as_ids(ids, name)
    given: IdType = "str" if ids_are_text(array) else "int64"
    if len(array) and known is not None and given != known:
        raise TypeError(f"{name} must be {_KINDS[known]}, as those of this search, got {_KINDS[given]}")
    return array


def given_new_ids(ids: Any, known: IdType | None, n: int) -> NDArray[Any]:
    """As :func:`given_ids`, of n rows to be put: no id comes twice."""
    if isinstance(ids, (set, frozenset)):
        raise TypeError("ids must be in the order of the rows of X, got a set; pass a list")
    array = given_ids(ids, known)
    if len(array) != n:
        raise ValueError(f"ids must be as many as the rows of X, got {len(array)} for {n}")
    check_unique(array)
    return array
