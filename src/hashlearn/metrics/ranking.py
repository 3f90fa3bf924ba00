"""Rankings of packed codes by Hamming distance: average precision, mAP, and the counts the other metrics start from.

A query's ranking is the whole database in order of distance; there is no cut-off. The rules for ties are those of
:mod:`hashlearn.metrics.ties`. A query without any relevant item has average precision 0 and counts in the mean.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import gen_batches

from hashlearn.checks import check_integer
from hashlearn.codes import check_codes, hamming_distances
from hashlearn.metrics.pairs import count_pairs
from hashlearn.metrics.relevance import Relevance
from hashlearn.metrics.ties import TieGroups, Ties, check_positions, check_ties, groups_average_precision, groups_hits
from hashlearn.progress import track

# A block of distances and its temporaries should stay in the cache.
_PAIRS_PER_BLOCK = 2**18


class Histograms(NamedTuple):
    """How many database items, and how many relevant ones, lie at every distance 0..n_bits of every query.

    Attributes
    ----------
    all, relevant : ndarray of int64, shape (n_queries, n_bits + 1)
    """

    all: NDArray[np.int64]
    relevant: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RankingScores:
    """How good a ranking is, per query.

    Attributes
    ----------
    positions : ndarray of int64, shape (n_positions,)
    average_precision : ndarray of shape (n_queries,)
    hits : ndarray of shape (n_queries, n_positions)
        Relevant items among the first N, for every N of ``positions``; an expectation if ``ties`` is "expected".
    n_relevant : ndarray of int64, shape (n_queries,)
        Relevant items in the database.
    """

    positions: NDArray[np.int64]
    average_precision: NDArray[np.float64]
    hits: NDArray[np.float64]
    n_relevant: NDArray[np.int64]


def ranking_histograms(codes: ArrayLike, query_codes: ArrayLike, n_bits: int, relevance: Relevance) -> Histograms:
    """Count items and relevant items at every distance of every query.

    Every metric that does not depend on the order of ties follows from these counts; this is the only place that visits
    all pairs for them. Memory is bounded by a copy of the codes, a block of pairs and the result.

    Parameters
    ----------
    codes, query_codes : array-like of uint8, shape (n, ceil(n_bits / 8))
        Packed codes.
    n_bits : int
    relevance : Relevance
        Of shape (n_queries, n_database).
    """
    queries, items = _check_ranking(codes, query_codes, n_bits, relevance)
    return Histograms(*count_pairs(queries, items, n_bits, relevance))


def score_codes(
    codes: ArrayLike,
    query_codes: ArrayLike,
    n_bits: int,
    relevance: Relevance,
    positions: ArrayLike = (100,),
    ties: Ties = "expected",
    histograms: Histograms | None = None,
) -> RankingScores:
    """Average precision and hits at ``positions`` of every query.

    Parameters
    ----------
    codes, query_codes : array-like of uint8, shape (n, ceil(n_bits / 8))
    n_bits : int
    relevance : Relevance
    positions : array-like of int, shape (n_positions,)
    ties : {"expected", "stable", "optimistic", "pessimistic"}
    histograms : Histograms or None
        The result of :func:`ranking_histograms` for the same arguments, if you have it already.
    """
    positions = check_positions(positions)
    if check_ties(ties) == "stable":
        return score_groups(_stable_groups(codes, query_codes, n_bits, relevance), positions)
    if histograms is None:
        histograms = ranking_histograms(codes, query_codes, n_bits, relevance)
    groups = TieGroups.of_histograms(histograms.all, histograms.relevant)
    return RankingScores(
        positions,
        groups_average_precision(groups, ties),
        groups_hits(groups, positions, ties),
        histograms.relevant.sum(axis=1),
    )


def score_groups(rankings: Iterator[TieGroups], positions: NDArray[np.int64], ties: Ties = "expected") -> RankingScores:
    """Scores of rankings that come one query at a time, each with its own number of groups."""
    average_precision, hits, n_relevant = [], [], []
    last = positions.max()
    for groups in rankings:
        average_precision.append(groups_average_precision(groups, ties))
        hits.append(groups_hits(groups.until(last), positions, ties))
        n_relevant.append(groups.relevant.sum())
    return RankingScores(positions, np.array(average_precision), np.array(hits), np.array(n_relevant, dtype=np.int64))


def average_precision(
    codes: ArrayLike, query_codes: ArrayLike, n_bits: int, relevance: Relevance, ties: Ties = "expected"
) -> NDArray[np.float64]:
    """Average precision of every query over the whole ranking, shape (n_queries,).

    With the R relevant items of the database at positions p_1 < ... < p_R of the ranking::

        AP = (1/R) sum_t t / p_t

    and AP = 0 where R = 0.

    Examples
    --------
    >>> from hashlearn.metrics import relevance_of_labels
    >>> database = np.array([[0b00000000], [0b00000001], [0b00000001], [0b11111111]], np.uint8)
    >>> relevance = relevance_of_labels([1], [1, 1, 0, 0])
    >>> average_precision(database, database[:1], 8, relevance, ties="optimistic")
    array([1.])
    >>> average_precision(database, database[:1], 8, relevance).round(4)  # the mean of 1 and 5/6
    array([0.9167])
    """
    return score_codes(codes, query_codes, n_bits, relevance, ties=ties).average_precision


def mean_average_precision(
    codes: ArrayLike, query_codes: ArrayLike, n_bits: int, relevance: Relevance, ties: Ties = "expected"
) -> float:
    """mAP: the mean of :func:`average_precision` over all queries, those without a relevant item included."""
    return float(average_precision(codes, query_codes, n_bits, relevance, ties).mean())


def top_query_map(average_precision: ArrayLike, n_best: int = 100) -> float:
    """Mean of the ``n_best`` largest average precisions: the mAP of the queries that went best.

    The JPSH paper's "Pre@100" is this number with ``n_best=100``. It is not the precision among the first 100 results
    (:func:`hashlearn.metrics.precision_at`), and it grows with the number of queries to choose from.
    """
    values = np.asarray(average_precision, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"average_precision must have shape (n_queries,), got {values.shape}")
    if check_integer("n_best", n_best, low=1) > len(values):
        raise ValueError(f"n_best must be at most the number of queries ({len(values)}), got {n_best}")
    return float(np.sort(values)[-n_best:].mean())


def _stable_groups(codes: ArrayLike, query_codes: ArrayLike, n_bits: int, relevance: Relevance) -> Iterator[TieGroups]:
    """The stable ranking of one query after the other, by counting sort: equal distances keep database order."""
    queries, items = _check_ranking(codes, query_codes, n_bits, relevance)
    # numpy sorts integers of at most 16 bits by radix, in time linear in the database.
    small = np.min_scalar_type(n_bits)
    everything = slice(0, len(items))
    rows_per_block = max(1, _PAIRS_PER_BLOCK // len(items))
    for rows in track(list(gen_batches(len(queries), rows_per_block)), "ranking"):
        distances = hamming_distances(queries[rows], items, n_bits).astype(small)
        order = np.argsort(distances, axis=1, kind="stable")
        ranked = np.take_along_axis(relevance.block(rows, everything), order, axis=1)
        for hits in ranked:
            yield TieGroups.of_hits(np.flatnonzero(hits) + 1)


def _check_ranking(
    codes: ArrayLike, query_codes: ArrayLike, n_bits: int, relevance: Relevance
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    queries = check_codes(query_codes, n_bits, "query_codes")
    items = check_codes(codes, n_bits, "codes")
    check_relevance(relevance, len(queries), len(items))
    return queries, items


def check_not_empty(n_queries: int, n_database: int) -> None:
    """Raise unless there is at least one query and one database item."""
    if n_queries == 0 or n_database == 0:
        raise ValueError(f"there must be at least one query and one database item, got {n_queries} and {n_database}")


def check_relevance(relevance: Relevance, n_queries: int, n_database: int) -> None:
    """Raise unless the relevance fits these queries and this database, and neither is empty."""
    check_not_empty(n_queries, n_database)
    if relevance.shape != (n_queries, n_database):
        raise ValueError(
            f"relevance is for {relevance.shape[0]} queries and {relevance.shape[1]} database items, "
            f"but there are {n_queries} queries and {n_database} database items"
        )
