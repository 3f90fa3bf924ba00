"""How a similarity search finds: by codes, and then in an order by something finer."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_integer, check_number
from hashlearn.codes.results import NO_ID, Neighbors, RangeResult
from hashlearn.index.asymmetric import AsymmetricIndex
from hashlearn.index.hamming import HammingIndex
from hashlearn.search.rerank import rerank_asymmetric, rerank_exact, rerank_read
from hashlearn.search.state import State

CANDIDATES_PER_RESULT = 4
CANDIDATES_WITHIN = 1000

Mask = NDArray[np.bool_] | None


def order_of(state: State, rerank: Any) -> Any:
    """What results are ordered by: "codes", "asymmetric", "vectors" for those that are kept, or an array of vectors."""
    if rerank is None:
        return "codes" if state.vectors is None else "vectors"
    if rerank is False:
        return "codes"
    if not isinstance(rerank, str):
        if state.names is not None:
            raise ValueError(
                "rerank must be no array where ids are strings; make the search with keep_vectors='float32'"
            )
        return rerank
    if rerank not in ("codes", "asymmetric", "vectors"):
        raise ValueError(f"rerank must be None, 'codes', 'asymmetric', 'vectors' or an array, got {rerank!r}")
    if rerank == "vectors" and state.vectors is None:
        raise ValueError("rerank='vectors' needs vectors; make the search with keep_vectors='float32'")
    return rerank


def by_codes(state: State, X: Any, k: int, mask: Mask, n_jobs: int | None) -> Neighbors:
    """The k nearest codes, by their keys."""
    if isinstance(state.index, HammingIndex):
        return state.index.search(state.encoder.codes(X), k, subset=mask, n_jobs=n_jobs)
    return state.index.search(state.encoder.weights(X), k, subset=mask, n_jobs=n_jobs)


def reranked(
    state: State, X: Any, k: int, order: Any, candidates: int | None, mask: Mask, n_jobs: int | None
) -> Neighbors:
    """The best k of so many candidates, by their keys."""
    k = check_integer("k", k, low=1)
    n_found = max(k, min(_n_candidates(state, k, candidates), len(state)))
    found = by_codes(state, X, n_found, mask, n_jobs)
    if isinstance(order, str) and order == "asymmetric":
        if isinstance(state.index, AsymmetricIndex):  # they are in this order already
            return Neighbors(found.distances[:, :k], found.ids[:, :k])
        return rerank_asymmetric(state.index, -state.encoder.weights(X), found.ids, k)
    if isinstance(order, str):
        return by_kept_vectors(state, X, found.ids, k)
    return rerank_exact(order, X, found.ids, k, state.encoder.metric)


def by_kept_vectors(state: State, X: Any, keys: NDArray[np.int64], k: int) -> Neighbors:
    """The k candidates whose kept vectors are nearest."""
    found = rerank_read(state.vectors, state.vector_places(keys), X, keys, k, state.encoder.metric)
    gone = np.isnan(found.distances)  # of a store, from which they were removed meanwhile; they come last
    if gone.any():
        found.distances[gone], found.ids[gone] = np.inf, NO_ID
    return found


def codes_within(state: State, X: Any, distance: Any, mask: Mask, n_jobs: int | None) -> RangeResult:
    """All codes within a distance, by their keys."""
    if isinstance(state.index, HammingIndex):
        return state.index.within(state.encoder.codes(X), distance, subset=mask, n_jobs=n_jobs)
    return state.index.within(state.encoder.weights(X), distance, subset=mask, n_jobs=n_jobs)


def reranked_within(
    state: State, X: Any, distance: Any, order: Any, candidates: int | None, mask: Mask, n_jobs: int | None
) -> RangeResult:
    """Those of so many candidates that are within a distance, by their keys."""
    distance = check_number("distance", distance)
    wanted = CANDIDATES_WITHIN if candidates is None else check_integer("candidates", candidates, low=1)
    n_found = max(1, min(wanted, len(state)))
    found = reranked(state, X, n_found, order, n_found, mask, n_jobs)
    return only_within(found, distance)


def only_within(found: Neighbors, distance: Any) -> RangeResult:
    """Those of a result that are within a real distance."""
    near = (found.distances <= check_number("distance", distance)) & np.isfinite(found.distances)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(near.sum(axis=1))])
    return RangeResult(offsets, found.distances[near], found.ids[near])


def _n_candidates(state: State, k: int, candidates: int | None) -> int:
    if candidates is not None:
        return check_integer("candidates", candidates, low=1)
    if state.tuning is not None:
        return max(state.tuning.chosen, CANDIDATES_PER_RESULT * k if k > state.tuning.k else 0)
    return CANDIDATES_PER_RESULT * k
