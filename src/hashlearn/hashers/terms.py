"""The two terms of JPSH's objective, each with the steps that are its own.

Eq. 7 is a sum of two parts which meet only in the anchors' codes B (b x m)::

    pairwise       sum_ij A_ij ||b_j - V W'x_i||^2 + lambda3 ||W||_{2,1}
    personalized   sum_j ||b_j - R P_j'c_j||^2 + lambda1 sum_j ||P_j||_{2,1}^2 + lambda2 sum_ij S_ij ||P_i - P_j||_F

JSH is the first alone, PSH the second, JPSH both. Given B, a term finds its weights, then its rotation, and says
which codes it would like (``target``); the codes of the next round are the signs of what the terms like together.
"""

from typing import Protocol

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from hashlearn.linalg.anchor_sums import RegressionSums
from hashlearn.linalg.personalized import PersonalizedWeights, first_weights, solve_weights
from hashlearn.linalg.rotations import nearest_rotation


class Term(Protocol):
    """What the alternation asks of a term."""

    def solve(self, B: NDArray) -> None:
        """Find the weights for the codes B (b x m), under the penalties of the round before."""

    def rotate(self, B: NDArray) -> None:
        """Find the rotation for the codes B and the weights."""

    def target(self) -> NDArray:
        """What the term would like the codes to be, shape (b, m)."""

    def loss(self, B: NDArray) -> float:
        """The term's share of eq. 7."""

    def learned(self) -> dict[str, NDArray]:
        """What the model keeps of the term, by name."""


class PairwiseTerm:
    """Codes of anchors regressed on the samples near them (eqs. 15-19)."""

    def __init__(self, sums: RegressionSums, n_bits: int, sparsity: float, epsilon: float):
        self.sums, self.sparsity, self.epsilon = sums, sparsity, epsilon
        self.V = np.eye(n_bits)
        self.Q = np.ones(len(sums.XDX))

    def solve(self, B):
        # W = (lambda3 Q + X D X')^-1 X A B' V (eq. 16)
        left = self.sums.XDX + np.diag(self.sparsity * self.Q)
        right = self.sums.XA @ B.T @ self.V
        try:
            self.W = scipy.linalg.solve(left, right, assume_a="pos", check_finite=False)
        except np.linalg.LinAlgError:
            # Without a penalty a feature that is always zero leaves the system singular.
            self.W = scipy.linalg.lstsq(left, right, check_finite=False)[0]
        # Q_ii = 1 / (2 ||w_i||) (eq. 17); it is not used before the next round.
        self.Q = 0.5 / np.sqrt(np.einsum("ij,ij->i", self.W, self.W) + self.epsilon)
        self.projected = self.W.T @ self.sums.XA

    def rotate(self, B):
        self.V = nearest_rotation(B @ self.projected.T)  # eq. 19

    def target(self):
        return self.V @ self.projected

    def loss(self, B):
        fit = B.shape[0] * self.sums.total - 2 * float((B * self.target()).sum())
        fit += float((self.W * (self.sums.XDX @ self.W)).sum())
        return fit + self.sparsity * float(np.linalg.norm(self.W, axis=1).sum())

    def learned(self):
        """F' = W V' (d x b), since the scores of a sample x are x'F'; and W."""
        return {"projection": self.W @ self.V.T, "pairwise_weights": self.W}


class PersonalizedTerm:
    """Codes of anchors from weights of their own, sparse, and alike for neighbouring anchors (eqs. 8-14, 21)."""

    def __init__(
        self,
        anchors: NDArray,
        similarity: scipy.sparse.csr_array,
        n_bits: int,
        *,
        sparsity: float,
        smoothness: float,
        epsilon: float,
        ridge: float,
        bias: bool,
        tol: float,
        keep: bool,
    ):
        self.anchors, self.similarity = anchors, similarity
        self.sparsity, self.smoothness = sparsity, smoothness
        self.epsilon, self.ridge, self.tol, self.keep = epsilon, ridge, tol, keep
        d = anchors.shape[1]
        self.unpenalized = tuple(range(d)) if sparsity == 0 else (d - 1,) if bias else ()
        self.R = np.eye(n_bits)
        self.P: PersonalizedWeights | None = None

    def solve(self, B):
        T = B.T @ self.R
        if self.P is None:
            self.P = first_weights(self.anchors, T, self.similarity, self.keep)
            return
        diagonals, edges = self._penalties(self.P)
        self.P = solve_weights(
            diagonals, edges, self.anchors, T, unpenalized=self.unpenalized, tol=self.tol, keep=self.keep
        )

    def _penalties(self, P):
        """The diagonals of lambda1 K + lambda2 G for every feature, and lambda2 times the edges of G (eqs. 11, 13)."""
        K = P.row_norms.sum(axis=0) / (P.row_norms + self.epsilon)
        K[list(self.unpenalized)] = 0
        edges = self.similarity.copy()
        edges.data = self.smoothness * edges.data / (P.edge_norms + self.epsilon)
        degree = np.asarray(edges.sum(axis=1)).ravel()
        # Without lambda1 or lambda2 a feature may be left with no penalty at all: the floor keeps the system definite.
        return np.maximum(self.sparsity * K + degree + self.smoothness * self.ridge, degree + 1e-6), edges

    def rotate(self, B):
        self.R = nearest_rotation(B @ self.P.responses)  # eq. 21

    def target(self):
        return self.R @ self.P.responses.T

    def loss(self, B):
        fit = float(((B - self.target()) ** 2).sum())
        sparse = float((self.P.row_norms.sum(axis=0) ** 2).sum())
        smooth = float((self.similarity.data * self.P.edge_norms).sum())
        return fit + self.sparsity * sparse + self.smoothness * smooth

    def learned(self):
        """The offsets (m x b), whose row j is R P_j'c_j, what every member of cluster j gets; and P, if it is kept."""
        kept = {} if self.P.weights is None else {"personalized_weights": self.P.weights}
        return {"offsets": self.target().T, **kept}
