"""Find codes in Hamming space: exact, whatever the way taken."""

from hashlearn.search.index import HammingIndex
from hashlearn.search.results import Neighbours, Pairs, RangeResult

__all__ = ["HammingIndex", "Neighbours", "Pairs", "RangeResult"]
