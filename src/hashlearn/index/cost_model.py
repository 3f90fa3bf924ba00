"""Which way is cheaper: every code, or the tables?

All costs are nanoseconds of one thread. Their absolute values differ from machine to machine, their ratios little; they
only decide how a search is done, never what it returns.

*Before* there are tables, the true distances that scans have found for real queries tell how far the tables would
have to be probed, and a sample of the codes tells how many candidates they would meet. Queries that come alone need a
scan each, and tables pay for them sooner than for queries that share one. The tables are built once the scans have cost
as much as building them, if they then pay: at worst the work done is twice what it would have been with foresight.

*With* tables, a query is given up when it has cost as much as a scan would. Those given up share a scan, so the fewer
they are, the more each may cost. A ledger per kind of search keeps the promise not to be much slower than scanning:
trying the tables and giving up costs credit, a success earns what it saved, a scan earns a tenth of its cost, and no
more queries are tried at once than there is credit for.
"""

from collections import deque
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import as_words, bytes_per_code
from hashlearn.index.code_table import thread_lock
from hashlearn.index.kernels.probe import Costs, Report
from hashlearn.index.tables import MAX_CODES, Substrings

PROBING = Costs(level=600.0, probe=2.5, bucket=40.0, candidate=6.0)
SCAN_PER_BYTE = 0.0098
READ_PER_BYTE = 0.04  # once for all queries that share a scan
BUILD_PER_CODE = 65.0
FEWEST_CODES = 4096
FEWEST_BYTES = 1 << 20  # scanned in the time it takes to choose

_TOLERATED_LOSS = 0.1
_MUST_SAVE = 0.6  # of the scan's cost, on the queries seen
_SAMPLE_QUERIES = 32
_SAMPLE_CODES = 2048
_MOST_AT_ONCE = 512
_REMEMBERED = 64  # queries tried
_LEAST_GIVEN_UP = 1 / 8  # share that is reckoned with: many queries may all be harder than those before


class Seen(NamedTuple):
    """A query, how far it had to look, and what its scan cost."""

    words: NDArray[np.uint64]
    distance: int
    scan: float


class CostModel:
    """Choices for one set of codes, from any thread; a new one is made when the codes change.

    Parameters
    ----------
    n_bits, n_codes : int
    """

    def __init__(self, n_bits: int, n_codes: int):
        self.substrings = Substrings(n_bits, n_codes)
        self.n_codes = n_codes
        self._n_bytes = n_codes * bytes_per_code(n_bits)
        self._scanned = 0.0
        self._next_look = self.building
        self._next_sample = 0.0
        self._seen: deque[Seen] = deque(maxlen=_SAMPLE_QUERIES)
        self._credit: dict[tuple[str, int], float] = {}
        self._given_up: dict[tuple[str, int], float] = {}  # share of the queries tried
        self._changing = thread_lock()

    @property
    def possible(self) -> bool:
        """Are there enough codes, and not too many, for tables at all?"""
        return FEWEST_CODES <= self.n_codes <= MAX_CODES

    @property
    def worth_choosing(self) -> bool:
        """Does a scan take long enough for the choice to matter?"""
        return self.possible and self._n_bytes >= FEWEST_BYTES

    @property
    def building(self) -> float:
        """Cost of building the tables."""
        return BUILD_PER_CODE * self.n_codes * len(self.substrings)

    def scanning(self, n_queries: float) -> float:
        """Cost of a scan for each of ``n_queries`` queries that share it."""
        return self._n_bytes * (SCAN_PER_BYTE + READ_PER_BYTE / max(1.0, n_queries))

    def budget(self, kind: tuple[str, int], n_queries: int) -> float:
        """What the tables may cost for each of ``n_queries`` queries before it is scanned: its share of such a scan."""
        return self.scanning(n_queries * max(_LEAST_GIVEN_UP, self._given_up.get(kind, 1.0)))

    def record_scan(self, kind: tuple[str, int], queries: NDArray[np.uint8], distances: NDArray[np.int64]) -> None:
        """Packed queries that were answered by a scan, and how far each had to look."""
        scan = self.scanning(len(queries))
        cost = scan * len(queries)
        with self._changing:
            self._scanned += cost
            self._earn(kind, cost * _TOLERATED_LOSS, len(queries))
            if self._scanned < self._next_sample:
                return
            self._next_sample = self._scanned + self.building / _SAMPLE_QUERIES
            chosen = slice(0, None, max(1, len(queries) // 8))
            self._see(queries[chosen], distances[chosen], scan)

    def foresee(self, queries: NDArray[np.uint8], distances: NDArray[np.int64]) -> None:
        """Packed queries to expect, each alone, and how far they have to look."""
        with self._changing:
            self._see(queries, distances, self.scanning(1))

    def time_to_look(self) -> bool:
        """Have the scans cost enough to consider building tables? If so, it is time again at twice that cost."""
        with self._changing:
            if self._scanned < self._next_look:
                return False
            self._next_look = 2 * self._scanned
            return True

    def tables_would_pay(self, sample: NDArray[np.uint64]) -> bool:
        """Would tables have saved enough on the queries seen? ``sample`` is some of the codes."""
        with self._changing:
            seen = list(self._seen)
        costs = [min(self.probing(query, distance, sample), 2 * scan) for query, distance, scan in seen]
        return bool(sum(costs) < _MUST_SAVE * sum(scan for _, _, scan in seen))

    def probing(self, query: NDArray[np.uint64], distance: int, sample: NDArray[np.uint64]) -> float:
        """Cost of finding with tables all codes within a distance of a query, or infinity."""
        m = len(self.substrings)
        weights = np.array([(distance - j) // m for j in range(m)])
        if weights.max() > self.substrings.max_weight:
            return np.inf
        n_probes = sum(self.substrings.probes(level) for level in range(distance + 1))
        differing = (sample ^ query)[:, None, :] & self.substrings.masks(sample.shape[1])
        near = np.bitwise_count(differing).sum(axis=2) <= weights
        n_candidates = near.mean(axis=0).sum() * self.n_codes
        n_buckets = min(n_probes, n_candidates)
        looking = (distance + 1) * PROBING.level + n_probes * PROBING.probe
        return looking + n_buckets * PROBING.bucket + n_candidates * PROBING.candidate

    def sample_positions(self) -> NDArray[np.int64]:
        """Positions of the codes to estimate from, spread over all."""
        return np.unique(np.linspace(0, self.n_codes - 1, min(_SAMPLE_CODES, self.n_codes)).astype(np.int64))

    def queries_to_try(self, kind: tuple[str, int], n_queries: int) -> int:
        """For how many of ``n_queries`` queries the tables may be tried."""
        with self._changing:
            credit = self._credit.get(kind, 2 * self.scanning(n_queries))
            affordable = int(credit / self.budget(kind, n_queries))
        return max(0, min(n_queries, affordable, _MOST_AT_ONCE))

    def record_probing(self, kind: tuple[str, int], n_queries: int, report: Report) -> None:
        """Learn from queries that the tables were tried for, among ``n_queries`` to answer."""
        saved = np.where(report.answered, self.scanning(n_queries), 0.0) - report.spent
        with self._changing:
            self._earn(kind, float(saved.sum()), n_queries)
            before, n_tried = self._given_up.get(kind, 1.0), len(saved)
            n_given_up = n_tried - np.count_nonzero(report.answered)
            self._given_up[kind] = before + (n_given_up - n_tried * before) / max(n_tried, _REMEMBERED)

    def _see(self, queries: NDArray[np.uint8], distances: NDArray[np.int64], scan: float) -> None:
        self._seen.extend(map(Seen, as_words(queries), distances.tolist(), repeat(scan)))

    def _earn(self, kind: tuple[str, int], gain: float, n_queries: int) -> None:
        scan = self.scanning(n_queries)
        credit = self._credit.get(kind, 2 * scan) + gain
        self._credit[kind] = min(credit, _MOST_AT_ONCE * scan)
