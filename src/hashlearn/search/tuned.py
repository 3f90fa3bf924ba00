"""A similarity search as it is tuned: rows by their positions, whatever their ids are."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes.results import Neighbors
from hashlearn.rows import RowBlocks
from hashlearn.rows.blocks import Source
from hashlearn.search.searching import reranked
from hashlearn.search.state import State


class ByPosition:
    """A state that is searched for positions, and its vectors in their order."""

    def __init__(self, state: State):
        self._state = state
        self.hasher, self.metric = state.encoder.hasher, state.encoder.metric
        self.ids = np.arange(len(state))
        self.rows = RowBlocks(_KeptRows(state))

    def search(self, X: Any, k: int, *, candidates: int, rerank: Any) -> Neighbors:
        """The k nearest by kept vectors, which are those of ``rerank``."""
        found = reranked(self._state, X, k, "vectors", candidates, None, None)
        positions = np.searchsorted(self._state.keys, found.ids)
        return Neighbors(found.distances, np.where(found.ids < 0, found.ids, positions))


class _KeptRows(Source):
    """The kept vectors in the order of the ids."""

    def __init__(self, state: State):
        assert state.vectors is not None
        self._state = state
        self.shape, self.dtype = (len(state), state.vectors.n_features), np.dtype(np.float32)

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        return self._state.vectors_at(np.arange(len(self._state))[rows])
