"""Rows with equal numbers are one content. What is near is a matter of contents; rows are exact copies of one."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.duplicates.vectors import Rows


class Contents(NamedTuple):
    """The different contents of the rows, numbered as they first appear.

    Attributes
    ----------
    of_row : ndarray of shape (n,), int64
        The content of each row.
    row_of : ndarray of shape (m,), int64
        The first row of each content; ascending.
    """

    of_row: Rows
    row_of: Rows

    @classmethod
    def of(cls, hashes: NDArray[np.uint64]) -> "Contents":
        """Told apart by 128 bits of hash: two different rows have the same by chance once in 10^38."""
        n = len(hashes)
        order = np.lexsort((np.arange(n), hashes[:, 1], hashes[:, 0]))
        is_new = np.ones(n, np.bool_)
        is_new[1:] = (hashes[order[1:]] != hashes[order[:-1]]).any(axis=1)
        first_rows = order[is_new]
        by_appearance = np.argsort(first_rows)
        numbers = np.empty(len(first_rows), np.int64)
        numbers[by_appearance] = np.arange(len(first_rows))
        of_row = np.empty(n, np.int64)
        of_row[order] = numbers[np.cumsum(is_new) - 1]
        return cls(of_row, first_rows[by_appearance])

    @property
    def n_rows(self) -> NDArray[np.int64]:
        """How many rows have each content."""
        return np.bincount(self.of_row, minlength=len(self.row_of))


class NearPairs(NamedTuple):
    """Pairs of contents ``first < second`` within the largest distance, in ascending order."""

    first: Rows
    second: Rows
    distances: NDArray[np.float64]

    @classmethod
    def in_order(cls, first: Rows, second: Rows, distances: NDArray[np.float64]) -> "NearPairs":
        low, high = np.minimum(first, second), np.maximum(first, second)
        order = np.lexsort((high, low))
        return cls(low[order], high[order], distances[order])

    def within(self, distance: float) -> "NearPairs":
        kept = self.distances <= distance
        return NearPairs(self.first[kept], self.second[kept], self.distances[kept])

    def without(self, apart: Rows) -> "NearPairs":
        """The pairs but those that are named, the lower content first."""
        if not len(apart):
            return self
        n = 1 + int(max(self.second.max(initial=0), apart.max()))
        kept = ~np.isin(self.first * n + self.second, apart[:, 0] * n + apart[:, 1])
        return NearPairs(self.first[kept], self.second[kept], self.distances[kept])
