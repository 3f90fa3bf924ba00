"""How the rows of a snapshot are searched: candidates by their codes or in lists, then in the order of their vectors.

Results have places in the place of ids. A mask says which places are looked at; None for all. Removed rows may be among
those of a mask.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer, check_number
from hashlearn.codes.results import NO_ID, Neighbors, RangeResult
from hashlearn.deadline import check_deadline
from hashlearn.index import AsymmetricIndex, HammingIndex
from hashlearn.index.code_table import bits_at, packed_mask
from hashlearn.index.list_search import ProbedNeighbors
from hashlearn.index.partitioned import check_recall
from hashlearn.rows import RowBlocks, as_rows
from hashlearn.search.exact import nearest_vectors
from hashlearn.search.lists import DEFAULT_RECALL, VectorsAt
from hashlearn.search.rerank import rerank_asymmetric, rerank_exact, rerank_read
from hashlearn.search.results import NeighborsWithRows
from hashlearn.search.vector_records import VectorView

if TYPE_CHECKING:
    from hashlearn.search.snapshot import Snapshot

CANDIDATES_PER_RESULT = 4
CANDIDATES_WITHIN = 1000
_PAIRS_AT_A_TIME = 1 << 17
"""Pairs that are compared in one compiled call; a deadline is looked at between two."""
_FEW_PAIRS = 1 << 20
"""Pairs of a query and a row, whose numbers take 8 MB."""
_SIZES_OF = 1000
"""Rows, evenly spaced, that the mean sizes of scores are of."""
_LEAST_SIZE = 1e-9

Mask = NDArray[np.bool_] | None


class Options(NamedTuple):
    """How rows are searched; see :meth:`hashlearn.SimilaritySearch.search`."""

    rerank: Any = None
    candidates: int | None = None
    filter: dict | None = None
    subset: ArrayLike | None = None
    n_jobs: int | None = None
    recall: float | None = None
    expand: int | None = None


def nearest(rows: "Snapshot", X: Any, k: int, options: Options, mask: Mask) -> Neighbors:
    """The k nearest rows of each query; a filter and a subset are in the mask."""
    if options.expand is not None and check_integer("expand", options.expand, low=0):
        return _expanded(rows, X, k, options, mask)
    order = _order_of(rows, options.rerank)
    if options.recall is not None:
        return _reaching(rows, X, k, order, options, mask)
    if order == "vectors" and options.candidates is None and rows.lists is not None:
        wanted = DEFAULT_RECALL if rows.tuning is None else rows.tuning.target_recall
        return _in_lists(rows, X, check_integer("k", k, low=1), wanted, mask, options.n_jobs)
    if order == "codes":
        return _by_codes(rows, X, k, mask, options.n_jobs)
    return _reranked(rows, X, k, order, options, mask)


def nearest_to_codes(rows: "Snapshot", codes: ArrayLike, k: int, mask: Mask, n_jobs: int | None) -> Neighbors:
    """The k nearest rows of each packed code."""
    return rows.index.search(codes, k, subset=_by_index_id(rows, mask), n_jobs=n_jobs)


def within(rows: "Snapshot", X: Any, distance: float, options: Options, mask: Mask) -> RangeResult:
    """All rows within a distance of each query; a filter and a subset are in the mask."""
    order = _order_of(rows, options.rerank)
    if order == "codes":
        subset, n_jobs = _by_index_id(rows, mask), options.n_jobs
        if isinstance(rows.index, HammingIndex):
            return rows.index.within(rows.hasher.codes(X), distance, subset=subset, n_jobs=n_jobs)  # type: ignore[arg-type]
        return rows.index.within(rows.hasher.weights(X), distance, subset=subset, n_jobs=n_jobs)
    distance = check_number("distance", distance)
    wanted = CANDIDATES_WITHIN if options.candidates is None else options.candidates
    n_found = max(1, min(check_integer("candidates", wanted, low=1), len(rows)))
    return only_within(_reranked(rows, X, n_found, order, options._replace(candidates=n_found), mask), distance)


def only_within(found: Neighbors, distance: Any) -> RangeResult:
    """Those of a result that are within a real distance."""
    near = (found.distances <= check_number("distance", distance)) & np.isfinite(found.distances)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(near.sum(axis=1))])
    return RangeResult(offsets, found.distances[near], found.ids[near])


def first_of(found: Neighbors) -> Neighbors:
    """What the first query has found."""
    if isinstance(found, NeighborsWithRows):
        return found.first
    if isinstance(found, ProbedNeighbors):
        return ProbedNeighbors.of(found.distances[0], found.ids[0], found.probed[0], found.recall)
    return Neighbors(found.distances[0], found.ids[0])


def with_ids(found: Neighbors, ids: NDArray[Any]) -> Neighbors:
    """What was found, with ids in the place of places."""
    if isinstance(found, ProbedNeighbors):
        return ProbedNeighbors.of(found.distances, ids, found.probed, found.recall)
    return Neighbors(found.distances, ids)


def _order_of(rows: "Snapshot", rerank: Any) -> str:
    """What results are ordered by: "codes", "asymmetric", "vectors" for those that are kept, or "array"."""
    if rerank is None:
        return "codes" if rows.vectors is None and not rows.keeps_vectors else "vectors"
    if rerank is False:
        return "codes"
    if not isinstance(rerank, str):
        if rows.id_type == "str":
            raise ValueError(
                "rerank must be no array where ids are strings; make the search with keep_vectors='float32'"
            )
        return "array"
    if rerank not in ("codes", "asymmetric", "vectors"):
        raise ValueError(f"rerank must be None, 'codes', 'asymmetric', 'vectors' or an array, got {rerank!r}")
    if rerank == "vectors" and not rows.keeps_vectors:
        raise ValueError("rerank='vectors' needs vectors; make the search with keep_vectors='float32'")
    return rerank


def _by_codes(rows: "Snapshot", X: Any, k: int, mask: Mask, n_jobs: int | None) -> Neighbors:
    """The k nearest codes."""
    asked = rows.hasher.codes(X) if isinstance(rows.index, HammingIndex) else rows.hasher.weights(X)
    return rows.index.search(asked, k, subset=_by_index_id(rows, mask), n_jobs=n_jobs)


def _expanded(rows: "Snapshot", X: Any, k: int, options: Options, mask: Mask) -> Neighbors:
    """The k nearest codes of queries that are made from their neighborhoods; the mask is for both.

    By meaning, a query and the rows around it say more together than the query alone. The scores f of a hasher, its
    ``decision_function``, are divided by their mean sizes, one for each bit, and cut by tanh, so that no row and no bit
    outweighs the others. The mean of f over the query and its nearest rows is compared with all codes as a real query.
    """
    if rows.hasher.has_weights:
        raise ValueError("expand must be None for a hasher that ranks by neighborhood, such as ABH: take JPSH or SAH")
    if rows.vectors is None and len(rows):
        raise ValueError("expand needs vectors to find neighbors by; make the search with keep_vectors='float16'")
    if options.rerank is not None:
        raise ValueError("expand and rerank cannot both be given: the result is ordered by the expanded query")
    near = nearest(rows, X, options.expand or 0, options._replace(expand=None), mask).ids
    totals = _cut(rows, X)
    queries, columns = np.nonzero(near != NO_ID)
    if len(queries):
        places, which = np.unique(near[queries, columns], return_inverse=True)
        np.add.at(totals, queries, _cut(rows, rows.vectors_at(places))[which])
    weights = totals / (1 + np.bincount(queries, minlength=len(totals))).astype(np.float32)[:, None]
    index = rows.real_index
    subset = None if mask is None else mask[: index.next_id]
    return index.search(weights, k, subset=subset, n_jobs=options.n_jobs)


def _cut(rows: "Snapshot", X: Any) -> NDArray[np.float32]:
    return np.tanh(rows.hasher.weights(X) / rows.mean_sizes)


def mean_sizes(rows: "Snapshot") -> NDArray[np.float32]:
    """The mean absolute score of each bit, of the rows of the search: it is the same for every query."""
    places = rows.places
    if not len(places):
        return np.ones(rows.hasher.n_bits, np.float32)
    chosen = np.unique(np.linspace(0, len(places) - 1, min(_SIZES_OF, len(places))).astype(np.int64))
    sizes = np.abs(rows.hasher.weights(rows.vectors_at(places[chosen]))).mean(axis=0)
    return np.maximum(sizes, _LEAST_SIZE)


def _by_index_id(rows: "Snapshot", mask: Mask) -> Mask:
    """A mask by place as the index takes it: a place for every id it has ever had."""
    return None if mask is None else mask[: rows.index.next_id]


def _reranked(rows: "Snapshot", X: Any, k: int, order: str, options: Options, mask: Mask) -> Neighbors:
    """The nearest codes, in another order: by the scores of the query, by an array of vectors, or by kept vectors."""
    k, n_candidates = check_integer("k", k, low=1), _n_candidates(rows, k, options.candidates)
    if order == "vectors" and rows.vectors is None:  # of the first row to come
        return Neighbors(*_all_compared(rows, X, k, mask))
    n_found = max(k, min(n_candidates, len(rows)))
    found = _by_codes(rows, X, n_found, mask, options.n_jobs)
    if order == "asymmetric":
        if isinstance(rows.index, AsymmetricIndex):  # they are in this order already
            return Neighbors(found.distances[:, :k], found.ids[:, :k])
        return rerank_asymmetric(rows.index, -rows.hasher.weights(X), found.ids, k)
    if order == "array":
        return _by_array(rows, options.rerank, X, found.ids, k)
    if isinstance(rows.vectors, VectorView):
        return nearest_candidates(rows.vectors, X, found.ids, k, rows.hasher.metric)
    return by_store(rows.vectors, found.ids[found.ids != NO_ID], X, found.ids, k, rows.hasher.metric)


def nearest_candidates(
    view: VectorView, query_vectors: Any, wanted: NDArray[np.int64], k: int, metric: str
) -> Neighbors:
    """The k nearest of some places of each query, which was checked; one compiled call where vectors are in memory."""
    if not view.is_resident:
        return rerank_read(view, wanted[wanted != NO_ID], query_vectors, wanted, k, metric)
    queries, step = as_array(query_vectors), max(1, _PAIRS_AT_A_TIME // max(1, wanted.shape[1]))
    parts = []
    for start in range(0, max(1, len(wanted)), step):
        if start:
            check_deadline()
        part = slice(start, start + step)
        parts.append(view.nearest(queries[part], wanted[part], k, metric))
    return Neighbors(*(parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts))))


def as_array(query_vectors: Any) -> NDArray[np.floating]:
    """Queries, in whatever form, as a matrix of finite numbers."""
    is_matrix = type(query_vectors) is np.ndarray and query_vectors.ndim == 2 and query_vectors.dtype.kind == "f"
    if is_matrix and np.isfinite(query_vectors).all():
        return query_vectors
    rows = as_rows(query_vectors)
    return rows.take(np.arange(len(rows)))


def _n_candidates(rows: "Snapshot", k: int, candidates: int | None) -> int:
    if candidates is not None:
        return check_integer("candidates", candidates, low=1)
    if rows.tuning is not None:
        return max(rows.tuning.chosen, CANDIDATES_PER_RESULT * k if k > rows.tuning.k else 0)
    return CANDIDATES_PER_RESULT * k


def _by_array(rows: "Snapshot", vectors: Any, X: Any, places: NDArray[np.int64], k: int) -> Neighbors:
    """By vectors of the caller, of which row i is that of id i."""
    found = rerank_exact(vectors, X, rows.ids_at(places), k, rows.hasher.metric)
    there = found.ids != NO_ID
    found.ids[there] = rows.find(found.ids[there])
    return found


def by_store(
    vectors: Any, places: NDArray[np.int64], X: Any, wanted: NDArray[np.int64], k: int, metric: str
) -> Neighbors:
    """By vectors of a store; rows that were removed from it since their codes were found come last."""
    found = rerank_read(vectors, places, X, wanted, k, metric)
    gone = np.isnan(found.distances)
    found.distances[gone], found.ids[gone] = np.inf, NO_ID
    return found


def _reaching(rows: "Snapshot", X: Any, k: int, order: str, options: Options, mask: Mask) -> ProbedNeighbors:
    """The k nearest rows by vectors, with the recall that is asked for."""
    recall, k = check_recall(options.recall), check_integer("k", k, low=1)
    if order != "vectors":
        raise ValueError("recall needs vectors to order by; make the search with keep_vectors='float32'")
    if options.candidates is not None:
        raise ValueError("candidates and recall cannot both be given: a recall says how many candidates there are")
    if recall < 1 and rows.lists is not None:
        return _in_lists(rows, X, k, recall, mask, options.n_jobs)
    curve = zip(rows.tuning.candidates, rows.tuning.recalls) if rows.tuning is not None else ()
    enough = [(n, expected) for n, expected in curve if expected >= recall]
    if recall == 1 or not enough or rows.tuning is None or k > rows.tuning.k or not len(rows):
        return _all_compared(rows, X, k, mask)
    candidates, expected = min(enough)
    found = _reranked(rows, X, k, "vectors", options._replace(candidates=candidates), mask)
    return ProbedNeighbors.of(*found, np.zeros(len(found.ids), np.int64), expected)


def _in_lists(rows: "Snapshot", X: Any, k: int, recall: float, mask: Mask, n_jobs: int | None) -> ProbedNeighbors:
    """The k nearest rows by vectors, among the candidates of the lists and the rows that are in no list yet."""
    alive = rows.alive if mask is None else rows.alive & packed_mask(mask)
    n_allowed = len(rows) if mask is None else int(np.bitwise_count(alive).sum())
    index, n_covered, far = rows.covered()
    plan = index.plan(k, recall, n_allowed) if n_allowed else None
    Q = as_array(X)
    if plan is None or plan.is_flat:
        return _few_compared(rows, Q, k, mask) if len(Q) * n_allowed <= _FEW_PAIRS else _all_compared(rows, Q, k, mask)
    has_all = mask is None and len(rows) == rows.n_places and index.next_row <= rows.n_places
    bits = None if has_all else alive.view(np.uint8)
    found = index.candidates(Q, plan, bits, n_jobs)
    places = found.ids
    if len(far) or n_covered < rows.n_places:
        outside = np.concatenate([far, np.arange(n_covered, rows.n_places)])
        outside = outside[outside < rows.n_places]
        outside = outside[bits_at(alive, outside)]
        places = np.hstack([places, np.broadcast_to(outside, (len(places), len(outside)))])
    nearest = nearest_candidates(rows.vectors, Q, places, k, rows.hasher.metric)
    return ProbedNeighbors.of(*nearest, found.probed, plan.recall)


def _few_compared(rows: "Snapshot", Q: NDArray, k: int, mask: Mask) -> ProbedNeighbors:
    """As :func:`_all_compared`, in one compiled call."""
    places = rows.looked_at(mask)
    candidates = np.broadcast_to(places, (len(Q), len(places)))
    found = nearest_candidates(rows.vectors, Q, candidates, k, rows.hasher.metric)
    return ProbedNeighbors.of(*found, np.zeros(len(Q), np.int64), 1.0)


def _all_compared(rows: "Snapshot", X: Any, k: int, mask: Mask) -> ProbedNeighbors:
    """The k nearest rows, by comparing all of their vectors."""
    queries, places = as_rows(X), rows.looked_at(mask)
    n = len(queries)
    distances, found_places = np.full((n, k), np.inf, np.float32), np.full((n, k), NO_ID, np.int64)
    if len(places) and n:
        n_found = min(k, len(places))
        vectors = RowBlocks(VectorsAt(places, rows.vectors.n_features, rows.vectors_at))
        found = nearest_vectors(vectors, queries.take(np.arange(n)), n_found, rows.hasher.metric)
        distances[:, :n_found], found_places[:, :n_found] = found.distances, places[found.ids]
    return ProbedNeighbors.of(distances, found_places, np.zeros(n, np.int64), 1.0)
