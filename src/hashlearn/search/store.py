"""The codes of an index, in tiles, and their ids.

Codes are kept in the order of their ids. So ties by the lowest position are ties by the lowest id, a code is found
from its id by bisection, and running numbers need no memory: ``ids`` is None while the id of a code is its position.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import bytes_per_code
from hashlearn.search.kernels.tiles import (
    TILE,
    Words,
    empty_tiles,
    n_tiles,
    read_tiles,
    tile_words,
    word_layout,
    write_tiles,
)

_BLOCK = 65536  # codes moved at a time
_GROWTH = 1.125  # of the room, where codes are added little by little


class CodeStore:
    """Codes of ``n_bits`` bits by position; see :class:`hashlearn.search.HammingIndex` for the outside.

    Parameters
    ----------
    n_bits : int
    tiles, n_codes, ids, next_id
        What :func:`hashlearn.search.file_format.read_store` has found in a file; read-only arrays are copied before a
        change.
    check : callable or None
        Called once, before the codes or ids are used for the first time.
    """

    def __init__(
        self,
        n_bits: int,
        tiles: Words | None = None,
        n_codes: int = 0,
        ids: NDArray[np.int64] | None = None,
        next_id: int = 0,
        check: Callable[[], None] | None = None,
    ):
        self.n_bits = n_bits
        self.n_codes = n_codes
        self.next_id = next_id
        self._tiles = empty_tiles(0, n_bits) if tiles is None else tiles
        self._ids = ids
        self._check = check
        self.model: str | None = None
        self._dtype, self._n_words = word_layout(n_bits)

    def __len__(self) -> int:
        return self.n_codes

    @property
    def tiles(self) -> Words:
        """The codes, as :mod:`hashlearn.search.kernels.tiles` lays them out; there may be more room than codes."""
        self.verify()
        return self._tiles

    @property
    def ids(self) -> NDArray[np.int64] | None:
        """The ids, ascending, or None where they are the positions."""
        self.verify()
        return None if self._ids is None else self._ids[: self.n_codes]

    @property
    def nbytes(self) -> int:
        return self._tiles.nbytes + (0 if self._ids is None else self._ids.nbytes)

    def verify(self) -> None:
        """Run the check that is still owed, if any."""
        if self._check is not None:
            self._check()
            self._check = None

    def words_of(self, codes: NDArray[np.uint8]) -> Words:
        """Packed codes as words of the tiles' type, of shape (n, n_words)."""
        return tile_words(codes, self.n_bits)

    def words_at(self, positions: NDArray[np.int64]) -> Words:
        words = np.empty((len(positions), self._n_words), self._dtype)
        read_tiles(self.tiles, positions, words)
        return words

    def codes_at(self, positions: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Packed codes, of shape (n, n_bytes)."""
        words = self.words_at(positions)
        as_bytes = words.view(np.uint8).reshape(len(words), self._n_words * self._dtype.itemsize)
        return np.ascontiguousarray(as_bytes[:, : bytes_per_code(self.n_bits)])

    def ids_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        ids = self.ids
        return positions if ids is None else ids[positions]

    def positions_of(self, ids: ArrayLike, name: str = "ids") -> NDArray[np.int64]:
        """Where the codes with these ids are; raises if one is not there."""
        wanted = check_ids(ids, name)
        positions, known = self._find(wanted)
        if not known.all():
            raise ValueError(f"{name} must be in the index, got {wanted[~known][0]}, which is not")
        return positions

    def append(self, codes: NDArray[np.uint8], ids: ArrayLike | None) -> None:
        """Add packed codes; nothing changes if the ids are refused."""
        if ids is None:
            new_ids = np.arange(self.next_id, self.next_id + len(codes), dtype=np.int64)
        else:
            new_ids = check_ids(ids, "ids", len(codes))
            self._refuse_known(new_ids)
        if not len(codes):
            return
        old = self.n_codes
        running = self.ids is None and new_ids[0] == old and new_ids[-1] == old + len(codes) - 1
        running = running and bool(np.all(np.diff(new_ids) == 1))
        if not running:
            self._make_ids_explicit()
        self._reserve(old + len(codes))
        write_tiles(self._tiles, old, self.words_of(codes))
        if self._ids is not None:
            self._ids[old : old + len(codes)] = new_ids
        self.n_codes += len(codes)
        self.next_id = max(self.next_id, int(new_ids.max()) + 1)
        if self._ids is not None and np.any(np.diff(self._ids[max(0, old - 1) : self.n_codes]) < 0):
            self._keep(np.argsort(self._ids[: self.n_codes], kind="stable"))

    def remove(self, positions: NDArray[np.int64]) -> None:
        if not len(positions):
            return
        kept = np.ones(self.n_codes, np.bool_)
        kept[positions] = False
        self.verify()
        self._make_ids_explicit()
        self._keep(np.flatnonzero(kept))

    def subset(self, positions: NDArray[np.int64]) -> "CodeStore":
        """A copy of some of the codes, in the order of the positions, which ascend; its ids are theirs."""
        return CodeStore(self.n_bits, self._gather(positions), len(positions), self.ids_at(positions), self.next_id)

    def _find(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        own = self.ids
        if own is None:
            return ids, (ids >= 0) & (ids < self.n_codes)
        positions = np.searchsorted(own, ids)
        known = positions < len(own)
        known[known] = own[positions[known]] == ids[known]
        return positions, known

    def _refuse_known(self, ids: NDArray[np.int64]) -> None:
        if len(ids) and ids.min() < 0:
            raise ValueError(f"ids must not be negative, got {ids.min()}")
        ascending = np.sort(ids)
        repeated = ascending[1:][ascending[1:] == ascending[:-1]]
        if not len(repeated):
            repeated = ids[self._find(ids)[1]]
        if len(repeated):
            raise ValueError(f"ids must be unique, got {repeated[0]} more than once or already in the index")

    def _make_ids_explicit(self) -> None:
        if self._ids is None:
            self._ids = np.arange(self.n_codes, dtype=np.int64)

    def _reserve(self, n_codes: int) -> None:
        """Room for so many codes that may be written to."""
        words_needed = n_tiles(n_codes) * TILE * self._n_words
        old = self.tiles
        if words_needed > old.size or not old.flags.writeable:
            used = n_tiles(self.n_codes) * TILE * self._n_words
            room = max(n_codes, int(self.n_codes * _GROWTH) if used else 0)
            self._tiles = empty_tiles(room, self.n_bits)
            self._tiles[:used] = old[:used]
        if self._ids is not None and (n_codes > self._ids.size or not self._ids.flags.writeable):
            ids = np.empty(max(n_codes, int(self.n_codes * _GROWTH)), np.int64)
            ids[: self.n_codes] = self._ids[: self.n_codes]
            self._ids = ids

    def _keep(self, order: NDArray[np.int64]) -> None:
        self._tiles = self._gather(order)
        if self._ids is not None:
            self._ids = self._ids[order]
        self.n_codes = len(order)

    def _gather(self, positions: NDArray[np.int64]) -> Words:
        tiles = empty_tiles(len(positions), self.n_bits)
        for start in range(0, len(positions), _BLOCK):
            write_tiles(tiles, start, self.words_at(positions[start : start + _BLOCK]))
        return tiles


def check_ids(ids: ArrayLike, name: str, n_wanted: int | None = None) -> NDArray[np.int64]:
    """Return ids as int64 of shape (n,), or raise naming the argument."""
    array = np.asarray(ids)
    if array.ndim != 1:
        raise ValueError(f"{name} must be a list of ids, of shape (n,), got shape {array.shape}")
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} must be integers, got dtype {array.dtype}")
    if n_wanted is not None and len(array) != n_wanted:
        raise ValueError(f"{name} must be as many as the codes, got {len(array)} for {n_wanted}")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must fit in int64, got {array.max()}")
    return np.ascontiguousarray(array, dtype=np.int64)
