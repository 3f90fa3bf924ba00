"""Measure how good codes are, by labels and by true neighbors; equal distances count by a rule you choose."""

from hashlearn.metrics.curves import (
    RadiusCurve,
    curve_positions,
    pooled_precision,
    pooled_recall,
    precision_at,
    radius_curve,
    recall_at,
)
from hashlearn.metrics.evaluate import evaluate, evaluate_vectors
from hashlearn.metrics.evaluation import Evaluation
from hashlearn.metrics.explain import CodeStatistics, explain_codes
from hashlearn.metrics.judged import JudgedScores, read_queries, read_relevance, score_judged
from hashlearn.metrics.lookup import Lookup, radius_lookup
from hashlearn.metrics.neighbors import neighbor_recall, neighbor_recalls, score_vectors, true_neighbors
from hashlearn.metrics.ranked import recall_of_ids, score_ids
from hashlearn.metrics.ranking import (
    Histograms,
    RankingScores,
    average_precision,
    mean_average_precision,
    ranking_histograms,
    score_codes,
    top_query_map,
)
from hashlearn.metrics.relevance import Relevance, TrueNeighbor, relevance_of_labels
from hashlearn.metrics.scorer import neighbor_scorer

__all__ = [
    "CodeStatistics",
    "Evaluation",
    "Histograms",
    "JudgedScores",
    "Lookup",
    "RadiusCurve",
    "RankingScores",
    "Relevance",
    "TrueNeighbor",
    "average_precision",
    "curve_positions",
    "evaluate",
    "evaluate_vectors",
    "explain_codes",
    "mean_average_precision",
    "neighbor_recall",
    "neighbor_recalls",
    "neighbor_scorer",
    "pooled_precision",
    "pooled_recall",
    "precision_at",
    "radius_curve",
    "radius_lookup",
    "ranking_histograms",
    "read_queries",
    "read_relevance",
    "recall_at",
    "recall_of_ids",
    "relevance_of_labels",
    "score_codes",
    "score_ids",
    "score_judged",
    "score_vectors",
    "top_query_map",
    "true_neighbors",
]
