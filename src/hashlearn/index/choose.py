"""One search, two ways to do it: the scan and the tables, and the choice between them while a search goes on."""

from collections.abc import Iterator
from functools import cached_property
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import as_words
from hashlearn.index.code_table import Segment, bits_at, thread_lock
from hashlearn.index.cost_model import PROBING, CostModel
from hashlearn.index.kernels.probe import Budget
from hashlearn.index.kernels.scan import POSITION_BITS, POSITION_MASK, QUERIES_PER_BLOCK, QUERY_SHIFT, RangeQueries
from hashlearn.index.kernels.tiles import Tiles, Words
from hashlearn.index.scan import FEWEST_SEEN, Keys, Reach, flat_knn, flat_range, smallest_keys
from hashlearn.index.tables import MultiIndex

SearchMethod = Literal["auto", "flat", "multi-index"]
SEARCH_METHODS = ("auto", "flat", "multi-index")

_PATIENCE = 2.0  # scans' worth of looking into tables, where they were asked for by name
_FIRST_QUERIES = FEWEST_SEEN  # of many: they tell how far the others have to look
_MANY_QUERIES = 64
_EVERY_SAMPLE = 64  # every 64th sampled code stands for a query
_FEW_HIDDEN = 64  # hidden codes up to which the tables are asked for as many more
_FEWEST_BYTES = 1 << 20  # of codes, for a scan to gain by what is known about others
_DISTANCE_MASK = (1 << (QUERY_SHIFT - POSITION_BITS)) - 1


class RangeSearch(NamedTuple):
    """At most 512 packed queries, the first position that each of them sees, and the radius."""

    codes: NDArray[np.uint8]
    first_positions: NDArray[np.int64]
    radius: int

    def take(self, rows: NDArray[np.int64]) -> Self:
        return self._replace(codes=self.codes[rows], first_positions=self.first_positions[rows])


class Shown(NamedTuple):
    """Which codes of a segment a search looks at.

    Attributes
    ----------
    alive : uint64 array
        A word for every tile, or none where it looks at all.
    n_shown : int
        Codes it looks at.
    is_subset : bool
        Whether they were chosen for this search: then they say nothing of other searches.
    """

    alive: NDArray[np.uint64]
    n_shown: int
    is_subset: bool = False

    def among(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these positions are looked at."""
        return bits_at(self.alive, positions)


class Engine:
    """Search over the codes of a segment: packed codes in, positions out, as kernels give them.

    Searching from several threads at once is safe. The codes never change; what does are the tables, which are built
    once, and what is known about the searches so far.
    """

    def __init__(self, segment: Segment):
        self.segment = segment
        self.reach = Reach(segment.n_bits)
        self.tables: MultiIndex | None = None
        self._building = thread_lock()
        self._scans_at_once = segment.nbytes < _FEWEST_BYTES

    @cached_property
    def model(self) -> CostModel:
        """Made by the first search: codes that change often are searched seldom."""
        return CostModel(self.segment.n_bits, len(self.segment))

    @property
    def nbytes(self) -> int:
        return 0 if self.tables is None else self.tables.nbytes

    def knn(self, queries: NDArray[np.uint8], k: int, method: SearchMethod, n_jobs: int, shown: Shown) -> Keys:
        """The k nearest codes, of at least k that are shown: sorted keys of shape (n_queries, k)."""
        if not shown.alive.size:
            return self._knn(queries, k, method, n_jobs)
        n_hidden = len(self.segment) - shown.n_shown
        if not shown.is_subset and n_hidden <= _FEW_HIDDEN and not self._only_scans(method):
            keys = self._knn(queries, k + n_hidden, method, n_jobs)
            keys[~shown.among(keys & POSITION_MASK)] = -1
            return smallest_keys(keys[None], k)
        tiles, words = self.segment.tiles._replace(alive=shown.alive), self.segment.words_of(queries)
        if shown.is_subset:
            return flat_knn(tiles, words, k, self.reach.no_limit, n_jobs)
        return self._scan_with_limit(tiles, words, k, n_jobs)

    def _knn(self, queries: NDArray[np.uint8], k: int, method: SearchMethod, n_jobs: int) -> Keys:
        if self._only_scans(method):
            return self._scan(queries, k, n_jobs)
        if method == "multi-index":
            return self._probe_and_scan(queries, k, n_jobs)
        return self._choose(queries, k, n_jobs)

    def range(self, search: RangeSearch, method: SearchMethod, n_jobs: int, shown: Shown) -> Iterator[Keys]:
        """Hits in pieces and in no order; see :func:`hashlearn.index.scan.flat_range`."""
        pieces = self._range(search, method, n_jobs)
        return (piece[shown.among(piece & POSITION_MASK)] for piece in pieces) if shown.alive.size else pieces

    def _range(self, search: RangeSearch, method: SearchMethod, n_jobs: int) -> Iterator[Keys]:
        if self._only_scans(method):
            return self._scan_range(search, n_jobs)
        if method == "multi-index":
            tables = self.build(n_jobs)
            return self._probe_range(tables, search, len(search.codes), self._patience(), n_jobs)
        return self._choose_range(search, n_jobs)

    def prepare_pairs(self, radius: int, method: SearchMethod, n_jobs: int) -> SearchMethod:
        """Build the tables if they pay for a search from every code, and say which way to search then."""
        if self._only_scans(method):
            return "flat"
        if method == "auto" and self.tables is None:
            sample = self._sample()
            probing = np.mean([self.model.probing(query, radius, sample) for query in sample[:: len(sample) // 64 + 1]])
            half_scan = self.model.scanning(QUERIES_PER_BLOCK) / 2
            if self.model.n_codes * (half_scan - probing) < self.model.building:
                return "flat"
        self.build(n_jobs)
        return method

    def build(self, n_jobs: int) -> MultiIndex:
        """The tables; a thread that asks while another builds them waits for them."""
        with self._building:
            if self.tables is None:
                self.tables = MultiIndex(self.segment, n_jobs)
        return self.tables

    def prepare(self, k: int, n_jobs: int) -> None:
        """Build the tables if they pay for queries that are like the codes and come alone."""
        if self._only_scans("auto") or self.tables is not None:
            return
        queries = self.segment.codes_at(self.model.sample_positions()[::_EVERY_SAMPLE])
        self.model.foresee(queries, self._scan(queries, k, n_jobs)[:, -1] >> POSITION_BITS)
        if self.model.tables_would_pay(self._sample()):
            self.build(n_jobs)

    def _only_scans(self, method: SearchMethod) -> bool:
        usable = self.model.worth_choosing if method == "auto" else self.model.possible
        return method == "flat" or not usable

    def _scan(self, queries: NDArray[np.uint8], k: int, n_jobs: int) -> Keys:
        if self._scans_at_once:
            return flat_knn(self.segment.tiles, self.segment.words_of(queries), k, self.reach.no_limit, n_jobs)
        if len(queries) >= _MANY_QUERIES and not self.reach.knows(k):
            first, others = queries[:_FIRST_QUERIES], queries[_FIRST_QUERIES:]
            return np.concatenate([self._scan(first, k, n_jobs), self._scan(others, k, n_jobs)])
        return self._scan_with_limit(self.segment.tiles, self.segment.words_of(queries), k, n_jobs)

    def _scan_with_limit(self, tiles: Tiles, words: Words, k: int, n_jobs: int) -> Keys:
        """Look only as far as recent queries had to; once more, without a limit, for those that find too little."""
        keys = flat_knn(tiles, words, k, self.reach.limit(k), n_jobs)
        missed = keys[:, -1] < 0
        if missed.any():
            keys[missed] = flat_knn(tiles, words[missed], k, self.reach.no_limit, n_jobs)
        self.reach.record(k, keys[:, -1] >> POSITION_BITS)
        return keys

    def _probe_and_scan(self, queries: NDArray[np.uint8], k: int, n_jobs: int) -> Keys:
        """The tables for all queries, and a scan for those that take too long in them."""
        keys, report = self.build(n_jobs).knn(as_words(queries), k, self._patience(), n_jobs)
        if not report.answered.all():
            given_up = ~report.answered
            keys[given_up] = self._scan(queries[given_up], k, n_jobs)
        return keys

    def _choose(self, queries: NDArray[np.uint8], k: int, n_jobs: int) -> Keys:
        """The tables for as many queries as the model allows; the others, and those given up, share scans."""
        kind = ("knn", k.bit_length())
        keys = np.empty((len(queries), k), np.int64)
        given_up = np.empty(0, np.int64)
        start = 0
        while start < len(queries):
            n_left = len(queries) - start
            tables = self._tables_if_they_pay(n_jobs)
            n_tried = 0 if tables is None else self.model.queries_to_try(kind, n_left)
            if tables is not None and n_tried:
                tried = slice(start, start + n_tried)
                budget = Budget(self.model.budget(kind, n_left), PROBING)
                keys[tried], report = tables.knn(as_words(queries[tried]), k, budget, n_jobs)
                self.model.record_probing(kind, n_left, report)
                if not report.answered.all():
                    given_up = np.append(given_up, start + np.flatnonzero(~report.answered))
                start += n_tried
            else:
                rows = np.arange(start, min(len(queries), start + QUERIES_PER_BLOCK * n_jobs))
                scanned = np.append(given_up, rows)
                keys[scanned] = self._scan(queries[scanned], k, n_jobs)
                self.model.record_scan(kind, queries[rows], keys[rows, -1] >> POSITION_BITS)
                given_up = given_up[:0]
                start += len(rows)
        if len(given_up):
            keys[given_up] = self._scan(queries[given_up], k, n_jobs)
        return keys

    def _scan_range(self, search: RangeSearch, n_jobs: int) -> Iterator[Keys]:
        words = self.segment.words_of(search.codes)
        return flat_range(self.segment.tiles, RangeQueries(words, search.first_positions, search.radius), n_jobs)

    def _choose_range(self, search: RangeSearch, n_jobs: int) -> Iterator[Keys]:
        """The tables for as many queries as the model allows, a scan for the others."""
        kind, n_queries = ("range", search.radius), len(search.codes)
        tables = self._tables_if_they_pay(n_jobs)
        n_tried = 0 if tables is None else self.model.queries_to_try(kind, n_queries)
        if tables is not None and n_tried:
            budget = Budget(self.model.budget(kind, n_queries), PROBING)
            yield from self._probe_range(tables, search, n_tried, budget, n_jobs)
            return
        yield from self._scan_range(search, n_jobs)
        self.model.record_scan(kind, search.codes, np.full(n_queries, search.radius))

    def _probe_range(
        self, tables: MultiIndex, search: RangeSearch, n_tried: int, budget: Budget, n_jobs: int
    ) -> Iterator[Keys]:
        """The tables for the first queries, a scan for those given up and for the others."""
        kind, n_queries = ("range", search.radius), len(search.codes)
        tried, untried = np.split(np.arange(n_queries), [n_tried])
        words = as_words(search.codes[tried])
        pieces, report = tables.range(RangeQueries(words, search.first_positions[tried], search.radius), budget, n_jobs)
        yield from pieces
        self.model.record_probing(kind, n_queries, report)
        left = np.append(tried[~report.answered], untried)
        if not len(left):
            return
        for hits in self._scan_range(search.take(left), n_jobs):
            numbers = hits >> QUERY_SHIFT
            yield hits + ((left[numbers] - numbers) << QUERY_SHIFT)
        if len(untried):
            self.model.record_scan(kind, search.codes[untried], np.full(len(untried), search.radius))

    def _patience(self) -> Budget:
        return Budget(_PATIENCE * self.model.scanning(1), PROBING)

    def _sample(self) -> NDArray[np.uint64]:
        return as_words(self.segment.codes_at(self.model.sample_positions()))

    def _tables_if_they_pay(self, n_jobs: int) -> MultiIndex | None:
        """The tables if there are any or if it is time to build them; only one thread is told that it is."""
        if self.tables is None and self.model.time_to_look() and self.model.tables_would_pay(self._sample()):
            return self.build(n_jobs)
        return self.tables


def split_hits(hits: Keys) -> tuple[Keys, Keys, Keys]:
    """Queries, distances and positions of hits."""
    return hits >> QUERY_SHIFT, (hits >> POSITION_BITS) & _DISTANCE_MASK, hits & ((1 << POSITION_BITS) - 1)
