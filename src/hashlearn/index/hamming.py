"""The index: codes in, nearest codes out, exactly."""

from collections.abc import Iterator
from typing import Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_choice, check_integer
from hashlearn.codes.results import NO_DISTANCE, Neighbors, RangeResult
from hashlearn.index.base import (
    CodeIndex,
    Pairs,
    check_k,
    filled_up,
    found_in_blocks,
    joined_ranges,
    nearest_of,
    packed,
)
from hashlearn.index.choose import SEARCH_METHODS, Engine, RangeSearch, SearchMethod, Shown, split_hits
from hashlearn.index.code_table import Segment
from hashlearn.index.kernels.scan import POSITION_BITS, POSITION_MASK, QUERIES_PER_BLOCK
from hashlearn.index.kernels.tiles import word_layout
from hashlearn.index.scan import Keys
from hashlearn.progress import track
from hashlearn.threads import check_n_jobs


class HammingIndex(CodeIndex[Engine]):
    """Exact nearest codes by Hamming distance.

    A code takes n_bits / 8 bytes, and 8 more where the ids are not running numbers. Results do not depend on the way
    they are found:

    - ``"flat"`` looks at every code;
    - ``"multi-index"`` builds tables of substrings on the first search (40 to 50 bytes more per code of 64 bits)
      and looks at the few codes they lead to; a query for which that takes too long is scanned;
    - ``"auto"`` scans, and goes over to the tables once that pays (see :mod:`hashlearn.index.cost_model`).

    Any number of threads may search while another changes the index: a search sees the codes as they were when it
    began, and waits for nobody. Changes wait for one another. A change that raises, whatever the reason, leaves the
    index as it was.

    Parameters
    ----------
    n_bits : int or None
        Length of a code, 1 to 4096. None takes all bits of the first codes: 8 times their width in bytes.
    model : str or None
        The digest of the model that made the codes, kept with them and saved with them.

    Examples
    --------
    >>> codes = np.array([[0b11110000], [0b11111111], [0b00001111]], dtype=np.uint8)
    >>> index = HammingIndex(n_bits=8).add(codes)
    >>> index.search(codes[:1], k=2)
    Neighbors: 2 of 1 query, id (distance), nearest first
      0 (0), 1 (4)
    >>> index.within(codes[:1], radius=4).ids
    array([0, 1])
    """

    _layout = staticmethod(word_layout)
    _engine = Engine
    _purpose = "Hamming distances"

    @property
    def nbytes(self) -> int:
        """Bytes of memory, or of the mapped file, that codes, ids and tables take."""
        view = self.view
        return view.table.nbytes + sum(engine.nbytes for engine in view.engines)

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None) -> Self:
        """Add codes.

        Parameters
        ----------
        codes : array of shape (n, ceil(n_bits / 8)), uint8
            Packed codes.
        ids : array of shape (n,), integers >= 0, or None
            Not yet in the index. By default running numbers: one more than the largest id there has ever been, and so
            on.

        Returns
        -------
        HammingIndex
            This object.

        Examples
        --------
        >>> HammingIndex().add(np.zeros((2, 4), np.uint8), ids=[5, 3]).ids
        array([3, 5])
        """
        return self._change(lambda table: table.added(packed(codes, table), ids), codes)

    def upsert(self, codes: ArrayLike, ids: ArrayLike) -> Self:
        """Add codes, in the place of those that have the same ids.

        Parameters
        ----------
        codes : array of shape (n, ceil(n_bits / 8)), uint8
            Packed codes.
        ids : array of shape (n,), integers >= 0
            Each only once.

        Returns
        -------
        HammingIndex
            This object.

        Examples
        --------
        >>> index = HammingIndex().add(np.array([[1], [2]], np.uint8))
        >>> index.upsert(np.array([[7], [8]], np.uint8), ids=[1, 2]).codes().ravel()
        array([1, 7, 8], dtype=uint8)
        """
        return self._change(lambda table: table.upserted(packed(codes, table), ids), codes)

    def prepare(self, k: int = 10, *, n_jobs: int | None = None) -> Self:
        """Build the tables now if they pay for queries that are like the codes and come one by one.

        Otherwise ``"auto"`` builds them when it has seen such queries, and one of these waits for it.

        Parameters
        ----------
        k : int
            Neighbors that the queries will ask for.
        n_jobs : int or None
            Threads: None is 1, -1 is all cores.

        Returns
        -------
        HammingIndex
            This object.

        Examples
        --------
        >>> HammingIndex().add(np.array([[1], [2]], np.uint8)).prepare(k=1).search(np.array([[2]], np.uint8), k=1).ids
        array([[1]])
        """
        k, n_jobs = check_integer("k", k, low=1), check_n_jobs(n_jobs)
        for engine in self.view.engines:
            engine.prepare(min(k, len(engine.segment)), n_jobs)
        return self

    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        subset: ArrayLike | None = None,
        method: SearchMethod = "auto",
        n_jobs: int | None = None,
    ) -> Neighbors:
        """The k nearest codes of each query.

        Parameters
        ----------
        queries : array of shape (n_queries, ceil(n_bits / 8)), uint8
            Packed codes.
        k : int
            At least 1, and at most the number of codes or 65536, whichever is more. Where the index has fewer codes,
            the places left over get id -1 and distance 2147483647.
        subset : array of ids, or boolean array of shape (len(index),), or None
            Look only among these codes; a mask is in the order of :attr:`ids`, or has a place for each of the numbers
            0 to ``next_id - 1``. A subset is always scanned.
        method : {"auto", "flat", "multi-index"}
            How to search; the result is the same.
        n_jobs : int or None
            Threads: None is 1, -1 is all cores.

        Returns
        -------
        distances, ids : int32 and int64 arrays of shape (n_queries, k)
            Nearest first, ties by the lowest id.
        """
        codes = packed(queries, self.view.table, "queries")
        method = _check_method(method, subset)
        view = self._looked_at(subset, len(codes))
        parts = view.parts()
        k = check_k(k, sum(shown.n_shown for _, shown in parts))
        threads = check_n_jobs(n_jobs)
        if not parts or not len(codes):
            nothing = Neighbors(np.empty((len(codes), 0), np.int32), np.empty((len(codes), 0), np.int64))
            return filled_up(nothing, k, NO_DISTANCE)
        found = [
            _neighbors(engine.segment, engine.knn(codes, min(k, shown.n_shown), method, threads, shown))
            for engine, shown in parts
        ]
        return filled_up(nearest_of(found, k, in_order=view.table.in_order), k, NO_DISTANCE)

    def within(
        self,
        queries: ArrayLike,
        radius: int,
        *,
        subset: ArrayLike | None = None,
        method: SearchMethod = "auto",
        n_jobs: int | None = None,
    ) -> RangeResult:
        """All codes at distance ``radius`` or less of each query.

        Parameters
        ----------
        queries : array of shape (n_queries, ceil(n_bits / 8)), uint8
            Packed codes.
        radius : int
            At least 0; a radius above ``n_bits`` finds all codes.
        subset, method, n_jobs
            As in :meth:`search`.

        Returns
        -------
        RangeResult
            ``result[q]`` has distances and ids of query q, nearest first, ties by the lowest id. A hit takes 12 bytes.
        """
        table = self.view.table
        codes = packed(queries, table, "queries")
        radius = min(check_integer("radius", radius, low=0), table.n_bits)
        method = _check_method(method, subset)
        view = self._looked_at(subset, len(codes))
        threads = check_n_jobs(n_jobs)
        found = [_within(engine, codes, radius, method, threads, shown) for engine, shown in view.parts()]
        if not found:
            return RangeResult(np.zeros(len(codes) + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))
        return joined_ranges(found, in_order=view.table.in_order)

    def pairs_within(self, radius: int, *, method: SearchMethod = "auto", n_jobs: int | None = None) -> Iterator[Pairs]:
        """All pairs of codes at distance ``radius`` or less, in blocks of bounded size and in no order.

        Each pair comes once, the lower id first. However many pairs there are, memory holds one block. They are the
        pairs of the codes that are there when this is called.

        Parameters
        ----------
        radius : int
            At least 0.
        method : {"auto", "flat", "multi-index"}
            How to search; the result is the same.
        n_jobs : int or None
            Threads: None is 1, -1 is all cores.

        Returns
        -------
        iterator of Pairs
            Arrays ``first``, ``second`` and ``distances``.

        Examples
        --------
        >>> index = HammingIndex(n_bits=8).add(np.array([[1], [7], [3]], dtype=np.uint8))
        >>> [(pairs.first, pairs.second, pairs.distances) for pairs in index.pairs_within(radius=1)]
        [(array([0, 1]), array([2, 2]), array([1, 1], dtype=int32))]
        """
        table = self.view.table
        radius = min(check_integer("radius", radius, low=0), table.n_bits)
        method, threads = _check_method(method, None), check_n_jobs(n_jobs)
        whole = self.view if not table.n_removed and len(table.segments) == 1 else self._whole(table.compacted())
        return _pairs(whole.engines[0], radius, method, threads) if whole.engines else iter(())


def _within(
    engine: Engine, codes: NDArray[np.uint8], radius: int, method: SearchMethod, n_jobs: int, shown: Shown
) -> RangeResult:
    """The codes of one segment within the radius."""

    def found(part: slice) -> tuple[Keys, Keys, Keys]:
        block = codes[part]
        search = RangeSearch(block, np.zeros(len(block), np.int64), radius)
        hits = np.concatenate(list(engine.range(search, method, n_jobs, shown)))
        hits.sort()
        query, distance, position = split_hits(hits)
        return query, distance, engine.segment.ids_at(position)

    return found_in_blocks(len(codes), found, np.int32)


def _pairs(engine: Engine, radius: int, method: SearchMethod, n_jobs: int) -> Iterator[Pairs]:
    """The pairs of one segment, of which no code is removed."""
    segment = engine.segment
    everything = Shown(segment.alive, len(segment))
    method = engine.prepare_pairs(radius, method, n_jobs)
    for start in track(range(0, len(segment), QUERIES_PER_BLOCK), "pairs"):
        positions = np.arange(start, min(start + QUERIES_PER_BLOCK, len(segment)))
        search = RangeSearch(segment.codes_at(positions), positions + 1, radius)
        for hits in engine.range(search, method, n_jobs, everything):
            if len(hits):
                hits.sort()
                query, distance, position = split_hits(hits)
                yield Pairs(segment.ids_at(start + query), segment.ids_at(position), distance.astype(np.int32))


def _check_method(method: str, subset: ArrayLike | None) -> SearchMethod:
    checked = cast(SearchMethod, check_choice("method", method, SEARCH_METHODS))
    return checked if subset is None else "flat"


def _neighbors(segment: Segment, keys: Keys) -> Neighbors:
    """What keys stand for."""
    return Neighbors((keys >> POSITION_BITS).astype(np.int32), segment.ids_at(keys & POSITION_MASK))
