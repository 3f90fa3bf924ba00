"""The rows of a search at one moment, as a reader holds them. A snapshot never changes; a change makes the next one."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer, check_number, plain_array
from hashlearn.codes.results import NO_ID, Neighbors, RangeResult
from hashlearn.index import AsymmetricIndex, HammingIndex
from hashlearn.index.code_table import packed_mask, unpacked_mask
from hashlearn.index.partitioned import ProbedNeighbors, check_recall
from hashlearn.rows import RowBlocks, as_rows
from hashlearn.search.columns import Columns
from hashlearn.search.exact import nearest_vectors
from hashlearn.search.ids import Growing, IdColumn, Ids, given_ids
from hashlearn.search.lists import DEFAULT_RECALL, Covered, SearchLists, VectorsAt
from hashlearn.search.metric_hasher import MetricHasher
from hashlearn.search.rerank import nearest_candidates, rerank_asymmetric, rerank_exact, rerank_read
from hashlearn.search.tune import Tuning
from hashlearn.search.vectors import VectorView
from hashlearn.stores.base import IdType
from hashlearn.stores.filters import parse_filter

CANDIDATES_PER_RESULT = 4
CANDIDATES_WITHIN = 1000

Index = HammingIndex | AsymmetricIndex
Mask = NDArray[np.bool_] | None


class Options(NamedTuple):
    """How rows are searched; see :meth:`hashlearn.SimilaritySearch.search`."""

    rerank: Any = None
    candidates: int | None = None
    filter: dict | None = None
    subset: ArrayLike | None = None
    n_jobs: int | None = None
    recall: float | None = None


def empty_index(hasher: MetricHasher) -> Index:
    """An index without codes, of the kind that queries of a search are compared by."""
    return HammingIndex(hasher.n_bits) if hasher.query == "code" else AsymmetricIndex(hasher.n_bits)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Codes, ids and vectors of a search by place, and the hasher they belong to.

    Attributes
    ----------
    hasher : MetricHasher
    index : HammingIndex or AsymmetricIndex
        Its ids are places. It is not to be changed.
    ids : IdColumn or None
        None while there has been no row.
    payload_sums : Growing, uint32
        By place; 0 for a row without a payload.
    alive : uint64 array
        A bit for every place whose row is there.
    n_rows : int
    first_row : int
        The row at place 0.
    change : int
        The last change of the catalog that is in here.
    columns : Columns
        Of the payloads; shared by the snapshots of the same places.
    vectors : VectorView, StoreVectors or None
        By place. A :class:`~hashlearn.search.rerank.Reader`.
    tuning : Tuning or None
    lists : SearchLists or None
        Where candidates are looked for if there are many rows; their rows are places.
    """

    hasher: MetricHasher
    index: Index
    ids: IdColumn | None
    payload_sums: Growing
    alive: NDArray[np.uint64]
    n_rows: int
    first_row: int
    change: int
    columns: Columns
    vectors: Any = None
    tuning: Tuning | None = None
    lists: SearchLists | None = None

    def __len__(self) -> int:
        return self.n_rows

    @property
    def n_places(self) -> int:
        return len(self.payload_sums.values)

    @property
    def id_type(self) -> IdType | None:
        """The kind of the ids; None where there are no rows, and so ids of any kind may come."""
        return self.ids.id_type if self.ids is not None and self.n_rows else None

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """The places whose rows are there, ascending."""
        return np.flatnonzero(self.is_alive)

    @property
    def is_alive(self) -> NDArray[np.bool_]:
        """Is its row there, for every place?"""
        return unpacked_mask(self.alive, self.n_places)

    @cached_property
    def places_by_id(self) -> NDArray[np.int64]:
        """The places whose rows are there, in the order of their ids."""
        ids = self.ids_at(self.places)
        ascending = ids.dtype != object and bool((np.diff(ids) > 0).all())
        return self.places if ascending else self.places[np.argsort(ids, kind="stable")]

    @property
    def all_ids(self) -> NDArray[Any]:
        """All ids, ascending."""
        return self.ids_at(self.places_by_id)

    def ids_at(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """The ids of places of any shape; -1 or None where the place is -1."""
        if self.ids is None:
            return np.full(places.shape, NO_ID, np.int64)
        ids = self.ids.ids
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
        wanted = given_ids(ids, self.id_type)
        places = self._find(wanted)
        if (places < 0).any():
            missing = wanted[places < 0].tolist()[0]
            raise ValueError(f"{name} must be in the search, got {missing!r:.60}, which is not")
        return places

    def _find(self, wanted: NDArray[Any]) -> NDArray[np.int64]:
        if self.ids is None or self.id_type is None or not len(wanted):
            return np.full(len(wanted), NO_ID, np.int64)
        return self.ids.find(Ids.of(wanted), self.alive)

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

    def is_chosen(self, filter: Any, subset: ArrayLike | None) -> NDArray[np.bool_]:
        """Is its row there, and among those that are chosen, for every place?"""
        mask = self.chosen(filter, subset)
        return self.is_alive if mask is None else self.is_alive & mask

    def rows_meeting(self, filter: Any) -> NDArray[np.int64]:
        """The places of the rows that meet a filter, ascending."""
        return self._looked_at(self.chosen(filter, None))

    # -- search -----------------------------------------------------------------------------------------------------

    def search(self, X: Any, k: int, options: Options) -> Neighbors:
        """The k nearest rows of each query, by their places."""
        return self.search_among(X, k, options, self.chosen(options.filter, options.subset))

    def search_among(self, X: Any, k: int, options: Options, mask: Mask) -> Neighbors:
        """As :meth:`search`, among the places of a mask instead of a filter and a subset."""
        order = self._order_of(options.rerank)
        by_vectors = isinstance(order, str) and order == "vectors"
        if options.recall is not None:
            return self._reaching(X, k, options, mask, by_vectors)
        if by_vectors and options.candidates is None and self.lists is not None:
            wanted = DEFAULT_RECALL if self.tuning is None else self.tuning.target_recall
            return self._in_lists(X, check_integer("k", k, low=1), wanted, mask, options.n_jobs)
        if isinstance(order, str) and order == "codes":
            return self.by_codes(X, k, mask, options.n_jobs)
        return self._reranked(X, k, order, options.candidates, mask, options.n_jobs)

    def search_codes(self, codes: ArrayLike, k: int, options: Options) -> Neighbors:
        return self.search_codes_among(codes, k, options, self.chosen(options.filter, options.subset))

    def search_codes_among(self, codes: ArrayLike, k: int, options: Options, mask: Mask) -> Neighbors:
        """As :meth:`search_codes`, among the places of a mask instead of a filter and a subset."""
        return self.index.search(codes, k, subset=self._by_index_id(mask), n_jobs=options.n_jobs)

    def within(self, X: Any, distance: float, options: Options) -> RangeResult:
        """All rows within a distance of each query, by their places."""
        order = self._order_of(options.rerank)
        mask = self.chosen(options.filter, options.subset)
        if isinstance(order, str) and order == "codes":
            subset, n_jobs = self._by_index_id(mask), options.n_jobs
            if isinstance(self.index, HammingIndex):
                return self.index.within(self.hasher.codes(X), distance, subset=subset, n_jobs=n_jobs)  # type: ignore[arg-type]
            return self.index.within(self.hasher.weights(X), distance, subset=subset, n_jobs=n_jobs)
        distance = check_number("distance", distance)
        wanted = CANDIDATES_WITHIN if options.candidates is None else options.candidates
        n_found = max(1, min(check_integer("candidates", wanted, low=1), len(self)))
        found = self._reranked(X, n_found, order, n_found, mask, options.n_jobs)
        return only_within(found, distance)

    def _reaching(self, X: Any, k: int, options: Options, mask: Mask, by_vectors: bool) -> ProbedNeighbors:
        """The k nearest rows by vectors, with the recall that is asked for."""
        recall, k = check_recall(options.recall), check_integer("k", k, low=1)
        if not by_vectors:
            raise ValueError("recall needs vectors to order by; make the search with keep_vectors='float32'")
        if options.candidates is not None:
            raise ValueError("candidates and recall cannot both be given: a recall says how many candidates there are")
        if recall < 1 and self.lists is not None:
            return self._in_lists(X, k, recall, mask, options.n_jobs)
        curve = zip(self.tuning.candidates, self.tuning.recalls) if self.tuning is not None else ()
        enough = [(n, expected) for n, expected in curve if expected >= recall]
        if recall == 1 or not enough or self.tuning is None or k > self.tuning.k:
            return self._all_compared(X, k, self._looked_at(mask))
        candidates, expected = min(enough)
        found = self._reranked(X, k, "vectors", candidates, mask, options.n_jobs)
        return ProbedNeighbors.of(*found, np.zeros(len(found.ids), np.int64), expected)

    def covered(self) -> Covered:
        """The lists, with all but a few of the rows."""
        assert self.lists is not None
        return self.lists.covering(lambda: self.places, self.n_places, self.vectors_at)

    def _in_lists(self, X: Any, k: int, recall: float, mask: Mask, n_jobs: int | None) -> ProbedNeighbors:
        """The k nearest rows by vectors, among the candidates of the lists and the rows that are in no list yet."""
        alive = self.alive if mask is None else self.alive & packed_mask(mask)
        n_allowed = self.n_rows if mask is None else int(np.bitwise_count(alive).sum())
        index, n_covered, far = self.covered()
        plan = index.plan(k, recall, n_allowed) if n_allowed else None
        if plan is None or plan.is_flat:
            return self._all_compared(X, k, self._looked_at(mask))
        queries = as_rows(X)
        Q = queries.take(np.arange(len(queries)))
        has_all = mask is None and self.n_rows == self.n_places and index.next_row <= self.n_places
        bits = None if has_all else alive.view(np.uint8)
        found = index.candidates(Q, plan, bits, n_jobs)
        places, outside = found.ids, np.concatenate([far, np.arange(n_covered, self.n_places)])
        outside = outside[outside < self.n_places]
        if len(outside):
            outside = outside[outside < self.n_places]
            outside = outside[(alive[outside >> 6] >> (outside & 63).astype(np.uint64)) & np.uint64(1) != 0]
            places = np.hstack([places, np.broadcast_to(outside, (len(places), len(outside)))])
        nearest = nearest_candidates(self.vectors, Q, places, k, self.hasher.metric)
        return ProbedNeighbors.of(*nearest, found.probed, plan.recall)

    def _looked_at(self, mask: Mask) -> NDArray[np.int64]:
        if mask is None:
            return self.places
        return np.flatnonzero(unpacked_mask(self.alive & packed_mask(mask), self.n_places))

    def _all_compared(self, X: Any, k: int, places: NDArray[np.int64]) -> ProbedNeighbors:
        """The k nearest of the rows at places, by comparing all of their vectors."""
        queries = as_rows(X)
        n = len(queries)
        distances, ids = np.full((n, k), np.inf, np.float32), np.full((n, k), NO_ID, np.int64)
        if len(places) and n:
            n_found = min(k, len(places))
            rows = RowBlocks(VectorsAt(places, self.vectors.n_features, self.vectors_at))
            found = nearest_vectors(rows, queries.take(np.arange(n)), n_found, self.hasher.metric)
            distances[:, :n_found], ids[:, :n_found] = found.distances, places[found.ids]
        return ProbedNeighbors.of(distances, ids, np.zeros(n, np.int64), 1.0)

    def by_codes(self, X: Any, k: int, mask: Mask, n_jobs: int | None) -> Neighbors:
        """The k nearest codes, by their places."""
        subset = self._by_index_id(mask)
        if isinstance(self.index, HammingIndex):
            return self.index.search(self.hasher.codes(X), k, subset=subset, n_jobs=n_jobs)
        return self.index.search(self.hasher.weights(X), k, subset=subset, n_jobs=n_jobs)

    def by_vectors(self, X: Any, k: int, candidates: int) -> Neighbors:
        """The places of the k nearest by kept vectors, among the nearest ``candidates`` codes."""
        return self._reranked(X, k, "vectors", candidates, None, None)

    def vectors_at(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The kept vectors of places, in their order; each is read once."""
        unique, order = np.unique(places, return_inverse=True)
        self.vectors.expect(unique)
        return self.vectors.read(unique)[order]

    def _reranked(
        self, X: Any, k: int, order: Any, candidates: int | None, mask: Mask, n_jobs: int | None
    ) -> Neighbors:
        k = check_integer("k", k, low=1)
        n_found = max(k, min(self._n_candidates(k, candidates), len(self)))
        found = self.by_codes(X, n_found, mask, n_jobs)
        if isinstance(order, str) and order == "asymmetric":
            if isinstance(self.index, AsymmetricIndex):  # they are in this order already
                return Neighbors(found.distances[:, :k], found.ids[:, :k])
            return rerank_asymmetric(self.index, -self.hasher.weights(X), found.ids, k)
        if not isinstance(order, str):
            return self._by_array(order, X, found.ids, k)
        if isinstance(self.vectors, VectorView):
            return nearest_candidates(self.vectors, X, found.ids, k, self.hasher.metric)
        return self._by_store(X, found.ids, k)

    def _by_array(self, vectors: Any, X: Any, places: NDArray[np.int64], k: int) -> Neighbors:
        """By vectors of the caller, of which row i is that of id i; the result has places."""
        ids = self.ids_at(places)
        found = rerank_exact(vectors, X, ids, k, self.hasher.metric)
        back = self.find(found.ids[found.ids != NO_ID])
        found.ids[found.ids != NO_ID] = back
        return found

    def _by_store(self, X: Any, places: NDArray[np.int64], k: int) -> Neighbors:
        found = rerank_read(self.vectors, places[places != NO_ID], X, places, k, self.hasher.metric)
        gone = np.isnan(found.distances)  # removed from the store meanwhile; they come last
        found.distances[gone], found.ids[gone] = np.inf, NO_ID
        return found

    def _by_index_id(self, mask: Mask) -> Mask:
        """A mask by place as the index takes it: a place for every id it has ever had."""
        return None if mask is None else mask[: self.index.next_id]

    def _order_of(self, rerank: Any) -> Any:
        """What results are ordered by: "codes", "asymmetric", "vectors" for those that are kept, or an array."""
        if rerank is None:
            return "codes" if self.vectors is None else "vectors"
        if rerank is False:
            return "codes"
        if not isinstance(rerank, str):
            if self.id_type == "str":
                raise ValueError(
                    "rerank must be no array where ids are strings; make the search with keep_vectors='float32'"
                )
            return rerank
        if rerank not in ("codes", "asymmetric", "vectors"):
            raise ValueError(f"rerank must be None, 'codes', 'asymmetric', 'vectors' or an array, got {rerank!r}")
        if rerank == "vectors" and self.vectors is None:
            raise ValueError("rerank='vectors' needs vectors; make the search with keep_vectors='float32'")
        return rerank

    def _n_candidates(self, k: int, candidates: int | None) -> int:
        if candidates is not None:
            return check_integer("candidates", candidates, low=1)
        if self.tuning is not None:
            return max(self.tuning.chosen, CANDIDATES_PER_RESULT * k if k > self.tuning.k else 0)
        return CANDIDATES_PER_RESULT * k

    # -- other rows -------------------------------------------------------------------------------------------------

    def without(self, places: NDArray[np.int64]) -> "Snapshot":
        """Without the rows at distinct places."""
        if not len(places):
            return self
        alive = self.alive.copy()
        bits = np.uint64(1) << (places & 63).astype(np.uint64)
        np.bitwise_and.at(alive, places >> 6, ~bits)
        index = self.index.copy().remove(places)
        return replace(self, alive=alive, index=index, n_rows=self.n_rows - len(places))


def all_alive(n: int) -> NDArray[np.uint64]:
    """A bit for each of n places."""
    return packed_mask(np.ones(n, bool))


def with_places(alive: NDArray[np.uint64], n_before: int, n_after: int) -> NDArray[np.uint64]:
    """The bits of more places, of which the new ones are alive."""
    longer = np.zeros(-(-n_after // 64), np.uint64)
    longer[: len(alive)] = alive
    new = np.arange(n_before, n_after)
    if len(new) > 64:
        return packed_mask(np.concatenate([unpacked_mask(alive, n_before), np.ones(len(new), bool)]))
    np.bitwise_or.at(longer, new >> 6, np.uint64(1) << (new & 63).astype(np.uint64))
    return longer


def first_of(found: Neighbors) -> Neighbors:
    """What the first query has found."""
    if isinstance(found, ProbedNeighbors):
        return ProbedNeighbors.of(found.distances[0], found.ids[0], found.probed[0], found.recall)
    return Neighbors(found.distances[0], found.ids[0])


def with_ids(found: Neighbors, ids: NDArray[Any]) -> Neighbors:
    """What was found, with ids in the place of places."""
    if isinstance(found, ProbedNeighbors):
        return ProbedNeighbors.of(found.distances, ids, found.probed, found.recall)
    return Neighbors(found.distances, ids)


def only_within(found: Neighbors, distance: Any) -> RangeResult:
    """Those of a result that are within a real distance."""
    near = (found.distances <= check_number("distance", distance)) & np.isfinite(found.distances)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(near.sum(axis=1))])
    return RangeResult(offsets, found.distances[near], found.ids[near])
