"""Find codes: by Hamming distance, or by the real numbers of a query; exact, whatever the way taken."""

from hashlearn.codes.results import Neighbors, RangeResult
from hashlearn.search.asymmetric import AsymmetricIndex
from hashlearn.search.index import HammingIndex
from hashlearn.search.rerank import Reranked, rerank_asymmetric, rerank_exact
from hashlearn.search.results import Pairs
from hashlearn.search.similarity import SimilaritySearch

__all__ = [
    "AsymmetricIndex",
    "HammingIndex",
    "Neighbors",
    "Pairs",
    "RangeResult",
    "Reranked",
    "SimilaritySearch",
    "rerank_asymmetric",
    "rerank_exact",
]
