"""Curves: precision and recall among the first N results, and over Hamming radii. Both are pooled over the queries.

Pooled (micro) means that hits are added over all queries before anything is divided, as programs of this field do.
Recall is therefore hits over all relevant pairs, not the mean over the queries (both are equal if all queries have the
same number of relevant items).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer
from hashlearn.metrics.ranking import Histograms, RankingScores, score_codes
from hashlearn.metrics.relevance import Relevance
from hashlearn.metrics.ties import Ties


@dataclass(frozen=True, eq=False)
class RadiusCurve:
    """Precision and recall of all pairs within a Hamming distance.

    Attributes
    ----------
    radii : ndarray of int64, shape (n_radii,)
    precision, recall : ndarray of shape (n_radii,)
    """

    radii: NDArray[np.int64]
    precision: NDArray[np.float64]
    recall: NDArray[np.float64]


def curve_positions(last: int) -> NDArray[np.int64]:
    """The usual positions for precision@N and recall@N: 1, 31, 61, 91, 100, 200, 300, ... up to ``last``.

    The JPSH paper's curves end at the number of queries.

    >>> curve_positions(250)
    array([  1,  31,  61,  91, 100, 200])
    """
    last = check_integer("last", last, low=1)
    positions = np.concatenate([np.arange(1, 100, 30), np.arange(100, max(last, 100) + 1, 100)])
    return positions[positions <= last].astype(np.int64)


def precision_at(
    codes: ArrayLike,
    query_codes: ArrayLike,
    n_bits: int,
    relevance: Relevance,
    positions: ArrayLike,
    ties: Ties = "expected",
) -> NDArray[np.float64]:
    """Precision among the first N, ``sum_i hits_i(N) / (n_queries N)``, for every N of ``positions``.

    N may exceed the database: empty places count as misses, so the value is always hits / N.
    """
    return pooled_precision(score_codes(codes, query_codes, n_bits, relevance, positions, ties))


def recall_at(
    codes: ArrayLike,
    query_codes: ArrayLike,
    n_bits: int,
    relevance: Relevance,
    positions: ArrayLike,
    ties: Ties = "expected",
) -> NDArray[np.float64]:
    """Recall among the first N, ``sum_i hits_i(N) / sum_i R_i``, for every N of ``positions``.

    R_i is the number of items relevant to query i; NaN where no pair at all is relevant.
    """
    return pooled_recall(score_codes(codes, query_codes, n_bits, relevance, positions, ties))


def pooled_precision(scores: RankingScores) -> NDArray[np.float64]:
    """Precision at the positions of given scores; see :func:`precision_at`."""
    return scores.hits.mean(axis=0) / scores.positions


def pooled_recall(scores: RankingScores) -> NDArray[np.float64]:
    """Recall at the positions of given scores; see :func:`recall_at`."""
    return _over(scores.hits.sum(axis=0), scores.n_relevant.sum(), undefined=np.nan)


def radius_curve(histograms: Histograms, include_last: bool = False) -> RadiusCurve:
    """The precision-recall curve over radii r = 0, 1, ..., n_bits - 1, retrieving all pairs at distance at most r.

    Parameters
    ----------
    histograms : Histograms
        Counts of :func:`hashlearn.metrics.ranking_histograms`.
    include_last : bool, default=False
        Add radius n_bits, where everything is retrieved and recall is 1. Published curves end before this radius.

    Returns
    -------
    RadiusCurve
        Precision is 0 where nothing is retrieved; recall is NaN if no pair is relevant.
    """
    stop = histograms.all.shape[1] - (not include_last)
    retrieved = np.cumsum(histograms.all.sum(axis=0))[:stop]
    good = np.cumsum(histograms.relevant.sum(axis=0))[:stop]
    return RadiusCurve(
        np.arange(stop),
        _over(good, retrieved, undefined=0.0),
        _over(good, histograms.relevant.sum(), undefined=np.nan),
    )


def _over(numerator: NDArray, denominator: NDArray | np.integer, undefined: float) -> NDArray[np.float64]:
    return np.where(denominator > 0, numerator / np.maximum(denominator, 1), undefined)
