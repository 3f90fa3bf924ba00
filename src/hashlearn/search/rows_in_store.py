"""Rows that live in a store and are searched by it."""

from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer
from hashlearn.codes.results import NO_DISTANCE, NO_ID, Neighbors, RangeResult
from hashlearn.search.attached import Attached, StoreVectors
from hashlearn.search.held_rows import Options
from hashlearn.search.metric_hasher import MetricHasher
from hashlearn.search.rerank import rerank_read
from hashlearn.search.results import Record
from hashlearn.search.rows_in_state import refuse_known
from hashlearn.search.searching import CANDIDATES_PER_RESULT, CANDIDATES_WITHIN, only_within
from hashlearn.search.state import Index, NewRows
from hashlearn.search.tuning import Tuning
from hashlearn.stores.arguments import check_new_ids, payload_texts


class RowsInStore:
    """Rows of a store; nothing of them is in memory, and every call asks the database."""

    def __init__(self, attached: Attached):
        if attached.encoder.query != "code":
            raise ValueError("search_in must be 'memory' for real queries: a store compares codes with codes")
        self._attached = attached
        self._next_id: int | None = None
        """One more than the largest integer id; None until it is asked for."""

    @property
    def place(self) -> Any:
        return self._attached.place

    @property
    def encoder(self) -> MetricHasher:
        return self._attached.encoder

    @property
    def keep_vectors(self) -> str | None:
        return self._attached.keep_vectors

    @property
    def tuning(self) -> Tuning | None:
        return None

    @property
    def folder(self) -> Path | None:
        return None

    @property
    def index(self) -> Index:
        return self._need_memory("index")

    @property
    def ids(self) -> NDArray[Any]:
        store = self._attached.store
        if store is None:
            return np.empty(0, np.int64)
        empty = np.empty(0, np.int64 if store.id_type == "int64" else object)
        return np.sort(np.concatenate([empty, *(block.ids for block in store.scan())]))

    def __len__(self) -> int:
        return 0 if self._attached.store is None else len(self._attached.store)

    def __contains__(self, id: Any) -> bool:
        store = self._attached.store
        if store is None or isinstance(id, str) != (store.id_type == "str"):
            return False
        return bool(store.get([id]))

    def get(self, ids: ArrayLike) -> list[Record]:
        store = self._attached.store
        records = [] if store is None else store.get(ids)
        if store is None or store.n_features is None or not records:
            return [Record(*record, None) for record in records]
        vectors = store.find_vectors([record.id for record in records])
        return [Record(*record, vector) for record, vector in zip(records, vectors)]

    def payloads(self, ids: ArrayLike) -> list[dict[str, Any] | None]:
        store = self._attached.store
        found = {} if store is None else {record.id: record.payload for record in store.get(ids)}
        return [found.get(id) for id in np.asarray(ids, object).tolist()]

    def search(self, X: Any, k: int, options: Options) -> Neighbors:
        codes = self.encoder.codes(X)
        if not self._is_by_vectors(options):
            return self.search_codes(codes, k, options)
        k = check_integer("k", k, low=1)
        candidates = CANDIDATES_PER_RESULT * k if options.candidates is None else options.candidates
        return self._by_vectors(X, codes, k, check_integer("candidates", candidates, low=1), options)

    def search_codes(self, codes: ArrayLike, k: int, options: Options) -> Neighbors:
        _refuse_subset(options)
        store = self._attached.store
        if store is None:
            shape = len(np.asarray(codes)), check_integer("k", k, low=1)
            return Neighbors(np.full(shape, NO_DISTANCE, np.int32), np.full(shape, NO_ID, np.int64))
        return store.search(codes, k, options.filter)

    def within(self, X: Any, distance: float, options: Options) -> RangeResult:
        codes, store = self.encoder.codes(X), self._attached.store
        if self._is_by_vectors(options):
            wanted = CANDIDATES_WITHIN if options.candidates is None else options.candidates
            n_found = max(1, min(check_integer("candidates", wanted, low=1), len(self)))
            return only_within(self._by_vectors(X, codes, n_found, n_found, options), distance)
        _refuse_subset(options)
        if store is None:
            return RangeResult(np.zeros(len(codes) + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))
        return store.within(codes, distance, options.filter)  # type: ignore[arg-type]

    def warm(self) -> None:
        """Nothing is prepared: the database searches."""

    def put(self, X: Any, ids: ArrayLike | None, payloads: Any, *, only_new: bool) -> None:
        store, encoded = self._attached.store, self.encoder.encode(X)
        n = len(encoded.codes)
        if ids is None:
            first = self._running_id()
            new_ids: NDArray[Any] = first + np.arange(n)
        else:
            new_ids = check_new_ids(ids, _id_type(ids) if store is None else store.id_type, n)
        rows = NewRows(new_ids, encoded.codes, encoded.corrections, payload_texts(payloads, n))
        if only_new and ids is not None and store is not None:
            there = {record.id for record in store.get(new_ids)}
            refuse_known(new_ids, np.array([id in there for id in new_ids.tolist()], bool))
        if n:
            self._attached.put(rows, X)
            if self._next_id is not None:
                self._next_id = max(self._next_id, int(new_ids.max()) + 1)

    def remove(self, ids: ArrayLike) -> None:
        store = self._attached.store
        there = set() if store is None else {record.id for record in store.get(ids)}
        missing = [id for id in np.asarray(ids, object).tolist() if id not in there]
        if missing:
            raise ValueError(f"ids must be in the search, got {missing[0]!r:.60}, which is not")
        if store is not None:
            store.delete(ids)

    def refitted(self, encoder: MetricHasher, X: Any) -> Self:
        return type(self)(self._attached.refitted(encoder))

    def tune(self, queries: Any, k: int, target_recall: float) -> Tuning:
        return self._need_memory("tune")

    def keep_tuning(self, tuning: Tuning) -> None:
        self._need_memory("tune")

    def save(self, folder: str | Path | None) -> None:
        self._attached.refuse_to_save(folder)

    def refresh(self) -> bool:
        was_there = self._attached.store is not None
        self._attached.open()
        self._next_id = None
        return not was_there and self._attached.store is not None

    def as_now(self) -> Self:
        return self

    def close(self) -> None:
        self._attached.close()

    def _is_by_vectors(self, options: Options) -> bool:
        rerank, has_vectors = options.rerank, self._attached.n_features is not None
        if rerank is None:
            return has_vectors
        if rerank is not False and not (isinstance(rerank, str) and rerank in ("codes", "vectors")):
            raise ValueError("rerank must be None, 'codes' or 'vectors' where search_in='store'")
        if rerank == "vectors" and not has_vectors:
            raise ValueError("rerank='vectors' needs vectors; make the search with keep_vectors='float32'")
        return rerank == "vectors"

    def _by_vectors(self, X: Any, codes: NDArray[np.uint8], k: int, candidates: int, options: Options) -> Neighbors:
        """The best k of so many candidates, by the vectors in the store."""
        _refuse_subset(options)
        store = self._attached.store
        assert store is not None
        found = store.search(codes, max(k, candidates), options.filter)
        there = found.distances <= store.n_bits
        distinct, ranks = np.unique(found.ids[there], return_inverse=True)
        places = np.full(found.ids.shape, NO_ID, np.int64)
        places[there] = ranks
        ordered = rerank_read(StoreVectors(store, distinct.__getitem__), ranks, X, places, k, self.encoder.metric)
        gone = np.isnan(ordered.distances)  # removed from the store since the codes were found
        ordered.distances[gone], ordered.ids[gone] = np.inf, NO_ID
        ids = np.full(ordered.ids.shape, NO_ID if store.id_type == "int64" else None, found.ids.dtype)
        ids[ordered.ids != NO_ID] = distinct[ordered.ids[ordered.ids != NO_ID]]
        return Neighbors(ordered.distances, ids)

    def _running_id(self) -> int:
        """One more than the largest id; the store is read through when this is first asked."""
        store = self._attached.store
        if store is not None and store.id_type == "str":
            raise ValueError("ids must be given: those of this search are strings")
        if self._next_id is None:
            self._next_id = int(self.ids.max(initial=-1)) + 1
        return self._next_id

    def _need_memory(self, name: str) -> NoReturn:
        raise ValueError(f"{name} needs codes in memory; make the search with search_in='memory'")


def _id_type(ids: Any) -> Any:
    """The kind of the first ids of all."""
    return "str" if isinstance(ids, (list, tuple, np.ndarray)) and len(ids) and isinstance(ids[0], str) else "int64"


def _refuse_subset(options: Options) -> None:
    if options.subset is not None:
        raise ValueError("subset must be None where search_in='store'; give a filter instead")
