"""Scores of ranked lists of ids: results of any search, reranked or not.

A list has the best id first. -1 (None for strings) fills empty places. An id that is not in a list was not found.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer
from hashlearn.codes.results import NO_ID, count_found
from hashlearn.metrics.neighbors import check_depth
from hashlearn.metrics.ranking import RankingScores, score_groups
from hashlearn.metrics.relevance import Relevance
from hashlearn.metrics.ties import TieGroups, check_positions


def recall_of_ids(
    ids: ArrayLike, neighbors: ArrayLike, k: int = 10, positions: ArrayLike = (10, 100)
) -> NDArray[np.float64]:
    """Recall k@N: the share of the k true neighbors among the first N ids of a list, query mean, for every N.

    Parameters
    ----------
    ids : array-like of integers or strings, shape (n_queries, any)
        Ranked lists, best first.
    neighbors : array-like, shape (n_queries, at least k)
        Ids of the true neighbors, nearest first, such as those of :func:`hashlearn.search.nearest_vectors`.
    k : int, default=10
    positions : array-like of int, shape (n_positions,)
        The N. Shorter lists are allowed.

    Returns
    -------
    ndarray of shape (n_positions,)

    Examples
    --------
    >>> recall_of_ids([[4, 9, 7, 1]], [[4, 7]], k=2, positions=[2, 4])
    array([0.5, 1. ])
    """
    k, where = check_integer("k", k, low=1), check_positions(positions)
    lists, nearest = _lists(ids), check_depth(neighbors, k)
    if len(lists) != len(nearest):
        raise ValueError(f"ids must have a list for each of the {len(nearest)} queries of neighbors, got {len(lists)}")
    return np.array([count_found(lists[:, :n], nearest[:, :k]).mean() / k for n in where])


def score_ids(ids: ArrayLike, relevance: Relevance, positions: ArrayLike = (100,)) -> RankingScores:
    """Average precision and hits of ranked lists; a relevant item that is not listed counts as never found.

    The mean of ``average_precision`` is mAP; :func:`hashlearn.metrics.pooled_precision` and ``pooled_recall`` of the
    result are precision@N and recall@N.

    Parameters
    ----------
    ids : array-like of int, shape (n_queries, any)
        Ranked lists of database rows, best first, none twice in a list.
    relevance : Relevance
        For labels :func:`relevance_of_labels`.
    positions : array-like of int, shape (n_positions,)
        The N of the hits among the first N.

    Examples
    --------
    >>> from hashlearn.metrics import relevance_of_labels
    >>> scores = score_ids([[2, 0, 1]], relevance_of_labels([5], [5, 5, 8, 5]), positions=[2])
    >>> scores.average_precision.round(4), scores.hits  # (1/2 + 2/3) / 3
    (array([0.3889]), array([[1.]]))
    """
    where = check_positions(positions)
    lists = _lists_of_rows(ids, relevance)
    n_relevant = np.empty(len(lists), np.int64)

    def rankings() -> Iterator[TieGroups]:
        for query, row in enumerate(lists):
            relevant = relevance.block(slice(query, query + 1), slice(0, relevance.shape[1]))[0]
            n_relevant[query] = relevant.sum()
            yield TieGroups.of_hits(np.flatnonzero(relevant[row] & (row != NO_ID)) + 1)

    scores = score_groups(rankings(), where)
    # The scores so far count only the relevant items that are listed.
    average_precision = scores.average_precision * scores.n_relevant / np.maximum(n_relevant, 1)
    return RankingScores(where, average_precision, scores.hits, n_relevant)


def _lists(ids: ArrayLike) -> NDArray:
    lists = np.asarray(ids)
    if lists.ndim != 2 or not len(lists):
        raise ValueError(f"ids must be lists of ids, of shape (n_queries, any), got shape {lists.shape}")
    return lists


def _lists_of_rows(ids: ArrayLike, relevance: Relevance) -> NDArray[np.int64]:
    """Lists of row numbers of the database for which the relevance is known."""
    lists, (n_queries, n_database) = _lists(ids), relevance.shape
    if lists.dtype.kind not in "iu":
        raise TypeError(f"ids must be row numbers of the database, got dtype {lists.dtype}")
    if len(lists) != n_queries:
        raise ValueError(f"ids must have a list for each of the {n_queries} queries, got {len(lists)}")
    if lists.size and (lists.min() < NO_ID or lists.max() >= n_database):
        raise ValueError(
            f"ids must be row numbers from 0 to {n_database - 1}, or -1, got {lists.min()} to {lists.max()}"
        )
    ascending = np.sort(lists, axis=1)
    if np.any((np.diff(ascending, axis=1) == 0) & (ascending[:, 1:] != NO_ID)):
        raise ValueError("ids must not name a database row twice in one list")
    return lists.astype(np.int64)
