"""Spectral codes of anchors: the slow directions of the anchor graph, rotated toward the hypercube."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from hashlearn.linalg.rotations import quantizing_rotation, random_rotation, with_positive_peaks

ROTATION_ROWS = 20_000
"""Rows the rotation is learned from: it has n_bits^2 unknowns, more rows change nothing."""


def spectral_offsets(
    gram: NDArray, sample: scipy.sparse.csr_array, anchors: NDArray, n_bits: int, rounds: Iterable[int], rng
) -> NDArray[np.float64]:
    """Scores of the anchors for every bit, shape (m, n_bits); a row's scores are its graph weights times these.

    ``gram`` is Z'Z of all rows, ``sample`` the rows of Z that the rotation is learned from.
    Where there are fewer eigenvectors than bits, the rotation has orthonormal rows instead of columns: the bits then
    share the directions there are.
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
    # In a graph of several components the constant vector is one of many with eigenvalue one: it is taken out by name.
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
