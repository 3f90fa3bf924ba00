"""The P step (eq. 14): personalized weights without their md x md system, and without holding P.

The weights of all anchors solve::

    (lambda1 K + lambda2 G (x) I_d + Y Y') P = Y T       Y = blockdiag(c_1 .. c_m),  T = B'R  (m x b)

K is diagonal and G couples equal features only, so D = lambda1 K + lambda2 G (x) I falls into one m x m matrix a
feature, M_f = diag(k_f) - E, with E the weighted edges of the anchors' graph. The push-through identity turns the
rest into a small system for U (m x b)::

    (I + S) U = T,     S = sum_f diag(c_f) M_f^-1 diag(c_f),     P_f = M_f^-1 (c_f * U)

Every M_f is diagonally dominant and solved by a few rounds of Jacobi-preconditioned conjugate gradients, all in cache.
A feature without a penalty of its own (the bias: K = 0) has the bare Laplacian as its matrix and makes I + S ill-
conditioned; such features are few (or all, with one and the same matrix, without lambda1), are inverted densely, and
go with the first three Neumann terms of the others into a preconditioner. Where lambda2 is huge, what those terms miss
is mostly the part of the vectors that are constant over a component of the graph, and that has a closed form. What the
alternation wants of P (Y'P, the norms of its rows and of P_i - P_j) is summed feature by feature, a share of the
features on each thread.
"""

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.csgraph
from numba import njit
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from hashlearn.threads import n_threads

_MAX_INNER = 500
_MAX_OUTER = 200
_GOOD_STEP = 0.1
"""A correction by the preconditioner that leaves less than this share of the residual is followed by another; where it
does not, conjugate gradients go on."""
_SHARES = 16
"""Shares the features are cut into; fixed, so that the sums, and with them the codes, do not depend on the machine."""


@dataclass(frozen=True)
class PersonalizedWeights:
    """What is kept of P.

    Attributes
    ----------
    responses : ndarray of shape (m, b)
        Row j is c_j' P_j.
    row_norms : ndarray of shape (d, m)
        Norm of row f of P_j.
    edge_norms : ndarray of shape (n_edges,)
        ||P_i - P_j||_F for the edges of the graph, in CSR order.
    weights : ndarray of shape (m, d, b) or None
        P itself, if asked for.
    residual : float
        ||T - (I + S) U|| / ||T||.
    """

    responses: NDArray
    row_norms: NDArray
    edge_norms: NDArray
    weights: NDArray | None
    residual: float


def first_weights(anchors: NDArray, T: NDArray, graph: scipy.sparse.csr_array, keep: bool) -> PersonalizedWeights:
    """The closed form of the first round, where D is the identity: P_j = c_j t_j' / (1 + ||c_j||^2)."""
    squared = np.einsum("ij,ij->i", anchors, anchors)
    scaled = T / (1 + squared)[:, None]
    size = np.linalg.norm(scaled, axis=1)
    rows, columns = _edges(graph)
    # ||c_i t_i' - c_j t_j'||^2 from inner products: the outer products are never formed.
    squares = (squared * size**2)[rows] + (squared * size**2)[columns]
    squares -= 2 * _row_products(anchors, rows, columns) * _row_products(scaled, rows, columns)
    return PersonalizedWeights(
        responses=squared[:, None] * scaled,
        row_norms=np.abs(anchors.T) * size,
        edge_norms=np.sqrt(np.maximum(squares, 0)),
        weights=anchors[:, :, None] * scaled[:, None, :] if keep else None,
        residual=0.0,
    )


def solve_weights(
    diagonals: NDArray,
    edges: scipy.sparse.csr_array,
    anchors: NDArray,
    T: NDArray,
    *,
    unpenalized: tuple[int, ...] = (),
    tol: float = 1e-5,
    keep: bool = False,
) -> PersonalizedWeights:
    """Solve eq. 14 to a relative residual of ``tol``.

    Parameters
    ----------
    diagonals : ndarray of shape (d, m)
        k_f, the diagonal of every M_f: lambda1 K plus lambda2 times the graph's row sums and ridge.
    edges : sparse matrix of shape (m, m)
        lambda2 S_ij / (||P_i - P_j|| + epsilon), the weights of the last round.
    anchors : ndarray of shape (m, d)
    T : ndarray of shape (m, b)
    unpenalized : features whose K is zero
    tol : relative residual; where single precision does not reach it, double precision does the rest.
    keep : return P itself, too
    """
    for real in _precisions(diagonals, edges, unpenalized, tol):
        weights = _solve_in(real, diagonals, edges, anchors, T, unpenalized, tol, keep)
        if weights.residual <= tol:
            return weights
    warnings.warn(
        f"the personalized weights are solved to {weights.residual:.1e} only, not to solver_tol={tol:.1e}",
        ConvergenceWarning,
        stacklevel=2,
    )
    return weights


def _precisions(diagonals, edges, unpenalized, tol):
    """Single precision first, where M_f does not drown in the difference of its diagonal and its edges."""
    penalized = np.delete(diagonals, unpenalized, axis=0)
    own_share = 1 - float(edges.sum()) / penalized.sum(axis=1).min(initial=np.inf)
    single = tol >= 1e-6 and own_share > 0.1 * np.finfo(np.float32).eps / tol
    return (np.float32, np.float64) if single else (np.float64,)


def _solve_in(real, diagonals, edges, anchors, T, unpenalized, tol, keep) -> PersonalizedWeights:
    system = _System(diagonals, edges, anchors, unpenalized, real, tol)
    T = T.astype(real)
    U = system.precondition(T)
    # The preconditioner alone is often enough: a look at the residual also sums up what is wanted of P.
    weights, before = system.weights(U, T, keep), np.inf
    while weights.residual > tol:
        r = T - U - weights.responses.astype(real)
        if weights.residual < _GOOD_STEP * before:
            U = U + system.precondition(r)
        else:
            U = _conjugate_gradients(system, U, r, tol * float(np.linalg.norm(T)))
            return system.weights(U, T, keep)
        before, weights = weights.residual, system.weights(U, T, keep)
    return weights


class _System:
    """I + S as an operator on (m, b) matrices, with its preconditioner."""

    def __init__(self, diagonals, edges, anchors, unpenalized, real, tol):
        m = diagonals.shape[1]
        self.real, self.tol = real, tol
        self.anchors = np.ascontiguousarray(anchors.T, real)
        self.dense = np.asarray(unpenalized, np.intp)
        # A feature that is zero in every anchor, or zero up to rounding, has weights zero.
        peaks = np.abs(self.anchors).max(axis=1)
        self.rest = np.setdiff1d(np.flatnonzero(peaks > np.finfo(real).eps * peaks.max()), self.dense)
        self.edges = edges
        self.edge_weights = edges.data.astype(real)
        self.k = np.ascontiguousarray(diagonals[self.rest], real)
        self.c = np.ascontiguousarray(self.anchors[self.rest])
        full = edges.toarray()
        self.inverses: list = []
        for before, f in zip([None, *self.dense], self.dense):
            # Without any penalty of their own all features have the same matrix.
            same = before is not None and np.array_equal(diagonals[before], diagonals[f])
            self.inverses.append(self.inverses[-1] if same else _inverse(np.diag(diagonals[f]) - full))
        k = np.ascontiguousarray(diagonals[self.rest].T)
        scaled = anchors[:, self.rest] / k
        # M^-1 = k^-1 + k^-1 E k^-1 + k^-1 E k^-1 E k^-1 + ..., between two c each, summed over the features
        S = np.diag(np.einsum("ij,ij->i", anchors[:, self.rest], scaled))
        rows, columns = _edges(edges)
        S[rows, columns] += edges.data * _row_products(scaled, rows, columns)
        _add_paths_of_two(S, edges.indptr, edges.indices, edges.data, scaled, 1 / k)
        _add_constant_vectors(S, edges, anchors[:, self.rest], k)
        for f, inverse in zip(self.dense, self.inverses):
            S += np.outer(anchors[:, f], anchors[:, f]) * inverse
        self.factor = scipy.linalg.cho_factor(np.eye(m) + S)

    def precondition(self, R):
        return scipy.linalg.cho_solve(self.factor, R).astype(self.real)

    def apply(self, U):
        """(I + S) U."""
        return U + self._sweep(U)

    def weights(self, U, T, keep):
        """What is wanted of the P that belongs to U, and the residual of U."""
        d, m = len(self.anchors), len(U)
        norms = np.zeros((len(self.rest), m), self.real)
        edge_squares = np.zeros(self.edges.nnz)
        kept = np.zeros((len(self.rest), *U.shape), self.real) if keep else None
        responses = self._sweep(U, norms, edge_squares, kept)
        row_norms = np.zeros((d, m))
        row_norms[self.rest] = norms
        P = np.zeros((m, d, U.shape[1])) if keep else None
        if P is not None and kept is not None:
            P[:, self.rest] = kept.transpose(1, 0, 2)
        rows, columns = _edges(self.edges)
        for f, inverse in zip(self.dense, self.inverses):
            x = inverse @ (self.anchors[f][:, None] * U)
            row_norms[f] = np.linalg.norm(x, axis=1)
            edge_squares += ((x[rows] - x[columns]) ** 2).sum(axis=1)
            if P is not None:
                P[:, f] = x
        residual = float(np.linalg.norm(T - U - responses) / max(np.linalg.norm(T), np.finfo(self.real).tiny))
        return PersonalizedWeights(responses.astype(np.float64), row_norms, np.sqrt(edge_squares), P, residual)

    def _sweep(self, U, norms=None, edge_squares=None, kept=None):
        """S U; norms, squares and weights of P are written into the arrays that are given."""
        edges = (self.edges.indptr, self.edges.indices, self.edge_weights)
        wanted = (norms is not None, kept is not None)
        unwanted = np.empty((1, 1), self.real), np.empty((1, 1, 1), self.real)

        def sweep_share(part):
            out, squares = np.zeros_like(U), np.zeros(self.edges.nnz if wanted[0] else 1)
            places = (norms[part] if wanted[0] else unwanted[0], kept[part] if wanted[1] else unwanted[1])
            _over_features(
                self.k[part], *edges, self.c[part], U, self.tol * 0.1, out, places[0], squares, places[1], *wanted
            )
            return out, squares

        cuts = np.linspace(0, len(self.rest), _SHARES + 1).astype(int)
        out = np.zeros_like(U)
        with ThreadPoolExecutor(n_threads()) as pool:
            for share, squares in pool.map(sweep_share, map(slice, cuts[:-1], cuts[1:])):
                out += share
                if edge_squares is not None:
                    edge_squares += squares
        for f, inverse in zip(self.dense, self.inverses):
            c = self.anchors[f][:, None]
            out += (c * (inverse @ (c * U))).astype(self.real)
        return out


def _conjugate_gradients(system, U, r, goal):
    """Preconditioned conjugate gradients for (I + S) U = T from U with residual r, all columns under common scalars."""
    z = system.precondition(r)
    p, rz = z, float((r * z).sum())
    for _ in range(_MAX_OUTER):
        if float(np.linalg.norm(r)) <= goal:
            break
        Ap = system.apply(p)
        a = r.dtype.type(rz / float((p * Ap).sum()))
        U, r = U + a * p, r - a * Ap
        z = system.precondition(r)
        rz, previous = float((r * z).sum()), rz
        p = z + r.dtype.type(rz / previous) * p
    return U


def _inverse(M):
    """The inverse of a symmetric positive definite matrix, in half the time of a general one."""
    inverse, failed = scipy.linalg.lapack.dpotri(scipy.linalg.cholesky(M, lower=True, check_finite=False), lower=1)
    if failed:
        raise np.linalg.LinAlgError("the matrix of an unpenalized feature is singular")
    return np.tril(inverse) + np.tril(inverse, -1).T


def _edges(graph):
    return np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr)), graph.indices


def _row_products(X, rows, columns):
    """x_i . x_j for the edges, a block of edges at a time."""
    out = np.empty(len(rows))
    for start in range(0, len(rows), 4096):
        part = slice(start, start + 4096)
        out[part] = np.einsum("ij,ij->i", X[rows[part]], X[columns[part]])
    return out


def _add_constant_vectors(S, edges, anchors, k):
    """Add to S what three Neumann terms miss of the vectors that are constant over a component of the graph.

    E maps such a vector to the share r of k times itself, about; the terms left out sum to r^3 of the whole.
    """
    n_components, component = scipy.sparse.csgraph.connected_components(edges, directed=False)
    degree = np.asarray(edges.sum(axis=1)).ravel()
    for label in range(n_components):
        members = np.flatnonzero(component == label)
        total, inner = k[members].sum(axis=0), degree[members].sum()
        missed = (inner / total) ** 3 / (total - inner)
        S[np.ix_(members, members)] += (anchors[members] * missed) @ anchors[members].T


@njit(fastmath=True, nogil=True, cache=True)
def _solve_feature(k, indptr, indices, w, rhs, x, tol, max_iter, r, p, q):
    """Jacobi-preconditioned CG for (diag(k) - E) x = rhs from x = 0, all columns under common scalars.

    Sums are kept in double, the arrays' own type does the rest: a stray double in an inner loop halves its speed.
    """
    m, b = rhs.shape
    real = rhs.dtype.type
    rz = 0.0
    for j in range(m):
        inverse = real(1.0) / k[j]
        s = real(0.0)
        for c in range(b):
            v = rhs[j, c]
            x[j, c] = real(0.0)
            r[j, c] = v
            p[j, c] = v * inverse
            s += v * v
        rz += s * inverse
    goal = tol * tol * rz
    for _ in range(max_iter):
        if rz <= goal:
            return
        pq = 0.0
        for j in range(m):
            kj = k[j]
            for c in range(b):
                q[j, c] = kj * p[j, c]
            for e in range(indptr[j], indptr[j + 1]):
                we, i = w[e], indices[e]
                for c in range(b):
                    q[j, c] -= we * p[i, c]
            s = real(0.0)
            for c in range(b):
                s += q[j, c] * p[j, c]
            pq += s
        if pq <= 0:
            return
        a = real(rz / pq)
        new = 0.0
        for j in range(m):
            s = real(0.0)
            for c in range(b):
                x[j, c] += a * p[j, c]
                v = r[j, c] - a * q[j, c]
                r[j, c] = v
                s += v * v
            new += s / k[j]
        beta, rz = real(new / rz), new
        for j in range(m):
            inverse = real(1.0) / k[j]
            for c in range(b):
                p[j, c] = r[j, c] * inverse + beta * p[j, c]


@njit(fastmath=True, nogil=True, cache=True)
def _over_features(k, indptr, indices, w, anchors, U, tol, out, norms, edge_squares, kept, want_norms, want_weights):
    """out += sum_f c_f * M_f^-1 (c_f * U); where wanted, also the norms of P and P itself."""
    d, m = anchors.shape
    b = U.shape[1]
    rhs = np.empty((m, b), U.dtype)
    x, r, p, q = np.empty_like(rhs), np.empty_like(rhs), np.empty_like(rhs), np.empty_like(rhs)
    for f in range(d):
        for j in range(m):
            c = anchors[f, j]
            for t in range(b):
                rhs[j, t] = c * U[j, t]
        _solve_feature(k[f], indptr, indices, w, rhs, x, tol, _MAX_INNER, r, p, q)
        for j in range(m):
            s = 0.0
            for t in range(b):
                out[j, t] += anchors[f, j] * x[j, t]
                s += x[j, t] * x[j, t]
            if want_norms:
                norms[f, j] = np.sqrt(s)
                for e in range(indptr[j], indptr[j + 1]):
                    s = 0.0
                    for t in range(b):
                        v = x[j, t] - x[indices[e], t]
                        s += v * v
                    edge_squares[e] += s
        if want_weights:
            kept[f] = x


@njit(fastmath=True, cache=True)
def _add_paths_of_two(S, indptr, indices, w, scaled, inverse):
    """Add the third Neumann term to S: what goes from an anchor over one other to a third, or back.

    ``scaled`` is c/k and ``inverse`` 1/k, both of shape (m, features).
    """
    for middle in range(len(S)):
        for one in range(indptr[middle], indptr[middle + 1]):
            for two in range(indptr[middle], one + 1):
                i, j = indices[one], indices[two]
                total = 0.0
                for f in range(scaled.shape[1]):
                    total += scaled[i, f] * scaled[j, f] * inverse[middle, f]
                total *= w[one] * w[two]
                S[i, j] += total
                if i != j:
                    S[j, i] += total
