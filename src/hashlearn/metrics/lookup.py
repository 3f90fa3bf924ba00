"""Hash look-up: precision and recall within a Hamming radius, averaged over the queries (macro)."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from hashlearn.checks import check_choice, check_integer
from hashlearn.metrics.ranking import Histograms

EmptyBalls = Literal["zero", "skip"]


@dataclass(frozen=True)
class Lookup:
    """Mean precision and recall of the balls around the queries.

    Attributes
    ----------
    radius : int
    precision, recall : float
        Means over the queries.
    f_measure : float
        ``2 P R / (P + R)`` of the two means; NaN where both are 0.
    empty_fraction : float
        Share of the queries that find nothing.
    empty : {"zero", "skip"}
        How such queries enter the precision.
    """

    radius: int
    precision: float
    recall: float
    f_measure: float
    empty_fraction: float
    empty: EmptyBalls


def radius_lookup(histograms: Histograms, radius: int = 2, empty: EmptyBalls = "zero") -> Lookup:
    """Precision, recall and F of all items at distance at most ``radius``, per query and then averaged.

    Parameters
    ----------
    histograms : Histograms
        Counts of :func:`hashlearn.metrics.ranking_histograms`.
    radius : int, default=2
        Inclusive.
    empty : {"zero", "skip"}, default="zero"
        What counts for a query that finds nothing. "zero": its precision is 0; this is the usual and the stricter rule.
        "skip": the mean precision leaves the query out, and is NaN if no query is left. Its recall is 0 in both cases.
        The recall of a query without relevant items is 0 too.
    """
    radius = check_integer("radius", radius, low=0)
    check_choice("empty", empty, get_args(EmptyBalls))
    retrieved = histograms.all[:, : radius + 1].sum(axis=1)
    good = histograms.relevant[:, : radius + 1].sum(axis=1)
    precisions = good / np.maximum(retrieved, 1)
    recalls = good / np.maximum(histograms.relevant.sum(axis=1), 1)
    found = retrieved > 0
    if empty == "skip":
        precision = float(precisions[found].mean()) if found.any() else float("nan")
    else:
        precision = float(precisions.mean())
    recall = float(recalls.mean())
    return Lookup(radius, precision, recall, _f_measure(precision, recall), float(np.mean(~found)), empty)


def _f_measure(precision: float, recall: float) -> float:
    total = precision + recall
    return 2 * precision * recall / total if total > 0 else float("nan")
