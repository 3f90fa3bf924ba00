"""The index: codes in, nearest codes out, exactly."""

import copy
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_choice, check_integer
from hashlearn.codes import check_codes
from hashlearn.progress import track
from hashlearn.search.engine import SEARCH_METHODS, Engine, RangeSearch, SearchMethod, split_hits
from hashlearn.search.file_format import read_store, write_store
from hashlearn.search.flat import Keys
from hashlearn.search.kernels.scan import POSITION_BITS, POSITION_MASK, QUERIES_PER_BLOCK
from hashlearn.search.kernels.tiles import word_layout
from hashlearn.search.results import NO_DISTANCE, NO_ID, Neighbors, Pairs, RangeResult
from hashlearn.search.store import CodeStore, plain_array
from hashlearn.threads import check_n_jobs

MAX_BITS = 4096
MOST_EMPTY_PLACES = 65536  # of a result row, where k is above the number of codes


class HammingIndex:
    """Exact nearest codes by Hamming distance.

    A code takes n_bits / 8 bytes, and 8 more where the ids are not 0, 1, 2, ... Results do not depend on the way they
    are found:

    - ``"flat"`` looks at every code;
    - ``"multi-index"`` builds tables of substrings on the first search (40 to 50 bytes more per code of 64 bits)
      and looks at the few codes they lead to; a query for which that takes too long is scanned;
    - ``"auto"`` scans, and goes over to the tables once that pays (see :mod:`hashlearn.search.cost_model`).

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

    def __init__(self, n_bits: int | None = None, *, model: str | None = None):
        if model is not None and not isinstance(model, str):
            raise TypeError(f"model must be the digest of a model, a string, got {model!r}")
        length = 0 if n_bits is None else check_integer("n_bits", n_bits, low=1, high=MAX_BITS)
        self._begin(Engine(CodeStore.empty(length, metadata={} if model is None else {"model": model})))

    def _begin(self, engine: Engine) -> None:
        # All that a search needs hangs on this one reference, which a change replaces at its end.
        self._engine = engine
        # Reentrant, for a debugger that raises on the way out of a "with" leaves the lock to its thread.
        self._changing = threading.RLock()

    def __getstate__(self) -> CodeStore:
        return self._engine.store

    def __setstate__(self, store: CodeStore) -> None:
        self._begin(Engine(store))

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other._begin(self._engine)
        return other

    def __len__(self) -> int:
        return len(self._engine.store)

    def __contains__(self, key: Any) -> bool:
        """Is there a code with this id?"""
        if isinstance(key, (bool, np.bool_)) or not isinstance(key, (int, np.integer)):
            return False
        if not 0 <= key < 2**63:
            return False
        return bool(self._engine.store.find(np.array([key], np.int64))[1][0])

    def __iter__(self) -> Iterator[int]:
        """The ids, ascending, as they are when the iteration begins."""
        return iter(self.ids.tolist())

    def __repr__(self) -> str:
        return f"HammingIndex(n_bits={self.n_bits or None}, {len(self)} codes)"

    @property
    def n_bits(self) -> int:
        """Length of a code; 0 while neither the constructor nor a code has told it."""
        return self._engine.store.n_bits

    @property
    def model(self) -> str | None:
        """The digest of the model that made the codes, if it was given."""
        return self._engine.store.metadata.get("model")

    @model.setter
    def model(self, digest: str | None) -> None:
        store = self._engine.store
        store.metadata = {**store.metadata, "model": digest}

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, ascending."""
        store = self._engine.store
        return store.ids_at(np.arange(len(store)))

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

        Examples
        --------
        >>> HammingIndex().add(np.zeros((2, 4), np.uint8), ids=[5, 3]).ids
        array([3, 5])
        """
        return self._change(lambda store: store.added(_packed(codes, store), ids), codes)

    def upsert(self, codes: ArrayLike, ids: ArrayLike) -> Self:
        """Add codes, in the place of those that have the same ids. All codes are copied, unless all ids are above.

        Parameters
        ----------
        codes : array of shape (n, ceil(n_bits / 8)), uint8
            Packed codes.
        ids : array of shape (n,), integers >= 0
            Each only once.

        Examples
        --------
        >>> index = HammingIndex().add(np.array([[1], [2]], np.uint8))
        >>> index.upsert(np.array([[7], [8]], np.uint8), ids=[1, 2]).codes().ravel()
        array([1, 7, 8], dtype=uint8)
        """
        return self._change(lambda store: store.upserted(_packed(codes, store), ids), codes)

    def remove(self, ids: ArrayLike) -> Self:
        """Remove the codes with these ids, by a copy of the others; raises, and removes none, if one is not there."""
        return self._change(lambda store: store.removed(ids))

    def copy(self) -> Self:
        """Another index with the same codes, at no cost: both share them until one is changed.

        Examples
        --------
        >>> index = HammingIndex().add(np.array([[1], [2]], np.uint8))
        >>> len(index.copy().remove([0])), len(index)
        (1, 2)
        """
        return copy.copy(self)

    def codes(self, ids: ArrayLike | None = None) -> NDArray[np.uint8]:
        """Read packed codes back, in the order of the ids given, or all in the order of :attr:`ids`."""
        store = self._engine.store
        positions = np.arange(len(store)) if ids is None else store.positions_of(ids)
        return store.codes_at(positions)

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
        codes = _packed(queries, engine.store, "queries")
        engine, method = _restricted(engine, subset, method)
        k = _check_k(k, len(engine.store))
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
        """All codes at distance ``radius`` or less of each query, nearest first, ties by the lowest id.

        See :meth:`search` for the other arguments. The result holds 12 bytes per hit, however many there are.
        """
        engine = self._engine
        codes = _packed(queries, engine.store, "queries")
        radius = _check_radius(radius, engine.store)
        engine, method = _restricted(engine, subset, method)
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

        Examples
        --------
        >>> index = HammingIndex(n_bits=8).add(np.array([[1], [7], [3]], dtype=np.uint8))
        >>> [(pairs.first, pairs.second, pairs.distances) for pairs in index.pairs_within(radius=1)]
        [(array([0, 1]), array([2, 2]), array([1, 1], dtype=int32))]
        """
        engine = self._engine
        return _pairs(engine, _check_radius(radius, engine.store), _check_method(method), check_n_jobs(n_jobs))

    def save(self, path: str | Path) -> None:
        """Write codes, ids and the model's digest to a file (customary suffix ``.hli``); tables are not kept.

        The file is written beside ``path`` and renamed: an earlier file there stays whole until the new one is. A
        process killed meanwhile leaves a hidden ``.hashlearn-tmp`` file, which can be deleted.
        """
        store = self._engine.store
        if not store.n_bits:
            raise ValueError("the index must have codes to be saved, or be made with n_bits")
        write_store(store, path)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Map a saved index into memory: nothing is copied, whatever its size.

        The header and the file's size are checked at once, and the checksum of the codes on their first use (or by
        :meth:`verify`); a file that was truncated, edited or damaged raises ValueError. Adding or removing
        codes copies them into memory; the file changes only by :meth:`save`.
        """
        store = read_store(path)
        if store.layout != word_layout(store.n_bits) or store.corrected:
            raise ValueError(f"{path}: an index of another kind, not of codes for Hamming distances")
        index = cls.__new__(cls)
        index._begin(Engine(store))
        return index

    def verify(self) -> Self:
        """Compare the codes of an opened file with their checksum now instead of on first use."""
        self._engine.store.verify()
        return self

    def _change(self, change: Callable[[CodeStore], CodeStore], codes: ArrayLike | None = None) -> Self:
        """Put what the change makes of the store in its place; the codes tell how long a code is, if nothing has."""
        with self._changing:
            store = self._engine.store
            if codes is not None and not store.n_bits:
                store = CodeStore.empty(_bits_of(codes), metadata=store.metadata)
            changed = change(store)
            if changed is not self._engine.store:
                self._engine = Engine(changed)
        return self


def _packed(codes: ArrayLike, store: CodeStore, name: str = "codes") -> NDArray[np.uint8]:
    return check_codes(codes, store.n_bits or _bits_of(codes, name), name)


def _bits_of(codes: ArrayLike, name: str = "codes") -> int:
    """All the bits that codes have room for."""
    shape = np.shape(codes)
    if len(shape) != 2 or not 1 <= shape[1] <= MAX_BITS // 8:
        raise ValueError(f"{name} must have shape (n, 1 to {MAX_BITS // 8}), got {shape}")
    return 8 * shape[1]


def _restricted(engine: Engine, subset: ArrayLike | None, method: str) -> tuple[Engine, SearchMethod]:
    """The engine for all codes or for some, and how it is to search."""
    checked = _check_method(method)
    if subset is None:
        return engine, checked
    store = engine.store
    chosen = plain_array(subset, "subset")
    if chosen.dtype == np.bool_:
        if chosen.shape != (len(store),):
            raise ValueError(f"subset must have shape ({len(store)},) as a mask, got {chosen.shape}")
        positions = np.flatnonzero(chosen)
    else:
        positions = np.unique(store.positions_of(chosen, "subset"))
    return Engine(store.subset(positions)), "flat"


def _check_radius(radius: Any, store: CodeStore) -> int:
    return min(check_integer("radius", radius, low=0), store.n_bits)


def _check_k(k: Any, n_codes: int) -> int:
    k = check_integer("k", k, low=1)
    most = max(n_codes, MOST_EMPTY_PLACES)
    if k > most:
        raise ValueError(f"k must be at most {most} among {n_codes} codes, got {k}")
    return k


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


def _check_method(method: str) -> SearchMethod:
    return cast(SearchMethod, check_choice("method", method, SEARCH_METHODS))


def _neighbors(store: CodeStore, keys: Keys, k: int) -> Neighbors:
    """Keys of shape (n_queries, <= k) as a result of k columns."""
    distances, ids = (keys >> POSITION_BITS).astype(np.int32), store.ids_at(keys & POSITION_MASK)
    if keys.shape[1] < k:
        empty = ((0, 0), (0, k - keys.shape[1]))
        distances = np.pad(distances, empty, constant_values=NO_DISTANCE)
        ids = np.pad(ids, empty, constant_values=NO_ID)
    return Neighbors(distances, ids)
