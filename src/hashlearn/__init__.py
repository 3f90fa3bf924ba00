"""Learning to hash: short binary codes for vectors, exact Hamming search, honest evaluation."""

from hashlearn import progress
from hashlearn.codes import hamming_distances, pack, unpack
from hashlearn.hashers import ITQ, LSH, METHODS, Hasher
from hashlearn.persist import load

__version__ = "0.1.0"

__all__ = ["ITQ", "LSH", "METHODS", "Hasher", "__version__", "hamming_distances", "load", "pack", "progress", "unpack"]
