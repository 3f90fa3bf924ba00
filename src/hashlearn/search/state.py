"""What a similarity search holds at one moment. It never changes: a change makes another one."""

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import plain_array
from hashlearn.codes import Corrections
from hashlearn.codes.results import NO_ID, Neighbors, RangeResult
from hashlearn.index.asymmetric import AsymmetricIndex
from hashlearn.index.hamming import HammingIndex
from hashlearn.search.kept_vectors import KeptVectors, taken
from hashlearn.search.metric_hasher import MetricHasher
from hashlearn.search.row_columns import Names, Payloads, found_in
from hashlearn.search.tuning import Tuning
from hashlearn.stores.arguments import NO_PAYLOAD, check_ids
from hashlearn.stores.filters import matches, parse_filter

Index = HammingIndex | AsymmetricIndex
IdType = Literal["int64", "str"]
_MASKS_KEPT = 8


class NewRows(NamedTuple):
    """Rows to be put into a search; vectors are kept elsewhere.

    Attributes
    ----------
    ids : int64 array, or object array of strings, of shape (n,)
        Each only once.
    codes : ndarray of shape (n, n_bytes), uint8
    corrections : Corrections or None
    payloads : list of n JSON texts
    numbers : int64 array of shape (n,), or None
        What vectors of rows whose ids are strings are kept under; None takes the next.
    """

    ids: NDArray[Any]
    codes: NDArray[np.uint8]
    corrections: Corrections | None
    payloads: list[str]
    numbers: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class State:
    """Codes, ids, payloads and vectors of a search, and the hasher they belong to.

    Attributes
    ----------
    encoder : MetricHasher
    index : HammingIndex or AsymmetricIndex
        Its ids are those of the rows, or keys that stand for strings. It is not to be changed.
    names : Names or None
        Where ids are strings.
    payloads : Payloads or None
        None while no row has one.
    vectors : KeptVectors, StoreVectors or None
        A :class:`~hashlearn.search.pair_distances.Reader`.
    tuning : Tuning or None
    """

    encoder: MetricHasher
    index: Index
    names: Names | None = None
    payloads: Payloads | None = None
    vectors: Any = None
    tuning: Tuning | None = None
    _masks: dict[str, NDArray[np.bool_]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def empty(cls, encoder: MetricHasher) -> "State":
        kind = HammingIndex if encoder.query == "code" else AsymmetricIndex
        return cls(encoder, kind(encoder.n_bits))

    def __len__(self) -> int:
        return len(self.index)

    @property
    def id_type(self) -> IdType:
        return "int64" if self.names is None else "str"

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """Ids of the index, ascending."""
        return self.index.ids if self.names is None else self.names.keys

    @property
    def ids(self) -> NDArray[Any]:
        """Ids of the rows, ascending."""
        return self.keys.copy() if self.names is None else self.names.texts.copy()

    def find(self, ids: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where rows are, and which of them are there at all."""
        if not len(self):
            return np.zeros(len(ids), np.int64), np.zeros(len(ids), bool)
        return self.index.find(ids) if self.names is None else self.names.find(ids)

    def positions_of(self, ids: NDArray[Any], name: str = "ids") -> NDArray[np.int64]:
        positions, known = self.find(ids)
        if not known.all():
            raise ValueError(f"{name} must be in the search, got {ids[~known].tolist()[0]!r:.60}, which is not")
        return positions

    def numbers_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """What the vectors of rows are kept under."""
        return (self.keys if self.names is None else self.names.numbers)[positions]

    def payload_texts_at(self, positions: NDArray[np.int64]) -> list[str]:
        if self.payloads is None:
            return [NO_PAYLOAD] * len(positions)
        return self.payloads.texts[positions].tolist()

    def rows_at(self, positions: NDArray[np.int64]) -> NewRows:
        """Rows as they are, to be put into another state."""
        keys = self.keys[positions]
        ids = keys if self.names is None else self.names.texts[positions]
        corrections = None
        if isinstance(self.index, AsymmetricIndex) and self.index.corrections is not None:
            every = self.index.corrections
            corrections = every._replace(values=every.values[positions])
        numbers = None if self.names is None else self.names.numbers[positions]
        return NewRows(ids, self.index.codes(keys), corrections, self.payload_texts_at(positions), numbers)

    def upserted(self, rows: NewRows) -> "State":
        """With these rows, in place of those that have the same ids."""
        if not len(rows.ids):
            return self
        if self.names is None:
            return self._with_codes(rows, rows.ids, None)
        added = rows.ids[~self.names.find(rows.ids)[1]]
        names = self.names.added(added)
        positions = names.find(rows.ids)[0]
        if rows.numbers is not None:
            names = names.renumbered(positions, rows.numbers)
        return self._with_keys_of(names, added)._with_codes(rows, names.keys[positions], names)

    def removed(self, positions: NDArray[np.int64]) -> "State":
        """Without the rows at these positions, which ascend."""
        if not len(positions):
            return self
        return replace(
            self,
            index=self.index.copy().remove(self.keys[positions]),
            names=None if self.names is None else self.names.without(positions),
            payloads=None if self.payloads is None else self.payloads.without(positions),
        )

    def holds_the_same_as(self, other: "State") -> bool:
        """Whether ids, codes and payloads are the same."""
        every = np.arange(len(self))
        return (
            len(self) == len(other)
            and np.array_equal(self.ids, other.ids)
            and np.array_equal(self.index.codes(), other.index.codes())
            and self.payload_texts_at(every) == other.payload_texts_at(every)
        )

    def chosen(self, filter: Any, subset: ArrayLike | None) -> NDArray[np.bool_] | None:
        """Which rows a search looks at, as a mask in the order of the ids; None for all."""
        mask = None if filter is None else self._meeting(filter)
        if subset is None:
            return mask
        wanted = plain_array(subset, "subset") if not isinstance(subset, (list, tuple)) else subset
        if isinstance(wanted, np.ndarray) and wanted.dtype == np.bool_:
            if wanted.shape != (len(self),):
                raise ValueError(f"subset must have shape ({len(self)},) as a mask, got {wanted.shape}")
            among = wanted.copy()
        else:
            among = np.zeros(len(self), bool)
            among[self.positions_of(check_ids(wanted, self.id_type), "subset")] = True
        return among if mask is None else among & mask

    def named(self, found: Neighbors) -> Neighbors:
        """A result by keys as one by ids."""
        return found if self.names is None else Neighbors(found.distances, self.names.of_keys(found.ids))

    def named_range(self, found: RangeResult) -> RangeResult:
        if self.names is None:
            return found
        return RangeResult(found.offsets, found.distances, self.names.of_keys(found.ids))

    def vector_places(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the kept vectors of rows are, by their keys."""
        wanted = keys[keys != NO_ID]
        if not isinstance(self.vectors, KeptVectors):  # a store is asked by the ids that keys stand for
            return wanted
        if self.names is not None:
            wanted = self.names.numbers[np.searchsorted(self.names.keys, wanted)]
        return self.vectors.places_of(wanted)

    def vectors_at(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """The kept vectors of rows."""
        return taken(self.vectors, self.vector_places(self.keys[positions]))

    def _meeting(self, filter: Any) -> NDArray[np.bool_]:
        """Which rows meet a filter. It is remembered: filters come again."""
        condition = parse_filter(filter)
        name = repr(condition)
        known = self._masks.get(name)
        if known is not None:
            return known
        texts = self.payload_texts_at(np.arange(len(self)))
        mask = np.fromiter((matches(condition, json.loads(text)) for text in texts), bool, len(self))
        if len(self._masks) >= _MASKS_KEPT:
            self._masks.clear()
        self._masks[name] = mask
        return mask

    def _with_codes(self, rows: NewRows, keys: NDArray[np.int64], names: Names | None) -> "State":
        index = self.index.copy()
        if isinstance(index, AsymmetricIndex):
            index.upsert(rows.codes, keys, rows.corrections)
        else:
            index.upsert(rows.codes, keys)
        payloads = self.payloads
        if payloads is None and any(text != NO_PAYLOAD for text in rows.payloads):
            payloads = Payloads.none(len(self))
        if payloads is not None:
            positions, known = found_in(self.keys, keys)
            payloads = payloads.inserted(np.sort(positions[~known]))
            after = index.ids if names is None else names.keys
            payloads = payloads.replaced(np.searchsorted(after, keys), rows.payloads)
        return replace(self, index=index, names=names, payloads=payloads)

    def _with_keys_of(self, names: Names, added: NDArray[Any]) -> "State":
        """With the keys that these names, without those just added, give to the rows."""
        assert self.names is not None
        keys = np.delete(names.keys, names.find(added)[0])
        if np.array_equal(keys, self.names.keys):
            return self
        index = type(self.index)(self.index.n_bits, model=self.index.model)
        rows = self.rows_at(np.arange(len(self)))
        if isinstance(index, AsymmetricIndex):
            index.add(rows.codes, keys, rows.corrections)
        else:
            index.add(rows.codes, keys)
        return replace(self, index=index, names=self.names._replace(keys=keys))
