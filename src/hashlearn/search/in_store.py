"""Rows that live in somebody else's database: mirrored in memory and searched there, or searched by the database."""

import json
from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer
from hashlearn.codes import Corrections
from hashlearn.codes.results import NO_DISTANCE, NO_ID, Neighbors, RangeResult
from hashlearn.hashers.base import has_learned
from hashlearn.hashers.saving import digest_of
from hashlearn.rows import as_rows
from hashlearn.search.columns import Facet
from hashlearn.search.ids import given_new_ids
from hashlearn.search.metric_hasher import Encoded, Index, MetricHasher
from hashlearn.search.nearest import CANDIDATES_PER_RESULT, CANDIDATES_WITHIN, Options, by_store, only_within
from hashlearn.search.results import NeighborsWithRows, Page, Record
from hashlearn.search.rows import CatalogRows, NewRows, Pending, kept_payloads
from hashlearn.search.snapshot import Snapshot
from hashlearn.search.tune import Tuning
from hashlearn.stores.arguments import payload_texts
from hashlearn.stores.base import IdType
from hashlearn.stores.store import Store
from hashlearn.stores.uri import is_there, open_store

SEARCH_IN = ("memory", "store")


class StoreVectors(NamedTuple):
    """Vectors of a store, read by places in an array of ids. Those of rows that were removed meanwhile are NaN."""

    store: Store
    ids: Any
    """An array of ids, or what has them by place (:class:`~hashlearn.search.ids.IdColumn`)."""

    @property
    def n_features(self) -> int:
        assert self.store.n_features is not None
        return self.store.n_features

    def expect(self, places: NDArray[np.int64]) -> None:
        """A store is asked once, by :meth:`read`."""

    def read(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        ids = self.ids[places] if isinstance(self.ids, np.ndarray) else self.ids.ids.at(places)
        return self.store.find_vectors(ids)


class StoreLink:
    """A store that holds the rows of a search. It is made when the first rows tell what their ids are.

    Parameters
    ----------
    place : str, Path or Store
        A URI, or a store that is open.
    hasher : MetricHasher
        The store is opened once it is fitted.
    keeps_vectors : bool
        Does a new store keep vectors?
    """

    def __init__(self, place: Any, hasher: MetricHasher, keeps_vectors: bool):
        self.place, self.hasher, self.keeps_vectors = place, hasher, keeps_vectors
        self.store: Store | None = None
        self.open()

    def open(self) -> None:
        """Open the store if it is there and was not there before."""
        if self.store is not None or not has_learned(self.hasher.reader):
            return
        if isinstance(self.place, Store) or is_there(self.place):
            self.store = self._checked()

    def refitted(self, hasher: MetricHasher) -> "StoreLink":
        """The same store for codes of another hasher; it refuses them if it holds codes of a different one."""
        return StoreLink(self.place, hasher, self.keeps_vectors)

    @property
    def n_features(self) -> int | None:
        """Length of the vectors in the store; None if it keeps none."""
        return None if self.store is None else self.store.n_features

    @property
    def keep_vectors(self) -> str | None:
        keeps = self.keeps_vectors if self.store is None else self.store.n_features is not None
        return "float32" if keeps else None

    def put(self, ids: NDArray[Any], encoded: Encoded, payloads: list[str], X: Any) -> None:
        """Write rows; they are in the database when this returns."""
        if self.store is None:
            self.store = open_store(
                self.place,
                self.hasher.n_bits,
                "str" if ids.dtype == object else "int64",
                digest_of(self.hasher.hasher),
                n_features=self.hasher.n_features if self.keeps_vectors else None,
                create=True,
                corrections=self.hasher.affine,
            )
        vectors = None
        if self.store.n_features is not None:
            vectors = as_rows(X).take(np.arange(len(ids)))
        values = [json.loads(text) if text else {} for text in payloads]
        self.store.upsert(ids, encoded.codes, vectors, values, corrections=encoded.corrections)

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def __reduce__(self) -> Any:
        if isinstance(self.place, Store):
            raise TypeError("cannot pickle a search over an open store; make it with the URI of the store instead")
        return StoreLink, (self.place, self.hasher, self.keeps_vectors)

    def _checked(self) -> Store:
        n_bits, model = self.hasher.n_bits, digest_of(self.hasher.hasher)
        store = self.place if isinstance(self.place, Store) else open_store(self.place, n_bits)
        if store.n_bits != n_bits:
            raise ValueError(f"store must hold codes of {n_bits} bits, got {store.uri} of {store.n_bits}")
        if store.model not in (None, model):
            raise ValueError(f"store must hold codes of this hasher, got {store.uri} with those of another")
        own = None if store.corrections is None else tuple(store.corrections)
        if own != self.hasher.affine:
            kinds = [
                "without corrections" if each is None else "with corrections" for each in (self.hasher.affine, own)
            ]
            raise ValueError(f"store must hold codes {kinds[0]}, as this hasher makes them, got {store.uri} {kinds[1]}")
        if self.keeps_vectors and store.n_features is None:
            raise ValueError(f"keep_vectors must be None for {store.uri}: it was made without vectors")
        return store


class MirroredRows(CatalogRows):
    """Rows of a store, and ids, codes and payloads of it in memory. Vectors are read from the store.

    A change is in the database first, and in the mirror then. What others change there is seen after a refresh.
    """

    def __init__(self, link: StoreLink):
        super().__init__(link.hasher, None)
        self._link = link
        self._show(self._mirror())

    @property
    def place(self) -> Any:
        return self._link.place

    @property
    def keep_vectors(self) -> str | None:
        return self._link.keep_vectors

    def put(self, X: Any, ids: Any, payloads: Any, *, only_new: bool) -> None:
        encoded = self.reader.hasher.encode(X)
        new = NewRows(X, ids, encoded, kept_payloads(payloads, len(encoded.codes)))
        with self.changing() as pending:
            before = len(pending.snapshot.payload_sums.values)
            self.put_encoded(pending, new, only_new)
            snapshot = pending.snapshot
            if snapshot.id_column is not None and len(new):
                places = (
                    np.arange(before, snapshot.n_places) if before <= snapshot.n_places - len(new) else snapshot.places
                )
                self._link.put(snapshot.ids_at(places[-len(new) :]), encoded, new.payloads, X)
                pending.snapshot = self._with_vectors(snapshot)

    def remove(self, ids: Any) -> None:
        with self.changing() as pending:
            places = np.unique(pending.snapshot.find_all(ids))
            if self._link.store is not None and len(places):
                self._link.store.delete(pending.snapshot.ids_at(places))
            self._bury(pending, places)

    def refitted(self, hasher: MetricHasher, X: Any) -> None:
        vars(self).update(vars(MirroredRows(self._link.refitted(hasher))))

    def refresh(self) -> bool:
        self._link.open()
        before = self.reader
        now = self._mirror()
        self._show(replace(now, facts=now.facts._replace(tuning=before.facts.tuning)))
        return not self._holds_the_same(before, self.reader)

    def pickled_parts(self) -> Any:
        return MirroredRows, (self._link,)

    def close(self) -> None:
        super().close()
        self._link.close()

    def _write_vectors(self, pending: Pending, X: Any, first: int) -> tuple[Any, Iterable[None]]:
        return pending.snapshot.vectors, repeat(None)

    def _vectors_of(self, pending: Any, n: int, ids: Any) -> Any:
        store = self._link.store
        return None if store is None or store.n_features is None else StoreVectors(store, ids)

    def _with_vectors(self, snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, vectors=self._vectors_of(None, len(snapshot), snapshot.id_column))

    def _mirror(self) -> Snapshot:
        """All rows of the store, in the order of their ids."""
        rows, store = CatalogRows(self._link.hasher, None), self._link.store
        rows.keep_words(self.text_field)
        blocks = [] if store is None else list(store.scan(payloads=True))
        if blocks:
            ids = np.concatenate([block.ids for block in blocks])
            order = np.argsort(ids, kind="stable")
            corrections, affine = None, self._link.hasher.affine
            if affine is not None:
                corrections = Corrections(np.concatenate([block.corrections for block in blocks])[order], *affine)
            encoded = Encoded(np.concatenate([block.codes for block in blocks])[order], corrections)
            payloads = [payload for block in blocks for payload in block.payloads or ()]
            texts = kept_payloads([payloads[row] for row in order.tolist()], len(ids))
            new = NewRows(None, ids[order], encoded, texts)
            with rows.changing() as pending:
                rows.put_encoded(pending, new, True)
        self._catalog = rows._catalog
        return self._with_vectors(rows.reader)

    def _holds_the_same(self, one: Snapshot, other: Snapshot) -> bool:
        if len(one) != len(other) or not np.array_equal(one.ids, other.ids):
            return False
        if not len(one):
            return True
        first, second = (each.find_all(one.ids) for each in (one, other))
        return np.array_equal(one.index.codes(first), other.index.codes(second)) and np.array_equal(
            one.payload_sums.values[first], other.payload_sums.values[second]
        )


class StoreRows:
    """Rows of a store; nothing of them is in memory, and every call asks the database."""

    folder: Path | None = None
    tuning: Tuning | None = None
    lists = None
    clipped_share = None

    def __init__(self, link: StoreLink):
        if link.hasher.has_weights:
            raise ValueError(
                "search_in must be 'memory' for ABH: a store compares codes by their bits, codes of ABH are compared "
                "with real queries; search_in='memory' searches a mirror of the codes"
            )
        if link.hasher.query != "code":
            raise ValueError("search_in must be 'memory' for real queries: a store compares codes with codes")
        self._link = link
        self._next_id: int | None = None
        """One more than the largest integer id; None until it is asked for."""

    @property
    def reader(self) -> "StoreRows":
        return self

    @property
    def place(self) -> Any:
        return self._link.place

    @property
    def hasher(self) -> MetricHasher:
        return self._link.hasher

    @property
    def keep_vectors(self) -> str | None:
        return self._link.keep_vectors

    @property
    def index(self) -> Index:
        return self._need_memory("index")

    @property
    def ids(self) -> NDArray[Any]:
        store = self._link.store
        if store is None:
            return np.empty(0, np.int64)
        empty = np.empty(0, np.int64 if store.id_type == "int64" else object)
        return np.sort(np.concatenate([empty, *(block.ids for block in store.scan())]))

    def __len__(self) -> int:
        return 0 if self._link.store is None else len(self._link.store)

    def __contains__(self, id: Any) -> bool:
        store = self._link.store
        if store is None or isinstance(id, str) != (store.id_type == "str"):
            return False
        return bool(store.get([id]))

    def codes(self, ids: Any) -> NDArray[np.uint8]:
        wanted = self.ids if ids is None else ids
        found = {record.id: record.code for record in self.get(wanted)}
        listed = np.asarray(wanted, object).tolist()
        missing = [id for id in listed if id not in found]
        if missing:
            raise ValueError(f"ids must be in the search, got {missing[0]!r:.60}, which is not")
        return np.array([found[id] for id in listed], np.uint8).reshape(len(listed), -(-self.hasher.n_bits // 8))

    def get(self, ids: Any) -> list[Record]:
        store = self._link.store
        found = [] if store is None else store.get(ids)
        vectors: Any = [None] * len(found)
        if store is not None and store.n_features is not None and found:
            vectors = store.find_vectors([record.id for record in found])
        return [Record(row.id, row.code, row.payload, vector) for row, vector in zip(found, vectors)]

    def payloads(self, ids: Any) -> list[dict[str, Any] | None]:
        store = self._link.store
        found = {} if store is None else {record.id: record.payload for record in store.get(ids)}
        return [found.get(id) for id in np.asarray(ids, object).tolist()]

    def search(self, X: Any, k: int, options: Options, include: Collection[str] = ()) -> Neighbors:
        found = self._nearest(X, k, options)
        return self._with_rows(found, include) if include else found

    def _nearest(self, X: Any, k: int, options: Options) -> Neighbors:
        if options.expand:
            self._need_memory("expand")
        if options.recall is not None:
            raise ValueError("recall must be None with search_in='store': say how many candidates are compared")
        codes = self.hasher.codes(X)
        if not self._is_by_vectors(options):
            return self.search_codes(codes, k, options)
        k = check_integer("k", k, low=1)
        candidates = CANDIDATES_PER_RESULT * k if options.candidates is None else options.candidates
        return self._by_vectors(X, codes, k, check_integer("candidates", candidates, low=1), options)

    def _with_rows(self, found: Neighbors, include: Collection[str]) -> NeighborsWithRows:
        rows = [[None if id in (None, NO_ID) else id for id in row] for row in found.ids.tolist()]
        records = {record.id: record for record in self.get([id for row in rows for id in row if id is not None])}
        payloads = vectors = None
        if "payload" in include:
            payloads = [[records[id].payload if id in records else None for id in row] for row in rows]
        if "vector" in include and self._link.n_features is not None:
            vectors = np.full((*found.ids.shape, self._link.n_features), np.nan, np.float32)
            for q, row in enumerate(rows):
                for place, id in enumerate(row):
                    if id in records:
                        vectors[q, place] = records[id].vector
        return NeighborsWithRows.of(found, found.ids, payloads, vectors, None)

    text_field = None

    def keep_words(self, field: str | None) -> None:
        if field is not None:
            self._need_memory("text_field")

    def ask(self, question: Any, k: int, options: Options, include: Collection[str]) -> NoReturn:
        self._need_memory("a search by text, like or diversity")

    def search_codes(self, codes: ArrayLike, k: int, options: Options) -> Neighbors:
        _refuse_subset(options)
        store = self._link.store
        if store is None:
            shape = len(np.asarray(codes)), check_integer("k", k, low=1)
            return Neighbors(np.full(shape, NO_DISTANCE, np.int32), np.full(shape, NO_ID, np.int64))
        return store.search(codes, k, options.filter)

    def within(self, X: Any, distance: float, options: Options) -> RangeResult:
        codes, store = self.hasher.codes(X), self._link.store
        if self._is_by_vectors(options):
            wanted = CANDIDATES_WITHIN if options.candidates is None else options.candidates
            n_found = max(1, min(check_integer("candidates", wanted, low=1), len(self)))
            return only_within(self._by_vectors(X, codes, n_found, n_found, options), distance)
        _refuse_subset(options)
        if store is None:
            return RangeResult(np.zeros(len(codes) + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))
        return store.within(codes, distance, options.filter)  # type: ignore[arg-type]

    def count(self, filter: Any) -> int:
        return 0 if self._link.store is None else self._link.store.count(filter)

    def matching(self, filter: Any) -> NDArray[np.bool_]:
        return self._need_memory("matching")

    def facets(self, field: str, filter: Any, subset: Any, limit: int | None) -> list[Facet]:
        return self._need_memory("facets")

    def histogram(self, field: str, filter: Any, subset: Any, n_bins: int) -> NoReturn:
        self._need_memory("histogram")

    def scroll(self, filter: Any, limit: int, after: str | None) -> Page:
        return self._need_memory("scroll")

    def warm(self) -> None:
        """Nothing is prepared: the database searches."""

    def put(self, X: Any, ids: Any, payloads: Any, *, only_new: bool) -> None:
        store, encoded = self._link.store, self.hasher.encode(X)
        n = len(encoded.codes)
        if ids is None:
            new_ids: NDArray[Any] = self._running_id() + np.arange(n)
        else:
            known: IdType | None = None if store is None else store.id_type
            new_ids = given_new_ids(ids, known, n)
        texts = payload_texts(payloads, n)
        if only_new and ids is not None and store is not None:
            there = {record.id for record in store.get(new_ids)}
            twice = [id for id in new_ids.tolist() if id in there]
            if twice:
                raise ValueError(f"ids must be new, got {twice[0]!r:.60}, which is already in the search")
        if n:
            self._link.put(new_ids, encoded, texts, X)
            if self._next_id is not None:
                self._next_id = max(self._next_id, int(new_ids.max()) + 1)

    def remove(self, ids: Any) -> None:
        store = self._link.store
        there = set() if store is None else {record.id for record in store.get(ids)}
        missing = [id for id in np.asarray(ids, object).tolist() if id not in there]
        if missing:
            raise ValueError(f"ids must be in the search, got {missing[0]!r:.60}, which is not")
        if store is not None:
            store.delete(ids)

    def compact(self) -> None:
        if self._link.store is not None:
            self._link.store.compact()

    def refitted(self, hasher: MetricHasher, X: Any) -> None:
        vars(self).update(vars(StoreRows(self._link.refitted(hasher))))

    def tune(self, queries: Any, k: int, target_recall: float, other_n_bits: Iterable[int] | None = None) -> Tuning:
        return self._need_memory("tune")

    def keep_tuning(self, tuning: Tuning) -> None:
        self._need_memory("tune")

    def refresh(self) -> bool:
        was_there = self._link.store is not None
        self._link.open()
        self._next_id = None
        return not was_there and self._link.store is not None

    def pickled_parts(self) -> Any:
        return StoreRows, (self._link,)

    def close(self) -> None:
        self._link.close()

    def _is_by_vectors(self, options: Options) -> bool:
        rerank, has_vectors = options.rerank, self._link.n_features is not None
        if rerank is None:
            return has_vectors
        if rerank is not False and not (isinstance(rerank, str) and rerank in ("codes", "vectors")):
            raise ValueError("rerank must be None, 'codes' or 'vectors' where search_in='store'")
        if rerank == "vectors" and not has_vectors:
            raise ValueError("rerank='vectors' needs vectors; make the search with keep_vectors='float32'")
        return rerank == "vectors"

    def _by_vectors(self, X: Any, codes: NDArray[np.uint8], k: int, candidates: int, options: Options) -> Neighbors:
        """The best k of some candidates, by the vectors in the store."""
        _refuse_subset(options)
        store = self._link.store
        assert store is not None
        found = store.search(codes, max(k, candidates), options.filter)
        there = found.distances <= store.n_bits
        distinct, ranks = np.unique(found.ids[there], return_inverse=True)
        places = np.full(found.ids.shape, NO_ID, np.int64)
        places[there] = ranks
        ordered = by_store(StoreVectors(store, distinct), ranks, X, places, k, self.hasher.metric)
        ids = np.full(ordered.ids.shape, NO_ID if store.id_type == "int64" else None, found.ids.dtype)
        ids[ordered.ids != NO_ID] = distinct[ordered.ids[ordered.ids != NO_ID]]
        return Neighbors(ordered.distances, ids)

    def _running_id(self) -> int:
        """One more than the largest id; the store is read through when this is first asked."""
        store = self._link.store
        if store is not None and store.id_type == "str":
            raise ValueError("ids must be given: those of this search are strings")
        if self._next_id is None:
            self._next_id = int(self.ids.max(initial=-1)) + 1
        return self._next_id

    def _need_memory(self, name: str) -> NoReturn:
        raise ValueError(f"{name} needs codes in memory; make the search with search_in='memory'")


def _refuse_subset(options: Options) -> None:
    if options.subset is not None:
        raise ValueError("subset must be None where search_in='store'; give a filter instead")
