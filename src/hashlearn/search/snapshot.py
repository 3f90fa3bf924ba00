"""The rows of a search at one moment, as a reader holds them. A snapshot never changes; a change makes the next one."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import plain_array
from hashlearn.codes.results import NO_ID, Neighbors, RangeResult
from hashlearn.index import AsymmetricIndex, HammingIndex
from hashlearn.index.code_table import packed_mask, unpacked_mask, without_bits
from hashlearn.rows import RowBlocks
from hashlearn.search.catalog import Catalog, Facts
from hashlearn.search.columns import Columns, Facet, Histogram
from hashlearn.search.ids import Growing, IdColumn, Ids, given_ids
from hashlearn.search.lists import Covered, SearchLists, VectorsAt
from hashlearn.search.metric_hasher import Encoded, Index, MetricHasher
from hashlearn.search.nearest import Mask, Options, mean_sizes, nearest, nearest_to_codes, with_ids, within
from hashlearn.search.question import Question, answer, example
from hashlearn.search.results import NeighborsWithRows, Page, Record
from hashlearn.search.tune import Tuning, tune
from hashlearn.stores.base import IdType
from hashlearn.stores.filters import parse_filter


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Codes, ids and vectors of a search by place, the hasher they belong to, and the facts of the catalog.

    Attributes
    ----------
    hasher : MetricHasher
    index : HammingIndex or AsymmetricIndex
        Its ids are places. It is not to be changed.
    id_column : IdColumn or None
        By place; None while there has been no row.
    payload_sums : Growing, uint32
        By place; 0 for a row without a payload.
    alive : uint64 array
        A bit for every place whose row is there.
    facts : Facts
    columns : Columns
        Of the payloads; shared by the snapshots of the same places.
    vectors : VectorView, StoreVectors or None
        By place. A :class:`~hashlearn.search.rerank.Reader`.
    lists : SearchLists or None
        Where candidates are looked for if there are many rows; their rows are places.
    """

    hasher: MetricHasher
    index: Index
    id_column: IdColumn | None
    payload_sums: Growing
    alive: NDArray[np.uint64]
    facts: Facts
    columns: Columns
    vectors: Any = None
    lists: SearchLists | None = None

    @classmethod
    def empty(cls, hasher: MetricHasher, catalog: Catalog, facts: Facts) -> "Snapshot":
        """Without a row."""
        nothing, columns = Growing(np.empty(0, np.uint32)), Columns(catalog, facts.first_row)
        return cls(hasher, hasher.empty_index(), None, nothing, np.empty(0, np.uint64), facts, columns)

    def __len__(self) -> int:
        return self.facts.n_rows

    @property
    def first_row(self) -> int:
        """The row at place 0."""
        return self.facts.first_row

    @property
    def keeps_vectors(self) -> bool:
        """Are there vectors to order results by, or will there be with the first row?"""
        return self.vectors is not None or self.facts.keep_vectors is not None

    @cached_property
    def tuning(self) -> Tuning | None:
        return None if self.facts.tuning is None else Tuning.from_dict(self.facts.tuning)

    @property
    def n_places(self) -> int:
        return len(self.payload_sums.values)

    @property
    def id_type(self) -> IdType | None:
        """The kind of the ids; None where there are no rows, and so ids of any kind may come."""
        return self.id_column.id_type if self.id_column is not None and len(self) else None

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """The places whose rows are there, ascending."""
        return np.flatnonzero(self.is_alive)

    @property
    def is_alive(self) -> NDArray[np.bool_]:
        """For each place, whether its row is there."""
        return unpacked_mask(self.alive, self.n_places)

    @cached_property
    def places_by_id(self) -> NDArray[np.int64]:
        """The places whose rows are there, in the order of their ids."""
        ids = self.ids_at(self.places)
        ascending = ids.dtype != object and bool((np.diff(ids) > 0).all())
        return self.places if ascending else self.places[np.argsort(ids, kind="stable")]

    @property
    def ids(self) -> NDArray[Any]:
        """All ids, ascending."""
        return self.ids_at(self.places_by_id)

    def ids_at(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """The ids of places of any shape; -1 or None where the place is -1."""
        if self.id_column is None:
            return np.full(places.shape, NO_ID, np.int64)
        ids = self.id_column.ids
        if ids.numbers is None and places.size > len(ids) // 4:
            found = ids.all()[places]
            found[places < 0] = None
            return found
        return ids.at(places)

    def find(self, ids: Any) -> NDArray[np.int64]:
        """The places of ids that a user gives; -1 for those that are not there."""
        return self._find(given_ids(ids, self.id_type))

    def find_all(self, ids: Any, name: str = "ids") -> NDArray[np.int64]:
        """The places of ids, which must be there."""
        wanted = given_ids(ids, self.id_type, name)
        places = self._find(wanted)
        if (places < 0).any():
            missing = wanted[places < 0].tolist()[0]
            raise ValueError(f"{name} must be in the search, got {missing!r:.60}, which is not")
        return places

    def _find(self, wanted: NDArray[Any]) -> NDArray[np.int64]:
        if self.id_column is None or self.id_type is None or not len(wanted):
            return np.full(len(wanted), NO_ID, np.int64)
        return self.id_column.find(Ids.of(wanted), self.alive)

    def chosen(self, filter: Any, subset: ArrayLike | None) -> Mask:
        """Which places a search looks at; None for all. Removed rows may be among them."""
        condition = parse_filter(filter)
        mask = None if condition is None else self.columns.mask(condition, self.payload_sums.values)
        if subset is None:
            return mask
        wanted = plain_array(subset, "subset") if not isinstance(subset, (list, tuple)) else subset
        among = np.zeros(self.n_places, bool)
        if isinstance(wanted, np.ndarray) and wanted.dtype == np.bool_:
            if wanted.shape != (len(self),):
                raise ValueError(f"subset must have shape ({len(self)},) as a mask, got {wanted.shape}")
            among[self.places_by_id[wanted]] = True
        else:
            among[self.find_all(wanted, "subset")] = True
        return among if mask is None else among & mask

    def looked_at(self, mask: Mask) -> NDArray[np.int64]:
        """The places of a mask whose rows are there, ascending."""
        if mask is None:
            return self.places
        return np.flatnonzero(unpacked_mask(self.alive & packed_mask(mask), self.n_places))

    def rows_meeting(self, filter: Any) -> NDArray[np.int64]:
        """The places of the rows that meet a filter, ascending."""
        return self.looked_at(self.chosen(filter, None))

    def covered(self) -> Covered:
        """The lists, with all but a few of the rows."""
        assert self.lists is not None
        return self.lists.covering(lambda: self.places, self.n_places, self.vectors_at)

    @cached_property
    def mean_sizes(self) -> NDArray[np.float32]:
        """The mean absolute score of each bit."""
        return mean_sizes(self)

    @property
    def encoded(self) -> Encoded:
        """What is kept of the rows that are there, in the order of their places."""
        corrections = self.index.corrections if isinstance(self.index, AsymmetricIndex) else None
        return Encoded(self.index.codes(), corrections)

    @cached_property
    def real_index(self) -> AsymmetricIndex:
        """The codes as real queries are compared with them; a copy where queries have codes otherwise."""
        if isinstance(self.index, AsymmetricIndex):
            return self.index
        return AsymmetricIndex(self.hasher.n_bits).add(self.index.codes(self.places), ids=self.places)

    def vectors_at(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The kept vectors of places, in their order; each is read once."""
        unique, order = np.unique(places, return_inverse=True)
        self.vectors.expect(unique)
        return self.vectors.read(unique)[order]

    # -- reading ----------------------------------------------------------------------------------------------------

    def __contains__(self, id: Any) -> bool:
        is_text = isinstance(id, str)
        if not is_text and (isinstance(id, (bool, np.bool_)) or not isinstance(id, (int, np.integer))):
            return False
        if self.id_type != ("str" if is_text else "int64") or (not is_text and not 0 <= id < 2**63):
            return False
        try:
            return bool(self.find([id])[0] >= 0)
        except ValueError:  # no id can be like this
            return False

    def codes(self, ids: Any) -> NDArray[np.uint8]:
        """The packed codes of ids; None for all, in the order of :attr:`ids`."""
        return self.index.codes(self.places_by_id if ids is None else self.find_all(ids))

    def get(self, ids: Any) -> list[Record]:
        places = self.find(ids)
        return self.records(places[places >= 0])

    def records(self, places: NDArray[np.int64]) -> list[Record]:
        """The rows at places, with all that is kept of them."""
        payloads, codes = self.payloads_at(places), self.index.codes(places)
        vectors: Any = [None] * len(places)
        if self.vectors is not None and len(places):
            vectors = self.vectors_at(places)
        return [Record(*row) for row in zip(self.ids_at(places).tolist(), codes, payloads, vectors)]

    def payloads(self, ids: Any) -> list[dict[str, Any] | None]:
        places = self.find(ids)
        found = iter(self.payloads_at(places[places >= 0]))
        return [next(found) if place >= 0 else None for place in places.tolist()]

    def payloads_at(self, places: NDArray[np.int64]) -> list[dict[str, Any]]:
        texts = self.columns.catalog.payloads(
            (self.first_row + places).tolist(), self.payload_sums.values[places].tolist()
        )
        return [json.loads(text) if text else {} for text in texts]

    def count(self, filter: Any) -> int:
        return len(self.rows_meeting(filter))

    def matching(self, filter: Any) -> NDArray[np.bool_]:
        mask = self.chosen(filter, None)
        return np.ones(len(self), bool) if mask is None else mask[self.places_by_id]

    def facets(self, field: str, filter: Any, subset: Any, limit: int | None) -> list[Facet]:
        return self.columns.counts(field, self._is_chosen(filter, subset), self.payload_sums.values, limit)

    def histogram(self, field: str, filter: Any, subset: Any, n_bins: int) -> Histogram:
        return self.columns.histogram(field, self._is_chosen(filter, subset), self.payload_sums.values, n_bins)

    def _is_chosen(self, filter: Any, subset: Any) -> NDArray[np.bool_]:
        """For each place, whether its row is there and meets the filter and the subset."""
        mask = self.chosen(filter, subset)
        return self.is_alive if mask is None else self.is_alive & mask

    def scroll(self, filter: Any, limit: int, after: str | None) -> Page:
        places = self.rows_meeting(filter)
        if after is not None:
            first, _, row = str(after).partition("-")
            if first != str(self.first_row) or not row.isdecimal():
                raise ValueError("after must be of a page of this search since it was last compacted; begin again")
            places = places[np.searchsorted(places, int(row) - self.first_row, side="right") :]
        page = places[:limit]
        last = None if len(places) <= limit else f"{self.first_row}-{self.first_row + int(page[-1])}"
        return Page(self.records(page), last)

    # -- searching --------------------------------------------------------------------------------------------------

    def search(self, X: Any, k: int, options: Options, include: Collection[str] = ()) -> Neighbors:
        """The k nearest rows of each query, with those of their payloads and vectors that ``include`` names."""
        found = nearest(self, X, k, options, self.chosen(options.filter, options.subset))
        return self._named(found, include)

    def search_codes(self, codes: ArrayLike, k: int, options: Options) -> Neighbors:
        """The k nearest rows of each packed code."""
        mask = self.chosen(options.filter, options.subset)
        found = nearest_to_codes(self, codes, k, mask, options.n_jobs)
        return with_ids(found, self.ids_at(found.ids))

    def ask(self, question: Question, k: int, options: Options, include: Collection[str]) -> Neighbors:
        """As :meth:`search`, by words, by meaning or by both, with the parts of each in the scores."""
        if question.like is not None:
            question = self._like(question)
        found, parts = answer(self, question, k, options)
        return self._named(found, include, parts)

    def within(self, X: Any, distance: float, options: Options) -> RangeResult:
        """All rows within a distance of each query."""
        found = within(self, X, distance, options, self.chosen(options.filter, options.subset))
        return RangeResult(found.offsets, found.distances, self.ids_at(found.ids))

    def _like(self, question: Question) -> Question:
        """The same question with the vector or code, and the words, of the rows that it names."""
        X, codes = example(self, question.like, question.unlike)
        field = self.facts.text_field or ""
        texts = [payload.get(field) for payload in self.payloads_at(self.find_all(question.like, "like"))]
        text = " ".join(text for text in texts if isinstance(text, str))
        return question._replace(X=X, codes=codes, texts=[text])

    def _named(self, found: Neighbors, include: Collection[str], parts: dict[str, NDArray] | None = None) -> Neighbors:
        """What was found, with ids in the place of places, and all that is told beside them."""
        if not include and parts is None:
            return with_ids(found, self.ids_at(found.ids))
        there = found.ids >= 0
        places = found.ids[there]
        payloads = vectors = None
        if "payload" in include:
            each = iter(self.payloads_at(places))
            payloads = [[next(each) if known else None for known in row] for row in there.tolist()]
        if "vector" in include and self.vectors is not None:
            vectors = np.full((*found.ids.shape, self.vectors.n_features), np.nan, np.float32)
            vectors[there] = self.vectors_at(places)
        return NeighborsWithRows.of(found, self.ids_at(found.ids), payloads, vectors, parts)

    def warm(self) -> None:
        """Prepare what the first search would wait for."""
        if len(self):
            if isinstance(self.index, HammingIndex):
                self.index.prepare()
            row = np.zeros((1, self.hasher.n_features), np.float32)
            for X in (row, row.astype(np.float64)):
                self.search(X, min(10, len(self)), Options())

    def tune(self, queries: Any, k: int, target_recall: float, other_n_bits: Iterable[int] | None = None) -> Tuning:
        """How many candidates a recall needs."""
        if not self.keeps_vectors:
            raise ValueError("tune needs vectors to compare with; make the search with keep_vectors='float32'")
        if len(self) < 2:
            raise ValueError(f"search must hold at least 2 vectors to be tuned, got {len(self)}")
        view = _ByPosition(self)
        return tune(view, queries, k, target_recall, vectors=view.rows, other_n_bits=other_n_bits)

    # -- other rows -------------------------------------------------------------------------------------------------

    def without(self, places: NDArray[np.int64], **facts: Any) -> "Snapshot":
        """Without the rows at distinct places, and with other facts."""
        if not len(places):
            return self
        alive, index = without_bits(self.alive, places), self.index.copy().remove(places)
        left = self.facts._replace(n_rows=len(self) - len(places), **facts)
        return replace(self, alive=alive, index=index, facts=left)


class _ByPosition:
    """A snapshot for tuning: rows are numbered without the removed ones."""

    def __init__(self, snapshot: Snapshot):
        self._snapshot = snapshot
        self.hasher, self.metric = snapshot.hasher.hasher, snapshot.hasher.metric
        self.ids = np.arange(len(snapshot))
        self.rows = RowBlocks(VectorsAt(snapshot.places, snapshot.vectors.n_features, snapshot.vectors_at))

    def search(self, X: Any, k: int, *, candidates: int, rerank: Any) -> Neighbors:
        """The k nearest by kept vectors, which are those of ``rerank``."""
        found = nearest(self._snapshot, X, k, Options(candidates=candidates), None)
        positions = np.searchsorted(self._snapshot.places, found.ids)
        return Neighbors(found.distances, np.where(found.ids < 0, found.ids, positions))
