"""The lists of a search: where its snapshots look for candidates once there are many rows.

Lists hold places, codes of their own kind (:class:`~hashlearn.index.PartitionedIndex`), and what was measured about
their recall. They are made from the kept vectors and can be made again from them at any time, so they are no part of
what a change must write. Nothing is removed from lists: a snapshot knows which places are alive.

Rows that were added since are put into the lists some hundreds at a time. A search compares the vectors of all rows
that are in no list.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.index.code_table import thread_lock
from hashlearn.index.partitioned import PartitionedIndex
from hashlearn.rows import RowBlocks
from hashlearn.rows.blocks import Source

INDEXES = ("auto", "flat", "lists")
LEAST_ROWS = {"auto": 100_000, "lists": 1_000}
"""Rows from which on a search has lists."""

DEFAULT_RECALL = 0.95

_GROWTH = 4
"""New lists are made when there are this many times as many rows as when the lists were made."""

_MOST_OUTSIDE = 256
"""Most new rows that are not in the lists yet."""

_BLOCK = 1 << 14

_MOST_FAR, _FAR_SHARE = 1024, 64
"""New lists are made when more than 1,024 rows, and more than 1 in 64, are far from all centers."""

_QUANTILE, _FARTHER = 0.99, 2.0
"""A row is far if its squared distance to its center is twice what 99 in 100 rows have."""

_SAMPLE = 4096

ReadVectors = Callable[[NDArray[np.int64]], NDArray[np.float32]]


class Covered(NamedTuple):
    """Lists, the place from which on rows are not in them, and the places before it that are not in them, ascending."""

    lists: PartitionedIndex
    n_places: int
    far: NDArray[np.int64]

    @classmethod
    def opened(cls, lists: PartitionedIndex, n_places: int, alive: NDArray[np.bool_]) -> "Covered":
        """Lists of a file, with the places of the rows that are alive and not in them."""
        missing = alive[:n_places].copy()
        missing[lists.rows] = False
        return cls(lists, n_places, np.flatnonzero(missing))


class SearchLists:
    """Lists that grow as rows are added; all snapshots of the same places share them.

    A row that is far from all centers gets a code that says little of it. Such rows are not put into lists: a search
    compares the vectors of all of them. If there are many such rows, new lists are made.

    Parameters
    ----------
    covered : Covered
        The lists were tuned, and are not to be changed by others.
    n_made_for : int
        Rows when the lists were made.
    limit : float
        The largest squared distance of a row to its center, of those that are put into lists.
    """

    def __init__(self, covered: Covered, n_made_for: int, limit: float):
        self._now = covered  # one reference: a reader takes all of it together
        self.n_made_for, self.limit = n_made_for, limit
        self._growing = thread_lock()

    @classmethod
    def made(
        cls, places: NDArray[np.int64], n_places: int, n_bits: int, metric: str, read: ReadVectors
    ) -> "SearchLists":
        """Learn lists from the rows at places, which ascend, put all of them in, and measure what recall needs."""
        rows = RowBlocks(VectorsAt(places, read(places[:1]).shape[1], read))
        index = PartitionedIndex(n_bits, metric=metric, random_state=0).fit(rows).add(rows, places)
        index.tune(rows, rows=places)
        sample = places[:: -(-len(places) // _SAMPLE)]
        limit = _FARTHER * float(np.quantile(index.squared_residuals(read(sample)), _QUANTILE))
        return cls(Covered(index, n_places, places[:0]), len(places), limit)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many rows each list has, with those that were removed."""
        return self._now.lists.list_sizes

    def apart(self) -> "SearchLists":
        """The same lists, growing by themselves: for rows that are not committed yet."""
        return SearchLists(self._now, self.n_made_for, self.limit)

    def tuned(
        self, covered: Covered, is_alive: NDArray[np.bool_], queries: NDArray, read: ReadVectors
    ) -> "SearchLists":
        """The same lists, measured with these queries; rows that are not alive any more are not in them."""
        index = covered.lists.copy()
        rows = index.rows
        index.remove(rows[~is_alive[rows]])
        rows = index.rows
        index.tune(RowBlocks(VectorsAt(rows, index.n_features, read)), queries, rows=rows)
        return SearchLists(covered._replace(lists=index), self.n_made_for, self.limit)

    def wants_to_be_made_anew(self, n_rows: int) -> bool:
        """Are there many more rows than when the lists were made, or many that are far from all centers?"""
        most_far = max(_MOST_FAR, self.n_made_for // _FAR_SHARE)
        return n_rows > _GROWTH * self.n_made_for or len(self._now.far) > most_far

    def covering(self, all_places: Callable[[], NDArray[np.int64]], n_places: int, read: ReadVectors) -> Covered:
        """The lists with all but a few of the rows; the places of all rows, which ascend, are asked for if needed."""
        if n_places - self._now.n_places > _MOST_OUTSIDE:
            with self._growing:
                if n_places - self._now.n_places > _MOST_OUTSIDE:
                    places = all_places()
                    new = places[np.searchsorted(places, self._now.n_places) :]
                    self._now = self._grown(new, n_places, read)
        return self._now

    def _grown(self, new: NDArray[np.int64], n_places: int, read: ReadVectors) -> Covered:
        index, _, far = self._now
        index = index.copy()
        for first in range(0, len(new), _BLOCK):
            here = new[first : first + _BLOCK]
            X = read(here)
            near = index.squared_residuals(X) <= self.limit
            if near.any():
                index.add(X[near], here[near])
            far = np.concatenate([far, here[~near]])
        return Covered(index, n_places, far)


class VectorsAt(Source):
    """The vectors at places, as a source of rows."""

    def __init__(self, places: NDArray[np.int64], n_features: int, read: ReadVectors):
        self._places, self._read = places, read
        self.shape, self.dtype = (len(places), n_features), np.dtype(np.float32)

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        return self._read(self._places[rows])
