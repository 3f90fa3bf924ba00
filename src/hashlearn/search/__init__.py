"""Find codes, by Hamming distance or by the real numbers of a query, and order them anew by vectors on disk."""

from hashlearn.codes.results import Neighbors, RangeResult
from hashlearn.search.asymmetric import AsymmetricIndex
from hashlearn.search.exact import nearest_vectors
from hashlearn.search.index import HammingIndex
from hashlearn.search.rerank import rerank_asymmetric, rerank_exact
from hashlearn.search.results import Pairs, Record
from hashlearn.search.similarity import SimilaritySearch
from hashlearn.search.tune import tune
from hashlearn.search.tuning import Tuning
from hashlearn.search.vector_file import VectorFile
from hashlearn.search.vector_values import Calibration
from hashlearn.search.vector_view import VectorView

__all__ = [
    "AsymmetricIndex",
    "Calibration",
    "HammingIndex",
    "Neighbors",
    "Pairs",
    "RangeResult",
    "Record",
    "SimilaritySearch",
    "Tuning",
    "VectorFile",
    "VectorView",
    "nearest_vectors",
    "rerank_asymmetric",
    "rerank_exact",
    "tune",
]
