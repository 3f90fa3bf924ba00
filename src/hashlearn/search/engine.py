"""One search, two ways to do it: the scan and the tables, and the choice between them while a search goes on."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import as_words
from hashlearn.search.cost_model import PROBING, CostModel
from hashlearn.search.flat import Keys, flat_knn, flat_range
from hashlearn.search.kernels.scan import POSITION_BITS, QUERIES_PER_BLOCK, QUERY_SHIFT
from hashlearn.search.multi_index import MultiIndex
from hashlearn.search.store import CodeStore

Method = Literal["auto", "flat", "multi-index"]
METHODS = ("auto", "flat", "multi-index")

_PATIENCE = 2.0  # scans' worth of looking into tables, where they were asked for by name
_DISTANCE_MASK = (1 << (QUERY_SHIFT - POSITION_BITS)) - 1


class Engine:
    """Search over the codes of a store as it is now: packed codes in, positions out, as kernels give them."""

    def __init__(self, store: CodeStore):
        self.store = store
        self.model = CostModel(store.n_bits, len(store))
        self.tables: MultiIndex | None = None

    @property
    def nbytes(self) -> int:
        return 0 if self.tables is None else self.tables.nbytes

    def knn(self, queries: NDArray[np.uint8], k: int, method: Method, n_jobs: int) -> Keys:
        """The k nearest codes, k <= len(store): sorted keys of shape (n_queries, k)."""
        if self._only_scans(method):
            return self._scan(queries, k, n_jobs)
        if method == "multi-index":
            return self._probe_and_scan(queries, k, n_jobs)
        return self._choose(queries, k, n_jobs)

    def range(
        self, queries: NDArray[np.uint8], first_positions: Keys, radius: int, method: Method, n_jobs: int
    ) -> Iterator[Keys]:
        """Hits of at most 512 queries, in pieces and in no order; see :func:`hashlearn.search.flat.flat_range`."""
        kind = ("range", radius)
        if self._only_scans(method):
            return flat_range(self.store, self.store.words_of(queries), first_positions, radius, n_jobs)
        if method == "multi-index":
            budget = _PATIENCE * self.model.scanning(1)
            return self._range_probe(queries, first_positions, radius, budget, len(queries), n_jobs)
        self._build_if_it_pays(n_jobs)
        n_tried = 0 if self.tables is None else self.model.queries_to_try(kind, len(queries))
        budget = self.model.budget(len(queries))
        return self._range_probe(queries, first_positions, radius, budget, n_tried, n_jobs)

    def prepare_pairs(self, radius: int, method: Method, n_jobs: int) -> Method:
        """Build the tables if they pay for a search from every code, and say which way to search then."""
        if self._only_scans(method):
            return "flat"
        if method == "auto" and self.tables is None:
            sample = as_words(self.store.codes_at(self.model.sample_positions()))
            probing = np.mean([self.model.probing(query, radius, sample) for query in sample[:: len(sample) // 64 + 1]])
            half_scan = self.model.scanning(QUERIES_PER_BLOCK) / 2
            if self.model.n_codes * (half_scan - probing) < self.model.building:
                return "flat"
        self._build(n_jobs)
        return method

    def _only_scans(self, method: Method) -> bool:
        usable = self.model.worth_choosing if method == "auto" else self.model.possible
        return method == "flat" or not usable

    def _scan(self, queries: NDArray[np.uint8], k: int, n_jobs: int) -> Keys:
        return flat_knn(self.store, self.store.words_of(queries), k, n_jobs)

    def _probe(
        self, queries: NDArray[np.uint8], k: int, budget: float, n_jobs: int
    ) -> tuple[Keys, NDArray[np.float64], NDArray[np.bool_]]:
        """Keys from the tables; what they have cost; the queries they have answered, the others' keys being void."""
        keys, spent = self._build(n_jobs).knn(as_words(queries), k, budget, PROBING, n_jobs)
        return keys, spent, keys[:, 0] >= 0

    def _probe_and_scan(self, queries: NDArray[np.uint8], k: int, n_jobs: int) -> Keys:
        """The tables for all queries, and a scan for those that take too long in them."""
        keys, _, answered = self._probe(queries, k, _PATIENCE * self.model.scanning(1), n_jobs)
        if not answered.all():
            keys[~answered] = self._scan(queries[~answered], k, n_jobs)
        return keys

    def _choose(self, queries: NDArray[np.uint8], k: int, n_jobs: int) -> Keys:
        """The tables for as many queries as the model allows; the others, and those given up, share scans."""
        kind = ("knn", k.bit_length())
        self._build_if_it_pays(n_jobs)
        if self.tables is None and len(queries) <= QUERIES_PER_BLOCK:
            keys = self._scan(queries, k, n_jobs)
            self.model.record_scan(kind, queries, keys[:, -1] >> POSITION_BITS)
            return keys
        keys = np.empty((len(queries), k), np.int64)
        given_up = np.empty(0, np.int64)
        start = 0
        while start < len(queries):
            self._build_if_it_pays(n_jobs)
            n_left = len(queries) - start
            n_tried = 0 if self.tables is None else self.model.queries_to_try(kind, n_left)
            if n_tried:
                rows = slice(start, start + n_tried)
                keys[rows], spent, answered = self._probe(queries[rows], k, self.model.budget(n_left), n_jobs)
                self.model.record_probing(kind, n_left, spent, answered)
                given_up = np.append(given_up, start + np.flatnonzero(~answered))
                start += n_tried
                continue
            fresh = np.arange(start, min(len(queries), start + QUERIES_PER_BLOCK * n_jobs))
            scanned = np.append(given_up, fresh)
            keys[scanned] = self._scan(queries[scanned], k, n_jobs)
            self.model.record_scan(kind, queries[fresh], keys[fresh, -1] >> POSITION_BITS)
            given_up = given_up[:0]
            start += len(fresh)
        if len(given_up):
            keys[given_up] = self._scan(queries[given_up], k, n_jobs)
        return keys

    def _range_probe(
        self, queries: NDArray[np.uint8], first_positions: Keys, radius: int, budget: float, n_tried: int, n_jobs: int
    ) -> Iterator[Keys]:
        """Try the tables for the first queries, scan for those left unanswered, and tell the model."""
        kind = ("range", radius)
        answered = np.zeros(len(queries), np.bool_)
        if n_tried:
            tried = slice(0, n_tried)
            pieces, done, spent = self._build(n_jobs).range(
                as_words(queries[tried]), first_positions[tried], radius, budget, PROBING, n_jobs
            )
            yield from pieces
            self.model.record_probing(kind, len(queries), spent, done)
            answered[tried] = done
        left = np.flatnonzero(~answered)
        if not len(left):
            return
        for hits in flat_range(self.store, self.store.words_of(queries[left]), first_positions[left], radius, n_jobs):
            numbers = hits >> QUERY_SHIFT
            yield hits + ((left[numbers] - numbers) << QUERY_SHIFT)
        scanned = left[left >= n_tried]
        if len(scanned):
            self.model.record_scan(kind, queries[scanned], np.full(len(scanned), radius))

    def _build_if_it_pays(self, n_jobs: int) -> None:
        if self.tables is None and self.model.time_to_look():
            sample = as_words(self.store.codes_at(self.model.sample_positions()))
            if self.model.tables_would_pay(sample):
                self._build(n_jobs)

    def _build(self, n_jobs: int) -> MultiIndex:
        if self.tables is None:
            self.tables = MultiIndex(self.store, n_jobs)
        return self.tables


def split_hits(hits: Keys) -> tuple[Keys, Keys, Keys]:
    """Queries, distances and positions of hits."""
    return hits >> QUERY_SHIFT, (hits >> POSITION_BITS) & _DISTANCE_MASK, hits & ((1 << POSITION_BITS) - 1)
