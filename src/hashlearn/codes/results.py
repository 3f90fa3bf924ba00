"""The results of a search of codes, in an index or in a store."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.extras import require

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

    def __repr__(self) -> str:
        """The first neighbors of the first queries, an id and its distance each."""
        shown = np.atleast_2d(self.ids)[:_SHOWN_QUERIES, :_SHOWN_NEIGHBORS].tolist()
        distances = np.atleast_2d(self.distances)[:_SHOWN_QUERIES, :_SHOWN_NEIGHBORS].tolist()
        n_queries, k = np.atleast_2d(self.ids).shape
        lines = []
        for ids, row in zip(shown, distances):
            pairs = ", ".join(f"{id!r} ({distance:.4g})" for id, distance in zip(ids, row))
            lines.append(f"  {pairs}{', ...' if k > _SHOWN_NEIGHBORS else ''}")
        if n_queries > _SHOWN_QUERIES:
            lines.append("  ...")
        of = "1 query" if n_queries == 1 else f"{n_queries} queries"
        return "\n".join([f"{type(self).__name__}: {k} of {of}, id (distance), nearest first", *lines])

    def to_pandas(self) -> Any:
        """A frame with a row for each neighbor: ``query``, ``rank`` from 1, ``id`` and ``distance``; needs pandas.

        Places that no code fills are left out.
        """
        pandas: Any = require("pandas", "pandas")
        ids, distances = np.atleast_2d(self.ids), np.atleast_2d(self.distances)
        n_queries, k = ids.shape
        there = np.array([id is not None and id != NO_ID for id in ids.ravel().tolist()], bool)
        columns = {
            "query": np.repeat(np.arange(n_queries), k),
            "rank": np.tile(np.arange(1, k + 1), n_queries),
            "id": ids.ravel(),
            "distance": distances.ravel(),
        }
        return pandas.DataFrame({name: column[there] for name, column in columns.items()})


_SHOWN_QUERIES, _SHOWN_NEIGHBORS = 5, 5


@dataclass(frozen=True)
class RangeResult:
    """All codes within a radius of each query, nearest first, ties by the lowest id.

    The results of query q are ``distances[offsets[q] : offsets[q + 1]]`` and the same slice of ``ids``; ``result[q]``
    is both.

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
