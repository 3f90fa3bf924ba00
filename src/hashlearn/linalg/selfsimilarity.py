"""Rows as mixtures of each other, and the similarity that follows, without a matrix of n x n.

The self-representation X ~ U V X of rank r is found by alternating least squares, ``U = V'(VV')^-1`` and
``V = (U'XX'U)^-1 U'XX'``. With P = X'U every V is the transpose of X P (P'P)^-1. After the first round U and V are the
data times d x r matrices, and only the subspace of P matters. Each round multiplies this subspace by X'X. So a round
costs O(d^2 r) for any n. The rounds are a subspace iteration toward the leading right singular vectors of X.
"""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hashlearn.linalg.projections import projected
from hashlearn.rows import RowBlocks, row_slices


def gram_matrix(rows: RowBlocks) -> NDArray[np.float64]:
    """X'X in double precision, shape (d, d)."""
    gram = np.zeros((rows.shape[1], rows.shape[1]))
    for _, block in rows:
        block = block.astype(np.float64, copy=False)
        gram += block.T @ block
    return gram


def numerical_rank(gram: NDArray[np.float64]) -> int:
    """Number of eigenvalues above the rounding error of the largest; at least one."""
    values = scipy.linalg.eigvalsh(gram)
    return max(1, int(np.count_nonzero(values > len(gram) * np.finfo(np.float64).eps * values[-1])))


def self_representation(
    rows: RowBlocks, gram: NDArray[np.float64], V: NDArray, max_iter: int
) -> tuple[NDArray, NDArray]:
    """U and the transpose of V after ``max_iter`` rounds of alternating least squares from V.

    Parameters
    ----------
    rows : RowBlocks of shape (n, d)
    gram : ndarray of shape (d, d)
        X'X.
    V : ndarray of shape (r, n)
        r is at most the rank of the data.
    max_iter : int
        Rounds, at least two.

    Returns
    -------
    U, V : ndarrays of shape (n, r)
    """
    P = np.zeros((rows.shape[1], len(V)))
    for part, block in rows:
        P += block.T @ V[:, part].T
    for _ in range(max_iter - 1):
        Q = np.linalg.qr(P)[0]
        P = gram @ Q
    to_U = Q @ np.linalg.inv(Q.T @ P)
    P = gram @ to_U
    to_V = P @ np.linalg.inv(P.T @ P)
    return projected(rows, to_U), projected(rows, to_V)


class SelfSimilarity:
    """S = [(UV) * (UV) + its transpose] / max_i (UV)_ii^2 - 1, applied to matrices and never formed.

    (u . v)^2 is the inner product of the r (r + 1) / 2 products of pairs in u with those in v, so S G costs O(n r^2 b);
    the products exist for a block of rows at a time.

    Parameters
    ----------
    U, V : ndarrays of shape (n, r)
        V is transposed.
    """

    def __init__(self, U: NDArray, V: NDArray):
        self.U, self.V = U, V
        self.peak = float(np.max(np.einsum("ij,ij->i", U, V) ** 2))
        r = U.shape[1]
        # Mixed products occur twice in the square of a sum.
        self.weights = np.concatenate([np.r_[1.0, np.full(r - a - 1, 2.0)] for a in range(r)])[:, None]

    def times(self, G: NDArray) -> NDArray[np.float64]:
        """S G, shape of G."""
        U_sums, V_sums = np.zeros((2, len(self.weights), G.shape[1]))
        for part in self._parts():
            U_sums += _pair_products(self.U[part]).T @ G[part].astype(self.U.dtype)
            V_sums += _pair_products(self.V[part]).T @ G[part].astype(self.U.dtype)
        U_sums, V_sums = ((sums * self.weights).astype(self.U.dtype) for sums in (U_sums, V_sums))
        product = np.empty(G.shape)
        for part in self._parts():
            product[part] = _pair_products(self.U[part]) @ V_sums + _pair_products(self.V[part]) @ U_sums
        return product / self.peak - G.sum(axis=0)

    def _parts(self):
        return row_slices(len(self.U), len(self.weights))


def _pair_products(rows: NDArray) -> NDArray:
    """Products of every two entries of a row, u_a u_b with a <= b, shape (n, r (r + 1) / 2)."""
    n, r = rows.shape
    products = np.empty((n, r * (r + 1) // 2), rows.dtype)
    start = 0
    for a in range(r):
        np.multiply(rows[:, a : a + 1], rows[:, a:], out=products[:, start : start + r - a])
        start += r - a
    return products


def balanced_orthogonal(C: NDArray, rng: np.random.RandomState) -> NDArray[np.float64]:
    """The A that maximizes tr(A'C) subject to A'1 = 0 and A'A = n I, shape (n, b).

    If the centered C has too low a rank, random directions complete it. At most n - 1 directions can be orthogonal.
    """
    n, b = C.shape
    centered = C - C.mean(axis=0)
    values, right = scipy.linalg.eigh(centered.T @ centered)
    kept = values >= 1e-5
    left = centered @ right[:, kept] / np.sqrt(values[kept])
    right = np.hstack([right[:, kept], right[:, ~kept]])
    missing = min(b, n - 1) - left.shape[1]
    if missing > 0:
        left = np.hstack([left, _orthogonal_to(left, missing, rng)])
    return np.sqrt(n) * left @ right[:, : left.shape[1]].T


def _orthogonal_to(left: NDArray, count: int, rng: np.random.RandomState) -> NDArray[np.float64]:
    """Random orthonormal columns that sum to zero and are orthogonal to ``left``."""
    basis = np.hstack([np.full((len(left), 1), len(left) ** -0.5), left])
    columns = rng.standard_normal((len(left), count))
    for _ in range(2):  # the second time removes the rounding error of the first
        columns = np.linalg.qr(columns - basis @ (basis.T @ columns))[0]
    return columns
