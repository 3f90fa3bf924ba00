"""What every index of codes does in the same way: keep them by id, change them, save them."""

import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer, plain_array
from hashlearn.codes import check_codes
from hashlearn.index.code_table import CodeTable
from hashlearn.index.file import read_store, write_store

MAX_BITS = 4096
MOST_EMPTY_PLACES = 65536  # of a result row, where k is above the number of codes


class SearchesStore(Protocol):
    """Whatever searches the codes of one store."""

    @property
    def store(self) -> CodeTable: ...


Engine = TypeVar("Engine", bound=SearchesStore)


class Pairs(NamedTuple):
    """Pairs of codes: ``first[p] < second[p]`` are ids, at distance ``distances[p]``."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    distances: NDArray[np.int32]


class CodeIndex(ABC, Generic[Engine]):
    """Codes by id; :class:`~hashlearn.HammingIndex` says what users rely on."""

    def __init__(self, n_bits: int | None = None, *, model: str | None = None):
        if model is not None and not isinstance(model, str):
            raise TypeError(f"model must be the digest of a model, a string, got {model!r}")
        length = 0 if n_bits is None else check_integer("n_bits", n_bits, low=1, high=MAX_BITS)
        self._begin(self._engine_of(self._empty_store(length, {} if model is None else {"model": model})))

    @abstractmethod
    def _empty_store(self, n_bits: int, metadata: Mapping[str, Any]) -> CodeTable:
        """A store laid out for this kind of index."""

    @abstractmethod
    def _engine_of(self, store: CodeTable) -> Engine:
        """What searches a store."""

    def _begin(self, engine: Engine) -> None:
        # All that a search needs hangs on this one reference, which a change replaces at its end.
        self._engine = engine
        # Reentrant, for a debugger that raises on the way out of a "with" leaves the lock to its thread.
        self._changing = threading.RLock()

    def __getstate__(self) -> CodeTable:
        return self._engine.store

    def __setstate__(self, store: CodeTable) -> None:
        self._begin(self._engine_of(store))

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
        return f"{type(self).__name__}(n_bits={self.n_bits or None}, {len(self)} codes)"

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
    def next_id(self) -> int:
        """One more than the largest id there has ever been."""
        return self._engine.store.next_id

    @property
    def nbytes(self) -> int:
        """Bytes of memory, or of the mapped file, that codes and ids take."""
        return self._engine.store.nbytes

    def find(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Look ids up.

        Parameters
        ----------
        ids : array of int64
            Ids that may be there or not.

        Returns
        -------
        places, known : int64 and bool arrays of shape (n,)
            Places in the order of :attr:`ids`, and which ids are there; the places of others mean nothing.
        """
        return self._engine.store.find(ids)

    def remove(self, ids: ArrayLike) -> Self:
        """Remove codes, by a copy of the others.

        Parameters
        ----------
        ids : array of int64
            If one is not there, ValueError is raised and none is removed.

        Returns
        -------
        CodeIndex
            This object.
        """
        return self._change(lambda store: store.removed(ids))

    def copy(self) -> Self:
        """Another index with the same codes, at no cost: both share them until one is changed.

        Returns
        -------
        CodeIndex
            Of the same class.
        """
        return copy.copy(self)

    def codes(self, ids: ArrayLike | None = None) -> NDArray[np.uint8]:
        """Read packed codes back.

        Parameters
        ----------
        ids : array of int64, or None
            Ids of codes in the index; None for all, in the order of :attr:`ids`.

        Returns
        -------
        ndarray of shape (n, ceil(n_bits / 8)), uint8
            Packed codes, in the order of the ids.
        """
        store = self._engine.store
        positions = np.arange(len(store)) if ids is None else store.positions_of(ids)
        return store.codes_at(positions)

    def save(self, path: str | Path) -> None:
        """Write codes, ids and the model's digest to a file (customary suffix ``.hli``); tables are not kept.

        The file is written beside ``path`` and renamed: an earlier file there stays whole until the new one is. A
        process killed meanwhile leaves a hidden ``.hashlearn-tmp`` file, which can be deleted.

        Parameters
        ----------
        path : str or Path
            The file.
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

        Parameters
        ----------
        path : str or Path
            A file that :meth:`save` of the same class wrote.

        Returns
        -------
        CodeIndex
            An index over the file.
        """
        store = read_store(path)
        try:
            cls._check_opened(store)
        except ValueError as wrong:
            raise ValueError(f"{path}: {wrong}") from None
        index = cls.__new__(cls)
        index._begin(index._engine_of(store))
        return index

    @classmethod
    @abstractmethod
    def _check_opened(cls, store: CodeTable) -> None:
        """Raise ValueError where a file holds codes of another kind."""

    def verify(self) -> Self:
        """Compare the codes of an opened file with their checksum now instead of on first use.

        Returns
        -------
        CodeIndex
            This object. ValueError is raised where the file was truncated, edited or damaged.
        """
        self._engine.store.verify()
        return self

    def _change(self, change: Callable[[CodeTable], CodeTable], codes: ArrayLike | None = None) -> Self:
        """Put what the change makes of the store in its place; the codes tell how long a code is, if nothing has."""
        with self._changing:
            store = self._engine.store
            if codes is not None and not store.n_bits:
                store = self._empty_store(_bits_of(codes), store.metadata)
            changed = change(store)
            if changed is not self._engine.store:
                self._engine = self._engine_of(changed)
        return self

    def _restricted(self, engine: Engine, subset: ArrayLike | None) -> Engine:
        """What searches the codes of a subset."""
        if subset is None:
            return engine
        store = engine.store
        chosen = plain_array(subset, "subset")
        if chosen.dtype == np.bool_:
            if chosen.shape != (len(store),):
                raise ValueError(f"subset must have shape ({len(store)},) as a mask, got {chosen.shape}")
            positions = np.flatnonzero(chosen)
        else:
            positions = np.unique(store.positions_of(chosen, "subset"))
        return self._engine_of(store.subset(positions))


def packed(codes: ArrayLike, store: CodeTable, name: str = "codes") -> NDArray[np.uint8]:
    """Packed codes as long as those of the store, or raise naming the argument."""
    return check_codes(codes, store.n_bits or _bits_of(codes, name), name)


def check_k(k: Any, n_codes: int) -> int:
    """``k`` as an int, not so large that a result would be mostly empty places."""
    k = check_integer("k", k, low=1)
    most = max(n_codes, MOST_EMPTY_PLACES)
    if k > most:
        raise ValueError(f"k must be at most {most} among {n_codes} codes, got {k}")
    return k


def _bits_of(codes: ArrayLike, name: str = "codes") -> int:
    """All the bits that codes have room for."""
    shape = np.shape(codes)
    if len(shape) != 2 or not 1 <= shape[1] <= MAX_BITS // 8:
        raise ValueError(f"{name} must have shape (n, 1 to {MAX_BITS // 8}), got {shape}")
    return 8 * shape[1]
