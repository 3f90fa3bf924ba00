"""The P step (eq. 14): personalized weights without their md x md system, and without holding P.

The weights of all anchors solve::

    (lambda1 K + lambda2 G (x) I_d + Y Y') P = Y T       Y = blockdiag(c_1 .. c_m),  T = B'R  (m x b)

K is diagonal and G couples equal features only, so D = lambda1 K + lambda2 G (x) I falls into one m x m matrix for each
feature, M_f = diag(k_f) - E, with E the weighted edges of the anchors' graph. The push-through identity turns the rest
into a small system for U (m x b)::

    (I + S) U = T,     S = sum_f diag(c_f) M_f^-1 diag(c_f),     P_f = M_f^-1 (c_f * U)

The systems M_f are in :mod:`hashlearn.linalg.feature_system`. P itself is not kept. The alternation needs only Y'P and
the norms of its rows and of P_i - P_j, which are summed feature by feature.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from hashlearn.linalg.anchors.search import squared_distances
from hashlearn.linalg.feature_system import FeatureSystem, outer_product_sums


class PersonalizedWeights(NamedTuple):
    """Sums over P, and P itself on request.

    Attributes
    ----------
    responses : ndarray of shape (m, b)
        Y'P: row j is c_j' P_j.
    row_norms : ndarray of shape (d, m)
        Norm of row f of P_j.
    edge_norms : ndarray of shape (n_edges,)
        ||P_i - P_j||_F for the edges of the graph, in CSR order.
    residual : float
        How far eq. 14 is from being solved: ||T - (I + S) U|| / ||T||.
    in_full : function without arguments
        Returns P itself, shape (m, d, b), which the alternation does not need.
    """

    responses: NDArray
    row_norms: NDArray
    edge_norms: NDArray
    residual: float
    in_full: Callable[[], NDArray[np.float64]]


class IdentityPenalty(NamedTuple):
    """The identity, which the first round uses instead of lambda1 K + lambda2 G.

    Attributes
    ----------
    S : sparse array of shape (m, m)
        The graph of the anchors.
    """

    S: scipy.sparse.csr_array

    def solve(self, anchors: NDArray, T: NDArray, tol: float) -> PersonalizedWeights:
        """Eq. 14 in closed form: P_j = c_j t_j' / (1 + ||c_j||^2)."""
        scaled = T / (1 + np.einsum("ij,ij->i", anchors, anchors))[:, None]
        sums = outer_product_sums(anchors, scaled, self.S)
        return PersonalizedWeights(*sums, 0.0, lambda: anchors[:, :, None] * scaled[:, None, :])


class Penalty(NamedTuple):
    """lambda1 K + lambda2 G (eqs. 11 and 13): one m x m matrix diag(k_f) - E for each feature.

    Attributes
    ----------
    diagonals : ndarray of shape (d, m)
        k_f of every feature.
    edges : sparse array of shape (m, m)
        E, lambda2 S_ij / (||P_i - P_j|| + epsilon).
    unpenalized : tuple of int
        Features whose K is zero.
    """

    diagonals: NDArray
    edges: scipy.sparse.csr_array
    unpenalized: tuple[int, ...] = ()

    def solve(self, anchors: NDArray, T: NDArray, tol: float) -> PersonalizedWeights:
        """Solve eq. 14 to a relative residual of ``tol``, in single precision or, if that is not exact enough, in
        double precision.

        ``anchors`` has shape (m, d), ``T`` (m, b).
        """
        for real in self._precisions(tol):
            system = FeatureSystem(*self, anchors=anchors, real=real, tol=tol)
            U, sums, residual = system.solve(T.astype(real))
            if residual <= tol:
                break
        else:
            warnings.warn(
                f"the personalized weights are solved to {residual:.1e} only, not to solver_tol={tol:.1e}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return PersonalizedWeights(*sums, residual, partial(system.in_full, U))

    def _precisions(self, tol: float) -> tuple[type, ...]:
        """Single precision first, unless the diagonal of M_f is too close to the sum of its edges for it."""
        penalized = np.delete(self.diagonals, self.unpenalized, axis=0)
        own_share = 1 - float(self.edges.sum()) / penalized.sum(axis=1).min(initial=np.inf)
        single = tol >= 1e-6 and own_share > 0.1 * np.finfo(np.float32).eps / tol
        return (np.float32, np.float64) if single else (np.float64,)


class PenaltyRule(NamedTuple):
    """The two penalties of P in eq. 7: their weights, and the constants that keep their divisions safe.

    Attributes
    ----------
    lambda1 : float
        Weight of the exclusive group sparsity.
    lambda2 : float
        Weight of the smoothness over the graph.
    epsilon : float
        Added to the norms that K and G are divided by (eqs. 11 and 13).
    ridge : float
        Added to the diagonal of G, which is a Laplacian and singular without it.
    bias : bool
        Whether the last feature is the constant one, which lambda1 does not penalize.
    """

    lambda1: float
    lambda2: float
    epsilon: float
    ridge: float
    bias: bool

    def at(self, P: PersonalizedWeights, S: scipy.sparse.csr_array) -> Penalty:
        """K and G at the P of the round before (eqs. 11 and 13)."""
        unpenalized = self._unpenalized(len(P.row_norms))
        K = P.row_norms.sum(axis=0) / (P.row_norms + self.epsilon)
        K[list(unpenalized)] = 0
        edges = S.copy()
        edges.data = self.lambda2 * S.data / (P.edge_norms + self.epsilon)
        degree = np.asarray(edges.sum(axis=1)).ravel()
        # Without lambda1 or lambda2 a feature may be left with no penalty at all: the floor keeps the system definite.
        diagonals = np.maximum(self.lambda1 * K + degree + self.lambda2 * self.ridge, degree + 1e-6)
        return Penalty(diagonals, edges, unpenalized)

    def value(self, P: PersonalizedWeights, S: scipy.sparse.csr_array) -> float:
        """The two penalties as eq. 7 has them, without the norms of the unpenalized features."""
        penalized = np.delete(P.row_norms, self._unpenalized(len(P.row_norms)), axis=0)
        sparsity = float((penalized.sum(axis=0) ** 2).sum())
        smoothness = float((S.data * P.edge_norms).sum())
        return self.lambda1 * sparsity + self.lambda2 * smoothness

    def _unpenalized(self, d: int) -> tuple[int, ...]:
        if self.lambda1 == 0:
            return tuple(range(d))
        return (d - 1,) if self.bias else ()


def anchor_similarity(anchors: NDArray, n_neighbors: int) -> scipy.sparse.csr_array:
    """Symmetric heat-kernel graph of the anchors' nearest neighbors (eq. 6), shape (m, m), zero diagonal.

    S_ij = exp(-||c_i - c_j||^2 / (2 t^2)) where one is among the other's ``n_neighbors`` nearest; t is the mean of all
    m x m distances, the zeros of the diagonal included, as in the published implementation.
    """
    squared = squared_distances(anchors.astype(np.float64), anchors.astype(np.float64))
    m, width = len(anchors), float(np.sqrt(squared).mean())
    np.fill_diagonal(squared, np.inf)
    nearest = np.argsort(squared, axis=1, kind="stable")[:, : min(n_neighbors, m - 1)]
    chosen = np.zeros((m, m), bool)
    np.put_along_axis(chosen, nearest, True, axis=1)
    chosen |= chosen.T
    np.fill_diagonal(chosen, False)
    rows, columns = np.nonzero(chosen)
    weights = np.exp(squared[rows, columns] / -(2 * width**2)) if width > 0 else np.ones(len(rows))
    return scipy.sparse.csr_array((weights, (rows, columns)), (m, m))
