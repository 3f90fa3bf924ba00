"""Find codes: by Hamming distance, or by the real numbers of a query; exact, whatever the way taken."""

from hashlearn.search.asymmetric import AsymmetricIndex
from hashlearn.search.index import HammingIndex
from hashlearn.search.rerank import Rescored, rerank_asymmetric, rerank_exact
from hashlearn.search.results import Neighbors, Pairs, RangeResult
from hashlearn.search.similarity import SimilaritySearch

__all__ = [
    "AsymmetricIndex",
    "HammingIndex",
    "Neighbors",
    "Pairs",
    "RangeResult",
    "Rescored",
    "SimilaritySearch",
    "rerank_asymmetric",
    "rerank_exact",
]
