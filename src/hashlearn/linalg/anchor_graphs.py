"""The graphs of anchors, and the sums over them that a pass over the data leaves behind.

The anchor graph ties every row to its nearest anchors (eq. 2); the similarity graph ties anchors to each other (eq. 6).
All that the methods with anchors need of the data are sums over the first.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hashlearn.linalg.anchors import AnchorSearch, nearest_anchors, squared_distances
from hashlearn.rows import RowBlocks, added, fold, scratch, zeros_again


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
        return cls(sums / len(rows), counts / len(rows))

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
    """The graph's rows as a sparse (n, m) matrix."""
    n, k = index.shape
    return scipy.sparse.csr_array((weight.ravel(), index.ravel(), np.arange(0, n * k + 1, k)), (n, n_anchors))


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


class PairwiseSums(NamedTuple):
    """The sums over rows x_i and their weights a_ij that the pairwise term is made of.

    Attributes
    ----------
    XDX : ndarray of shape (d, d)
        sum_i d_i x_i x_i', with d_i = sum_j a_ij the degree of a row
    XA : ndarray of shape (d, m)
        sum_i x_i a_i'
    XD1 : ndarray of shape (d,)
        sum_i d_i x_i
    A1 : ndarray of shape (m,)
        sum_i a_i
    """

    XDX: NDArray[np.float64]
    XA: NDArray[np.float64]
    XD1: NDArray[np.float64]
    A1: NDArray[np.float64]

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self.A1.sum())

    def with_bias(self) -> "PairwiseSums":
        """The sums of the rows with a one behind each."""
        XD1 = np.append(self.XD1, self.total)
        XDX = np.block([[self.XDX, self.XD1[:, None]], [XD1[None, :]]])
        return PairwiseSums(XDX, np.vstack([self.XA, self.A1]), XD1, self.A1)


def pairwise_sums(block: NDArray, nearest: NDArray, squared: NDArray, graph: AnchorGraph, m: int) -> tuple:
    """The sums of a block for :class:`PairwiseSums`."""
    A = graph.weights(nearest, squared, m)
    degree = np.asarray(A.sum(axis=1)).ravel()
    scaled = np.multiply(block, np.sqrt(degree)[:, None], out=scratch("scaled", block.shape, block.dtype))
    XDX, AX = zeros_again((block.shape[1],) * 2), zeros_again((m, block.shape[1]))
    XDX += scaled.T @ scaled
    AX += A.T @ block
    XD1 = (degree @ block).astype(np.float64)
    return XDX, AX, XD1, np.asarray(A.sum(axis=0, dtype=np.float64)).ravel()


def gram_sums(block: NDArray, nearest: NDArray, squared: NDArray, graph: AnchorGraph, m: int) -> tuple:
    """Z'Z of a block, shape (m, m)."""
    Z = graph.weights(nearest, squared.astype(np.float64), m)
    return ((Z.T @ Z).toarray(out=zeros_again((m, m))),)


class GraphSums(NamedTuple):
    """Sums to be taken over a graph: the graph, and the function that sums up a block."""

    graph: AnchorGraph
    of_block: Callable[..., tuple]


def sum_over_graphs(rows: RowBlocks, anchors: NDArray, wanted: Sequence[GraphSums]) -> list[tuple]:
    """The wanted sums over all the rows, in one pass that finds the nearest anchors of a row once for all graphs."""
    search = AnchorSearch(anchors.astype(rows.dtype, copy=False))
    return fold(rows, _sums_of_block, _added_each, search, tuple(wanted))


def _sums_of_block(block: NDArray, first: int, search: AnchorSearch, wanted: Sequence[GraphSums]) -> list[tuple]:
    nearest, squared = search.nearest(block, max(graph.k for graph, _ in wanted))
    m = len(search.constants)
    return [of_block(block, nearest, squared, graph, m) for graph, of_block in wanted]


def _added_each(left: list[tuple], right: list[tuple]) -> list[tuple]:
    return [added(*pair) for pair in zip(left, right)]
