"""What a partitioned index must look at for a wanted recall: measured once, on rows that do not find themselves.

Two numbers decide which share of the true neighbors is found: the share of a query's weight that its lists hold
(:class:`hashlearn.index.kernels.list_queries.Probes`), and which candidates are compared by their vectors. These are as
many for each query, or all whose estimate is within a margin of the k-th least estimate
(:class:`hashlearn.index.kernels.lists.Kept`): a query among many nearly equal rows has many, others have few. The
frontier is the recall of the combinations, for several numbers of neighbors. A plan is the combination that reaches the
recall at the least cost.

A filter that keeps a share s of the rows makes the k nearest of them about the k / s nearest of all, so its plan is
that of k / s neighbors, with s times the candidates.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes.results import Neighbors
from hashlearn.index.kernels.list_queries import Probes
from hashlearn.index.kernels.lists import Kept
from hashlearn.index.partition import Partition
from hashlearn.rows import RowBlocks

N_QUERIES = {1: 2000, 10: 1000, 100: 200, 1000: 50}
"""Numbers of neighbors that recalls are measured for, and the most queries of each."""

_LEAST_QUERIES, _COMPARISONS = 500, 200_000_000
"""Rows that are queries: 500, or more where it takes no more comparisons with all rows than these."""

_FEWEST_QUERIES, _ROWS_PER_QUERY = 100, 10
"""Of few rows, one in ten."""

RATIOS = np.array([1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256])
"""Candidates for each neighbor, as far as there are not more of them than are measured."""

_MARGIN_COVERAGES = (0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.965, 0.98, 0.99, 0.995)
"""Margins are measured that hold these shares of the true neighbors."""

_SHARE_OF_ROWS = 16
"""One row in 16 is a candidate at the most: comparing all vectors costs little more then."""

_MOST_CANDIDATES = {1: 256, 10: 2560, 100: 2400, 1000: 4000}
_COVERAGES = (0.6, 0.75, 0.85, 0.9, 0.93, 0.95, 0.965, 0.98, 0.99, 0.995, 0.999)
_SHARPNESSES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # over the mean level of all lists above the nearest
_TYPICAL = 0.95
_ALL = 1 - 1e-6  # of the weight
_WORTH_OF_ALL = 4  # times the cost, for all neighbors where lists do not reach the recall, or hardly
_CANDIDATE_COST, _VECTOR_COST, _FEATURE_COST = 50.0, 10.0, 0.5
"""What it costs to find a candidate, and to compare a vector, and besides for each of its features; a code costs 1."""

_ARRAYS = ("neighbors", "shares", "codes", "margins", "recalls", "counts", "sharpness")


class ListPlan(NamedTuple):
    """How a search reaches a recall: its lists, its candidates, the recall that is expected, and the cost in codes.

    ``candidates`` are the most that a query has. ``margin`` says how far above the estimate of the last of
    ``neighbors`` they may be (:class:`Kept`); infinity is any. ``is_flat`` says to compare the vectors of all rows
    instead, which costs less or is the only way. ``is_among_few`` says that a filter keeps half of the rows or fewer.
    """

    probes: Probes
    candidates: int
    recall: float
    cost: float
    is_flat: bool = False
    margin: float = np.inf
    neighbors: int = 1
    is_among_few: bool = False

    @property
    def has_margin(self) -> bool:
        return self.margin < np.inf

    @property
    def kept(self) -> Kept:
        """The codes that a search keeps."""
        near = min(self.neighbors, self.candidates) if self.has_margin else self.candidates
        return Kept(self.candidates, near, self.margin)


class Frontier:
    """Recalls that were measured.

    Parameters
    ----------
    arrays : dict of float64 arrays
        ``neighbors`` (n_k,), ``shares`` (n_shares,), ``codes`` (n_shares,) that their lists hold in the mean,
        ``margins`` (n_margins,), ``recalls`` and ``counts`` of candidates in the mean (n_k, n_shares, n_choices), and
        ``sharpness`` (1,). Choices are ``RATIOS`` and then margins.
    n_lists, n_features : int
    """

    def __init__(self, arrays: dict[str, NDArray[np.float64]], n_lists: int, n_features: int):
        self.arrays, self._n_lists, self._n_features = arrays, n_lists, n_features
        n_k, n_shares = len(arrays["neighbors"]), len(arrays["shares"])
        shape = n_k, n_shares, len(RATIOS) + len(arrays["margins"])
        if any(arrays[name].shape != shape for name in ("recalls", "counts")) or arrays["codes"].shape != (n_shares,):
            raise ValueError("the recalls that were measured are not of the shape that they say")
        self.plan = lru_cache(maxsize=64)(self._plan)

    def __reduce__(self) -> tuple:
        return Frontier, (self.arrays, self._n_lists, self._n_features)

    @classmethod
    def read(cls, arrays: dict[str, NDArray], n_lists: int, n_features: int) -> "Frontier | None":
        """From the sections of a file; None where it has none."""
        if "frontier_recalls" not in arrays:
            return None
        return cls({name: arrays[f"frontier_{name}"] for name in _ARRAYS}, n_lists, n_features)

    @property
    def sections(self) -> dict[str, NDArray[np.float64]]:
        """The arrays as a file keeps them."""
        return {f"frontier_{name}": self.arrays[name] for name in _ARRAYS}

    def _plan(self, k: int, recall: float, n_rows: int, n_allowed: int) -> ListPlan:
        """The cheapest way to a recall of the k nearest among ``n_allowed`` of the rows."""
        each = _VECTOR_COST + _FEATURE_COST * self._n_features
        flat = ListPlan(Probes(self._n_lists), n_allowed, 1.0, each * n_allowed, is_flat=True)
        each += _CANDIDATE_COST
        n_neighbors = k * n_rows / max(1, n_allowed)
        recalls = self._between("recalls", n_neighbors)
        counts = self._between("counts", n_neighbors) * k / n_neighbors
        wanted = min(recall, float(recalls.max()))
        misses, codes = np.log(1 - self.arrays["shares"]), self.arrays["codes"]
        most = min(int(np.ceil(_most_candidates(n_neighbors, n_rows) * k / n_neighbors)), max(1, n_allowed))
        choices = [(int(np.ceil(ratio * k)), np.inf) for ratio in RATIOS]
        if n_allowed == n_rows:
            choices += [(most, float(margin)) for margin in self.arrays["margins"]]
        plans = []
        for (candidates, margin), measured, count in zip(choices, recalls.T, counts.T):
            if measured.max() >= wanted:
                rises = np.append(True, measured[1:] > np.maximum.accumulate(measured)[:-1])
                missed, looked_at, n = (np.interp(wanted, measured[rises], x[rises]) for x in (misses, codes, count))
                probes = Probes(self._n_lists, float(1 - np.exp(missed)), float(self.arrays["sharpness"][0]))
                cost = float(looked_at + each * n)
                candidates = min(candidates, max(1, n_allowed))
                plan = ListPlan(probes, candidates, wanted, cost, margin=margin, neighbors=k)
                plans.append(plan._replace(is_among_few=2 * n_allowed <= n_rows))
        best = min(plans, key=lambda plan: plan.cost)
        is_sure = wanted == recall and 2 * n_allowed > n_rows  # few rows lie less evenly than many
        # Beyond the numbers of neighbors that were measured, lists hold fewer of them than these recalls say.
        worth = 1.0 if is_sure else _WORTH_OF_ALL * max(1, n_neighbors / self.arrays["neighbors"][-1])
        return flat if recall == 1 or flat.cost <= worth * best.cost else best

    def _between(self, name: str, k: float) -> NDArray[np.float64]:
        """Recalls or counts for k neighbors, by shares and choices: between those of two numbers of neighbors."""
        logs = np.log(self.arrays["neighbors"])
        place = np.interp(np.log(k), logs, np.arange(len(logs)))
        low = int(place)
        high = min(low + 1, len(logs) - 1)
        return (1 - (place - low)) * self.arrays[name][low] + (place - low) * self.arrays[name][high]


def n_drawn(n_rows: int) -> int:
    """How many of the rows are the queries that recalls are measured with, if there are no others.

    >>> n_drawn(500), n_drawn(20_000), n_drawn(160_000), n_drawn(10_000_000)
    (100, 2000, 1250, 500)
    """
    wanted = min(max(N_QUERIES.values()), max(_LEAST_QUERIES, _COMPARISONS // max(1, n_rows)))
    return min(wanted, max(_FEWEST_QUERIES, n_rows // _ROWS_PER_QUERY))


def measured(
    search: Callable[[NDArray, int, Probes], Neighbors],
    partition: Partition,
    sizes: NDArray[np.int64],
    lists_of: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    queries: NDArray[np.float32],
    truth: NDArray[np.int64],
) -> Frontier:
    """The recalls of an index.

    Parameters
    ----------
    search : function (queries, k, probes) -> Neighbors
        The candidates of an index, with their estimates.
    partition : Partition
    sizes : array of shape (n_lists,)
    lists_of : function rows -> lists
    queries : array of shape (n, d)
    truth : array of shape (n, most neighbors), int64
        The true nearest rows of the queries, nearest first.
    """
    neighbors = [k for k in N_QUERIES if k <= truth.shape[1]]
    typical = truth[:, : min(10, truth.shape[1])]
    sharpness, shares = _chosen_shares(partition, sizes, queries, lists_of(typical))
    reaches, n_rows = _reaches(partition, sizes, queries), int(sizes.sum())

    def candidates(k: int, share: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The places of true neighbors among the candidates, and how far candidates are above the k-th estimate."""
        n = N_QUERIES[k]
        found = search(queries[:n], _most_candidates(k, n_rows), Probes(partition.n_lists, share, sharpness))
        return _places(found.ids, truth[:n, :k]), _above(found.distances, min(k, found.ids.shape[1]), reaches[:n])

    margins = _chosen_margins(*candidates(neighbors[min(1, len(neighbors) - 1)], shares[-1]))
    recalls = np.zeros((len(neighbors), len(shares), len(RATIOS) + len(margins)))
    counts, codes = np.zeros_like(recalls), np.zeros(len(shares))
    for i, k in enumerate(neighbors):
        fixed = np.minimum(np.ceil(RATIOS * k), _most_candidates(k, n_rows))
        for j, share in enumerate(shares):
            places, above = candidates(k, share)
            gaps = _at_places(above, places)
            found = [*(places < n for n in fixed), *(gaps <= margin for margin in margins)]
            recalls[i, j] = [_reliable_mean(of_choice.mean(axis=1)) for of_choice in found]
            counts[i, j] = [*fixed, *((above <= margin).sum(axis=1).mean() for margin in margins)]
    weights = _weights(partition, sizes, queries, sharpness)
    for j, share in enumerate(shares):
        codes[j] = _codes_of_share(weights, share)
    arrays = {
        "neighbors": np.array(neighbors, np.float64),
        "shares": np.array(shares),
        "codes": codes,
        "margins": margins,
        "recalls": recalls,
        "counts": counts,
        "sharpness": np.array([sharpness]),
    }
    return Frontier(arrays, partition.n_lists, partition.n_features)


def _reliable_mean(recalls: NDArray[np.float64]) -> float:
    """The mean recall of queries less its standard error: of many combinations, a plan takes one that had luck."""
    return max(0.0, float(recalls.mean() - recalls.std() / len(recalls) ** 0.5))


def _most_candidates(k: float, n_rows: int) -> int:
    """The most candidates for k neighbors."""
    most = np.interp(np.log(k), np.log(list(_MOST_CANDIDATES)), list(_MOST_CANDIDATES.values()))
    return int(min(most, max(4 * k, n_rows // _SHARE_OF_ROWS)))


def _above(estimates: NDArray, k: int, reaches: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far estimates are above the k-th of their query, as multiples of its reach; infinity where there is none."""
    there = np.isfinite(estimates)
    ends = estimates[:, k - 1 : k].astype(np.float64)  # infinite with fewer than k: then all are kept
    above = (np.where(there, estimates, 0.0) - ends) / np.maximum(reaches, 1e-30)[:, None]
    return np.where(there, above, np.inf)


def _at_places(above: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
    """What stands at places of the rows of a matrix; infinity beyond its last column."""
    beyond = np.hstack([above, np.full((len(above), 1), np.inf)])
    return np.take_along_axis(beyond, np.minimum(places, above.shape[1]), axis=1)


def _chosen_margins(places: NDArray[np.int64], above: NDArray[np.float64]) -> NDArray[np.float64]:
    """Margins that hold more and more of the true neighbors."""
    gaps = _at_places(above, places)
    gaps = gaps[np.isfinite(gaps)]
    if not len(gaps):
        return np.zeros(0)
    return np.unique(np.maximum(0.0, np.quantile(gaps, _MARGIN_COVERAGES)))


def _reaches(partition: Partition, sizes: NDArray, queries: NDArray) -> NDArray[np.float64]:
    """:attr:`ListQueries.reaches <hashlearn.index.kernels.list_queries.ListQueries>` of queries."""
    seen = partition.beside_origin(queries)
    squares = np.einsum("ij,ij->i", seen, seen).astype(np.float64)
    if partition.metric == "dot":
        return np.sqrt(squares)
    return np.sqrt(np.maximum(0.0, _levels(partition, sizes, queries).min(axis=1) + partition.cross / 2 * squares))


class _Weights(NamedTuple):
    """Lists in the order of their levels, by query, the share of weight up to each, and the codes up to each."""

    order: NDArray[np.int64]
    shares: NDArray[np.float64]
    codes: NDArray[np.int64]


def _weights(partition: Partition, sizes: NDArray, queries: NDArray, sharpness: float) -> _Weights:
    levels = _levels(partition, sizes, queries)
    order = np.argsort(levels, axis=1, kind="stable")
    gaps = np.take_along_axis(levels, order, axis=1) - levels.min(axis=1, keepdims=True)
    weights = sizes[order] * np.exp2(-np.minimum(100, sharpness * gaps.astype(np.float64)))
    held = np.cumsum(weights, axis=1)
    return _Weights(order, held / held[:, -1:], np.cumsum(sizes[order], axis=1))


def _levels(partition: Partition, sizes: NDArray, queries: NDArray) -> NDArray[np.float32]:
    levels = partition.levels() - np.float32(partition.cross) * (partition.beside_origin(queries) @ partition.offsets.T)
    return np.where(sizes > 0, levels, np.float32(1e30))


def _codes_of_share(weights: _Weights, share: float) -> float:
    last = np.argmax(weights.shares >= share * (1 - 1e-12), axis=1)
    return float(np.take_along_axis(weights.codes, last[:, None], axis=1).mean())


def _chosen_shares(
    partition: Partition, sizes: NDArray, queries: NDArray, true_lists: NDArray[np.int64]
) -> tuple[float, list[float]]:
    """The sharpness with which the fewest codes are looked at, and shares that hold more and more neighbors.

    ``true_lists`` are the lists of the neighbors of each query.
    """
    levels = _levels(partition, sizes, queries)[:, sizes > 0]
    scale = max(float((levels - levels.min(axis=1, keepdims=True)).mean()), 1e-30)
    best, chosen = np.inf, (0.0, [_ALL])
    for sharpness in (factor / scale for factor in _SHARPNESSES):
        weights = _weights(partition, sizes, queries, sharpness)
        places = np.argsort(weights.order, axis=1)
        there = np.take_along_axis(places, true_lists, axis=1)
        before = np.where(there > 0, np.take_along_axis(weights.shares, np.maximum(there - 1, 0), axis=1), 0.0)
        shares = np.quantile(before, _COVERAGES)
        codes = _codes_of_share(weights, float(np.quantile(before, _TYPICAL)))
        if codes < best:
            best, chosen = codes, (sharpness, [*np.unique(np.clip(shares, 1e-6, _ALL - 1e-6)).tolist(), _ALL])
    return chosen


def _places(found: NDArray[np.int64], truth: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of true neighbors among what was found; beyond the last where they were not."""
    n = max(int(found.max(initial=0)), int(truth.max(initial=0))) + 2
    number = np.arange(len(found))[:, None] * n
    keys = (found + 1 + number).ravel()
    order = np.argsort(keys)
    wanted = truth + 1 + number
    at = np.minimum(np.searchsorted(keys[order], wanted), keys.size - 1)
    there = keys[order][at] == wanted
    return np.where(there, order[at] % found.shape[1], found.shape[1])


def nearest_rows(
    rows: RowBlocks,
    partition: Partition,
    queries: NDArray,
    itself: NDArray[np.int64],
    k: int,
    present: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """The k nearest of the rows that are present, for each query, without the row that it is (-1 where it is none).

    One pass over the rows, in blocks; equal distances in any order.
    """
    seen = partition.seen(queries)
    distances = np.full((len(queries), k), np.inf, np.float32)
    nearest = np.full((len(queries), k), -1, np.int64)
    square = np.float32(0.0 if partition.metric == "dot" else 0.5)
    for part, block in rows:
        X = partition.seen(block)
        here = square * np.einsum("ij,ij->i", X, X) - seen @ X.T
        here[:, ~present[part]] = np.inf
        own = np.flatnonzero((itself >= part.start) & (itself < part.stop))
        here[own, itself[own] - part.start] = np.inf
        _keep_nearest(here, part.start, distances, nearest)
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(nearest, order, axis=1)


def _keep_nearest(here: NDArray, first: int, distances: NDArray, nearest: NDArray) -> None:
    """Put the rows of a block to the nearest so far, query by query; only those below the farthest of them."""
    k = distances.shape[1]
    limits = distances.max(axis=1)
    for q, limit in enumerate(limits):
        below = np.flatnonzero(here[q] < limit)
        if len(below):
            together = np.concatenate([distances[q], here[q, below]])
            kept = np.argpartition(together, k - 1)[:k]
            nearest[q] = np.concatenate([nearest[q], below + first])[kept]
            distances[q] = together[kept]
