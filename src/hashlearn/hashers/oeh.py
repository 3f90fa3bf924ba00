"""OEH: ordinal embedding hashing (Liu, Ji, Wu and Liu, AAAI 2016).

Codes that keep the order of distances among landmarks. For an anchor r, its k - 1 least similar landmarks i should stay
less similar to it in Hamming space than the landmarks j of the rest of its list::

    min_W  sum_r mean_{(i, j) active}  1/2 sigma(beta + T_ri - T_rj)  +  lambda1/4 ||W W' - I||_F^2

    T_uv = tanh(x_u W) . tanh(x_v W),      (i, j) is active while  beta + T_ri > T_rj

with sigma the logistic function and x the landmarks in the leading principal directions. Each gradient step takes one
anchor, and the anchors take turns. The objective is taken from the authors' released program.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hashlearn.checks import check_count, check_integer, check_number
from hashlearn.hashers.base import LinearHasher, all_or_nothing, starting_matrix
from hashlearn.linalg.ordinal import LandmarkSettings, find_landmarks, ordinal_gradient


class OEH(LinearHasher):
    """Learn codes that keep the order of distances among landmarks, by gradient steps.

    Parameters
    ----------
    n_bits : int (at least 1), default=64
        Length of a code.
    n_landmarks : int or "auto", default="auto"
        Landmarks found by k-means; "auto" takes 300, or as many as there are training rows.
    k : int or "auto", default="auto"
        An anchor is compared with its k - 1 least similar landmarks; "auto" takes 10, or as many as there are
        landmarks.
    max_iter : int (at least 0), default=300
        Gradient steps; step t takes landmark t modulo ``n_landmarks`` as the anchor.
    lambda1 : float, default=0.01
        Weight of the orthogonality of W.
    beta : float, default=1.0
        Margin by which similarities should be in order.
    step : float, default=0.1
        Length of a gradient step.
    n_components : int or "auto", default="auto"
        Principal directions the landmarks are seen in; "auto" takes ``n_bits``, or as many as there are features.
    kmeans_max_iter : int (at least 1), default=50
        Rounds of k-means at most.
    train_sample : int (at least 2), default=10000
        Training rows that are used, drawn at random where there are more.
    subset : array of int or None, default=None
        The rows to use, where they are chosen already.
    landmarks : ndarray of shape (any number, n_features) or None, default=None
        The landmarks, where they are known already.
    init : ndarray of shape (n_components, n_bits) or None, default=None
        The projection W to start from; Gaussian if None.
    directions : ndarray of shape (n_features, n_components) or None, default=None
        The principal directions, where they are known already.
    as_released : bool, default=False
        Train as the authors' released code does, with its three errors. Relaxed codes come from the landmarks in the
        order of k-means, but points come from the sorted list. The gradient of every T_rj goes to point number k. An
        anchor whose affinities underflow may not be first in its own list. The published comparisons used that code.
    random_state : int, RandomState instance or None, default=None
        Determines the sample, the landmarks and the starting projection.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the rows used.
    projection_ : ndarray of shape (n_features, n_bits)
        A bit is one where ``(x - mean_) @ projection_ > 0``.
    weights_ : ndarray of shape (n_components, n_bits)
        W, the projection within the principal directions.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> OEH(n_bits=16, random_state=0).fit_transform(X / 16).shape
    (1797, 2)
    """

    def __init__(
        self,
        n_bits=64,
        *,
        n_landmarks="auto",
        k="auto",
        max_iter=300,
        lambda1=0.01,
        beta=1.0,
        step=0.1,
        n_components="auto",
        kmeans_max_iter=50,
        train_sample=10_000,
        subset=None,
        landmarks=None,
        init=None,
        directions=None,
        as_released=False,
        random_state=None,
    ):
        self.n_bits = n_bits
        self.n_landmarks = n_landmarks
        self.k = k
        self.max_iter = max_iter
        self.lambda1 = lambda1
        self.beta = beta
        self.step = step
        self.n_components = n_components
        self.kmeans_max_iter = kmeans_max_iter
        self.train_sample = train_sample
        self.subset = subset
        self.landmarks = landmarks
        self.init = init
        self.directions = directions
        self.as_released = as_released
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X, y=None):
        rows, rng = self._rows_to_fit(X), self._rng()
        max_iter, d = check_integer("max_iter", self.max_iter, low=0), rows.shape[1]
        lambda1, beta, step = (check_number(name, getattr(self, name)) for name in ("lambda1", "beta", "step"))
        settings = LandmarkSettings(
            train_sample=check_integer("train_sample", self.train_sample, low=2),
            subset=self.subset,
            n_landmarks=self.n_landmarks,
            landmarks=self.landmarks,
            n_components=check_count("n_components", self.n_components, auto=self.n_bits, high=d),
            directions=self.directions,
            kmeans_max_iter=check_integer("kmeans_max_iter", self.kmeans_max_iter, low=1),
        )
        found = find_landmarks(rows, settings, rng)
        k = check_count("k", self.k, auto=10, low=2, high=len(found.points))
        descent = _released_gradient if self.as_released else _gradient
        shape = (found.directions.shape[1], self.n_bits)
        W = starting_matrix("init", self.init, shape, lambda: rng.standard_normal(shape))

        for t in self._rounds(max_iter):
            anchor = t % len(found.points)
            ordinal = descent(found.points, found.affinity[anchor], anchor, W, k, beta)
            W = W - step * (lambda1 * (W @ (W.T @ W) - W) + ordinal)
        if not np.isfinite(W).all():
            raise ValueError(f"step={step} with lambda1={lambda1} is too long: the weights grew beyond all bounds")

        self.mean_, self.weights_ = found.mean, W
        self.projection_ = found.directions @ W
        return self


def _gradient(points: NDArray, affinity: NDArray, anchor: int, W: NDArray, k: int, beta: float) -> NDArray:
    """Gradient of the ordinal term: the anchor first, then the landmarks by ascending affinity to it."""
    order = np.lexsort((affinity, np.arange(len(points)) != anchor))
    ordered = points[order]
    H = np.tanh(ordered @ W)
    far, near = _slopes(H, k, beta)
    weights = np.zeros((len(points), len(points)))
    weights[0, 1:k] += far
    weights[0, k - 1 :] -= near
    return ordinal_gradient(ordered, H, weights)


def _released_gradient(points: NDArray, affinity: NDArray, anchor: int, W: NDArray, k: int, beta: float) -> NDArray:
    """The sums of the published program: codes and points of different landmarks, and point k instead of point j."""
    ordered = points[np.argsort(affinity, kind="stable")]
    H = np.tanh(points @ W)
    far, near = _slopes(H, k, beta)
    slopes = 1 - H**2
    through_anchor = np.outer(ordered[0], slopes[0] * (far @ H[1:k] - near @ H[k - 1 :]))
    through_far = ordered[1:k].T @ (far[:, None] * slopes[1:k] * H[0])
    through_near = np.outer(ordered[k - 1], near @ slopes[k - 1 :] * H[0])
    return 0.5 * (through_anchor + through_far - through_near)


def _slopes(H: NDArray, k: int, beta: float) -> tuple[NDArray, NDArray]:
    """Mean slope sigma' of the active pairs, summed for every far landmark i = 2..k and every near one j = k..L."""
    T = H @ H[0]
    margin = beta + T[1:k, None] - T[k - 1 :]
    active = margin > 0
    slope = np.where(active, expit(margin) * expit(-margin), 0) / max(1, np.count_nonzero(active))
    return slope.sum(axis=1), slope.sum(axis=0)
