"""OCH: ordinal constraint hashing (Liu, Ji, Wang and Shen, TPAMI 2019).

Codes that keep the order of distances among landmarks, by projections that are orthonormal throughout. For every
landmark r, its k - 1 nearest landmarks j should have codes nearer to its own than the landmarks i beyond them::

    min_W  f(W) = mean_{(r, i, j)}  1/2 sigma((T_ri - T_rj) / sqrt(b)),     W'W = I  (W W' = I if W is wider than high)

    T_uv = tanh(x_u W) . tanh(x_v W)

with sigma the logistic function and x the landmarks in the leading principal directions, scaled so that x W has unit
mean square; sqrt(b) is how far T strays from zero for two random codes of b bits. f is smooth, so it is descended on
the Stiefel manifold by gradient steps with Armijo's rule::

    Z = W G'W - G,    W <- polar(W + gamma Z)    where    f(W) - f(polar(W + gamma Z)) >= 1e-4 gamma <G, -Z>

The implementation that the authors released differs. Each step uses the triplets of one landmark, in the order of
k-means instead of the order of neighbors. A step is accepted by a discrete objective tr(Y'LY) / 2, Y = sgn(x W), which
is constant almost everywhere. So nearly all steps get length zero, and W remains the random projection of the start.
``as_released=True`` does the same.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hashlearn.checks import check_count, check_integer, check_number
from hashlearn.hashers.base import LinearHasher, all_or_nothing, starting_matrix
from hashlearn.linalg.ordinal import LandmarkSettings, find_landmarks, ordinal_gradient
from hashlearn.linalg.rotations import nearest_rotation

SHORTEST_STEP = 1e-8


class OCH(LinearHasher):
    """Learn orthonormal projections whose codes keep the order of distances among landmarks.

    Parameters
    ----------
    n_bits : int (at least 1), default=64
        Length of a code. Beyond ``n_components`` bits the projections are no longer orthogonal to each other; they form
        a tight frame (W W' = I) of the principal directions.
    n_landmarks : int or "auto", default="auto"
        Landmarks found by k-means; "auto" takes 300, or as many as there are training rows.
    k : int or "auto", default="auto"
        The k - 1 nearest landmarks of each are to stay nearer than the rest; "auto" takes 10, or as many as there are
        landmarks.
    max_iter : int (at least 0), default=300
        Steps at most.
    tol : float (at least 0), default=1e-4
        Stop when a step lowers the loss by less than this share of it.
    n_components : int or "auto", default="auto"
        Principal directions the landmarks are seen in; "auto" takes 20, or as many as there are features.
    kmeans_max_iter : int (at least 1), default=10
        Rounds of k-means at most.
    train_sample : int (at least 2), default=10000
        Training rows that are used, drawn at random where there are more.
    subset : array of int or None, default=None
        The rows to use, where they are chosen already.
    landmarks : ndarray of shape (any number, n_features) or None, default=None
        The landmarks, where they are known already.
    init : ndarray of shape (n_components, n_bits) or None, default=None
        The projection to start from, Gaussian if None; its polar factor is taken.
    directions : ndarray of shape (n_features, n_components) or None, default=None
        The principal directions, where they are known already.
    as_released : bool, default=False
        Train as the authors' released code does, which gives almost a random orthonormal projection. The published
        comparisons used that code.
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
    loss_ : list of float
        The loss at the start and after every step; it never rises. As released: the discrete objective.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> OCH(n_bits=16, random_state=0).fit_transform(X / 16).shape
    (1797, 2)
    """

    def __init__(
        self,
        n_bits=64,
        *,
        n_landmarks="auto",
        k="auto",
        max_iter=300,
        tol=1e-4,
        n_components="auto",
        kmeans_max_iter=10,
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
        self.tol = tol
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
        max_iter, tol = check_integer("max_iter", self.max_iter, low=0), check_number("tol", self.tol, low=0)
        settings = LandmarkSettings(
            train_sample=check_integer("train_sample", self.train_sample, low=2),
            subset=self.subset,
            n_landmarks=self.n_landmarks,
            landmarks=self.landmarks,
            n_components=check_count("n_components", self.n_components, auto=20, high=rows.shape[1]),
            directions=self.directions,
            kmeans_max_iter=check_integer("kmeans_max_iter", self.kmeans_max_iter, low=1),
        )
        found = find_landmarks(rows, settings, rng)
        k = check_count("k", self.k, auto=10, low=2, high=len(found.points))
        shape = (found.directions.shape[1], self.n_bits)
        start = starting_matrix("init", self.init, shape, lambda: rng.standard_normal(shape))
        W = nearest_rotation(start)
        if self.as_released:
            W, self.loss_ = _released_descent(found.points, found.affinity, k, W, self._rounds(max_iter))
        else:
            loss = _OrdinalLoss(found.points, found.affinity, k, self.n_bits)
            W, self.loss_ = _descent(loss, W, tol, self._rounds(max_iter))
        self.mean_, self.weights_ = found.mean, W
        self.projection_ = found.directions @ W
        return self


class _OrdinalLoss:
    """f(W) and its gradient over all triplets of every landmark, its k - 1 nearest and the landmarks beyond them."""

    def __init__(self, points: NDArray, affinity: NDArray, k: int, n_bits: int):
        # The codes depend on the direction of x W alone; its length decides where the tanh bends.
        variance = np.mean(points**2) * min(1.0, points.shape[1] / n_bits)
        self.points = points / np.sqrt(variance) if variance > 0 else points
        itself = np.eye(len(points), dtype=bool)
        order = np.lexsort((-affinity, itself), axis=1)[:, :-1]
        self.near, self.far = order[:, : k - 1], order[:, k - 1 :]
        self.unit = np.sqrt(n_bits)
        self.n_triplets = max(1, self.near.size * self.far.shape[1])

    def value_and_gradient(self, W: NDArray) -> tuple[float, NDArray]:
        H = np.tanh(self.points @ W)
        T = H @ H.T / self.unit
        T_near, T_far = (np.take_along_axis(T, who, axis=1) for who in (self.near, self.far))
        total, far_slopes, near_slopes = 0.0, np.zeros_like(T_far), np.zeros_like(T_near)
        for column in range(self.near.shape[1]):
            wrong = expit(T_far - T_near[:, column, None])
            total += wrong.sum()
            slope = wrong * (1 - wrong)
            far_slopes += slope
            near_slopes[:, column] = -slope.sum(axis=1)
        weights = np.zeros_like(T)
        np.put_along_axis(weights, self.far, far_slopes, axis=1)
        np.put_along_axis(weights, self.near, near_slopes, axis=1)
        gradient = ordinal_gradient(self.points, H, weights / (self.n_triplets * self.unit))
        return 0.5 * total / self.n_triplets, gradient


def _descent(loss: _OrdinalLoss, W: NDArray, tol: float, rounds: Iterable[int]) -> tuple[NDArray, list[float]]:
    """Gradient descent on the Stiefel manifold with Armijo's rule; a step is first tried at twice the last length."""
    value, G = loss.value_and_gradient(W)
    values, length = [value], 1.0
    for _ in rounds:
        Z = W @ G.T @ W - G
        slope = -np.sum(G * Z)
        length *= 2
        while length >= SHORTEST_STEP:
            candidate = nearest_rotation(W + length * Z)
            new_value, new_G = loss.value_and_gradient(candidate)
            if value - new_value >= 1e-4 * length * slope:
                break
            length /= 2
        else:
            return W, values
        W, value, G = candidate, new_value, new_G
        values.append(value)
        if values[-2] - value <= tol * values[-2]:
            break
    return W, values


def _released_descent(
    points: NDArray, affinity: NDArray, k: int, W: NDArray, rounds: Iterable[int]
) -> tuple[NDArray, list[float]]:
    """Steps from one landmark's triplets, accepted by a discrete objective; ends after 11 steps that change nothing.

    If no triplet of a landmark is violated, the released loop never ends. This loop continues with the next landmark.
    """
    laplacian = np.diag(affinity.sum(axis=1)) - affinity
    values, still = [_discrete_objective(points, laplacian, W)], 0
    for t in rounds:
        G = _released_gradient(points, affinity, t % len(points), k, W)
        Z = W @ G.T @ W - G
        slope = np.sum(Z**2) - 0.5 * np.sum((W.T @ Z) ** 2)
        if slope < 1e-8:
            continue

        def gain(length, W=W, Z=Z, value=values[-1]):
            return value - _discrete_objective(points, laplacian, nearest_rotation(W + length * Z))

        length = 1e-3
        while gain(2 * length) >= length * slope:
            length *= 2
        while length > 0 and gain(length) < 0.5 * length * slope:
            length = length / 2 if length / 2 >= SHORTEST_STEP else 0.0
        previous, W = W, nearest_rotation(W + length * Z)
        values.append(_discrete_objective(points, laplacian, W))
        still = still + 1 if np.linalg.norm(W - previous, 2) < 1e-6 else 0
        if still > 10:
            break
    return W, values


def _released_gradient(points: NDArray, affinity: NDArray, r: int, k: int, W: NDArray) -> NDArray:
    """Over i = 2..k and j = i..L in k-means order, where j is nearer to r than i but its code is not."""
    H = np.tanh(points @ W)
    T = H @ H[r]
    L, i = len(points), np.arange(1, k)[:, None]
    excess = T[1:k, None] - T
    violated = (affinity[r, 1:k, None] < affinity[r]) & (excess > 0) & (np.arange(L) >= i)
    slope = np.where(violated, expit(excess) * expit(-excess), 0)
    weights = np.zeros((L, L))
    weights[r, 1:k] += slope.sum(axis=1)
    weights[r] -= slope.sum(axis=0)
    return ordinal_gradient(points, H, weights)


def _discrete_objective(points: NDArray, laplacian: NDArray, W: NDArray) -> float:
    Y = np.sign(points @ W)
    return 0.5 * float(np.sum(Y * (laplacian @ Y)))
