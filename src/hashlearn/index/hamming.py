"""The index: codes in, nearest codes out, exactly."""

from collections.abc import Iterator, Mapping
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from hashlearn.checks import check_choice, check_integer
from hashlearn.codes.results import NO_DISTANCE, NO_ID, Neighbors, RangeResult
from hashlearn.index.base import CodeIndex, Pairs, check_k, packed
from hashlearn.index.choose import SEARCH_METHODS, Engine, RangeSearch, SearchMethod, split_hits
from hashlearn.index.code_table import CodeTable
from hashlearn.index.kernels.scan import POSITION_BITS, POSITION_MASK, QUERIES_PER_BLOCK
from hashlearn.index.kernels.tiles import word_layout
from hashlearn.index.scan import Keys
from hashlearn.progress import track
from hashlearn.threads import check_n_jobs


class HammingIndex(CodeIndex[Engine]):
    """Exact nearest codes by Hamming distance.

    A code takes n_bits / 8 bytes, and 8 more where the ids are not 0, 1, 2, ... Results do not depend on the way they
    are found:

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
    Neighbors(distances=array([[0, 4]], dtype=int32), ids=array([[0, 1]]))
    >>> index.within(codes[:1], radius=4).ids
    array([0, 1])
    """

    def _empty_store(self, n_bits: int, metadata: Mapping[str, Any]) -> CodeTable:
        return CodeTable.empty(n_bits, metadata=metadata)

    def _engine_of(self, store: CodeTable) -> Engine:
        return Engine(store)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, or of the mapped file, that codes, ids and tables take."""
        engine = self._engine
        return engine.store.nbytes + engine.nbytes

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None) -> Self:
        """Add codes.

        Codes behind the others, in the order of their ids, take the time to write them; elsewhere all codes are copied.

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
        return self._change(lambda store: store.added(packed(codes, store), ids), codes)

    def upsert(self, codes: ArrayLike, ids: ArrayLike) -> Self:
        """Add codes, in the place of those that have the same ids. All codes are copied, unless all ids are above.

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
        return self._change(lambda store: store.upserted(packed(codes, store), ids), codes)

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
        engine = self._engine
        k = min(check_integer("k", k, low=1), len(engine.store))
        if k:
            engine.prepare(k, check_n_jobs(n_jobs))
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
            Look only among these codes; a mask is in the order of :attr:`ids`. A subset is always scanned, after one
            copy of its codes.
        method : {"auto", "flat", "multi-index"}
            How to search; the result is the same.
        n_jobs : int or None
            Threads: None is 1, -1 is all cores.

        Returns
        -------
        distances, ids : int32 and int64 arrays of shape (n_queries, k)
            Nearest first, ties by the lowest id.
        """
        engine = self._engine
        codes = packed(queries, engine.store, "queries")
        method = _check_method(method, subset)
        engine = self._restricted(engine, subset)
        k = check_k(k, len(engine.store))
        threads = check_n_jobs(n_jobs)
        k_found = min(k, len(engine.store))
        if k_found == 0 or len(codes) == 0:
            keys = np.empty((len(codes), k_found), np.int64)
        else:
            keys = engine.knn(codes, k_found, method, threads)
        return _neighbors(engine.store, keys, k)

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
        engine = self._engine
        codes = packed(queries, engine.store, "queries")
        radius = _check_radius(radius, engine.store)
        method = _check_method(method, subset)
        engine = self._restricted(engine, subset)
        threads = check_n_jobs(n_jobs)
        counts = np.zeros(len(codes), np.int64)
        distances, ids = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        for start in range(0, len(codes) if len(engine.store) else 0, QUERIES_PER_BLOCK):
            block = codes[start : start + QUERIES_PER_BLOCK]
            search = RangeSearch(block, np.zeros(len(block), np.int64), radius)
            hits = np.concatenate(list(engine.range(search, method, threads)))
            hits.sort()
            query, distance, position = split_hits(hits)
            counts[start : start + len(block)] = np.bincount(query, minlength=len(block))
            distances.append(distance.astype(np.int32))
            ids.append(engine.store.ids_at(position))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return RangeResult(offsets, np.concatenate(distances), np.concatenate(ids))

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
        engine = self._engine
        return _pairs(engine, _check_radius(radius, engine.store), _check_method(method, None), check_n_jobs(n_jobs))

    @classmethod
    def _check_opened(cls, store: CodeTable) -> None:
        if store.layout != word_layout(store.n_bits) or store.corrected:
            raise ValueError("an index of another kind, not of codes for Hamming distances")


def _check_radius(radius: Any, store: CodeTable) -> int:
    return min(check_integer("radius", radius, low=0), store.n_bits)


def _pairs(engine: Engine, radius: int, method: SearchMethod, n_jobs: int) -> Iterator[Pairs]:
    store = engine.store
    if not len(store):
        return
    method = engine.prepare_pairs(radius, method, n_jobs)
    starts = range(0, len(store), QUERIES_PER_BLOCK)
    for start in track(starts, "pairs"):
        positions = np.arange(start, min(start + QUERIES_PER_BLOCK, len(store)))
        search = RangeSearch(store.codes_at(positions), positions + 1, radius)
        for hits in engine.range(search, method, n_jobs):
            if len(hits):
                hits.sort()
                query, distance, position = split_hits(hits)
                yield Pairs(store.ids_at(start + query), store.ids_at(position), distance.astype(np.int32))


def _check_method(method: str, subset: ArrayLike | None) -> SearchMethod:
    checked = cast(SearchMethod, check_choice("method", method, SEARCH_METHODS))
    return checked if subset is None else "flat"


def _neighbors(store: CodeTable, keys: Keys, k: int) -> Neighbors:
    """Keys of shape (n_queries, <= k) as a result of k columns."""
    distances, ids = (keys >> POSITION_BITS).astype(np.int32), store.ids_at(keys & POSITION_MASK)
    if keys.shape[1] < k:
        empty = ((0, 0), (0, k - keys.shape[1]))
        distances = np.pad(distances, empty, constant_values=NO_DISTANCE)
        ids = np.pad(ids, empty, constant_values=NO_ID)
    return Neighbors(distances, ids)
