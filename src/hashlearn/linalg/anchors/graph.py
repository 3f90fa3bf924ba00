"""The anchor graph: the weights that tie rows to their nearest anchors (eq. 2), the sums over them, and its spectrum.

The methods with anchors need only these sums from the data. The spectrum gives codes of the anchors: the slow
directions of the graph, rotated toward the hypercube.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from hashlearn.linalg.anchors.search import AnchorSearch, nearest_anchors
from hashlearn.linalg.rotations import quantizing_rotation, random_rotation, with_positive_peaks
from hashlearn.rows import RowBlocks, added, fold, scratch, sum_blocks

ROTATION_ROWS = 20_000
"""Number of rows from which the rotation is learned. It has n_bits^2 unknowns, so more rows change nothing."""


class Spacing(NamedTuple):
    """How far the rows lie from their nearest anchors.

    Attributes
    ----------
    mean : ndarray of shape (k,)
        Mean distance to the nearest anchor, to the second nearest, and so on.
    shares : ndarray of shape (m,)
        For each anchor, the share of the rows that are nearest to it.
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
    """Rows that sum to one. If all weights of a row underflow to zero, its nearest anchor gets weight one."""
    total = weight.sum(axis=1, keepdims=True)
    fallback = np.zeros_like(weight)
    fallback[:, 0] = 1
    return np.where(total > 0, weight / np.where(total > 0, total, 1), fallback)


def weight_matrix(index: NDArray, weight: NDArray, n_anchors: int) -> scipy.sparse.csr_array:
    """The graph's rows as a sparse (n, m) matrix; arrays are copied, because SciPy may sort the entries in place."""
    n, k = index.shape
    return scipy.sparse.csr_array((weight.flatten(), index.flatten(), np.arange(0, n * k + 1, k)), (n, n_anchors))


class PairwiseSums(NamedTuple):
    """The sums of the pairwise term, over rows x_i and their weights a_ij.

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

    def with_bias(self) -> "PairwiseSums":
        """The sums of the rows with a one behind each."""
        XD1 = np.append(self.XD1, self.A1.sum())
        XDX = np.block([[self.XDX, self.XD1[:, None]], [XD1[None, :]]])
        return PairwiseSums(XDX, np.vstack([self.XA, self.A1]), XD1, self.A1)


class GraphSums(NamedTuple):
    """The sums over the graphs that tie rows to anchors; None for a graph that is not needed.

    Attributes
    ----------
    pairwise : PairwiseSums or None
    gram : ndarray of shape (m, m) or None
        Z'Z, Z the weights of the rows.
    """

    pairwise: PairwiseSums | None
    gram: NDArray[np.float64] | None

    @classmethod
    def of(
        cls, rows: RowBlocks, anchors: NDArray, pairwise: AnchorGraph | None, spectral: AnchorGraph | None
    ) -> "GraphSums":
        """The sums of all rows, in one pass that finds the nearest anchors of a row once for both graphs."""
        (m, d), search = anchors.shape, AnchorSearch(anchors.astype(rows.dtype, copy=False))
        shapes = [(d, d), (m, d), (d,), (m,)] if pairwise else []
        shapes += [(m, m)] if spectral else []
        if not shapes:
            return cls(None, None)
        sums = sum_blocks(rows, _add_over_graphs, shapes, search, pairwise, spectral)
        gram = sums[-1] if spectral else None
        if pairwise is None:
            return cls(None, gram)
        XDX, AX, XD1, A1 = sums[:4]
        return cls(PairwiseSums(XDX, AX.T, XD1, A1), gram)


def _add_over_graphs(
    block: NDArray, sums: tuple, search: AnchorSearch, pairwise: AnchorGraph | None, spectral: AnchorGraph | None
) -> None:
    nearest, squared = search.nearest(block, max(graph.k for graph in (pairwise, spectral) if graph))
    m = len(search.constants)
    if pairwise is not None:
        XDX, AX, XD1, A1 = sums[:4]
        A = pairwise.weights(nearest, squared, m)
        degree = np.asarray(A.sum(axis=1)).ravel()
        scaled = np.multiply(block, np.sqrt(degree)[:, None], out=scratch("scaled", block.shape, block.dtype))
        XDX += scaled.T @ scaled
        AX += A.T @ block
        XD1 += degree @ block
        A1 += np.asarray(A.sum(axis=0, dtype=np.float64)).ravel()
    if spectral is not None:
        Z = spectral.weights(nearest, squared.astype(np.float64), m)
        (Z.T @ Z).toarray(out=sums[-1])


def spectral_offsets(
    gram: NDArray, sample: scipy.sparse.csr_array, anchors: NDArray, n_bits: int, rounds: Iterable[int], rng
) -> NDArray[np.float64]:
    """Scores of the anchors for every bit, shape (m, n_bits); a row's scores are its graph weights times these.

    ``gram`` is Z'Z of all rows, ``sample`` the rows of Z that the rotation is learned from.
    If there are fewer eigenvectors than bits, the rotation has orthonormal rows instead of columns, and several bits
    share a direction.
    """
    E = spectral_embedding(gram, anchors, n_bits)
    rotation, _ = quantizing_rotation(sample @ E, random_rotation(n_bits, rng)[: E.shape[1]], rounds)
    return E @ rotation


def spectral_embedding(gram: NDArray, anchors: NDArray, n_components: int) -> NDArray[np.float64]:
    """The leading eigenvectors of the anchor graph as features of the anchors, weighted; shape (m, n_components).

    With rows of Z summing to one and L = diag(Z'1), the eigenvectors of ``M = L^-1/2 Z'Z L^-1/2`` vary slowly over
    the data; the first is constant and is left out. Eigenvector i gets the weight s_i e_i: its eigenvalue times its
    energy in the data, ``e_i = ||v_i' L^1/2 (C - c)||`` with c the mean of the anchors under L. The n_components of
    largest weight are kept (all, if there are fewer) and returned as ``L^-1/2 V diag(s e)``, so that ``z(x)`` times
    them embeds a row.
    """
    mass = gram.sum(axis=1)
    # In a graph of several components many vectors have the eigenvalue one, so the constant vector is removed
    # explicitly.
    constant = mass / np.sqrt(mass.sum())
    spectrum = anchor_spectrum(gram - np.outer(constant, constant), mass)
    eigenvalues, vectors = spectrum.eigenvalues, with_positive_peaks(spectrum.vectors)

    centered = anchors - (mass @ anchors) / mass.sum()
    energy = np.linalg.norm((vectors * np.sqrt(mass)[:, None]).T @ centered, axis=1)
    weight = np.maximum(eigenvalues, 0) * energy
    kept = np.argsort(-weight, kind="stable")[: min(n_components, (mass > 0).sum() - 1)]
    return vectors[:, kept] * spectrum.scale[:, None] * weight[kept]


class AnchorSpectrum(NamedTuple):
    """The eigenvectors of the anchor graph.

    Attributes
    ----------
    mass : ndarray of shape (m,)
        The diagonal of L = diag(Z'1).
    scale : ndarray of shape (m,)
        The diagonal of L^-1/2, zero for an anchor of no row.
    eigenvalues : ndarray of shape (m,)
        Those of ``M = L^-1/2 Z'Z L^-1/2``, largest first.
    vectors : ndarray of shape (m, m)
        Its eigenvectors as columns.
    """

    mass: NDArray[np.float64]
    scale: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    vectors: NDArray[np.float64]


def anchor_spectrum(gram: NDArray, mass: NDArray | None = None) -> AnchorSpectrum:
    """All eigenvectors of ``L^-1/2 gram L^-1/2``, from Z'Z (m x m) or what is left of it, and the diagonal of L."""
    if mass is None:
        mass = gram.sum(axis=1)  # Z'Z 1 = Z'1, since the rows of Z sum to one
    used = mass > 0
    scale = np.where(used, 1 / np.sqrt(np.where(used, mass, 1)), 0)
    eigenvalues, vectors = scipy.linalg.eigh(gram * np.outer(scale, scale))
    return AnchorSpectrum(mass, scale, eigenvalues[::-1], vectors[:, ::-1])
