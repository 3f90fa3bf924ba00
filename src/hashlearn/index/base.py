"""What every index of codes does in the same way: keep them by id, change them, save them."""

import copy
from abc import ABC
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer, plain_array
from hashlearn.codes import check_codes
from hashlearn.codes.results import NO_ID, Neighbors, RangeResult
from hashlearn.durable.files import replacing
from hashlearn.index.choose import Shown
from hashlearn.index.code_table import CodeTable, Segment, packed_mask, thread_lock, unpacked_mask
from hashlearn.index.file import read_table, write_table
from hashlearn.index.kernels.scan import QUERIES_PER_BLOCK

MAX_BITS = 4096
MOST_EMPTY_PLACES = 65536  # of a result row, where k is above the number of codes
_COPY_COST = 32  # to copy a code, in comparisons of a code with a query


class SearchesSegment(Protocol):
    """Whatever searches the codes of one segment."""

    @property
    def segment(self) -> Segment: ...


Engine = TypeVar("Engine", bound=SearchesSegment)


class View(NamedTuple, Generic[Engine]):
    """The codes that one search looks at.

    Attributes
    ----------
    table : CodeTable
    engines : tuple
        What searches each segment of the table.
    shown : tuple of Shown
        Which codes of each segment the search looks at.
    """

    table: CodeTable
    engines: tuple[Engine, ...]
    shown: tuple[Shown, ...]

    def parts(self) -> list[tuple[Engine, Shown]]:
        """What searches each segment that has codes to look at, and which they are."""
        return [part for part in zip(self.engines, self.shown) if part[1].n_shown]


class Pairs(NamedTuple):
    """Pairs of codes: ``first[p] < second[p]`` are ids, at distance ``distances[p]``."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    distances: NDArray[np.int32]


class CodeIndex(ABC, Generic[Engine]):
    """Codes by id; :class:`~hashlearn.HammingIndex` says what users rely on.

    Attributes
    ----------
    view : View
        All codes. A search needs this one reference alone, which a change replaces at its end.
    """

    _layout: ClassVar[Any]
    """How codes lie in memory: a function from their bits to a layout."""
    _engine: ClassVar[type[Any]]
    """What searches a segment."""
    _purpose: ClassVar[str]
    _takes_corrections: ClassVar[bool] = False
    _most_bits: ClassVar[int] = MAX_BITS

    def __init__(self, n_bits: int | None = None, *, model: str | None = None):
        if model is not None and not isinstance(model, str):
            raise TypeError(f"model must be the digest of a model, a string, got {model!r}")
        length = 0 if n_bits is None else check_integer("n_bits", n_bits, low=1, high=self._most_bits)
        metadata = {} if model is None else {"model": model}
        self._begin(self._whole(CodeTable.empty(length, self._layout(length or 1), metadata=metadata)))

    def _begin(self, view: View[Engine]) -> None:
        self.view = view
        # Reentrant: an exception inside __exit__ must not deadlock this thread.
        self._changing = thread_lock()

    def __getstate__(self) -> CodeTable:
        return self.view.table

    def __setstate__(self, table: CodeTable) -> None:
        self._begin(self._whole(table))

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other._begin(self.view)
        return other

    def __len__(self) -> int:
        return len(self.view.table)

    def __contains__(self, key: Any) -> bool:
        """Is there a code with this id?"""
        if isinstance(key, (bool, np.bool_)) or not isinstance(key, (int, np.integer)):
            return False
        if not 0 <= key < 2**63:
            return False
        return bool(self.view.table.find(np.array([key], np.int64))[2][0])

    def __iter__(self) -> Iterator[int]:
        """The ids, ascending, as they are when the iteration begins."""
        return iter(self.ids.tolist())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_bits={self.n_bits or None}, {len(self)} codes)"

    @property
    def n_bits(self) -> int:
        """Length of a code; 0 while neither the constructor nor a code has told it."""
        return self.view.table.n_bits

    @property
    def model(self) -> str | None:
        """The digest of the model that made the codes, if it was given."""
        return self.view.table.metadata.get("model")

    @model.setter
    def model(self, digest: str | None) -> None:
        self._change(lambda table: table.with_metadata({**table.metadata, "model": digest}))

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, ascending."""
        return self.view.table.live_ids()

    @property
    def next_id(self) -> int:
        """One more than the largest id there has ever been."""
        return self.view.table.next_id

    @property
    def nbytes(self) -> int:
        """Bytes of memory, or of the mapped file, that codes and ids take."""
        return self.view.table.nbytes

    def remove(self, ids: ArrayLike) -> Self:
        """Remove codes. They are marked, and all codes are copied once half of them are removed.

        Parameters
        ----------
        ids : array of int64
            If one is not there, ValueError is raised and none is removed.

        Returns
        -------
        CodeIndex
            This object.
        """
        return self._change(lambda table: table.removed(ids))

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
        table = self.view.table
        return table.live().codes if ids is None else table.codes_of(ids)

    def save(self, path: str | Path) -> None:
        """Write codes, ids and the model's digest to a file (customary suffix ``.hli``); tables are not kept.

        The file is written beside ``path`` and renamed: an earlier file there stays whole until the new one is. A
        process killed meanwhile leaves a hidden ``.hashlearn-tmp`` file, which can be deleted.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        table = self.view.table
        if not table.n_bits:
            raise ValueError("the index must have codes to be saved, or be made with n_bits")
        with replacing(path) as (beside,), beside.open("wb") as file:
            write_table(table, file)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Map a saved index into memory: nothing is copied, whatever its size.

        The header and the file's size are checked at once, and the checksum of the codes on their first use (or by
        :meth:`verify`); a file that was truncated, edited or damaged raises ValueError. Codes that are
        added later are in memory, those removed are marked there; the file changes only by :meth:`save`.

        Parameters
        ----------
        path : str or Path
            A file that :meth:`save` of the same class wrote.

        Returns
        -------
        CodeIndex
            An index over the file.
        """
        table = read_table(path)
        if table.layout != cls._layout(table.n_bits) or (table.corrected and not cls._takes_corrections):
            raise ValueError(f"{path}: an index of another kind, not of codes for {cls._purpose}")
        index = cls.__new__(cls)
        index._begin(index._whole(table))
        return index

    def verify(self) -> Self:
        """Compare the codes of an opened file with their checksum now instead of on first use.

        Returns
        -------
        CodeIndex
            This object. ValueError is raised where the file was truncated, edited or damaged.
        """
        self.view.table.verify()
        return self

    def _change(self, change: Callable[[CodeTable], CodeTable], codes: ArrayLike | None = None) -> Self:
        """Put what the change makes of the table in its place; the codes tell how long a code is, if nothing has."""
        with self._changing:
            table = self.view.table
            if codes is not None and not table.n_bits:
                n_bits = _bits_of(codes, self._most_bits)
                table = CodeTable.empty(n_bits, self._layout(n_bits), metadata=table.metadata)
            changed = change(table)
            if changed is not self.view.table:
                self.view = self._whole(changed, self.view.engines)
        return self

    def _whole(self, table: CodeTable, before: tuple[Engine, ...] = ()) -> View[Engine]:
        """All codes of a table; what was learned of those that were there before is kept."""
        engines = []
        for segment in table.segments:
            known = [engine for engine in before if engine.segment.has_codes_of(segment)]
            engines.append(known[0] if known else self._engine(segment))
        shown = [Shown(segment.alive, len(segment) - segment.n_removed) for segment in table.segments]
        return View(table, tuple(engines), tuple(shown))

    def _looked_at(self, subset: ArrayLike | None, n_queries: int) -> View[Engine]:
        """The codes of a subset, or all of them."""
        view = self.view
        if subset is None:
            return view
        masks = _masks(view.table, subset)
        counts = [int(np.count_nonzero(mask)) for mask in masks]
        if sum(counts) * (_COPY_COST + n_queries) < n_queries * sum(map(len, masks)):
            return self._whole(view.table.subset([np.flatnonzero(mask) for mask in masks]))
        return view._replace(shown=tuple(Shown(packed_mask(mask), n, True) for mask, n in zip(masks, counts)))


def nearest_of(parts: list[Neighbors], k: int, *, in_order: bool) -> Neighbors:
    """The k nearest of what was found in several segments; ``in_order`` if ids of a later one are higher."""
    if len(parts) == 1:
        return parts[0]
    distances = np.concatenate([part.distances for part in parts], axis=1)
    ids = np.concatenate([part.ids for part in parts], axis=1)
    if in_order:
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    else:
        order = np.lexsort((ids, distances), axis=1)[:, :k]
    return Neighbors(np.take_along_axis(distances, order, axis=1), np.take_along_axis(ids, order, axis=1))


def filled_up(found: Neighbors, k: int, nothing: float) -> Neighbors:
    """A result of k columns; places that nothing fills have this distance and id -1."""
    missing = k - found.ids.shape[1]
    if not missing:
        return found
    empty = ((0, 0), (0, missing))
    distances: Any = np.pad(found.distances, empty, constant_values=nothing)
    return Neighbors(distances, np.pad(found.ids, empty, constant_values=NO_ID))


def found_in_blocks(
    n_queries: int, found: Callable[[slice], tuple[NDArray, NDArray, NDArray]], distance_type: type
) -> RangeResult:
    """The hits of all queries. ``found`` gives those of some: their queries, ascending from 0, distances and ids."""
    counts = np.zeros(n_queries, np.int64)
    distances: list[NDArray] = [np.empty(0, distance_type)]
    ids: list[NDArray] = [np.empty(0, np.int64)]
    for start in range(0, n_queries, QUERIES_PER_BLOCK):
        part = slice(start, start + QUERIES_PER_BLOCK)
        queries, near, named = found(part)
        counts[part] = np.bincount(queries, minlength=len(counts[part]))
        distances.append(near.astype(distance_type, copy=False))
        ids.append(named)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return RangeResult(offsets, np.concatenate(distances), np.concatenate(ids))


def joined_ranges(parts: list[RangeResult], *, in_order: bool) -> RangeResult:
    """What was found in several segments, nearest first, ties by the lowest id."""
    if len(parts) == 1:
        return parts[0]
    counts = np.stack([np.diff(part.offsets) for part in parts])
    queries = np.concatenate([np.repeat(np.arange(counts.shape[1]), count) for count in counts])
    distances, ids = (np.concatenate([getattr(part, name) for part in parts]) for name in ("distances", "ids"))
    keys = (distances, queries) if in_order else (ids, distances, queries)
    order = np.lexsort(keys)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts.sum(axis=0))])
    return RangeResult(offsets, distances[order], ids[order])


def _masks(table: CodeTable, subset: ArrayLike) -> list[NDArray[np.bool_]]:
    """For each segment, which of its codes are in the subset and alive."""
    chosen = plain_array(subset, "subset")
    if chosen.dtype == np.bool_:
        if chosen.shape == (table.next_id,):
            return [_of_ids(segment, chosen) for segment in table.segments]
        if chosen.shape != (len(table),):
            raise ValueError(f"subset must have shape ({len(table)},) as a mask, got {chosen.shape}")
        chosen = table.live_ids()[chosen]
    where, positions = table.refuse_unknown(chosen, "subset")
    masks = [np.zeros(len(segment), bool) for segment in table.segments]
    for number, mask in enumerate(masks):
        mask[positions[where == number]] = True
    return masks


def _of_ids(segment: Segment, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which codes of a segment are chosen, by a mask with a place for every id."""
    ids = segment.ids
    mask = chosen[segment.first_id : segment.first_id + len(segment)] if ids is None else chosen[ids]
    return mask & unpacked_mask(segment.alive, len(segment)) if segment.n_removed else mask


def packed(codes: ArrayLike, table: CodeTable, name: str = "codes") -> NDArray[np.uint8]:
    """Packed codes as long as those of the table, or raise naming the argument."""
    return check_codes(codes, table.n_bits or _bits_of(codes, MAX_BITS, name), name)


def check_k(k: Any, n_codes: int) -> int:
    """``k`` as an int, not so large that a result would be mostly empty places."""
    k = check_integer("k", k, low=1)
    most = max(n_codes, MOST_EMPTY_PLACES)
    if k > most:
        raise ValueError(f"k must be at most {most} among {n_codes} codes, got {k}")
    return k


def _bits_of(codes: ArrayLike, most: int, name: str = "codes") -> int:
    """All the bits that codes have room for."""
    shape = np.shape(codes)
    if len(shape) != 2 or not 1 <= shape[1] <= most // 8:
        raise ValueError(f"{name} must have shape (n, 1 to {most // 8}), got {shape}")
    return 8 * shape[1]
