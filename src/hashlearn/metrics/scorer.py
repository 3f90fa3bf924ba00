"""Recall of true neighbors as a score, for choosing parameters with scikit-learn."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from hashlearn.checks import check_choice, check_integer
from hashlearn.metrics.neighbors import true_neighbors
from hashlearn.metrics.ranked import recall_of_ids
from hashlearn.rows import plain_rows
from hashlearn.search.code_search import CodeSearch
from hashlearn.search.rerank import METRICS


def neighbor_scorer(
    k: int = 10, n: int = 10, *, n_queries: int = 100, metric: str = "euclidean", random_state: Any = 0
) -> "NeighborScorer":
    """A scorer for scikit-learn's ``GridSearchCV`` and ``cross_val_score``: recall k@n of true neighbors.

    Some of the given rows are queries, and the others are the database. A hasher with ``query_weights`` is judged
    by its estimates for real queries, any other by Hamming distance; ties go to the lowest row, in random order.

    Parameters
    ----------
    k, n : int, default=10
        The share of the k true neighbors among the n best. Choose n=100 if you rerank 100 candidates.
    n_queries : int, default=100
        At most half of the rows.
    metric : {"euclidean", "cosine", "dot"}, default="euclidean"
        The metric of the true neighbors.
    random_state : int, RandomState instance or None, default=0
        Determines which rows are queries.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import GridSearchCV
    >>> from hashlearn import ITQ
    >>> X, _ = load_digits(return_X_y=True)
    >>> grid = GridSearchCV(ITQ(random_state=0), {"n_bits": [8, 32]}, scoring=neighbor_scorer(), cv=3).fit(X)
    >>> grid.best_params_
    {'n_bits': 32}
    """
    return NeighborScorer(
        k=check_integer("k", k, low=1),
        n=check_integer("n", n, low=1),
        n_queries=check_integer("n_queries", n_queries, low=1),
        metric=check_choice("metric", metric, METRICS),
        random_state=random_state,
    )


class NeighborScorer(NamedTuple):
    """The scorer of :func:`neighbor_scorer`: called with a fitted hasher and rows, it returns recall k@n."""

    k: int
    n: int
    n_queries: int
    metric: str
    random_state: Any

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float:
        rows = plain_rows(X)
        order = check_random_state(self.random_state).permutation(rows.shape[0])
        asked, held = np.split(order, [min(self.n_queries, len(order) // 2)])
        if len(held) < max(self.k, self.n):
            raise ValueError(f"X must have at least {max(self.k, self.n)} rows beside the queries, got {len(held)}")
        neighbors = true_neighbors(rows[held], rows[asked], self.k, self.metric)
        found = CodeSearch.of(estimator, rows[held]).nearest(rows[asked], self.n).ids
        return float(recall_of_ids(found, neighbors, self.k, [self.n])[0])
