"""The nearest codes by going through all of them: small and readable."""

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import hamming_distances
from hashlearn.progress import track

BLOCK_DISTANCES = 1 << 22


def nearest_codes(
    codes: NDArray[np.uint8], queries: NDArray[np.uint8], n_bits: int, k: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Distances and ids of the k nearest codes of every query, ties by lowest id; both of shape (n_queries, k)."""
    distances, ids = np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.int64)
    step = max(1, BLOCK_DISTANCES // max(1, len(codes)))
    for start in track(range(0, len(queries), step), "search"):
        rows = slice(start, start + step)
        block = hamming_distances(queries[rows], codes, n_bits)
        ids[rows] = np.argsort(block, axis=1, kind="stable")[:, :k]
        distances[rows] = np.take_along_axis(block, ids[rows], axis=1)
    return distances, ids
