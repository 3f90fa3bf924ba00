"""A similarity search whose rows live in a store: mirrored in memory, or searched where they are."""

import json
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes.results import NO_ID, Neighbors, RangeResult
from hashlearn.hashers.saving import digest_of
from hashlearn.search.changes import as_texts
from hashlearn.search.encoder import Encoder
from hashlearn.search.rerank import rerank_read
from hashlearn.search.results import Record
from hashlearn.search.row_columns import Names
from hashlearn.search.state import NewRows, State
from hashlearn.stores.arguments import payload_texts
from hashlearn.stores.store import Store
from hashlearn.stores.uri import is_there, open_store

SearchIn = Literal["memory", "store"]
PLACES = ("memory", "store")


class StoreVectors(NamedTuple):
    """Vectors in a store, read by the keys of the rows of a state.

    Those that were removed from the store meanwhile are read as NaN.
    """

    store: Store
    names: Names | None

    @property
    def n_features(self) -> int:
        assert self.store.n_features is not None
        return self.store.n_features

    def expect(self, places: NDArray[np.int64]) -> None:
        """A store is asked once, by :meth:`read`."""

    def read(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.store.find_vectors(places if self.names is None else self.names.of_keys(places))


class Attached:
    """A store that holds the rows of a search. It is made when the first rows tell what their ids are.

    Parameters
    ----------
    place : str or Store
        A URI, or a store that is open.
    encoder : Encoder
        Fitted.
    keeps_vectors : bool
        Does a new store keep vectors?
    """

    def __init__(self, place: Any, encoder: Encoder, keeps_vectors: bool):
        if encoder.has_weights:
            raise ValueError(
                "store must be None for a hasher with corrections: stores keep codes, payloads and vectors"
            )
        self._encoder, self._place, self._keeps_vectors = encoder, place, keeps_vectors
        self.store: Store | None = None
        if isinstance(place, Store) or is_there(place):
            self.store = self._checked(place)

    def _checked(self, place: Any) -> Store:
        model = digest_of(self._encoder.hasher)
        store = place if isinstance(place, Store) else open_store(place, self._encoder.n_bits)
        if store.n_bits != self._encoder.n_bits:
            raise ValueError(f"store must hold codes of {self._encoder.n_bits} bits, got {store.uri} of {store.n_bits}")
        if store.model not in (None, model):
            raise ValueError(f"store must hold codes of this hasher, got {store.uri} with those of another")
        if self._keeps_vectors and store.n_features is None:
            raise ValueError(f"keep_vectors must be None for {store.uri}: it was made without vectors")
        return store

    def put(self, rows: NewRows, X: Any) -> Store:
        """Write rows; they are in the database when this returns."""
        id_type: Any = "str" if rows.ids.dtype == object else "int64"
        if self.store is None:
            n_features = self._encoder.n_features if self._keeps_vectors else None
            model, n_bits = digest_of(self._encoder.hasher), self._encoder.n_bits
            self.store = open_store(self._place, n_bits, id_type, model, n_features=n_features, create=True)
        payloads = [json.loads(text) for text in rows.payloads]
        self.store.upsert(rows.ids, rows.codes, None if self.store.n_features is None else X, payloads)
        return self.store

    def mirrored(self) -> State:
        """All rows of the store as a state."""
        state = State.empty(self._encoder)
        if self.store is None:
            return state
        if self.store.id_type == "str":
            state = replace(state, names=Names.empty())
        for block in self.store.scan(payloads=True):
            assert block.payloads is not None
            ids = as_texts(block.ids.tolist()) if state.names is not None else block.ids
            state = state.upserted(NewRows(ids, block.codes, None, payload_texts(block.payloads, len(block.ids))))
        return self.with_vectors(state)

    def with_vectors(self, state: State) -> State:
        """The state with the vectors of the store, if it has any."""
        if self.store is None or self.store.n_features is None:
            return state
        return replace(state, vectors=StoreVectors(self.store, state.names))


class InStore:
    """A search in a store itself; nothing is in memory."""

    def __init__(self, attached: Attached, encoder: Encoder):
        if encoder.query != "code":
            raise ValueError("search_in must be 'memory' for real queries: a store compares codes with codes")
        self._attached, self._encoder = attached, encoder

    @property
    def _store(self) -> Store:
        if self._attached.store is None:
            raise ValueError("the store is empty: add rows before you search it")
        return self._attached.store

    def __len__(self) -> int:
        return 0 if self._attached.store is None else len(self._attached.store)

    @property
    def ids(self) -> NDArray[Any]:
        if self._attached.store is None:
            return np.empty(0, np.int64)
        blocks = [block.ids for block in self._store.scan()]
        return np.sort(np.concatenate([np.empty(0, np.int64 if self._store.id_type == "int64" else object), *blocks]))

    def get(self, ids: ArrayLike) -> list[Record]:
        records = self._store.get(ids)
        vectors: Any = [None] * len(records)
        if self._store.n_features is not None and records:
            vectors = self._store.find_vectors([record.id for record in records])
        return [Record(*record, vector) for record, vector in zip(records, vectors)]

    def search(self, X: Any, k: int, rerank: Any, candidates: int | None, filter: dict | None) -> Neighbors:
        store = self._store
        by_vectors = rerank == "vectors" if isinstance(rerank, str) else rerank is None and store.n_features is not None
        if not by_vectors:
            if rerank not in (None, False, "codes"):
                raise ValueError("rerank must be None, 'codes' or 'vectors' where search_in='store'")
            return store.search(self._encoder.codes(X), k, filter)
        found = store.search(self._encoder.codes(X), max(k, 4 * k if candidates is None else candidates), filter)
        there = found.distances <= store.n_bits
        distinct, ranks = np.unique(found.ids[there], return_inverse=True)
        places = np.full(found.ids.shape, NO_ID, np.int64)
        places[there] = ranks
        ordered = rerank_read(_ByRank(store, distinct), ranks, X, places, k, self._encoder.metric)
        ids = np.full(ordered.ids.shape, NO_ID if store.id_type == "int64" else None, found.ids.dtype)
        ids[ordered.ids != NO_ID] = distinct[ordered.ids[ordered.ids != NO_ID]]
        return Neighbors(ordered.distances, ids)

    def search_codes(self, codes: ArrayLike, k: int, filter: dict | None) -> Neighbors:
        return self._store.search(codes, k, filter)

    def within(self, X: Any, distance: Any, filter: dict | None) -> RangeResult:
        return self._store.within(self._encoder.codes(X), distance, filter)


class _ByRank(NamedTuple):
    """Vectors of a store by the ranks of their ids."""

    store: Store
    ids: NDArray[Any]

    @property
    def n_features(self) -> int:
        assert self.store.n_features is not None
        return self.store.n_features

    def expect(self, places: NDArray[np.int64]) -> None:
        """A store is asked once, by :meth:`read`."""

    def read(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.store.find_vectors(self.ids[places])
