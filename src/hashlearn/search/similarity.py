"""Vectors in, neighbors out: a hasher, an index, ids and payloads as one object, and as one folder."""

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_choice
from hashlearn.codes.results import Neighbors, RangeResult
from hashlearn.hashers.base import has_learned
from hashlearn.hashers.saving import digest_of
from hashlearn.rows import as_rows
from hashlearn.search.changes import Change, as_texts
from hashlearn.search.encoder import Encoder
from hashlearn.search.kept_vectors import DTYPES, KeptVectors, VectorsKind
from hashlearn.search.results import Record
from hashlearn.search.row_ids import ids_to_find, ids_to_put, running_ids
from hashlearn.search.search_folder import (
    Opened,
    Saved,
    alone_with,
    append_changes,
    applied,
    is_worth_a_journal,
    open_folder,
    read_news,
    write_generation,
)
from hashlearn.search.searching import by_codes, codes_within, order_of, reranked, reranked_within
from hashlearn.search.state import Index, NewRows, State
from hashlearn.search.stored import PLACES, Attached, InStore
from hashlearn.search.tune import tune
from hashlearn.search.tuned import ByPosition
from hashlearn.search.tuning import Tuning
from hashlearn.search.vector_file import VectorFile
from hashlearn.search.vector_values import Calibration
from hashlearn.stores.arguments import payload_texts

_LENGTH_CHECKS = 16
"""Calls whose rows are compared with those of the fit, before it is taken for granted that they are alike."""


class SimilaritySearch:
    """Search vectors by learned codes.

    Any number of threads may search while another changes the search: a call sees the rows as they were when it began,
    and waits for nobody. Changes wait for one another. A change that raises leaves the search as it was.

    Parameters
    ----------
    hasher : Hasher, or a pipeline of scikit-learn that ends in one
        Fitted or not. :meth:`fit` learns with a copy of it.
    metric : {"euclidean", "cosine", "dot"} or None
        What is near: a small distance, a small angle, a large inner product. For "cosine" the hasher sees all rows
        scaled to length one. None is the metric of the hasher if it has one, otherwise "euclidean".
    query : {"code", "real"} or None
        How a query is compared with codes: by its own code, in Hamming distance, or by its real scores, which finds
        more and takes longer. None is "code", but "real" for a hasher made for it, such as ABH.
    keep_vectors : {"float32", "float16", "int8"} or None
        Keep the vectors, on disk, and order candidates by them. A store keeps float32.
    store : str, Store or None
        Where rows live instead: the URI of a store (see :mod:`hashlearn.stores.uri`), or one that is open. A change is
        in the database when its call returns, and rows that are there already are found. A new store is made for the
        first rows, with vectors if ``keep_vectors`` says so.
    search_in : {"memory", "store"}
        Whether the codes of a store are mirrored in memory and searched there, or searched by the database.

    Examples
    --------
    >>> from hashlearn import ITQ
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> search = SimilaritySearch(ITQ(n_bits=32, random_state=0), metric="cosine", keep_vectors="float16").fit(X)
    >>> search.add(X, ids=[f"digit-{row:04}" for row in range(len(X))], payloads=[{"label": int(label)} for label in y])
    SimilaritySearch(ITQ(n_bits=32, random_state=0), 1797 vectors)
    >>> search.search(X[:2], k=2, filter={"label": {"$ne": 0}}).ids.tolist()
    [['digit-0505', 'digit-1507'], ['digit-0001', 'digit-0093']]
    >>> "digit-0001" in search.remove(["digit-0001"])
    False
    """

    def __init__(
        self,
        hasher: Any,
        *,
        metric: str | None = None,
        query: str | None = None,
        keep_vectors: str | None = None,
        store: Any = None,
        search_in: str = "memory",
    ):
        if keep_vectors is not None:
            check_choice("keep_vectors", keep_vectors, DTYPES)
        check_choice("search_in", search_in, PLACES)
        if store is None and search_in == "store":
            raise ValueError("search_in='store' needs a store")
        self._begin(State.empty(Encoder(hasher, metric, query)), keep_vectors, None, None, store, search_in)
        if store is not None and has_learned(self._state.encoder.reader):
            self._attach(self._state.encoder)

    def _begin(
        self,
        state: State,
        keep: str | None,
        kind: VectorsKind | None,
        saved: Saved | None,
        store: Any = None,
        search_in: str = "memory",
    ) -> None:
        # All that a search needs hangs on this one reference, which a change replaces at its end.
        self._state = state
        self._base = state
        """The state as it is in the folder."""
        self._keep, self._kind, self._saved = keep, kind, saved
        self._unsaved: VectorFile | None = None
        self._touched: dict[Any, bool] = {}
        """Ids of rows that have changed since the last save, and whether they were added."""
        self._is_whole = saved is None
        """Does the next save write everything?"""
        self._length_checks = _LENGTH_CHECKS
        self._store, self._search_in = store, search_in
        self._attached: Attached | None = None
        self._in_store: InStore | None = None
        # Reentrant, for a debugger that raises on the way out of a "with" leaves the lock to its thread.
        self._changing = threading.RLock()

    def __len__(self) -> int:
        return len(self._state) if self._in_store is None else len(self._in_store)

    def __contains__(self, id: Any) -> bool:
        """Is there a row with this id?"""
        if self._in_store is not None:
            return bool(self._in_store.get([id]))
        state = self._state
        if state.names is None:
            return id in state.index
        return isinstance(id, str) and bool(state.names.find(as_texts([id]))[1][0])

    def __iter__(self) -> Iterator[Any]:
        """The ids, ascending, as they are when the iteration begins."""
        return iter(self.ids.tolist())

    def __repr__(self) -> str:
        return f"SimilaritySearch({self.hasher!r}, {len(self)} vectors)"

    @property
    def ids(self) -> NDArray[Any]:
        """All ids, ascending: int64, or objects that are strings."""
        return self._state.ids if self._in_store is None else self._in_store.ids

    @property
    def hasher(self) -> Any:
        """The hasher or pipeline that makes the codes."""
        return self._state.encoder.hasher

    @property
    def metric(self) -> str:
        return self._state.encoder.metric

    @property
    def query(self) -> str:
        return self._state.encoder.query

    @property
    def n_bits(self) -> int:
        """Length of a code."""
        return self._state.encoder.n_bits

    @property
    def keep_vectors(self) -> str | None:
        return self._keep

    @property
    def tuning(self) -> Tuning | None:
        """What :meth:`tune` has found."""
        return self._state.tuning

    @property
    def folder(self) -> Path | None:
        """Where it was opened from or saved to."""
        return None if self._saved is None else self._saved.folder

    @property
    def store(self) -> Any:
        """The store, or its URI, that the rows live in; None if they do not."""
        return self._store

    @property
    def index(self) -> Index:
        """A copy, at no cost, of the index of the codes. Its ids are keys where those of the search are strings."""
        return self._state.index.copy()

    def fit(self, X: ArrayLike) -> Self:
        """Learn the hash functions from rows; rows of an earlier fit are dropped, for their codes mean nothing now.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows (:func:`hashlearn.rows.as_rows`)
            At least two rows. They are not added.

        Returns
        -------
        SimilaritySearch
            This object.
        """
        with self._changing:
            encoder = self._state.encoder.fitted(X)
            calibration = Calibration.of(X) if self._keep == "int8" else None
            self._unsaved, self._is_whole, self._touched = None, True, {}
            self._kind = None if self._keep is None else VectorsKind(self._keep, calibration)
            self._state = State.empty(encoder)
            if self._store is not None:
                self._attach(encoder)
        return self

    def add(self, X: ArrayLike, ids: ArrayLike | None = None, payloads: Sequence[dict | None] | None = None) -> Self:
        """Encode vectors and add them.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows (:func:`hashlearn.rows.as_rows`)
            The vectors.
        ids : list or array of n integers >= 0, or of n strings, or None
            Not yet in the search; all ids of a search are of one kind. By default running numbers: one more than the
            largest there has ever been, and so on.
        payloads : list of n dicts, or None
            What else is known of the rows: JSON values, for :meth:`get` and for filters. None is no payload.

        Returns
        -------
        SimilaritySearch
            This object.
        """
        return self._put(X, ids, payloads, only_new=True)

    def upsert(self, X: ArrayLike, ids: ArrayLike, payloads: Sequence[dict | None] | None = None) -> Self:
        """As :meth:`add`, of ids that may be there already: the new rows, payloads included, take their places.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows (:func:`hashlearn.rows.as_rows`)
            The vectors.
        ids : list or array of n integers >= 0, or of n strings
            Each only once.
        payloads : list of n dicts, or None
            As in :meth:`add`.

        Returns
        -------
        SimilaritySearch
            This object.
        """
        return self._put(X, ids, payloads, only_new=False)

    def remove(self, ids: ArrayLike) -> Self:
        """Remove rows.

        Parameters
        ----------
        ids : list or array of integers or of strings
            If one is not there, ValueError is raised and none is removed.

        Returns
        -------
        SimilaritySearch
            This object.
        """
        with self._changing:
            state = self._state
            if self._in_store is not None:
                self._remove_in_store(ids)
                return self
            wanted = ids_to_find(ids, state)
            changed = state.removed(np.unique(state.positions_of(wanted)))
            if self._attached is not None and self._attached.store is not None:
                self._attached.store.delete(wanted)
                changed = self._attached.with_vectors(changed)
            self._touch(wanted, added=False)
            self._state = changed
        return self

    def get(self, ids: ArrayLike) -> list[Record]:
        """Read rows back.

        Parameters
        ----------
        ids : list or array of integers or of strings
            Of the kind that the search has.

        Returns
        -------
        list of Record
            ``id``, ``code``, ``payload`` and ``vector`` (None if none are kept), in the order of the ids; ids that are
            not there are left out.
        """
        if self._in_store is not None:
            return self._in_store.get(ids)
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
            Record(id, code, json.loads(text), vector)
            for id, code, text, vector in zip(wanted[known].tolist(), codes, texts, vectors)
        ]

    def payloads(self, ids: ArrayLike) -> list[dict[str, Any] | None]:
        """The payloads of rows.

        Parameters
        ----------
        ids : list or array of integers or of strings
            Of the kind that the search has.

        Returns
        -------
        list of dict or None
            The payload of each id, in their order; None for one that is not there.
        """
        if self._in_store is not None:
            found = {record.id: record.payload for record in self._in_store.get(ids)}
            return [found.get(id) for id in np.asarray(ids).tolist()]
        state = self._state
        positions, known = state.find(ids_to_find(ids, state))
        texts = iter(state.payload_texts_at(positions[known]))
        return [json.loads(next(texts)) if there else None for there in known.tolist()]

    def encode(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Packed codes of vectors, as :meth:`add` keeps them and :meth:`search_codes` takes them.

        Parameters
        ----------
        X : array of shape (n, n_features)
            The vectors.

        Returns
        -------
        ndarray of shape (n, ceil(n_bits / 8)), uint8
            A code for each.
        """
        return self._state.encoder.codes(X)

    def search(
        self,
        X: ArrayLike,
        k: int = 10,
        *,
        candidates: int | None = None,
        rerank: Any = None,
        filter: dict | None = None,
        subset: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> Neighbors:
        """The k nearest of each query vector.

        Parameters
        ----------
        X : array of shape (n_queries, n_features)
            Queries.
        k : int
            At least 1. Where there are fewer rows, the places left over have id -1, or None among strings, and distance
            2147483647, or infinity where distances are real.
        candidates : int or None
            How many codes are found, to be put in another order then. None is what :meth:`tune` has found, or 4 k.
        rerank : None, False, "codes", "asymmetric", "vectors", or an array, memmap or file of vectors
            What the result is ordered by. ``"codes"`` or False: the distances of the codes. ``"asymmetric"``: the
            scores of the query against the bits of the candidates. ``"vectors"``: the distances of the vectors that are
            kept. An array: those of its rows, row i being that of id i. None: kept vectors if there are any, otherwise
            codes.
        filter : dict or None
            A condition on the payloads; see :mod:`hashlearn.stores.filters`.
        subset : list of ids, or boolean array of shape (len(search),), or None
            Look only among these rows; a mask is in the order of :attr:`ids`.
        n_jobs : int or None
            Threads: None is 1, -1 is all cores.

        Returns
        -------
        distances, ids : arrays of shape (n_queries, k)
            Nearest first, ties by the lowest id, strings by their code points. Distances are those that the result is
            ordered by: Hamming distances (int32), or real ones (float32).
        """
        state = self._state
        if self._length_checks:
            self._check_lengths(state, X)
        if self._in_store is not None:
            _refuse_subset(subset)
            return self._in_store.search(X, k, rerank, candidates, filter)
        order = order_of(state, rerank)
        mask = None if filter is None and subset is None else state.chosen(filter, subset)
        if isinstance(order, str) and order == "codes":
            return state.named(by_codes(state, X, k, mask, n_jobs))
        return state.named(reranked(state, X, k, order, candidates, mask, n_jobs))

    def search_codes(
        self,
        codes: ArrayLike,
        k: int = 10,
        *,
        filter: dict | None = None,
        subset: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> Neighbors:
        """As :meth:`search`, of packed codes by Hamming distance.

        Parameters
        ----------
        codes : array of shape (n_queries, ceil(n_bits / 8)), uint8
            Packed codes of queries.
        k : int
            At least 1.
        filter : dict or None
            A condition on the payloads; see :mod:`hashlearn.stores.filters`.
        subset : list of ids, or boolean array of shape (len(search),), or None
            Look only among these rows; a mask is in the order of :attr:`ids`.
        n_jobs : int or None
            Threads: None is 1, -1 is all cores.

        Returns
        -------
        distances, ids : arrays of shape (n_queries, k)
            Nearest first, ties by the lowest id.
        """
        state = self._state
        if self.query != "code":
            raise ValueError("search_codes needs a search with query='code'; this one compares real queries with codes")
        if self._in_store is not None:
            _refuse_subset(subset)
            return self._in_store.search_codes(codes, k, filter)
        mask = None if filter is None and subset is None else state.chosen(filter, subset)
        return state.named(state.index.search(codes, k, subset=mask, n_jobs=n_jobs))

    def within(
        self,
        X: ArrayLike,
        distance: float,
        *,
        candidates: int | None = None,
        rerank: Any = None,
        filter: dict | None = None,
        subset: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> RangeResult:
        """All rows at a distance or less of each query.

        By codes this is exact, and the distance is a number of bits, or what a real query is compared by. By vectors
        the distance is that of the metric, and only the nearest codes of a query are looked at.

        Parameters
        ----------
        X : array of shape (n_queries, n_features)
            Queries.
        distance : float
            The largest distance.
        candidates : int or None
            By vectors: how many of the nearest codes of a query are looked at. None is 1000; ``len(search)`` looks at
            all.
        rerank : None, False, "codes", "asymmetric", "vectors", or an array, memmap or file of vectors
            As in :meth:`search`.
        filter : dict or None
            A condition on the payloads; see :mod:`hashlearn.stores.filters`.
        subset : list of ids, or boolean array of shape (len(search),), or None
            Look only among these rows; a mask is in the order of :attr:`ids`.
        n_jobs : int or None
            Threads: None is 1, -1 is all cores.

        Returns
        -------
        RangeResult
            ``result[q]`` has distances and ids of query q, nearest first, ties by the lowest id.
        """
        state = self._state
        if self._length_checks:
            self._check_lengths(state, X)
        if self._in_store is not None:
            _refuse_subset(subset)
            return self._in_store.within(X, distance, filter)
        order = order_of(state, rerank)
        mask = None if filter is None and subset is None else state.chosen(filter, subset)
        if isinstance(order, str) and order == "codes":
            return state.named_range(codes_within(state, X, distance, mask, n_jobs))
        return state.named_range(reranked_within(state, X, distance, order, candidates, mask, n_jobs))

    def tune(self, queries: ArrayLike | None = None, k: int = 10, target_recall: float = 0.95) -> Tuning:
        """Find, and keep for later searches, how many candidates a wanted recall needs; see :func:`tune`.

        Parameters
        ----------
        queries : array of shape (n_queries, n_features), or None
            None draws some of the kept vectors.
        k : int
            Neighbors of a query, at least 1.
        target_recall : float
            Share of the true k nearest, by the kept vectors, that is to be found.

        Returns
        -------
        Tuning
            What was measured, and the number that was chosen; ``print`` shows it as a table.
        """
        state = self._state
        if state.vectors is None:
            raise ValueError("tune needs vectors to compare with; make the search with keep_vectors='float32'")
        view = ByPosition(state)
        tuning = tune(view, queries, k, target_recall, vectors=view.rows)
        with self._changing:
            self._is_whole = True
            self._state = replace(self._state, tuning=tuning)
        return tuning

    def warm(self) -> Self:
        """Have everything ready that the first search would otherwise wait for: compiled loops, the encoder, tables.

        Returns
        -------
        SimilaritySearch
            This object.
        """
        state = self._state
        if len(state):
            row = np.zeros((1, state.encoder.n_features), np.float32)
            for X in (row, row.astype(np.float64)):
                by_codes(state, X, min(10, len(state)), None, None)
        return self

    def save(self, folder: str | Path | None = None) -> None:
        """Write the search to a folder; it is on the disk when this returns.

        Where few rows have changed since the last save to the folder, only these are written. The folder has a whole
        state at every moment, whoever reads it or saves to it meanwhile. Other files in it are left alone.

        Parameters
        ----------
        folder : str, Path or None
            New, empty, or one that a search was saved to before. None is the folder that this search was opened from or
            saved to.

        Raises
        ------
        ValueError
            Another process has saved to the folder since this search has read it: :meth:`refresh` first.
        """
        with self._changing:
            saved = self._saved
            if self._store is not None:
                raise ValueError(
                    "the rows of this search are in its store already; hashlearn.save(search.hasher, folder) keeps it"
                )
            if folder is None and saved is None:
                raise ValueError("folder must be given: this search was neither opened from a folder nor saved to one")
            is_same = saved is not None and (folder is None or Path(folder).resolve() == saved.folder.resolve())
            if saved is None or not is_same:
                self._take_over(write_generation(folder, self._state, self._kind_to_save(), saved))  # type: ignore[arg-type]
                return
            with alone_with(saved):
                if not self._is_whole and is_worth_a_journal(saved, len(self._touched), len(self)):
                    if self._touched:
                        self._take_over(append_changes(Opened(self._state, self._kind, saved), list(self._touched)))
                else:
                    self._take_over(write_generation(saved.folder, self._state, self._kind_to_save(), saved))

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Read what :meth:`save` wrote; codes and vectors are memory-mapped.

        Parameters
        ----------
        folder : str or Path
            The folder of a saved search.

        Returns
        -------
        SimilaritySearch
            The state that was saved last.
        """
        opened = open_folder(folder)
        search = cls.__new__(cls)
        keep = None if opened.kind is None else opened.kind.dtype
        search._begin(opened.state, keep, opened.kind, opened.saved)
        return search

    def refresh(self) -> bool:
        """Take over what other processes have saved since to the folder.

        Changes of this search that are not saved are made again on top of it. Of a store all rows are read again.

        Returns
        -------
        bool
            Whether there was something.
        """
        with self._changing:
            if self._attached is not None:
                before = self._state
                self._attach(before.encoder)
                return not before.holds_the_same_as(self._state)
            if self._saved is None:
                raise ValueError("refresh needs a folder: this search was neither opened from one nor saved to one")
            news = read_news(Opened(self._base, self._kind, self._saved))
            if news is None:
                return False
            state = self._rebased(news) if self._touched or self._is_whole else news.state
            self._kind, self._saved, self._base, self._state = news.kind, news.saved, news.state, state
            return True

    def _put(self, X: Any, ids: Any, payloads: Any, *, only_new: bool) -> Self:
        with self._changing:
            state = self._state
            if self._length_checks:
                self._check_lengths(state, X)
            encoded = state.encoder.encode(X)
            n = len(encoded.codes)
            if ids is None:
                new_ids = running_ids(state, n)
            else:
                state, new_ids = ids_to_put(ids, state, n)
            rows = NewRows(new_ids, encoded.codes, encoded.corrections, payload_texts(payloads, n))
            if only_new and ids is not None:
                known = self._known(state, new_ids)
                if known.any():
                    raise ValueError(
                        f"ids must be new, got {new_ids[known].tolist()[0]!r:.60}, which is already in the search"
                    )
            if self._attached is not None and n:
                self._put_in_store(state, rows, X)
                return self
            changed = state.upserted(rows)
            if self._keep is not None and n:
                changed = self._with_vectors(changed, X, new_ids)
            if changed.id_type != self._state.id_type:
                self._is_whole = True
            self._touch(new_ids, added=only_new)
            self._state = changed
        return self

    def _attach(self, encoder: Encoder) -> None:
        """Find out what is in the store."""
        self._attached = Attached(self._store, encoder, self._keep is not None)
        if self._search_in == "store":
            self._in_store = InStore(self._attached, encoder)
        else:
            self._state = self._attached.mirrored()

    def _put_in_store(self, state: State, rows: NewRows, X: Any) -> None:
        """Write rows to the store, and then to its mirror."""
        assert self._attached is not None
        self._attached.put(rows, X)
        if self._in_store is None:
            self._state = self._attached.with_vectors(state.upserted(rows))

    def _remove_in_store(self, ids: ArrayLike) -> None:
        assert self._attached is not None
        assert self._in_store is not None
        if self._attached.store is None or len(self._in_store.get(ids)) < np.size(ids):
            raise ValueError("ids must be in the store, got one that is not")
        self._attached.store.delete(ids)

    def _known(self, state: State, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """Which ids are there."""
        if self._in_store is None or not len(self._in_store):
            return state.find(ids)[1]
        there = {record.id for record in self._in_store.get(ids)}
        return np.array([id in there for id in ids.tolist()], bool)

    def _with_vectors(self, state: State, X: Any, ids: NDArray[Any]) -> State:
        """With the vectors of rows in the file of those that are not saved."""
        if self._kind is None or (self._kind.dtype == "int8" and self._kind.calibration is None):
            calibration = Calibration.of(X) if self._keep == "int8" else None
            self._kind = VectorsKind(str(self._keep), calibration)
        if self._unsaved is None:
            self._unsaved = self._kind.new_file(None, as_rows(X).shape[1])
        self._unsaved.upsert(X, state.numbers_at(state.find(ids)[0]))
        saved = None if state.vectors is None else state.vectors.saved
        return replace(state, vectors=KeptVectors(saved, self._unsaved.view))

    def _touch(self, ids: NDArray[Any], *, added: bool) -> None:
        if self._saved is None or self._is_whole:
            return
        for id in ids.tolist():
            self._touched.setdefault(id, added)

    def _kind_to_save(self) -> VectorsKind | None:
        if self._keep is not None and self._kind is None:
            return VectorsKind(self._keep, None) if self._keep != "int8" else None
        return self._kind

    def _take_over(self, opened: Opened) -> None:
        """Go on with what was just saved."""
        self._kind, self._saved, self._base, self._state = opened.kind, opened.saved, opened.state, opened.state
        self._unsaved, self._touched, self._is_whole = None, {}, False

    def _rebased(self, news: Opened) -> State:
        """The changes of this search that are not saved, on top of what another process has saved."""
        state = self._state
        if self._is_whole or digest_of(news.state.encoder.hasher) != digest_of(state.encoder.hasher):
            raise ValueError(
                f"{news.saved.folder} was saved anew by another process, and this search has other codes that are not "
                "saved; open the folder again, or save this search to another one"
            )
        touched = list(self._touched)
        ids = as_texts(touched) if state.names is not None else np.array(touched, np.int64)
        twice = [id for id, there in zip(touched, news.state.find(ids)[1]) if there and self._touched[id]]
        if twice:
            raise ValueError(f"id {twice[0]!r:.60} was added here and by another process too; remove it here first")
        positions, known = state.find(ids)
        rows = state.rows_at(positions[known])._replace(numbers=None)
        rebased = applied(news.state, Change(ids[~known].tolist(), rows, None, None))
        if self._keep is not None and len(rows.ids):
            vectors = state.vectors_at(positions[known])
            self._unsaved = None
            rebased = self._with_vectors(rebased, vectors, rows.ids)
        return rebased

    def _check_lengths(self, state: State, X: Any) -> None:
        self._length_checks -= 1
        if state.encoder.check_lengths(X):
            self._length_checks = 0


def _refuse_subset(subset: Any) -> None:
    if subset is not None:
        raise ValueError("subset must be None where search_in='store'; give a filter instead")
