"""The graph among the anchors themselves: who is near whom (eq. 6)."""

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hashlearn.linalg.anchors import squared_distances


def anchor_similarity(anchors: NDArray, n_neighbors: int) -> scipy.sparse.csr_array:
    """Symmetric heat-kernel graph of the anchors' nearest neighbours (eq. 6), shape (m, m), zero diagonal.

    S_ij = exp(-||c_i - c_j||^2 / (2 t^2)) where one is among the other's ``n_neighbors`` nearest; t is the mean of all
    m x m distances, the zeros of the diagonal included, as in the published implementation.
    """
    squared = squared_distances(anchors.astype(np.float64), anchors.astype(np.float64))
    m, width = len(anchors), float(np.sqrt(squared).mean())
    np.fill_diagonal(squared, np.inf)
    nearest = np.argsort(squared, axis=1, kind="stable")[:, : min(n_neighbors, m - 1)]
    chosen = np.zeros((m, m), bool)
    np.put_along_axis(chosen, nearest, True, axis=1)
    chosen |= chosen.T
    np.fill_diagonal(chosen, False)
    rows, columns = np.nonzero(chosen)
    weights = np.exp(squared[rows, columns] / -(2 * width**2)) if width > 0 else np.ones(len(rows))
    return scipy.sparse.csr_array((weights, (rows, columns)), (m, m))
