"""Which record of a log is the last of an id."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NOWHERE = -1
"""Place of an id that is not there."""

_SMALL = 4096
_GROWTH = 8


class _Sorted(NamedTuple):
    """Ids, ascending, and the place of the last record of each; :data:`NOWHERE` if that record removes it."""

    ids: NDArray[np.int64]
    places: NDArray[np.int64]

    @classmethod
    def of(cls, keys: NDArray[np.int64], first: int) -> "_Sorted":
        """Of consecutive records from place ``first`` on."""
        places = np.where(keys < 0, NOWHERE, np.arange(first, first + len(keys)))
        return _last_of_each(ids_of_keys(keys), places)

    def then(self, later: "_Sorted") -> "_Sorted":
        return _last_of_each(*(np.concatenate(both) for both in zip(self, later)))

    def put_into(self, places: NDArray[np.int64], ids: NDArray[np.int64]) -> None:
        """Overwrite the places of those of the ids that are here."""
        if not len(self.ids):
            return
        found = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        known = self.ids[found] == ids
        places[known] = self.places[found[known]]


class RecordTable(NamedTuple):
    """The places of ids in a log. It does not change; :meth:`extended` makes a new one.

    Ids that are their own places, as far as all records from the first on are so, take no memory. The others are in two
    sorted tables, so that a few new records do not have all of them sorted again.
    """

    n_running: int
    old: _Sorted
    new: _Sorted
    n_ids: int

    @classmethod
    def of(cls, keys: NDArray[np.int64]) -> "RecordTable":
        """Of all records of a log, by their keys: an id, or -1 - id where the record removes it.

        Examples
        --------
        >>> table = RecordTable.of(np.array([0, 1, 7, 1, -1 - 7]))
        >>> table.find(np.array([0, 1, 7])).tolist(), table.n_ids
        ([0, 3, -1], 2)
        """
        differs = np.flatnonzero(keys != np.arange(len(keys)))
        n_running = int(differs[0]) if len(differs) else len(keys)
        nothing = _Sorted(np.empty(0, np.int64), np.empty(0, np.int64))
        start = cls(n_running, nothing, nothing, n_running)
        return start.extended(keys[n_running:], n_running)

    def extended(self, keys: NDArray[np.int64], first: int) -> "RecordTable":
        """With more records, the first of which is at place ``first``."""
        if not len(keys):
            return self
        if (
            not len(self.old.ids)
            and not len(self.new.ids)
            and np.array_equal(keys, np.arange(first, first + len(keys)))
        ):
            return self._replace(n_running=first + len(keys), n_ids=first + len(keys))
        added = _Sorted.of(keys, first)
        before = self.find(added.ids)
        n_ids = self.n_ids + np.count_nonzero(added.places != NOWHERE) - np.count_nonzero(before != NOWHERE)
        new = self.new.then(added)
        if len(new.ids) <= max(_SMALL, len(self.old.ids) // _GROWTH):
            return self._replace(new=new, n_ids=int(n_ids))
        nothing = _Sorted(new.ids[:0], new.places[:0])
        return self._replace(old=self.old.then(new), new=nothing, n_ids=int(n_ids))

    def find(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of the last records of ids; :data:`NOWHERE` for those that are not there."""
        places = np.where((ids >= 0) & (ids < self.n_running), ids, NOWHERE)
        for table in (self.old, self.new):
            table.put_into(places, ids)
        return places

    def ids(self) -> NDArray[np.int64]:
        """The ids that are there, ascending."""
        if not len(self.old.ids) and not len(self.new.ids):
            return np.arange(self.n_running)
        every = np.unique(np.concatenate([np.arange(self.n_running), self.old.ids, self.new.ids]))
        return every[self.find(every) != NOWHERE]


def ids_of_keys(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The ids that records are about, whether they remove them or not."""
    return np.where(keys < 0, -1 - keys, keys)


def _last_of_each(ids: NDArray[np.int64], places: NDArray[np.int64]) -> _Sorted:
    """Of ids in the order of their records."""
    order = np.argsort(ids, kind="stable")
    ids, places = ids[order], places[order]
    is_last = np.append(ids[1:] != ids[:-1], True)[: len(ids)]
    return _Sorted(ids[is_last], places[is_last])
