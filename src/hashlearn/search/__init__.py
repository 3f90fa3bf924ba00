"""Find codes in Hamming space: exact, whatever the way taken."""

from hashlearn.codes.results import Neighbors, RangeResult
from hashlearn.search.index import HammingIndex
from hashlearn.search.rerank import Reranked, rerank_asymmetric, rerank_exact
from hashlearn.search.results import Pairs
from hashlearn.search.similarity import SimilaritySearch

__all__ = [
    "HammingIndex",
    "Neighbors",
    "Pairs",
    "RangeResult",
    "Reranked",
    "SimilaritySearch",
    "rerank_asymmetric",
    "rerank_exact",
]
