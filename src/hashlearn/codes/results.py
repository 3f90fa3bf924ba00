"""The results of a search of codes, in an index or in a store."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

NO_DISTANCE = np.iinfo(np.int32).max
"""Distance of an empty place in a result: above every distance, so that rows ascend and ``distances <= r`` is False."""
NO_ID = -1
"""Id of an empty place in a result, if ids are integers; None if they are strings."""


class Neighbors(NamedTuple):
    """The nearest codes of each query, nearest first, ties by the lowest id.

    If there are fewer than k codes, the empty places have distance 2147483647 (infinity if distances are real) and id
    -1 (None if ids are strings).
    """

    distances: NDArray[np.int32] | NDArray[np.float32]
    ids: NDArray[Any]


@dataclass(frozen=True)
class RangeResult:
    """All codes within a radius of each query, nearest first, ties by the lowest id.

    Query q has ``distances[offsets[q] : offsets[q + 1]]``, and the same of ``ids``; ``result[q]`` is both.

    Attributes
    ----------
    offsets : ndarray of shape (n_queries + 1,), int64
    distances : ndarray of shape (n_hits,), int32, or float32 if distances are real
    ids : ndarray of shape (n_hits,), int64 or objects that are strings
    """

    offsets: NDArray[np.int64]
    distances: NDArray[np.int32] | NDArray[np.float32]
    ids: NDArray[Any]

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of codes found for each query."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> Neighbors:
        if not -len(self) <= query < len(self):
            raise IndexError(f"query must be below {len(self)}, got {query}")
        query %= len(self)
        hits = slice(self.offsets[query], self.offsets[query + 1])
        return Neighbors(self.distances[hits], self.ids[hits])

    def __iter__(self) -> Iterator[Neighbors]:
        return (self[query] for query in range(len(self)))


def count_found(ids: ArrayLike, truth: ArrayLike) -> NDArray[np.int64]:
    """How many ids of a row of ``truth`` are in the same row of ``ids``, shape (n_queries,); -1 and None are no ids.

    Examples
    --------
    >>> count_found([[3, 1, 7], [2, -1, -1]], [[7, 3], [1, -1]])
    array([2, 0])
    """
    pairs = zip(np.asarray(ids).tolist(), np.asarray(truth).tolist(), strict=True)
    return np.array([len((set(found) & set(true)) - {NO_ID, None}) for found, true in pairs], np.int64)
