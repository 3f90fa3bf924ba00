"""The share of the true neighbors that a search finds, measured on the queries of users."""

import math
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.search import SimilaritySearch

_Z = 2.1  # a little more than the 1.96 of a normal distribution: recalls have long tails
_WINDOW = 1000
_SAME = 1e-5
"""Distances with a smaller relative difference are ties."""


class RecallEstimate(NamedTuple):
    """The mean recall of some queries, with its 95 % confidence interval."""

    recall: float
    low: float
    high: float
    n_queries: int


def recall_of_query(search: SimilaritySearch, query: NDArray, k: int, **options: Any) -> float | None:
    """The share of the true k nearest rows, by the kept vectors, that a search finds for one query.

    A row at the distance of the last true neighbor counts as a true neighbor.

    Parameters
    ----------
    search : SimilaritySearch
        It must keep vectors.
    query : array of shape (n_features,)
    k : int
    **options
        The arguments of the query for :meth:`~hashlearn.SimilaritySearch.search`.

    Returns
    -------
    float or None
        None if rows were added or removed meanwhile, or if there are none.
    """
    n_rows = len(search)
    k = min(k, n_rows)
    if not k:
        return None
    X = np.asarray(query, np.float32)[None]
    found = search.search(X, k, **options).ids[0].tolist()
    truth = search.search(X, k, rerank="vectors", candidates=n_rows)
    distances = search.search(X, k, rerank="vectors", candidates=k, subset=found).distances[0]
    if len(search) != n_rows or search.search(X, k, **options).ids[0].tolist() != found:
        return None
    last = float(truth.distances[0, -1])
    return float(np.count_nonzero(distances <= last + _SAME * abs(last)) / k)


class RecallWindow:
    """The recalls of the latest measured queries."""

    def __init__(self, n_queries: int = _WINDOW):
        self._recalls: deque[float] = deque(maxlen=n_queries)

    def add(self, recall: float) -> None:
        self._recalls.append(recall)

    def estimate(self) -> RecallEstimate | None:
        """The present mean and interval; None before the first measured query."""
        return estimated_recall(list(self._recalls))


def estimated_recall(recalls: list[float]) -> RecallEstimate | None:
    """The mean of recalls of queries, with Wilson's interval.

    The neighbors of a query are found or missed together, so they count as fewer independent observations: the number
    that would have the observed variance.

    >>> estimate = estimated_recall([1.0, 0.5, 1.0, 0.5])
    >>> estimate.recall, estimate.low < 0.6, estimate.high > 0.9
    (0.75, True, True)
    """
    n = len(recalls)
    if not n:
        return None
    mean = sum(recalls) / n
    # One more query with recall 1/2: a few perfect queries do not prove that all queries are perfect.
    variance = (sum((recall - mean) ** 2 for recall in recalls) + (0.5 - mean) ** 2) / n
    n_observations = max(float(n), mean * (1 - mean) * n / variance) if variance else float(n)
    center = (mean + _Z**2 / (2 * n_observations)) / (1 + _Z**2 / n_observations)
    spread = mean * (1 - mean) / n_observations + _Z**2 / (4 * n_observations**2)
    half = _Z * math.sqrt(spread) / (1 + _Z**2 / n_observations)
    return RecallEstimate(mean, max(0.0, center - half), min(1.0, center + half), n)
