"""SGH: scalable graph hashing (Jiang and Li, IJCAI 2015).

Codes whose inner products repeat the similarities of all pairs of points, without computing a similarity::

    min_W  ||b S - sgn(K W) sgn(K W)'||_F^2     W'K'K W = I,     S_ij = 2 exp(-||x_i - x_j||^2 / rho) - 1

K (n x m) is the centered RBF kernel between the points and m of them, the bases. On the unit sphere the exponential is
nearly linear in x_i'x_j, which makes S a product of two thin matrices (feature transformation)::

    exp(t) ~ sinh(1) t + cosh(1)  for |t| <= 1     so   S ~ F F' - 1 1',
    F(x) = [ sqrt(4 sinh(1) / rho) g x,  sqrt(2 cosh(1)) g ],   g = exp(-||x||^2 / rho)

Bits are learned one at a time. With A = b K'S K = b K'F (K'F)', the term 1 1' vanishing since K is centered, the best
relaxed bit is the top generalized eigenvector of (A, K'K + gamma I); what its codes explain is subtracted from A before
the next. A last sweep learns every bit once more against all the others.
"""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hashlearn.checks import check_integer, check_matrix, check_number
from hashlearn.hashers.base import Hasher, all_or_nothing
from hashlearn.linalg.moments import mean_and_spread
from hashlearn.linalg.projections import rbf_features, unit_rows
from hashlearn.linalg.rotations import with_positive_peaks
from hashlearn.progress import track
from hashlearn.rows import RowBlocks, fold, map_blocks

DEFAULT_BASES = 300


class SGH(Hasher):
    """Learn kernel hash functions bit by bit from the similarities of all pairs.

    Parameters
    ----------
    n_bits : int (at least 1), default=64
        Length of a code. Bits beyond the number of bases can no longer be uncorrelated.
    n_bases : int (at least 1) or "auto", default="auto"
        Number of kernel bases m, drawn from the rows; "auto" takes 300, or all the rows if they are fewer.
    rho : float, default=2.0
        Width of the similarity. Below 2 its linear form leaves the range where it holds.
    gamma : float (at least 0), default=1e-6
        Ridge added to K'K.
    n_sweeps : int (at least 0), default=1
        Sweeps of refinement after the first pass over the bits.
    bases : ndarray of shape (n_bases, n_features) or None, default=None
        The bases in the coordinates of the data; random rows if None.
    refine_order : ndarray of shape (n_bits,) or None, default=None
        The order of the bits in a sweep; a random one for every sweep if None.
    train_sample : int (at least 2) or None, default=None
        Number of rows, drawn at random and held in memory, to learn from; None for all.
    random_state : int, RandomState instance or None, default=None
        Determines the bases and the order of refinement.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    bases_ : ndarray of shape (n_bases, n_features)
        The bases seen from the mean and scaled to length one, as every row is before it meets them.
    kernel_width_ : float
        Mean squared distance between the rows and the bases; the kernel is ``exp(-d^2 / (2 kernel_width_))``.
    kernel_mean_ : ndarray of shape (n_bases,)
        Mean of the kernel over the rows.
    weights_ : ndarray of shape (n_bases, n_bits)
        W. A bit is one where ``(kernel(x) - kernel_mean_) @ weights_ > 0``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> SGH(n_bits=16, random_state=0).fit_transform(X).shape
    (1797, 2)
    """

    def __init__(
        self,
        n_bits=64,
        *,
        n_bases="auto",
        rho=2.0,
        gamma=1e-6,
        n_sweeps=1,
        bases=None,
        refine_order=None,
        train_sample=None,
        random_state=None,
    ):
        self.n_bits = n_bits
        self.n_bases = n_bases
        self.rho = rho
        self.gamma = gamma
        self.n_sweeps = n_sweeps
        self.bases = bases
        self.refine_order = refine_order
        self.train_sample = train_sample
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X, y=None):
        rng = self._rng()
        rows = self._sampled(self._rows_to_fit(X), rng)
        rho = check_number("rho", self.rho, low=np.finfo(float).tiny)
        gamma = check_number("gamma", self.gamma, low=0)
        bases = self._starting_bases(rows, rng)
        order = self._bit_order(rng)

        self.mean_ = mean_and_spread(rows)[0]
        self.bases_ = unit_rows(bases - self.mean_)
        self.kernel_width_ = self._mean_squared_distance(rows)
        self.kernel_mean_ = np.zeros(len(self.bases_))
        K = self._kernel(rows)
        self.kernel_mean_ = K.mean(axis=0, dtype=np.float64)
        K -= self.kernel_mean_.astype(K.dtype)

        # Sums in double precision: the weights divide by K'K, whose small eigenvalues are noise in single precision.
        KF = sum(K[part].T.astype(np.float64) @ _linearized(self._on_sphere(block), rho) for part, block in rows)
        self.weights_ = self._learn_bits(K, self.n_bits * KF @ KF.T, gamma, order)
        return self

    def _starting_bases(self, rows: RowBlocks, rng) -> NDArray:
        if self.bases is not None:
            return check_matrix("bases", self.bases, (None, rows.shape[1]))
        n_bases = DEFAULT_BASES if self.n_bases == "auto" else check_integer("n_bases", self.n_bases, low=1)
        if n_bases > len(rows):
            if self.n_bases != "auto":
                raise ValueError(f"n_bases={n_bases} is more than the data has rows: n_samples={len(rows)}")
            n_bases = len(rows)
        return rows.take(np.sort(rng.choice(len(rows), n_bases, replace=False))).astype(np.float64)

    def _bit_order(self, rng) -> list[int]:
        """Every bit once in turn, then the sweeps of refinement."""
        n_sweeps, b = check_integer("n_sweeps", self.n_sweeps, low=0), self.n_bits
        sweeps = [rng.permutation(b) if self.refine_order is None else self.refine_order for _ in range(n_sweeps)]
        for sweep in sweeps:
            if not np.array_equal(np.sort(np.ravel(sweep)), np.arange(b)):
                raise ValueError(f"refine_order must hold each of the numbers 0 to {b - 1} once, got {sweep!r}")
        return [*range(b), *(int(bit) for sweep in sweeps for bit in np.ravel(sweep))]

    def _on_sphere(self, block: NDArray) -> NDArray:
        return unit_rows(block - self.mean_.astype(block.dtype))

    def _mean_squared_distance(self, rows: RowBlocks) -> float:
        """Mean of ||x - base||^2 over all pairs: mean |x|^2 + mean |base|^2 - 2 mean x . mean base."""
        total, squares = np.zeros(rows.shape[1]), 0.0
        for _, block in rows:
            points = self._on_sphere(block)
            total += points.sum(axis=0, dtype=np.float64)
            squares += float(np.einsum("ij,ij->", points, points, dtype=np.float64))
        n = len(rows)
        width = squares / n + (self.bases_**2).sum() / len(self.bases_) - 2 * (total / n) @ self.bases_.mean(axis=0)
        return float(width) if width > 0 else 1.0

    def _kernel(self, rows: RowBlocks) -> NDArray:
        """The kernel of all rows, shape (n, m), in the rows' own precision."""
        K = np.empty((len(rows), len(self.bases_)), rows.dtype)
        for part, features in track(map_blocks(rows, self._features_of_block), "SGH kernel", rows.n_blocks):
            K[part] = features
        return K

    def _features_of_block(self, block: NDArray, first: int) -> NDArray:
        return self._features(block)

    def _features(self, block: NDArray) -> NDArray:
        return rbf_features(self._on_sphere(block), self.bases_, self.kernel_width_)

    def _learn_bits(self, K: NDArray, A: NDArray, gamma: float, order: list[int]) -> NDArray[np.float64]:
        """The weights of all bits, learned in the given order; a bit that comes again is learned anew.

        K'K + gamma I = L L' is factorized once: with w = L'^-1 y the problem is an ordinary symmetric one,
        C = L^-1 A L'^-1, and subtracting v v' from A is subtracting u u' from C with u = L^-1 v.
        """
        kernel = RowBlocks(K)
        gram = fold(kernel, _gram_of_block, np.add)
        try:
            L = scipy.linalg.cholesky(gram + gamma * np.eye(len(gram)), lower=True)
        except scipy.linalg.LinAlgError:
            raise ValueError(f"gamma={gamma} is too small: K'K + gamma I is singular") from None
        C = _solve(L, _solve(L, A).T)
        W, U = np.zeros((len(A), self.n_bits)), np.zeros((len(A), self.n_bits))
        for bit in track(order, "SGH bits"):
            C += np.outer(U[:, bit], U[:, bit])
            W[:, bit] = scipy.linalg.solve_triangular(L, _top_eigenvector(C), lower=True, trans="T")
            W[:, bit] /= np.linalg.norm(W[:, bit])
            U[:, bit] = _solve(L, fold(kernel, _explained, np.add, W[:, bit].astype(K.dtype)))
            C -= np.outer(U[:, bit], U[:, bit])
        return with_positive_peaks(W)

    def _scores(self, block):
        return (self._features(block) - self.kernel_mean_.astype(block.dtype)) @ self.weights_.astype(block.dtype)


def _linearized(points: NDArray, rho: float) -> NDArray:
    """F: the features whose inner products are the similarities (plus one), shape (rows, d + 1)."""
    g = np.exp(np.einsum("ij,ij->i", points, points)[:, None] / -rho)
    return np.hstack([np.sqrt(4 * np.sinh(1) / rho) * g * points, np.sqrt(2 * np.cosh(1)) * g]).astype(points.dtype)


def _gram_of_block(block: NDArray, first: int) -> NDArray[np.float64]:
    wide = block.astype(np.float64)
    return wide.T @ wide


def _explained(block: NDArray, first: int, w: NDArray) -> NDArray[np.float64]:
    """v = K' sgn(K w) of a block of K."""
    return (block.T @ np.where(block @ w > 0, 1.0, -1.0).astype(block.dtype)).astype(np.float64)


def _solve(L: NDArray, right: NDArray) -> NDArray[np.float64]:
    return scipy.linalg.solve_triangular(L, right, lower=True)


def _top_eigenvector(C: NDArray) -> NDArray[np.float64]:
    last = len(C) - 1
    return scipy.linalg.eigh(C, subset_by_index=(last, last))[1][:, 0]
