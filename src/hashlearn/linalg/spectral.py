"""Spectral codes of anchors: the slow directions of the anchor graph, rotated toward the hypercube."""

from collections.abc import Iterable

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hashlearn.linalg.anchors import AnchorGraph, normalized, weight_matrix
from hashlearn.linalg.projections import with_positive_peaks
from hashlearn.linalg.rotations import quantizing_rotation, random_rotation

ROTATION_ROWS = 20_000
"""Rows the rotation is learned from: it has n_bits^2 unknowns, more rows change nothing."""


def spectral_offsets(
    graph: AnchorGraph, anchors: NDArray, n_bits: int, rounds: Iterable[int], rng: np.random.RandomState
) -> NDArray[np.float64]:
    """Scores of the anchors for every bit, shape (m, n_bits); a row's scores are its graph weights times these.

    Where there are fewer eigenvectors than bits, the rotation has orthonormal rows instead of columns: the bits then
    share the directions there are.
    """
    E = spectral_embedding(graph, anchors, n_bits)
    n = len(graph.nearest)
    sample = np.sort(rng.choice(n, ROTATION_ROWS, replace=False)) if n > ROTATION_ROWS else np.arange(n)
    Z = weight_matrix(graph.nearest[sample], normalized(graph.weight[sample]), len(anchors))
    rotation, _ = quantizing_rotation(Z @ E, random_rotation(n_bits, rng)[: E.shape[1]], rounds)
    return E @ rotation


def spectral_embedding(graph: AnchorGraph, anchors: NDArray, n_components: int) -> NDArray[np.float64]:
    """The leading eigenvectors of the anchor graph as features of the anchors, weighted; shape (m, n_components).

    With rows of Z summing to one and L = diag(Z'1), the eigenvectors of ``M = L^-1/2 Z'Z L^-1/2`` vary slowly over
    the data; the first is constant and is left out. Eigenvector i gets the weight s_i e_i: its eigenvalue times its
    energy in the data, ``e_i = ||v_i' L^1/2 (C - c)||`` with c the mean of the anchors under L. The n_components of
    largest weight are kept (all, if there are fewer) and returned as ``L^-1/2 V diag(s e)``, so that ``z(x)`` times
    them embeds a row.
    """
    Z = weight_matrix(graph.nearest, normalized(graph.weight), len(anchors))
    mass = np.asarray(Z.sum(axis=0), np.float64).ravel()
    used = mass > 0
    scale = np.where(used, 1 / np.sqrt(np.where(used, mass, 1)), 0)
    M = (Z.T @ Z).toarray().astype(np.float64) * np.outer(scale, scale)
    eigenvalues, vectors = scipy.linalg.eigh(M)
    eigenvalues, vectors = eigenvalues[::-1][1:], with_positive_peaks(vectors[:, ::-1][:, 1:])

    centred = anchors - (mass @ anchors) / mass.sum()
    energy = np.linalg.norm((vectors * np.sqrt(mass)[:, None]).T @ centred, axis=1)
    weight = np.maximum(eigenvalues, 0) * energy
    kept = np.argsort(-weight, kind="stable")[: min(n_components, used.sum() - 1)]
    return vectors[:, kept] * scale[:, None] * weight[kept]
