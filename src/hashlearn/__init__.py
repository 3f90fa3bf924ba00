"""Learning to hash: short binary codes for vectors, exact Hamming search, honest evaluation."""

from hashlearn import progress
from hashlearn.codes import hamming_distances, pack, unpack

__version__ = "0.1.0"

__all__ = ["__version__", "hamming_distances", "pack", "progress", "unpack"]
