"""Find codes: by Hamming distance, or by the real numbers of a query. Rows are integers here."""

from hashlearn.codes.results import Neighbors, RangeResult
from hashlearn.index.asymmetric import AsymmetricIndex
from hashlearn.index.base import Pairs
from hashlearn.index.hamming import HammingIndex
from hashlearn.index.list_search import ProbedNeighbors
from hashlearn.index.partitioned import PartitionedIndex

__all__ = [
    "AsymmetricIndex",
    "HammingIndex",
    "Neighbors",
    "Pairs",
    "PartitionedIndex",
    "ProbedNeighbors",
    "RangeResult",
]
