"""What a similarity search returns beside :mod:`hashlearn.codes.results`."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes.results import Neighbors


class Record(NamedTuple):
    """One row of a similarity search; ``vector`` is None where none are kept."""

    id: Any
    code: NDArray[np.uint8]
    payload: dict[str, Any]
    vector: NDArray[np.float32] | None


class Page(NamedTuple):
    """Some rows of a similarity search, and what to pass as ``after`` for the next ones; None at the end."""

    records: list[Record]
    after: str | None


class NeighborsWithRows(Neighbors):
    """Neighbors with their payloads and vectors.

    Attributes
    ----------
    payloads : list of lists of dict or None
        In row q those of the neighbors of query q; None where nothing was found.
    vectors : ndarray of shape (n_queries, k, n_features) or None
        NaN where nothing was found; None where no vectors are kept.
    probed, recall
        As of :class:`~hashlearn.index.partitioned.ProbedNeighbors`; None where no lists were searched.
    parts : dict of ndarrays of shape (n_queries, k), or None
        What ``"words"`` and ``"meaning"`` have given to the score of each neighbor: 0 where that list does not have it.
    """

    payloads: list[list[dict[str, Any] | None]] | None = None
    vectors: NDArray[np.float32] | None = None
    probed: NDArray[np.int64] | None = None
    recall: float | None = None
    parts: dict[str, NDArray[np.float32]] | None = None

    @classmethod
    def of(cls, found: Neighbors, ids: NDArray[Any], payloads: Any, vectors: Any, parts: Any) -> "NeighborsWithRows":
        """What was found, with ids in the place of its own, and all that was read beside it."""
        result = cls(found.distances, ids)
        result.probed, result.recall = getattr(found, "probed", None), getattr(found, "recall", None)
        result.payloads, result.vectors, result.parts = payloads, vectors, parts
        return result

    @property
    def first(self) -> "NeighborsWithRows":
        """What the first query has found."""
        first: Any = NeighborsWithRows(self.distances[0], self.ids[0])
        for name in ("payloads", "vectors", "probed"):
            values = getattr(self, name)
            setattr(first, name, None if values is None else values[0])
        first.parts = self.parts and {name: part[0] for name, part in self.parts.items()}
        first.recall = self.recall
        return first

    def to_pandas(self) -> Any:
        """As that of :class:`~hashlearn.codes.results.Neighbors`, with a column for each field of the payloads."""
        frame = super().to_pandas()
        if self.payloads is None:
            return frame
        rows = [self.payloads] if np.ndim(self.ids) == 1 else self.payloads
        found = [rows[query][rank - 1] or {} for query, rank in zip(frame["query"], frame["rank"])]
        for field in dict.fromkeys(name for payload in found for name in payload if name not in frame):
            frame[field] = [payload.get(field) for payload in found]
        return frame
