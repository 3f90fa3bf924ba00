"""How good the codes of a collection are, from a sample: what the view Quality shows."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.metrics.explain import CodeStatistics, explain_codes
from hashlearn.metrics.neighbors import true_neighbors
from hashlearn.progress import track
from hashlearn.server.page.charts import correlation_png
from hashlearn.server.page.collection import Collection, Item, ItemSample
from hashlearn.server.page.statistics import (
    RecallCurve,
    largest_buckets,
    recall_curve,
    sides_of_bit,
)

K = 10
N_QUERIES = 100
N_SEARCHES = 30
CANDIDATES = (10, 20, 50, 100, 200, 500, 1000)
N_SCORED = 2000
N_BUCKETS = 5
N_EXAMPLES = 8


class ShownBucket(NamedTuple):
    """A code that many items share."""

    size: int
    items: list[Item]


class Quality(NamedTuple):
    """Statistics of the codes.

    Attributes
    ----------
    sample : ItemSample
    bits : CodeStatistics
        Balance and correlation.
    strongest : (i, j, correlation), or None of a single bit
        The two bits that are most alike, or most opposite.
    correlation_png : bytes
    buckets : list of ShownBucket
    curve : RecallCurve or None
        None where no vectors are kept.
    found : float or None
        How many of the true neighbors a search finds, on average; None where no vectors are kept.
    n_neighbors : int
        How many true neighbors there are.
    order : array of shape (n_scored, n_bits), or None
        Rows of the sample by each bit's score, ascending.
    """

    sample: ItemSample
    bits: CodeStatistics
    strongest: tuple[int, int, float] | None
    correlation_png: bytes
    buckets: list[ShownBucket]
    curve: RecallCurve | None
    found: float | None
    n_neighbors: int
    order: NDArray[np.int64] | None


def measured(collection: Collection) -> Quality:
    """Compute all of it; reports its progress."""
    if not len(collection):
        raise ValueError("there are no items yet, so there is nothing to judge")
    steps = iter(track(range(6), "statistics"))
    next(steps)
    sample = collection.sample()
    next(steps)
    n_bits = collection.n_bits
    bits = explain_codes(sample.codes, n_bits)
    next(steps)
    buckets = [
        ShownBucket(bucket.size, collection.items(sample.ids[bucket.rows].tolist()))
        for bucket in largest_buckets(sample.codes, N_BUCKETS, N_EXAMPLES)
    ]
    next(steps)
    curve = None if sample.vectors is None else _curve(sample, n_bits)
    next(steps)
    found = None if sample.vectors is None else _found(collection, sample)
    next(steps)
    quality = Quality(
        sample,
        bits,
        _strongest(bits.correlation),
        correlation_png(bits.correlation),
        buckets,
        curve,
        found,
        min(K, len(collection) - 1),
        _order_by_score(collection.search.hasher, sample),
    )
    next(steps, None)
    return quality


def sides(collection: Collection, quality: Quality, bit: int) -> tuple[list[Item], list[Item]]:
    """Items on both sides of a bit: those furthest from the boundary where scores are known."""
    sample = quality.sample
    if quality.order is None:
        zeros, ones = sides_of_bit(sample.codes, collection.n_bits, bit, N_EXAMPLES)
    else:
        n = min(N_EXAMPLES, len(quality.order) // 2)
        zeros, ones = quality.order[:n, bit], quality.order[::-1][:n, bit]
    return collection.items(sample.ids[zeros].tolist()), collection.items(sample.ids[ones].tolist())


def _curve(sample: ItemSample, n_bits: int) -> RecallCurve | None:
    n = len(sample.ids)
    if n < 3 or sample.vectors is None:
        return None
    queries = np.sort(np.random.default_rng(1).choice(n, min(N_QUERIES, n), replace=False))
    k = min(K, n - 1)
    nearest = true_neighbors(sample.vectors, sample.vectors[queries], k + 1)
    neighbors = np.stack([row[row != query][:k] for row, query in zip(nearest, queries)])
    counts = [count for count in CANDIDATES if count < n] or [n - 1]
    return recall_curve(sample.codes, n_bits, queries, neighbors, counts)


def _found(collection: Collection, sample: ItemSample) -> float | None:
    """How many of the nearest items by vectors a search for some items of the sample finds, on average."""
    search, k = collection.search, min(K, len(collection) - 1)
    if sample.vectors is None or k < 1:
        return None
    chosen = np.random.default_rng(2).choice(len(sample.ids), min(N_SEARCHES, len(sample.ids)), replace=False)
    own, queries = sample.ids[chosen].tolist(), sample.vectors[chosen]
    found, truth = (search.search(queries, k + 1, recall=recall).ids.tolist() for recall in (None, 1.0))
    shared = [len({*_others(here, id)[:k]} & {*_others(true, id)[:k]}) for id, here, true in zip(own, found, truth)]
    return float(np.mean(shared))


def _others(ids: list[Any], own: Any) -> list[Any]:
    return [id for id in ids if id != own]


def _order_by_score(hasher: Any, sample: ItemSample) -> NDArray[np.int64] | None:
    if sample.vectors is None or not hasattr(hasher, "decision_function"):
        return None
    return np.argsort(hasher.decision_function(sample.vectors[:N_SCORED]), axis=0, kind="stable")


def _strongest(correlations: NDArray[np.float64]) -> tuple[int, int, float] | None:
    if len(correlations) < 2:
        return None
    magnitude = np.abs(np.triu(correlations, 1))
    i, j = np.unravel_index(int(magnitude.argmax()), magnitude.shape)
    return int(i), int(j), float(correlations[i, j])
