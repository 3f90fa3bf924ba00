"""The graph that ties rows to their nearest anchors (eq. 2)."""

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hashlearn.linalg.anchors.search import AnchorSearch, nearest_anchors
from hashlearn.rows import RowBlocks, added, fold


class Spacing(NamedTuple):
    """How far the rows lie from their nearest anchors.

    Attributes
    ----------
    mean : ndarray of shape (k,)
        Mean distance to the nearest anchor, to the second nearest, and so on.
    shares : ndarray of shape (m,)
        The part of the rows that each anchor is the nearest of.
    """

    mean: NDArray[np.float64]
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, rows: RowBlocks, anchors: NDArray, k: int) -> "Spacing":
        """The spacing of all the rows, in one pass."""
        sums, counts = fold(rows, _distances_to_nearest, added, AnchorSearch(anchors.astype(rows.dtype)), k)
        return cls(sums / rows.shape[0], counts / rows.shape[0])

    def graph(self, k: int, normalize: bool) -> "AnchorGraph":
        """The graph that ties a row to its k nearest anchors, or to all if there are fewer."""
        k = min(k, len(self.shares))
        return AnchorGraph(k, float(self.mean[k - 1]), normalize)


def _distances_to_nearest(block: NDArray, first: int, search: AnchorSearch, k: int):
    nearest, squared = search.nearest(block, k)
    shares = np.bincount(nearest[:, 0], minlength=len(search.constants))
    return np.sqrt(squared).sum(axis=0, dtype=np.float64), shares


class AnchorGraph(NamedTuple):
    """The rule of eq. 2: a row is tied to its k nearest anchors with weights exp(-d^2 / sigma^2).

    Attributes
    ----------
    k : int
    sigma : float
        Mean distance of the rows to their k-th nearest anchor; sigma^2 is the paper's theta.
    normalize : bool
        Whether the weights of a row sum to one.
    """

    k: int
    sigma: float
    normalize: bool = False

    def weights(self, nearest: NDArray[np.integer], squared: NDArray, n_anchors: int) -> scipy.sparse.csr_array:
        """The weights of rows, from (at least) their k nearest anchors; sparse, shape (rows, m)."""
        weight = anchor_weights(squared[:, : self.k], self.sigma)
        weight = normalized(weight) if self.normalize else weight
        return weight_matrix(nearest[:, : self.k], weight, n_anchors)

    def of(self, block: NDArray, anchors: NDArray) -> scipy.sparse.csr_array:
        """The weights of a block of rows to the anchors, sparse, shape (rows, m)."""
        anchors = anchors.astype(block.dtype, copy=False)
        return self.weights(*nearest_anchors(block, anchors, self.k), len(anchors))


def anchor_weights(squared: NDArray, sigma: float) -> NDArray:
    """exp(-d^2 / sigma^2); with sigma = 0 (every row is an anchor) the anchor itself has weight one."""
    if sigma == 0:
        return (squared == 0).astype(squared.dtype)
    return np.exp(squared / -(sigma**2))


def normalized(weight: NDArray) -> NDArray:
    """Rows that sum to one. A row too far from every anchor for any weight goes wholly to the nearest."""
    total = weight.sum(axis=1, keepdims=True)
    fallback = np.zeros_like(weight)
    fallback[:, 0] = 1
    return np.where(total > 0, weight / np.where(total > 0, total, 1), fallback)


def weight_matrix(index: NDArray, weight: NDArray, n_anchors: int) -> scipy.sparse.csr_array:
    """The graph's rows as a sparse (n, m) matrix; arrays are copied, because SciPy may sort the entries in place."""
    n, k = index.shape
    return scipy.sparse.csr_array((weight.flatten(), index.flatten(), np.arange(0, n * k + 1, k)), (n, n_anchors))
