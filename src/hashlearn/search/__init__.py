"""Find vectors: codes find candidates, kept vectors put them in order; ids, payloads, filters."""

from hashlearn.codes.results import Neighbors, RangeResult
from hashlearn.search.columns import Facet
from hashlearn.search.exact import nearest_vectors
from hashlearn.search.rerank import rerank_asymmetric, rerank_exact
from hashlearn.search.results import Page, Record
from hashlearn.search.similarity import SimilaritySearch
from hashlearn.search.tune import Tuning, tune
from hashlearn.search.vector_records import Calibration, VectorView
from hashlearn.search.vectors import VectorFile

__all__ = [
    "Calibration",
    "Facet",
    "Neighbors",
    "Page",
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
