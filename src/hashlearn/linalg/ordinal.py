"""Ordinal relations among landmarks: what OEH and OCH preserve.

A few hundred k-means centers stand for the data. The relaxed code of a landmark is h = tanh(x W), and the similarity of
two codes is T_uv = <h_u, h_v>. If an anchor r lies nearer to j than to i, T_ri should be below T_rj.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_count, check_integer, check_matrix, check_rows
from hashlearn.linalg.anchors.kmeans import kmeans
from hashlearn.linalg.anchors.search import squared_distances
from hashlearn.linalg.moments import Moments
from hashlearn.linalg.projections import principal_directions
from hashlearn.rows import RowBlocks

NEIGHBORS = 16
"""Neighbors whose mean distance is the unit of length around a landmark."""

WIDTH = 0.35
"""Width of the affinity's bell, in those units."""


class Landmarks(NamedTuple):
    """Centres that stand for the data, seen in its leading principal directions.

    Attributes
    ----------
    mean : ndarray of shape (d,)
    directions : ndarray of shape (d, n_components)
    points : ndarray of shape (L, n_components)
        The landmarks, centered and projected.
    affinity : ndarray of shape (L, L)
        How near they are to each other in the space of the data, see :func:`affinity`.
    """

    mean: NDArray[np.float64]
    directions: NDArray[np.float64]
    points: NDArray[np.float64]
    affinity: NDArray[np.float64]


class LandmarkSettings(NamedTuple):
    """How landmarks are found.

    ``subset``, ``landmarks`` (in the coordinates of the data) and ``directions`` are found if None: ``train_sample``
    rows drawn at random, k-means from ``n_landmarks`` of them ("auto": 300), PCA of the sample.
    """

    train_sample: int
    subset: Any
    n_landmarks: Any
    landmarks: Any
    n_components: int
    directions: Any
    kmeans_max_iter: int


def find_landmarks(rows: RowBlocks, settings: LandmarkSettings, rng: np.random.RandomState) -> Landmarks:
    """Landmarks, mean and principal directions of a sample of the rows."""
    train_sample, subset, n_landmarks, landmarks, n_components, directions, kmeans_max_iter = settings
    chosen = _sample(len(rows), train_sample, rng) if subset is None else check_rows("subset", subset, len(rows))
    sample = RowBlocks(rows.take(chosen))
    moments = Moments.of(sample)
    if directions is None:
        directions = principal_directions(moments, n_components)
    directions = check_matrix("directions", directions, (rows.shape[1], n_components))
    if landmarks is None:
        count = check_count("n_landmarks", n_landmarks, auto=300, low=2, high=len(chosen))
        start = sample.take(rng.permutation(len(chosen))[:count])
        found = kmeans(sample.shifted(moments.mean), start - moments.mean, kmeans_max_iter)
        centered = found.centers.astype(np.float64)
    else:
        centered = check_matrix("landmarks", landmarks, (None, rows.shape[1])) - moments.mean
        check_integer("the number of landmarks", len(centered), low=2)
    return Landmarks(moments.mean, directions, centered @ directions, affinity(centered))


def _sample(n: int, train_sample: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    return np.arange(n) if n <= train_sample else rng.permutation(n)[:train_sample]


def affinity(landmarks: NDArray) -> NDArray[np.float64]:
    """How near landmarks are to each other: a bell curve of their distance, shape (L, L), with a zero diagonal.

    For the pair (u, v) the curve is the normal density with standard deviation 0.35 s_uv. Here s_uv is the mean
    distance of u and v to their 16 nearest landmarks. So dense and sparse regions have different scales.
    """
    squared = squared_distances(landmarks, landmarks)
    np.fill_diagonal(squared, 0)
    distances = np.sqrt(squared)
    reach = np.sort(distances, axis=1)[:, 1 : NEIGHBORS + 1].mean(axis=1)
    width = np.maximum(WIDTH * (reach[:, None] + reach) / 2, np.finfo(np.float64).tiny ** 0.25)
    density = np.exp(-0.5 * (distances / width) ** 2) / (width * np.sqrt(2 * np.pi))
    density = (density + density.T) / 2
    np.fill_diagonal(density, 0)
    return density


def ordinal_gradient(points: NDArray, H: NDArray, weights: NDArray) -> NDArray[np.float64]:
    """Gradient by W of ``1/2 sum_rv weights_rv T_rv``, with H = tanh(points W); it has the shape of W.

    A triplet (r, i, j) adds its slope to the weight of the pair (r, i) and subtracts it from the weight of (r, j).
    So one call sums the gradients of any number of triplets:
    dT_rv / dW = x_r ((1 - h_r^2) * h_v)' + x_v ((1 - h_v^2) * h_r)'.
    """
    return 0.5 * points.T @ ((1 - H**2) * ((weights + weights.T) @ H))
