"""Rows that live in a store and are searched in memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from hashlearn.search.attached import Attached, StoreVectors
from hashlearn.search.changes import as_texts
from hashlearn.search.metric_hasher import MetricHasher
from hashlearn.search.row_columns import Names
from hashlearn.search.row_ids import ids_to_find
from hashlearn.search.rows_in_state import RowsInState
from hashlearn.search.state import NewRows, State
from hashlearn.search.tuning import Tuning
from hashlearn.stores.arguments import payload_texts
from hashlearn.stores.store import Store


class RowsMirrored(RowsInState):
    """Rows of a store, and ids, codes and payloads of it in memory. Vectors are read from the store.

    A change is in the database first, and in the mirror then. What others change there is seen after a refresh.
    """

    def __init__(self, attached: Attached):
        self._attached = attached
        super().__init__(_mirror_of(attached))

    def __reduce__(self) -> Any:
        return type(self), (self._attached,)

    @property
    def place(self) -> Any:
        return self._attached.place

    @property
    def keep_vectors(self) -> str | None:
        return self._attached.keep_vectors

    def refitted(self, encoder: MetricHasher, X: Any) -> Self:
        return type(self)(self._attached.refitted(encoder))

    def put(self, X: Any, ids: ArrayLike | None, payloads: Any, *, only_new: bool) -> None:
        state, rows = self.new_rows(X, ids, payloads, only_new)
        if len(rows.ids):
            self._attached.put(rows, X)
            self._state = _with_vectors(state.upserted(rows), self._attached.store)

    def remove(self, ids: ArrayLike) -> None:
        state, store = self._state, self._attached.store
        wanted = ids_to_find(ids, state)
        changed = state.removed(np.unique(state.positions_of(wanted)))
        if store is not None:
            store.delete(wanted)
            self._state = _with_vectors(changed, store)

    def keep_tuning(self, tuning: Tuning) -> None:
        self._state = replace(self._state, tuning=tuning)

    def save(self, folder: str | Path | None) -> None:
        self._attached.refuse_to_save(folder)

    def refresh(self) -> bool:
        self._attached.open()
        before = self._state
        now = replace(_mirror_of(self._attached), tuning=before.tuning)
        self._state = now
        return not before.holds_the_same_as(now)

    def as_now(self) -> Self:
        return self

    def close(self) -> None:
        self._attached.close()


def _mirror_of(attached: Attached) -> State:
    """All rows of a store as a state."""
    state, store = State.empty(attached.encoder), attached.store
    if store is None:
        return state
    if store.id_type == "str":
        state = replace(state, names=Names.empty())
    for block in store.scan(payloads=True):
        assert block.payloads is not None
        ids = as_texts(block.ids.tolist()) if state.names is not None else block.ids
        state = state.upserted(NewRows(ids, block.codes, None, payload_texts(block.payloads, len(block.ids))))
    return _with_vectors(state, store)


def _with_vectors(state: State, store: Store | None) -> State:
    """The state with the vectors of the store, if it has any."""
    if store is None or store.n_features is None:
        return state
    return replace(state, vectors=StoreVectors(store, np.asarray if state.names is None else state.names.of_keys))
