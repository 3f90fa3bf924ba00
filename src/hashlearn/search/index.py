"""The index: codes in, nearest codes out, exactly."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_choice, check_integer
from hashlearn.codes import check_codes
from hashlearn.progress import track
from hashlearn.search.engine import METHODS, Engine, Method, split_hits
from hashlearn.search.file_format import read_store, write_store
from hashlearn.search.flat import Keys
from hashlearn.search.kernels.scan import POSITION_BITS, POSITION_MASK, QUERIES_PER_BLOCK
from hashlearn.search.results import NO_DISTANCE, NO_ID, Neighbors, Pairs, RangeResult
from hashlearn.search.store import CodeStore
from hashlearn.threads import check_n_jobs

MAX_BITS = 4096


class HammingIndex:
    """Exact nearest codes by Hamming distance.

    A code takes n_bits / 8 bytes, and 8 more where ids are given or codes were removed. Results do not depend on the
    way they are found:

    - ``"flat"`` looks at every code;
    - ``"multi-index"`` builds tables of substrings on the first search (40 to 50 bytes more per code of 64 bits)
      and looks at the few codes they lead to; a query for which that takes too long is scanned;
    - ``"auto"`` scans, and goes over to the tables once that pays (see :mod:`hashlearn.search.cost_model`).

    Searching from several threads at once is safe; changing the index meanwhile is not.

    Parameters
    ----------
    n_bits : int
        Length of a code, 1 to 4096.

    Examples
    --------
    >>> codes = np.array([[0b11110000], [0b11111111], [0b00001111]], dtype=np.uint8)
    >>> index = HammingIndex(n_bits=8).add(codes)
    >>> index.search(codes[:1], k=2)
    Neighbors(distances=array([[0, 4]], dtype=int32), ids=array([[0, 1]]))
    >>> index.within(codes[:1], radius=4).ids
    array([0, 1])
    """

    def __init__(self, n_bits: int):
        self._attach(CodeStore(check_integer("n_bits", n_bits, low=1, high=MAX_BITS)))

    def __len__(self) -> int:
        return len(self._store)

    def __repr__(self) -> str:
        return f"HammingIndex(n_bits={self.n_bits}, {len(self)} codes)"

    @property
    def n_bits(self) -> int:
        return self._store.n_bits

    @property
    def model(self) -> str | None:
        """The digest of the model whose codes these are, kept with them in a file; None where it is not known."""
        return self._store.model

    @model.setter
    def model(self, digest: str | None) -> None:
        self._store.model = digest

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, ascending."""
        return self._store.ids_at(np.arange(len(self)))

    @property
    def nbytes(self) -> int:
        """Bytes of memory, or of the mapped file, that codes, ids and tables take."""
        return self._store.nbytes + self._engine.nbytes

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None) -> Self:
        """Add codes.

        Parameters
        ----------
        codes : array of shape (n, ceil(n_bits / 8)), uint8
            Packed codes.
        ids : array of shape (n,), integers >= 0, or None
            Not yet in the index. By default running numbers: one more than the largest id there has ever been, and so
            on. Adding ids in ascending order is cheaper than otherwise.
        """
        self._store.append(check_codes(codes, self.n_bits), ids)
        self._attach(self._store)
        return self

    def remove(self, ids: ArrayLike) -> Self:
        """Remove the codes with these ids; raises, and removes none, if one is not there."""
        self._store.remove(self._store.positions_of(ids))
        self._attach(self._store)
        return self

    def codes(self, ids: ArrayLike | None = None) -> NDArray[np.uint8]:
        """Read packed codes back, in the order of the ids given, or all in the order of :attr:`ids`."""
        positions = np.arange(len(self)) if ids is None else self._store.positions_of(ids)
        return self._store.codes_at(positions)

    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        subset: ArrayLike | None = None,
        method: Method = "auto",
        n_jobs: int | None = None,
    ) -> Neighbors:
        """The k nearest codes of each query.

        Parameters
        ----------
        queries : array of shape (n_queries, ceil(n_bits / 8)), uint8
            Packed codes.
        k : int
            At least 1. Where the index has fewer codes, the places left over get id -1 and distance 2147483647.
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
        codes = check_codes(queries, self.n_bits, "queries")
        k = check_integer("k", k, low=1)
        engine, method = self._engine_for(subset, method)
        k_found = min(k, len(engine.store))
        if k_found == 0:
            keys = np.empty((len(codes), 0), np.int64)
        else:
            keys = engine.knn(codes, k_found, method, check_n_jobs(n_jobs))
        return _neighbors(engine.store, keys, k)

    def within(
        self,
        queries: ArrayLike,
        radius: int,
        *,
        subset: ArrayLike | None = None,
        method: Method = "auto",
        n_jobs: int | None = None,
    ) -> RangeResult:
        """All codes at distance ``radius`` or less of each query, nearest first, ties by the lowest id.

        See :meth:`search` for the other arguments. The result holds 12 bytes per hit, however many there are.
        """
        codes = check_codes(queries, self.n_bits, "queries")
        radius = self._check_radius(radius)
        engine, method = self._engine_for(subset, method)
        threads = check_n_jobs(n_jobs)
        counts = np.zeros(len(codes), np.int64)
        distances, ids = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        for start in range(0, len(codes) if len(engine.store) else 0, QUERIES_PER_BLOCK):
            block = codes[start : start + QUERIES_PER_BLOCK]
            pieces = list(engine.range(block, np.zeros(len(block), np.int64), radius, method, threads))
            hits = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
            hits.sort()
            query, distance, position = split_hits(hits)
            counts[start : start + len(block)] = np.bincount(query, minlength=len(block))
            distances.append(distance.astype(np.int32))
            ids.append(engine.store.ids_at(position))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return RangeResult(offsets, np.concatenate(distances), np.concatenate(ids))

    def pairs_within(self, radius: int, *, method: Method = "auto", n_jobs: int | None = None) -> Iterator[Pairs]:
        """All pairs of codes at distance ``radius`` or less, in blocks of bounded size and in no order.

        Each pair comes once, the lower id first. However many pairs there are, memory holds one block; the index must
        not change until the last is taken.

        Examples
        --------
        >>> index = HammingIndex(n_bits=8).add(np.array([[1], [7], [3]], dtype=np.uint8))
        >>> [(pairs.first, pairs.second, pairs.distances) for pairs in index.pairs_within(radius=1)]
        [(array([0, 1]), array([2, 2]), array([1, 1], dtype=int32))]
        """
        radius = self._check_radius(radius)
        return self._pairs(radius, _check_method(method), check_n_jobs(n_jobs))

    def save(self, path: str | Path) -> None:
        """Write codes and ids to a file (customary suffix ``.hli``); tables are not kept.

        The file is written beside ``path`` and renamed: an earlier file there stays whole until the new one is. A
        process killed meanwhile leaves a hidden ``.hashlearn-tmp`` file, which can be deleted.
        """
        write_store(self._store, path)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Map a saved index into memory: nothing is copied, whatever its size.

        The header and the file's size are checked at once, and the checksum of the codes on their first use (or by
        :meth:`verify`); a file that was truncated, edited or damaged raises ValueError. Adding or removing
        codes copies them into memory; the file changes only by :meth:`save`.
        """
        index = cls.__new__(cls)
        index._attach(read_store(path))
        return index

    def verify(self) -> Self:
        """Compare the codes of an opened file with their checksum now instead of on first use."""
        self._store.verify()
        return self

    def _attach(self, store: CodeStore) -> None:
        self._store = store
        self._engine = Engine(store)

    def _engine_for(self, subset: ArrayLike | None, method: str) -> tuple[Engine, Method]:
        checked = _check_method(method)
        if subset is None:
            return self._engine, checked
        chosen = np.asarray(subset)
        if chosen.dtype == np.bool_:
            if chosen.shape != (len(self),):
                raise ValueError(f"subset must have shape ({len(self)},) as a mask, got {chosen.shape}")
            positions = np.flatnonzero(chosen)
        else:
            positions = np.unique(self._store.positions_of(chosen, "subset"))
        return Engine(self._store.subset(positions)), "flat"

    def _check_radius(self, radius: Any) -> int:
        return min(check_integer("radius", radius, low=0), self.n_bits)

    def _pairs(self, radius: int, method: Method, n_jobs: int) -> Iterator[Pairs]:
        engine, store = self._engine, self._store
        method = engine.prepare_pairs(radius, method, n_jobs)
        starts = range(0, len(store), QUERIES_PER_BLOCK)
        for start in track(starts, "pairs"):
            positions = np.arange(start, min(start + QUERIES_PER_BLOCK, len(store)))
            codes = store.codes_at(positions)
            for hits in engine.range(codes, positions + 1, radius, method, n_jobs):
                if len(hits):
                    hits.sort()
                    query, distance, position = split_hits(hits)
                    yield Pairs(store.ids_at(start + query), store.ids_at(position), distance.astype(np.int32))


def _check_method(method: str) -> Method:
    return cast(Method, check_choice("method", method, METHODS))


def _neighbors(store: CodeStore, keys: Keys, k: int) -> Neighbors:
    """Keys of shape (n_queries, <= k) as a result of k columns."""
    distances, ids = (keys >> POSITION_BITS).astype(np.int32), store.ids_at(keys & POSITION_MASK)
    if keys.shape[1] < k:
        empty = ((0, 0), (0, k - keys.shape[1]))
        distances = np.pad(distances, empty, constant_values=NO_DISTANCE)
        ids = np.pad(ids, empty, constant_values=NO_ID)
    return Neighbors(distances, ids)
