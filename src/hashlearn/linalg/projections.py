"""Maps from the data to fewer or other features: principal components, kernels."""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hashlearn.linalg.anchors.search import squared_distances
from hashlearn.linalg.moments import Moments
from hashlearn.linalg.rotations import with_positive_peaks
from hashlearn.rows import RowBlocks, map_blocks


def principal_directions(moments: Moments, n_components: int) -> NDArray[np.float64]:
    """The leading eigenvectors of the covariance as columns, shape (d, n_components), largest eigenvalue first.

    An eigenvector's sign is arbitrary; here the entry of largest magnitude in each is positive, so that the same data
    give the same directions on every machine.
    """
    d = len(moments.mean)
    if n_components > d:
        raise ValueError(f"n_bits={n_components} is more than the data has directions: n_features={d}")
    _, vectors = scipy.linalg.eigh(moments.covariance, subset_by_index=(d - n_components, d - 1))
    return with_positive_peaks(vectors[:, ::-1])


def projected(rows: RowBlocks, directions: NDArray) -> NDArray:
    """The rows times the directions, shape (n, n_components), in the rows' own precision."""
    V = np.empty((len(rows), directions.shape[1]), rows.dtype)
    for part, projection in map_blocks(rows, _product, directions.astype(rows.dtype)):
        V[part] = projection
    return V


def _product(block: NDArray, first: int, directions: NDArray) -> NDArray:
    return block @ directions


def unit_rows(block: NDArray) -> NDArray:
    """The rows scaled to length one; a row of zeros stays."""
    lengths = np.sqrt(np.einsum("ij,ij->i", block, block))
    return block / np.where(lengths > 0, lengths, 1)[:, None]


def rbf_features(block: NDArray, bases: NDArray, width: float) -> NDArray:
    """``exp(-||x - base||^2 / (2 width))`` of every row and basis, shape (rows, m)."""
    features = squared_distances(block, bases.astype(block.dtype, copy=False))
    features *= -0.5 / width
    return np.exp(features, out=features)
