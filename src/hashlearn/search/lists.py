"""The lists of a search: where its snapshots look for candidates once there are many rows.

Lists hold places, codes of their own kind (:class:`~hashlearn.index.PartitionedIndex`), and what was measured about
their recall. They are made from the kept vectors and can be made again from them at any time, so they are no part of
what a change must write. Nothing is removed from lists: a snapshot knows which places are alive.

Rows that were added since are put into the lists some hundreds at a time. Those that are not in the lists yet are few,
and a search compares all of their vectors.
"""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.index.partitioned import PartitionedIndex
from hashlearn.rows import RowBlocks
from hashlearn.rows.blocks import Source

INDEXES = ("auto", "flat", "lists")
LEAST_ROWS = {"auto": 100_000, "lists": 1_000}
"""Rows from which on a search has lists."""

DEFAULT_RECALL = 0.95

_GROWTH = 4
"""Lists are made anew when there are this many times the rows that they were made for."""

_MOST_OUTSIDE = 256
"""Rows that are not in the lists, at most."""

ReadVectors = Callable[[NDArray[np.int64]], NDArray[np.float32]]


class Covered(NamedTuple):
    """Lists, and the place from which on rows are not in them."""

    lists: PartitionedIndex
    n_places: int


class SearchLists:
    """Lists that grow as rows are added; all snapshots of the same places share them.

    Parameters
    ----------
    index : PartitionedIndex
        Its rows are places. It was tuned, and is not to be changed by others.
    n_places : int
        The place from which on rows are not in it.
    n_made_for : int
        Rows when the lists were made.
    """

    def __init__(self, index: PartitionedIndex, n_places: int, n_made_for: int):
        # One reference: a reader takes lists and number together.
        self._now = Covered(index, n_places)
        self.n_made_for = n_made_for
        self._growing = threading.Lock()

    @classmethod
    def made(
        cls, places: NDArray[np.int64], n_places: int, n_bits: int, metric: str, read: ReadVectors
    ) -> "SearchLists":
        """Learn lists from the rows at places, which ascend, put all of them in, and measure what recall needs."""
        rows = RowBlocks(VectorsAt(places, read(places[:1]).shape[1], read))
        index = PartitionedIndex(n_bits, metric=metric, random_state=0).fit(rows).add(rows, places)
        index.tune(rows, rows=places)
        return cls(index, n_places, len(places))

    def apart(self) -> "SearchLists":
        """The same lists, growing by themselves: for rows that are not committed yet."""
        return SearchLists(*self._now, self.n_made_for)

    def wants_to_be_made_anew(self, n_rows: int) -> bool:
        """Are there many more rows than when the lists were made?"""
        return n_rows > _GROWTH * self.n_made_for

    def covering(self, all_places: Callable[[], NDArray[np.int64]], n_places: int, read: ReadVectors) -> Covered:
        """The lists with all but a few of the rows; the places of all rows, which ascend, are asked for if needed."""
        if n_places - self._now.n_places > _MOST_OUTSIDE:
            with self._growing:
                index, n_covered = self._now
                if n_places - n_covered > _MOST_OUTSIDE:
                    places = all_places()
                    new = places[np.searchsorted(places, n_covered) :]
                    rows = RowBlocks(VectorsAt(new, index.n_features, read))
                    grown = index.copy().add(rows, new) if len(new) else index
                    self._now = Covered(grown, n_places)
        return self._now


class VectorsAt(Source):
    """The vectors at places, as a source of rows."""

    def __init__(self, places: NDArray[np.int64], n_features: int, read: ReadVectors):
        self._places, self._read = places, read
        self.shape, self.dtype = (len(places), n_features), np.dtype(np.float32)

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        return self._read(self._places[rows])
