"""CH: concatenation hashing (Weng and Zhu, Pattern Recognition 2020).

One coordinate system fits all the data badly. So every cluster of the data has its own and gives a part of the code.
The bits of cluster c describe any point x relative to the cluster's center, along projections fitted to its members::

    min  sum_c sum_{i in c} ||x_i - mu_c||^2,  then for every c   min_{B, R}  ||B - (X_c - mu_c) U_c R||_F^2

    code(x) = [ sgn((x - mu_1) M_1), ..., sgn((x - mu_K) M_K) ],        M_c = U_c R_c

where U_c holds the leading principal directions of the members and R_c is the rotation of iterative quantization. The
paper alternates between clusters and functions; the authors' implementation, followed here, runs k-means and then one
ITQ for every cluster.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_choice, check_integer, check_matrix
from hashlearn.hashers.base import Hasher, all_or_nothing, starting_matrix, zeros_made_positive
from hashlearn.linalg.anchors.kmeans import kmeans
from hashlearn.linalg.moments import Moments, mean_and_spread
from hashlearn.linalg.projections import principal_directions
from hashlearn.linalg.rotations import quantizing_rotation, random_rotation
from hashlearn.rows import RowBlocks


class CH(Hasher):
    """Learn codes whose parts come from different clusters of the data.

    Parameters
    ----------
    n_bits : int (at least 1), default=64
        Length of a code. Every cluster has ``n_bits / n_clusters`` bits, at most the number of features. If this is not
        a whole number, the first clusters have one bit more.
    n_clusters : int (at least 1) or "auto", default="auto"
        Clusters, at most ``n_bits``; "auto" takes 2 up to 32 bits and 4 beyond, as published.
    max_iter : int (at least 0), default=50
        Rounds of iterative quantization in every cluster.
    kmeans_max_iter : int (at least 1), default=30
        Rounds of k-means at most.
    centers : ndarray of shape (n_clusters, n_features) or None, default=None
        The centers k-means starts from; random rows if None.
    directions : list of n_clusters ndarrays of shape (n_features, bits of the cluster) or None, default=None
        The principal directions of every cluster, where they are known already.
    init : list of n_clusters square ndarrays, one row for every bit of the cluster, or None, default=None
        The rotations to start from; random ones if None.
    train_sample : int (at least 2) or None, default=None
        Number of rows, drawn at random and held in memory, to learn from; None for all.
    random_state : int, RandomState instance or None, default=None
        Determines the first centers and rotations.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    cluster_means_ : ndarray of shape (n_clusters, n_features)
        Centers of the clusters, measured from ``mean_``.
    projection_ : ndarray of shape (n_features, n_bits)
        The clusters' projections side by side.
    offsets_ : ndarray of shape (n_bits,)
        The clusters' centers seen along them: a bit is one where ``(x - mean_) @ projection_ - offsets_ >= 0``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> CH(n_bits=16, random_state=0).fit_transform(X).shape
    (1797, 2)
    """

    _zero_is_one = True

    def __init__(
        self,
        n_bits=64,
        *,
        n_clusters="auto",
        max_iter=50,
        kmeans_max_iter=30,
        centers=None,
        directions=None,
        init=None,
        train_sample=None,
        random_state=None,
    ):
        self.n_bits = n_bits
        self.n_clusters = n_clusters
        self.max_iter = max_iter
        self.kmeans_max_iter = kmeans_max_iter
        self.centers = centers
        self.directions = directions
        self.init = init
        self.train_sample = train_sample
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X, y=None):
        rng = self._rng()
        data = self._sampled(self._rows_to_fit(X), rng)
        n, d = data.shape
        bits, max_iter = self._bits_of_clusters(n, d), check_integer("max_iter", self.max_iter, low=0)
        self.mean_ = mean_and_spread(data)[0]
        rows = data.shifted(self.mean_)

        def random_rows():
            return data.take(rng.permutation(n)[: len(bits)])

        start = starting_matrix("centers", self.centers, (len(bits), d), random_rows)
        clusters = kmeans(rows, start - self.mean_, check_integer("kmeans_max_iter", self.kmeans_max_iter, low=1))
        labels = clusters.labels(rows)
        self.cluster_means_ = clusters.centers.astype(np.float64)

        directions = self._directions(rows, labels, bits)
        parts = _projected_members(rows, labels, self.cluster_means_, directions)
        projections = []
        for U, V, R in zip(directions, parts, self._rotations(bits, rng)):
            R, _ = quantizing_rotation(V, R, self._rounds(max_iter))
            projections.append(U @ R)
        self.projection_ = np.hstack(projections)
        self.offsets_ = np.concatenate([mean @ M for mean, M in zip(self.cluster_means_, projections)])
        return self

    def _scores(self, block):
        centered = block - self.mean_.astype(block.dtype)
        scores = centered @ self.projection_.astype(block.dtype) - self.offsets_.astype(block.dtype)
        return zeros_made_positive(scores)

    def _bits_of_clusters(self, n: int, d: int) -> list[int]:
        high = min(n, self.n_bits)
        if isinstance(self.n_clusters, str):
            check_choice("n_clusters", self.n_clusters, ["auto"])
            n_clusters = min(2 if self.n_bits <= 32 else 4, high)
        else:
            n_clusters = check_integer("n_clusters", self.n_clusters, low=1, high=high)
        bits = [self.n_bits // n_clusters + (c < self.n_bits % n_clusters) for c in range(n_clusters)]
        if bits[0] > d:
            raise ValueError(
                f"n_bits={self.n_bits} gives each of n_clusters={n_clusters} up to {bits[0]} bits, more than the data "
                f"has directions: n_features={d}"
            )
        return bits

    def _directions(self, rows: RowBlocks, labels: NDArray, bits: list[int]) -> list[NDArray]:
        if self.directions is not None:
            shapes = [(rows.shape[1], b) for b in bits]
            return _checked_list("directions", self.directions, shapes)
        return [principal_directions(m, b) for m, b in zip(_moments_of_members(rows, labels, len(bits)), bits)]

    def _rotations(self, bits: list[int], rng: np.random.RandomState) -> list[NDArray]:
        if self.init is not None:
            return _checked_list("init", self.init, [(b, b) for b in bits])
        return [random_rotation(b, rng) for b in bits]


def _checked_list(name: str, values: Any, shapes: list[tuple[int, int]]) -> list[NDArray]:
    if len(values) != len(shapes):
        raise ValueError(f"{name} must be a list of {len(shapes)} arrays, one for every cluster, got {len(values)}")
    return [check_matrix(f"{name}[{c}]", value, shape) for c, (value, shape) in enumerate(zip(values, shapes))]


def _moments_of_members(rows: RowBlocks, labels: NDArray, n_clusters: int) -> list[Moments]:
    """Moments of every cluster's members, in one pass over all the rows."""
    d = rows.shape[1]
    moments = [Moments(0, np.zeros(d), np.zeros((d, d))) for _ in range(n_clusters)]
    for part, block in rows:
        for c in np.unique(labels[part]):
            moments[c] = moments[c].merge(Moments.of(RowBlocks(block[labels[part] == c])))
    return moments


def _projected_members(rows: RowBlocks, labels: NDArray, means: NDArray, directions: list[NDArray]) -> list[NDArray]:
    """For every cluster its members, seen from its mean along its directions."""
    parts: list[list[NDArray]] = [[np.empty((0, U.shape[1]), rows.dtype)] for U in directions]
    for part, block in rows:
        for c in np.unique(labels[part]):
            members = block[labels[part] == c] - means[c].astype(block.dtype)
            parts[c].append(members @ directions[c].astype(block.dtype))
    return [np.concatenate(blocks) for blocks in parts]
