"""Rows of which ids, codes and payloads are in memory: how they are read and searched."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes.results import Neighbors, RangeResult
from hashlearn.index.hamming import HammingIndex
from hashlearn.search.changes import as_texts
from hashlearn.search.held_rows import Options
from hashlearn.search.metric_hasher import MetricHasher
from hashlearn.search.results import Record
from hashlearn.search.row_ids import ids_to_find, ids_to_put, running_ids
from hashlearn.search.searching import by_codes, codes_within, order_of, reranked, reranked_within
from hashlearn.search.state import Index, NewRows, State
from hashlearn.search.tune import tune
from hashlearn.search.tuned import ByPosition
from hashlearn.search.tuning import Tuning
from hashlearn.stores.arguments import NO_PAYLOAD, payload_texts


class RowsInState:
    """Rows of a state. All that a reader needs hangs on this one reference, which a change replaces at its end."""

    def __init__(self, state: State):
        self._state = state

    @property
    def encoder(self) -> MetricHasher:
        return self._state.encoder

    @property
    def ids(self) -> NDArray[Any]:
        return self._state.ids

    @property
    def index(self) -> Index:
        return self._state.index.copy()

    @property
    def tuning(self) -> Tuning | None:
        return self._state.tuning

    @property
    def place(self) -> Any:
        return None

    @property
    def folder(self) -> Path | None:
        return None

    def __len__(self) -> int:
        return len(self._state)

    def __contains__(self, id: Any) -> bool:
        state = self._state
        if state.names is None:
            return id in state.index
        return isinstance(id, str) and bool(state.names.find(as_texts([id]))[1][0])

    def get(self, ids: ArrayLike) -> list[Record]:
        state = self._state
        wanted = ids_to_find(ids, state)
        positions, known = state.find(wanted)
        positions = positions[known]
        codes = state.index.codes(state.keys[positions])
        texts = state.payload_texts_at(positions)
        vectors: Any = [None] * len(positions)
        if state.vectors is not None and len(positions):
            vectors = state.vectors_at(positions)
        return [
            Record(id, code, _payload(text), vector)
            for id, code, text, vector in zip(wanted[known].tolist(), codes, texts, vectors)
        ]

    def payloads(self, ids: ArrayLike) -> list[dict[str, Any] | None]:
        state = self._state
        positions, known = state.find(ids_to_find(ids, state))
        texts = iter(state.payload_texts_at(positions[known]))
        return [_payload(next(texts)) if there else None for there in known.tolist()]

    def search(self, X: Any, k: int, options: Options) -> Neighbors:
        state = self._state
        order = order_of(state, options.rerank)
        mask = state.chosen(options.filter, options.subset)
        if isinstance(order, str) and order == "codes":
            return state.named(by_codes(state, X, k, mask, options.n_jobs))
        return state.named(reranked(state, X, k, order, options.candidates, mask, options.n_jobs))

    def search_codes(self, codes: ArrayLike, k: int, options: Options) -> Neighbors:
        state = self._state
        mask = state.chosen(options.filter, options.subset)
        return state.named(state.index.search(codes, k, subset=mask, n_jobs=options.n_jobs))

    def within(self, X: Any, distance: float, options: Options) -> RangeResult:
        state = self._state
        order = order_of(state, options.rerank)
        mask = state.chosen(options.filter, options.subset)
        if isinstance(order, str) and order == "codes":
            return state.named_range(codes_within(state, X, distance, mask, options.n_jobs))
        return state.named_range(reranked_within(state, X, distance, order, options.candidates, mask, options.n_jobs))

    def warm(self) -> None:
        state = self._state
        if len(state):
            if isinstance(state.index, HammingIndex):
                state.index.prepare()
            row = np.zeros((1, state.encoder.n_features), np.float32)
            for X in (row, row.astype(np.float64)):
                by_codes(state, X, min(10, len(state)), None, None)

    def tune(self, queries: Any, k: int, target_recall: float) -> Tuning:
        state = self._state
        if state.vectors is None:
            raise ValueError("tune needs vectors to compare with; make the search with keep_vectors='float32'")
        view = ByPosition(state)
        return tune(view, queries, k, target_recall, vectors=view.rows)

    def new_rows(self, X: Any, ids: Any, payloads: Any, only_new: bool) -> tuple[State, NewRows]:
        """Rows to be put, and the state made for ids of their kind."""
        state = self._state
        encoded = state.encoder.encode(X)
        n = len(encoded.codes)
        if ids is None:
            new_ids = running_ids(state, n)
        else:
            state, new_ids = ids_to_put(ids, state, n)
        rows = NewRows(new_ids, encoded.codes, encoded.corrections, payload_texts(payloads, n))
        if only_new and ids is not None:
            refuse_known(new_ids, state.find(new_ids)[1])
        return state, rows


def refuse_known(ids: NDArray[Any], known: NDArray[np.bool_]) -> None:
    """Raise if one of the ids is there."""
    if known.any():
        raise ValueError(f"ids must be new, got {ids[known].tolist()[0]!r:.60}, which is already in the search")


def _payload(text: str) -> dict[str, Any]:
    return {} if text == NO_PAYLOAD else json.loads(text)
