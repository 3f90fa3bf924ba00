"""The store that the rows of a similarity search live in."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.hashers.base import has_learned
from hashlearn.hashers.saving import digest_of
from hashlearn.rows import as_rows
from hashlearn.search.metric_hasher import MetricHasher
from hashlearn.search.state import IdType, NewRows
from hashlearn.stores.store import Store
from hashlearn.stores.uri import is_there, open_store

PLACES = ("memory", "store")


class StoreVectors(NamedTuple):
    """Vectors of a store, read by places that stand for ids. Those of rows that were removed meanwhile are NaN."""

    store: Store
    ids_at: Callable[[NDArray[np.int64]], NDArray[Any]]

    @property
    def n_features(self) -> int:
        assert self.store.n_features is not None
        return self.store.n_features

    def expect(self, places: NDArray[np.int64]) -> None:
        """A store is asked once, by :meth:`read`."""

    def read(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.store.find_vectors(self.ids_at(places))


class Attached:
    """A store that holds the rows of a search. It is made when the first rows tell what their ids are.

    Parameters
    ----------
    place : str, Path or Store
        A URI, or a store that is open.
    encoder : MetricHasher
        The store is opened once its hasher is fitted.
    keeps_vectors : bool
        Does a new store keep vectors?
    """

    def __init__(self, place: Any, encoder: MetricHasher, keeps_vectors: bool):
        if encoder.has_weights:
            raise ValueError(
                "store must be None for a hasher with corrections: stores keep codes, payloads and vectors"
            )
        self.place, self.encoder, self.keeps_vectors = place, encoder, keeps_vectors
        self.store: Store | None = None
        self.open()

    def open(self) -> None:
        """Open the store if it is there and was not there before."""
        if self.store is not None or not has_learned(self.encoder.reader):
            return
        if isinstance(self.place, Store) or is_there(self.place):
            self.store = self._checked()

    def refitted(self, encoder: MetricHasher) -> "Attached":
        """The same store for codes of another encoder; it refuses them if it holds codes of another hasher."""
        return Attached(self.place, encoder, self.keeps_vectors)

    @property
    def n_features(self) -> int | None:
        """Length of the vectors in the store; None if it keeps none."""
        return None if self.store is None else self.store.n_features

    @property
    def keep_vectors(self) -> str | None:
        keeps = self.keeps_vectors if self.store is None else self.store.n_features is not None
        return "float32" if keeps else None

    def put(self, rows: NewRows, X: Any) -> None:
        """Write rows; they are in the database when this returns."""
        if self.store is None:
            id_type: IdType = "str" if rows.ids.dtype == object else "int64"
            n_features = self.encoder.n_features if self.keeps_vectors else None
            model, n_bits = digest_of(self.encoder.hasher), self.encoder.n_bits
            self.store = open_store(self.place, n_bits, id_type, model, n_features=n_features, create=True)
        vectors = None
        if self.store.n_features is not None:
            vectors = as_rows(X).take(np.arange(len(rows.ids)))
        self.store.upsert(rows.ids, rows.codes, vectors, [json.loads(text) for text in rows.payloads])

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def refuse_to_save(self, folder: str | Path | None) -> None:
        raise ValueError(
            "the rows of this search are in its store already; hashlearn.save(search.hasher, folder) keeps the hasher"
        )

    def __reduce__(self) -> Any:
        if isinstance(self.place, Store):
            raise TypeError("cannot pickle a search over an open store; make it with the URI of the store instead")
        return Attached, (self.place, self.encoder, self.keeps_vectors)

    def _checked(self) -> Store:
        n_bits, model = self.encoder.n_bits, digest_of(self.encoder.hasher)
        store = self.place if isinstance(self.place, Store) else open_store(self.place, n_bits)
        if store.n_bits != n_bits:
            raise ValueError(f"store must hold codes of {n_bits} bits, got {store.uri} of {store.n_bits}")
        if store.model not in (None, model):
            raise ValueError(f"store must hold codes of this hasher, got {store.uri} with those of another")
        if self.keeps_vectors and store.n_features is None:
            raise ValueError(f"keep_vectors must be None for {store.uri}: it was made without vectors")
        return store
