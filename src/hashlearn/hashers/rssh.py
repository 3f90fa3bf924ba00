"""RSSH: hashing based on the recovery of subspace structures (Tian, Zhang, Chen and Zhang, Pattern Recognition 2020).

Every training row is written as a mixture of the others, X ~ U V X with U (n x r) and V (r x n); rows that take part in
each other's mixtures are similar, and the codes B of the training rows are fitted to that similarity::

    S = [ (UV) * (UV) + ((UV) * (UV))' ] / max_i (UV)_ii^2 - 1             (* entrywise, S n x n, never formed)

    min_{A, G, B}  ||b S - A G'||_F^2 + beta ||A - B||_F^2 + lambda1 ||G - B||_F^2
                   A'1 = 0,  A'A = n I,  B in {-1, +1}^{n x b}

Rows that were not there are then encoded by a kernel regression of B::

    code(x) = sgn(phi(x) W),   phi(x) = [exp(-||x^ - a_j||^2 / (2 sigma^2))_j, 1],   W = (Phi'Phi + eta I)^-1 Phi'B

with x^ = x / ||x|| and the a_j random training rows of unit length. In a database the training rows keep their learned
codes B (:meth:`RSSH.fit_codes`). Queries are encoded by the hash function (:meth:`RSSH.transform`).
"""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hashlearn.checks import check_count, check_integer, check_matrix, check_number
from hashlearn.codes import pack
from hashlearn.hashers.base import Hasher, all_or_nothing, starting_matrix
from hashlearn.linalg.projections import rbf_features, unit_rows
from hashlearn.linalg.selfsimilarity import (
    SelfSimilarity,
    balanced_orthogonal,
    gram_matrix,
    numerical_rank,
    self_representation,
)
from hashlearn.rows import RowBlocks, row_slices


class RSSH(Hasher):
    """Learn the codes of the training rows from their self-representation, and a kernel hash function for others.

    Parameters
    ----------
    n_bits : int (at least 1), default=64
        Length of a code.
    rank : int or "auto", default="auto"
        Rank r of the self-representation, at most the rank of the data; "auto" takes 100, or half the rank of the data:
        near the full rank every row represents itself, and no row is similar to another.
    beta : float (at least 0), default=0.1
        Weight that ties A to the codes.
    lambda1 : float (at least 0), default=10.0
        Weight that ties G to the codes.
    eta : float (at least 1e-12), default=0.001
        Ridge of the kernel regression.
    sigma : float (at least 1e-06), default=0.4
        Width of its kernel, in units of the rows' length.
    n_anchors : int or "auto", default="auto"
        Training rows the kernel is centered on; "auto" takes 2000, or all.
    max_iter : int (at least 1), default=5
        Rounds over A, G and B.
    factor_max_iter : int (at least 2), default=100
        Rounds over U and V.
    init_V : ndarray of shape (rank, n_samples) or None, default=None
        The V to start from; uniform on [0, 1) if None.
    init_G : ndarray of shape (n_samples, n_bits) or None, default=None
        The G to start from, whose signs are the first B; Gaussian if None.
    anchors : ndarray of shape (any number, n_features) or None, default=None
        The rows the kernel is centered on.
    random_state : int, RandomState instance or None, default=None
        Determines the starting matrices and the anchors.

    Attributes
    ----------
    training_codes_ : ndarray of shape (n_samples, ceil(n_bits / 8)), dtype uint8
        The learned codes B of the training rows, packed; not saved.
    anchors_ : ndarray of shape (n_anchors, n_features)
        Rows of unit length.
    weights_ : ndarray of shape (n_anchors + 1, n_bits)
        A bit is one where ``phi(x) @ weights_ > 0``.
    sigma_ : float
        Width of the kernel.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> rssh = RSSH(n_bits=16, rank=30, n_anchors=300, random_state=0)
    >>> rssh.fit_codes(X[:1500]).shape, rssh.transform(X[1500:]).shape
    ((1500, 2), (297, 2))
    """

    _not_saved = ("training_codes_",)

    def __init__(
        self,
        n_bits=64,
        *,
        rank="auto",
        beta=0.1,
        lambda1=10.0,
        eta=1e-3,
        sigma=0.4,
        n_anchors="auto",
        max_iter=5,
        factor_max_iter=100,
        init_V=None,
        init_G=None,
        anchors=None,
        random_state=None,
    ):
        self.n_bits = n_bits
        self.rank = rank
        self.beta = beta
        self.lambda1 = lambda1
        self.eta = eta
        self.sigma = sigma
        self.n_anchors = n_anchors
        self.max_iter = max_iter
        self.factor_max_iter = factor_max_iter
        self.init_V = init_V
        self.init_G = init_G
        self.anchors = anchors
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X, y=None):
        rows, rng = self._rows_to_fit(X), self._rng()
        n, b = len(rows), self.n_bits
        max_iter = check_integer("max_iter", self.max_iter, low=1)
        beta, lambda1 = check_number("beta", self.beta, low=0), check_number("lambda1", self.lambda1, low=0)
        eta, self.sigma_ = check_number("eta", self.eta, low=1e-12), check_number("sigma", self.sigma, low=1e-6)
        self.anchors_ = unit_rows(self._anchor_rows(rows, rng)).astype(np.float64)

        similarity = SelfSimilarity(*self._self_representation(rows, rng))
        G = starting_matrix("init_G", self.init_G, (n, b), lambda: rng.standard_normal((n, b)))
        B = _signs(G)
        for _ in self._rounds(max_iter):
            A = balanced_orthogonal(b * similarity.times(G) + beta * B, rng)
            G = (b * similarity.times(A) + lambda1 * B) / (n + lambda1)
            B = _signs(beta * A + lambda1 * G)

        self.training_codes_ = pack(B > 0)
        self.weights_ = self._regression(rows, B, eta)
        return self

    @all_or_nothing
    def fit_codes(self, X, y=None):
        return self.fit(X, y).training_codes_

    def _self_representation(self, rows: RowBlocks, rng: np.random.RandomState) -> tuple[NDArray, NDArray]:
        n, max_iter = len(rows), check_integer("factor_max_iter", self.factor_max_iter, low=2)
        gram = gram_matrix(rows)
        full = min(n, numerical_rank(gram))
        rank = check_count("rank", self.rank, auto=max(1, min(100, full // 2)), high=full)
        start = starting_matrix("init_V", self.init_V, (rank, n), lambda: rng.random_sample((rank, n)))
        return self_representation(rows, gram, start, max_iter)

    def _anchor_rows(self, rows: RowBlocks, rng: np.random.RandomState) -> NDArray:
        if self.anchors is not None:
            return check_matrix("anchors", self.anchors, (None, rows.shape[1]))
        n_anchors = check_count("n_anchors", self.n_anchors, auto=2000, high=len(rows))
        return rows.take(rng.permutation(len(rows))[:n_anchors])

    def _regression(self, rows: RowBlocks, B: NDArray, eta: float) -> NDArray[np.float64]:
        """W = (Phi'Phi + eta I)^-1 Phi'B, in double precision: eta is far below the rounding of single."""
        m = len(self.anchors_) + 1
        normal, right = eta * np.eye(m), np.zeros((m, self.n_bits))
        for part, block in rows:
            for piece in row_slices(len(block), m):
                phi = self._kernel(block[piece].astype(np.float64))
                normal += phi.T @ phi
                right += phi.T @ B[part][piece]
        return scipy.linalg.solve(normal, right, assume_a="pos")

    def _scores(self, block):
        weights = self.weights_.astype(block.dtype)
        pieces = row_slices(len(block), len(weights))
        return np.concatenate([self._kernel(block[piece]) @ weights for piece in pieces])

    def _kernel(self, block: NDArray) -> NDArray:
        """phi of the rows, shape (rows, n_anchors + 1)."""
        features = rbf_features(unit_rows(block), self.anchors_, self.sigma_**2)
        return np.hstack([features, np.ones((len(block), 1), block.dtype)])


def _signs(values: NDArray) -> NDArray:
    """-1 or +1; zero counts as -1."""
    return np.where(values > 0, 1.0, -1.0)
