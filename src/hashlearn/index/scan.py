"""Search by looking at every code, at the speed the processor counts bits or the memory delivers them."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hashlearn.deadline import check_deadline
from hashlearn.index.code_table import thread_lock
from hashlearn.index.kernels.scan import QUERIES_PER_BLOCK, RangeQueries, knn_scan, range_scan
from hashlearn.index.kernels.tiles import TILE, Tiles, Words
from hashlearn.threads import run_all, split

Keys = NDArray[np.int64]
Part = tuple[int, int]

_BUFFER_KEYS = 1 << 23  # of all queries that share a scan: 64 MB
_HITS = 1 << 18  # of a range scan at a time: 2 MB

FEWEST_SEEN = 16  # queries, before there is a limit

_MOST_SEEN = 64
_MOST_KINDS = 32  # values of k
_ALLOWANCE = 1 / 16


def flat_knn(tiles: Tiles, queries: Words, k: int, limit: int, n_jobs: int = 1) -> Keys:
    """The k nearest codes, k <= n_codes, as sorted keys ``distance << 40 | position`` of shape (n_queries, k).

    Only codes nearer than ``limit`` are looked for; where there are fewer than k of them, a row ends with -1.
    """

    def scan(query_part: Part, tile_part: Part, keys: Keys) -> None:
        check_deadline()
        knn_scan(tiles, *tile_part, queries[slice(*query_part)], limit, k, keys)

    return knn_in_parts(scan, len(queries), tiles.n_codes, k, n_jobs)


def knn_in_parts(scan: Callable[[Part, Part, Keys], None], n_queries: int, n_codes: int, k: int, n_jobs: int) -> Keys:
    """Sorted keys of shape (n_queries, k), found by scans of some of the tiles for some of the queries, on threads.

    ``scan`` gets the first and the last query, the first and the last tile, and the array for the keys it finds, of
    shape (number of these queries, k).
    """
    n_tiles = -(-n_codes // TILE)
    block = max(1, min(QUERIES_PER_BLOCK, _BUFFER_KEYS // (2 * k + 2 * TILE)))
    if n_jobs == 1 and n_queries <= block:  # the general way costs as much as a scan of few codes
        keys = np.empty((n_queries, k), np.int64)
        scan((0, n_queries), (0, n_tiles), keys)
        keys.view(np.uint64).sort(axis=1)  # as in smallest_keys
        return keys
    query_parts = split(n_queries, max(-(-n_queries // block), n_jobs if n_queries >= 4 * n_jobs else 1))
    tile_parts = split(n_tiles, 1 if len(query_parts) >= n_jobs else n_jobs)
    keys = np.empty((len(tile_parts), n_queries, k), np.int64)
    tasks = [
        partial(scan, query_part, tile_part, keys[number, slice(*query_part)])
        for query_part in query_parts
        for number, tile_part in enumerate(tile_parts)
    ]
    run_all(tasks, n_jobs)
    return smallest_keys(keys, k)


def smallest_keys(keys: Keys, k: int) -> Keys:
    """The k smallest of the keys found for each query in several parts, of shape (n_parts, n_queries, k), in order."""
    together = keys[0] if len(keys) == 1 else np.concatenate(list(keys), axis=1)
    # as unsigned integers, because -1 stands for no key and goes last
    return np.sort(together.view(np.uint64), axis=1)[:, :k].view(np.int64)


def flat_range(tiles: Tiles, queries: RangeQueries, n_jobs: int = 1) -> Iterator[Keys]:
    """Hits ``query << 54 | distance << 40 | position`` of at most 512 queries, in pieces of bounded size and in no
    order.
    """
    first_tile, end = int(queries.first_positions.min()) // TILE, -(-tiles.n_codes // TILE)
    parts = split(end - first_tile, n_jobs)
    ends = [(first_tile + first, first_tile + last) for first, last in parts]
    return in_pieces(
        [RangeScan(partial(range_scan, tiles, last, queries), first, last) for first, last in ends], n_jobs
    )


def in_pieces(scans: Sequence["Stepwise"], n_jobs: int) -> Iterator[Keys]:
    """What the scans find, side by side, a step of each at a time."""
    while scans:
        check_deadline()
        yield from run_all([scan.step for scan in scans], n_jobs)
        scans = [scan for scan in scans if not scan.finished]


class Stepwise(Protocol):
    """Work that goes on step by step because its buffer is bounded."""

    @property
    def finished(self) -> bool: ...

    def step(self) -> Keys: ...


class RangeScan:
    """A scan of some of the tiles that stops whenever its buffer of hits is full.

    ``scan`` gets (tile, query), where to go on and where it has stopped, and the buffer; it returns the number of hits.
    """

    def __init__(self, scan: Callable[[Keys, Keys], int], first_tile: int, last_tile: int):
        self._scan, self._last_tile = scan, last_tile
        self._resume = np.array([first_tile, 0], np.int64)
        self._hits = np.empty(_HITS, np.int64)

    @property
    def finished(self) -> bool:
        return self._resume[0] >= self._last_tile

    def step(self) -> Keys:
        count = self._scan(self._resume, self._hits)
        return self._hits[:count].copy()


class Reach:
    """How far the k nearest codes of recent queries were, for each k, so that the next scan begins with a limit.

    A scan passes over codes that are farther than the k-th it has found. Until it has found k good ones it has to count
    almost every bit. Queries of one kind have their k-th neighbor at about the same distance; with a little more than
    the largest of these as a limit from the start, a scan passes over most codes from the start. Where fewer than k are
    nearer than the limit, the query is scanned once more without. So the limit decides how long a search takes, never
    what it returns. It belongs to one set of codes, and any thread may use it.

    Attributes
    ----------
    no_limit : int
        Above every distance.
    """

    def __init__(self, n_bits: int):
        self.no_limit = n_bits + 1
        self._seen: OrderedDict[int, deque[int]] = OrderedDict()
        self._changing = thread_lock()

    def knows(self, k: int) -> bool:
        """Have enough queries been seen for a limit?"""
        with self._changing:
            return len(self._seen.get(k, ())) >= FEWEST_SEEN

    def limit(self, k: int) -> int:
        """A distance that the k-th neighbor of the next query is most likely below."""
        with self._changing:
            seen = self._seen.get(k, ())
            if len(seen) < FEWEST_SEEN:
                return self.no_limit
            farthest = max(seen)
        return min(farthest + int(farthest * _ALLOWANCE) + 2, self.no_limit)

    def record(self, k: int, distances: NDArray[np.int64]) -> None:
        """The distances of some queries' k-th neighbors."""
        with self._changing:
            seen = self._seen.setdefault(k, deque(maxlen=_MOST_SEEN))
            seen.extend(distances[-_MOST_SEEN:].tolist())
            self._seen.move_to_end(k)
            if len(self._seen) > _MOST_KINDS:
                self._seen.popitem(last=False)
