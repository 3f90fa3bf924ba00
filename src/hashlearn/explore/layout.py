"""Points in the plane: rows that are near each other get points that are near each other.

Some rows, the landmarks, are laid out by t-SNE (van der Maaten and Hinton 2008; openTSNE, extra ``map``), or by their
two principal components where openTSNE is not installed. Every other row is placed between the landmarks whose codes
are nearest to its own, so that a collection of any size takes one pass over its codes.
"""

from collections.abc import Callable
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import sklearn  # loads its parts at their first use: a page starts without them
from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.index import HammingIndex
from hashlearn.progress import track
from hashlearn.threads import n_threads

PERPLEXITY = 30
ITERATIONS = 500
N_NEAREST = 3
"""Number of landmarks that a row is placed between."""
CODES_AT_A_TIME = 1 << 14
_REPORTS = 25
_EARLY = 125
_FEW_POINTS = 2000


def landmark_points(vectors: NDArray, random_state: int = 0) -> NDArray[np.float32]:
    """Points of landmarks, shape (n, 2); reports its progress.

    Parameters
    ----------
    vectors : array of shape (n, n_features)
    random_state : int
    """
    n = len(vectors)
    start = np.zeros((n, 2))
    if n < 2:
        return start.astype(np.float32)
    n_components = min(50, n, vectors.shape[1])
    flat = sklearn.decomposition.PCA(n_components, random_state=random_state).fit_transform(vectors)
    start[:, : min(2, n_components)] = flat[:, :2]
    if n < 10 or find_spec("openTSNE") is None:
        return start.astype(np.float32)
    return _tsne(flat, start, random_state)


def _tsne(flat: NDArray, start: NDArray, random_state: int) -> NDArray[np.float32]:
    tsne: Any = require("openTSNE", "map")
    perplexity = min(PERPLEXITY, (len(flat) - 1) / 3)
    n_neighbors = min(len(flat) - 1, int(3 * perplexity))
    distances, neighbors = sklearn.neighbors.NearestNeighbors(n_neighbors=n_neighbors).fit(flat).kneighbors()
    known = tsne.nearest_neighbors.PrecomputedNeighbors(neighbors, distances)
    affinities = tsne.affinity.PerplexityBasedNN(perplexity=perplexity, knn_index=known)
    scaled = start / (np.std(start[:, 0]) or 1.0) * 1e-4
    # With few points, threads wait for each other longer than they work.
    n_jobs = n_threads() if len(flat) > _FEW_POINTS else 1
    points = tsne.TSNEEmbedding(scaled, affinities, random_state=random_state, n_jobs=n_jobs)
    for done in track(range(0, ITERATIONS, _REPORTS), "laying out the map"):
        early = done < _EARLY
        points.optimize(_REPORTS, exaggeration=12 if early else None, momentum=0.5 if early else 0.8, inplace=True)
    return np.asarray(points, np.float32)


class MapLandmarks:
    """Rows with known points and clusters; other rows are placed between them.

    Parameters
    ----------
    codes : packed codes of shape (n, ...)
    points : array of shape (n, 2)
    clusters : integer array of shape (n,)
    hasher : hasher of the codes
        If the hasher compares real queries with codes, codes are compared by the vectors that they stand for: their
        Hamming distances say little.
    """

    def __init__(self, codes: NDArray[np.uint8], points: NDArray, clusters: NDArray, hasher: Any):
        self.codes, self.points, self.clusters = codes, points, clusters
        self._hasher = hasher

    @cached_property
    def _nearest(self) -> Callable[[NDArray[np.uint8]], NDArray[np.int64]]:
        n_nearest = min(N_NEAREST, len(self.codes))
        if hasattr(self._hasher, "decode"):
            decode = self._hasher.decode
            near = sklearn.neighbors.NearestNeighbors(n_neighbors=n_nearest, algorithm="brute").fit(decode(self.codes))
            return lambda codes: near.kneighbors(decode(codes), return_distance=False)
        index = HammingIndex(self._hasher.n_bits).add(self.codes)
        return lambda codes: index.search(codes, n_nearest, n_jobs=-1).ids

    def place(self, codes: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
        """Points and clusters of codes; reports its progress.

        A point is the mean of the points of the nearest landmarks, moved a little at random, so that rows of one code
        do not hide each other. The cluster is that of the nearest landmark.
        """
        points = np.empty((len(codes), 2), np.float32)
        clusters = np.empty(len(codes), np.uint8)
        rng = np.random.default_rng(0)
        spread = float(np.ptp(self.points, axis=0).max()) / 400
        for start in track(range(0, len(codes), CODES_AT_A_TIME), "placing rows on the map"):
            part = slice(start, start + CODES_AT_A_TIME)
            nearest = self._nearest(codes[part])
            around = self.points[nearest]
            moved = rng.normal(0, 1, (len(around), 2)) * (around.std(axis=1) * 0.3 + spread)
            points[part] = around.mean(axis=1) + moved
            clusters[part] = self.clusters[nearest[:, 0]]
        return points, clusters
