"""Find codes in Hamming space: exact, whatever the way taken."""

from hashlearn.search.index import HammingIndex
from hashlearn.search.rerank import Rescored, rerank_asymmetric, rerank_exact
from hashlearn.search.results import Neighbours, Pairs, RangeResult
from hashlearn.search.similarity import SimilaritySearch

__all__ = [
    "HammingIndex",
    "Neighbours",
    "Pairs",
    "RangeResult",
    "Rescored",
    "SimilaritySearch",
    "rerank_asymmetric",
    "rerank_exact",
]
