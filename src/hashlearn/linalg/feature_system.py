"""One m x m system for each feature: the part of eq. 14 that couples the anchors.

With D = lambda1 K + lambda2 G (x) I, one matrix M_f = diag(k_f) - E for each feature, and the anchors' values c_f::

    S = sum_f diag(c_f) M_f^-1 diag(c_f)      (m x m, never formed)

Every M_f is diagonally dominant. A few rounds of Jacobi-preconditioned conjugate gradients solve it in cache, a share
of the features on each thread. A feature without a penalty of its own (the bias: K = 0) has the bare Laplacian as its
matrix and makes I + S ill-conditioned. Such features are few, and are inverted densely. Without lambda1 all features
are such, with the same matrix. Their inverses and the first three Neumann terms of the other features make a
preconditioner. If lambda2 is huge, these terms are inexact mainly for vectors that are constant over a component of the
graph. For such vectors a closed form is used.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.csgraph
from numpy.typing import NDArray

from hashlearn.compiled import fast
from hashlearn.threads import n_threads

_MAX_INNER = 500
_MAX_OUTER = 200
_GOOD_STEP = 0.1
"""While a correction by the preconditioner reduces the residual to less than this share, another one follows. Then
conjugate gradients take over."""
_SHARES = 16
"""Number of parts of the features. It is fixed, so that the sums and the codes do not depend on the machine."""


class WeightSums(NamedTuple):
    """Sums over the features of the weights P_f = M_f^-1 (c_f * U).

    Attributes
    ----------
    responses : ndarray of shape (m, b)
        Row j is c_j' P_j, so that the matrix is Y'P.
    row_norms : ndarray of shape (d, m)
        Norm of row f of P_j.
    edge_norms : ndarray of shape (n_edges,)
        ||P_i - P_j||_F for the edges of the graph, in CSR order.
    """

    responses: NDArray
    row_norms: NDArray
    edge_norms: NDArray


class FeatureSystem:
    """I + S as an operator on (m, b) matrices, with its preconditioner.

    Parameters
    ----------
    diagonals : ndarray of shape (d, m), k_f of every feature
    edges : sparse matrix of shape (m, m), E
    unpenalized : features that are inverted densely
    anchors : ndarray of shape (m, d)
    real : type of the numbers
    tol : relative residual to which the systems of the features are solved, times ten
    """

    def __init__(self, diagonals, edges, unpenalized, *, anchors, real, tol):
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
        rows, columns = _graph_edges(edges)
        S[rows, columns] += edges.data * _row_products(scaled, rows, columns)
        _add_paths_of_two(S, GraphEdges(edges.indptr, edges.indices, edges.data), scaled, 1 / k)
        _add_constant_vectors(S, edges, anchors[:, self.rest], k)
        for f, inverse in zip(self.dense, self.inverses):
            S += np.outer(anchors[:, f], anchors[:, f]) * inverse
        self.factor = scipy.linalg.cho_factor(np.eye(m) + S)

    def solve(self, T) -> tuple[NDArray, WeightSums, float]:
        """The solution U of (I + S) U = T, its sums, and the relative residual."""
        U = self._precondition(T)
        # The preconditioner alone is often enough. The residual's computation also gives the sums over P.
        sums, before = self._weights(U), np.inf
        residual = self._residual(U, sums, T)
        while residual > self.tol:
            r = T - U - sums.responses.astype(T.dtype)
            if residual >= _GOOD_STEP * before:
                U = self._conjugate_gradients(U, r, self.tol * float(np.linalg.norm(T)))
                sums = self._weights(U)
                return U, sums, self._residual(U, sums, T)
            U = U + self._precondition(r)
            sums, before = self._weights(U), residual
            residual = self._residual(U, sums, T)
        return U, sums, residual

    def _precondition(self, R):
        # LAPACK returns columns that lie together; the kernels go along rows.
        return np.ascontiguousarray(scipy.linalg.cho_solve(self.factor, R), self.real)

    def _conjugate_gradients(self, U, r, goal):
        """Preconditioned conjugate gradients from U with residual r, all columns under common scalars."""
        z = self._precondition(r)
        p, rz = z, float((r * z).sum())
        for _ in range(_MAX_OUTER):
            if float(np.linalg.norm(r)) <= goal:
                break
            Ap = self._apply(p)
            a = r.dtype.type(rz / float((p * Ap).sum()))
            U, r = U + a * p, r - a * Ap
            z = self._precondition(r)
            rz, previous = float((r * z).sum()), rz
            p = z + r.dtype.type(rz / previous) * p
        return U

    def _apply(self, U):
        """(I + S) U."""
        out = U + self._dense_responses(U)
        for part in self._over_shares(partial(self._responses_of_share, U)):
            out += part
        return out

    def _weights(self, U) -> WeightSums:
        """The sums over the P that belongs to U."""
        responses, m = self._dense_responses(U), len(U)
        row_norms = np.zeros((len(self.anchors), m))
        edge_squares = np.zeros(self.edges.nnz)
        norms = np.zeros((len(self.rest), m), self.real)
        for part, squares in self._over_shares(partial(self._weights_of_share, U, norms)):
            responses += part
            edge_squares += squares
        row_norms[self.rest] = norms
        rows, columns = _graph_edges(self.edges)
        for f, x in self._dense_weights(U):
            row_norms[f] = np.linalg.norm(x, axis=1)
            edge_squares += ((x[rows] - x[columns]) ** 2).sum(axis=1)
        return WeightSums(responses.astype(np.float64), row_norms, np.sqrt(edge_squares))

    def in_full(self, U) -> NDArray[np.float64]:
        """P, shape (m, d, b)."""
        P = np.zeros((len(U), len(self.anchors), U.shape[1]))
        out, *work = np.zeros((6, *U.shape), U.dtype)
        arrays = FeatureArrays(*work)
        for f, k, c in zip(self.rest, self.k, self.c):
            _solve_and_respond(k, self._loop_edges(), c, U, self.tol * 0.1, out, arrays)
            P[:, f] = arrays.x
        for f, x in self._dense_weights(U):
            P[:, f] = x
        return P

    def _residual(self, U, sums: WeightSums, T) -> float:
        return float(np.linalg.norm(T - U - sums.responses) / max(np.linalg.norm(T), np.finfo(self.real).tiny))

    def _loop_edges(self) -> "GraphEdges":
        return GraphEdges(self.edges.indptr, self.edges.indices, self.edge_weights)

    def _over_shares(self, function) -> Iterator:
        cuts = np.linspace(0, len(self.rest), _SHARES + 1).astype(int)
        with ThreadPoolExecutor(n_threads()) as pool:
            yield from pool.map(function, map(slice, cuts[:-1], cuts[1:]))

    def _responses_of_share(self, U, part):
        out = np.zeros_like(U)
        _add_responses(self.k[part], self._loop_edges(), self.c[part], U, self.tol * 0.1, out)
        return out

    def _weights_of_share(self, U, norms, part):
        out, squares = np.zeros_like(U), np.zeros(self.edges.nnz)
        norms_and_squares = RowAndEdgeSums(norms[part], squares)
        _add_weights(self.k[part], self._loop_edges(), self.c[part], U, self.tol * 0.1, out, norms_and_squares)
        return out, squares

    def _dense_weights(self, U) -> Iterator:
        """P_f of the features that are inverted densely."""
        for f, inverse in zip(self.dense, self.inverses):
            yield f, inverse @ (self.anchors[f][:, None] * U)

    def _dense_responses(self, U):
        out = np.zeros_like(U)
        for f, x in self._dense_weights(U):
            out += (self.anchors[f][:, None] * x).astype(self.real)
        return out


def outer_product_sums(anchors: NDArray, scaled: NDArray, graph: scipy.sparse.csr_array) -> WeightSums:
    """The sums of the weights P_j = c_j s_j', with anchors c_j (m x d) and ``scaled`` rows s_j (m x b)."""
    squared = np.einsum("ij,ij->i", anchors, anchors)
    size = np.linalg.norm(scaled, axis=1)
    rows, columns = _graph_edges(graph)
    # ||c_i s_i' - c_j s_j'||^2 from inner products: the outer products are never formed.
    squares = (squared * size**2)[rows] + (squared * size**2)[columns]
    squares -= 2 * _row_products(anchors, rows, columns) * _row_products(scaled, rows, columns)
    return WeightSums(squared[:, None] * scaled, np.abs(anchors.T) * size, np.sqrt(np.maximum(squares, 0)))


def _inverse(M):
    """The inverse of a symmetric positive definite matrix, in half the time of a general one."""
    inverse, failed = scipy.linalg.lapack.dpotri(scipy.linalg.cholesky(M, lower=True, check_finite=False), lower=1)
    if failed:
        raise np.linalg.LinAlgError("the matrix of an unpenalized feature is singular")
    return np.tril(inverse) + np.tril(inverse, -1).T


def _graph_edges(graph: scipy.sparse.csr_array) -> tuple[NDArray, NDArray]:
    """The anchors at both ends of every edge, in CSR order."""
    return np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr)), graph.indices


def _row_products(X: NDArray, rows: NDArray, columns: NDArray) -> NDArray:
    """x_i . x_j for the edges, a block of edges at a time."""
    out = np.empty(len(rows))
    for start in range(0, len(rows), 4096):
        part = slice(start, start + 4096)
        out[part] = np.einsum("ij,ij->i", X[rows[part]], X[columns[part]])
    return out


def _add_constant_vectors(S, edges, anchors, k):
    """Add to S what three Neumann terms miss of the vectors that are constant over a component of the graph.

    E multiplies such a vector by about r k, with a share r. The terms that are left out sum to r^3 of the whole.
    """
    n_components, component = scipy.sparse.csgraph.connected_components(edges, directed=False)
    degree = np.asarray(edges.sum(axis=1)).ravel()
    for label in range(n_components):
        members = np.flatnonzero(component == label)
        total, inner = k[members].sum(axis=0), degree[members].sum()
        missed = (inner / total) ** 3 / (total - inner)
        S[np.ix_(members, members)] += (anchors[members] * missed) @ anchors[members].T


class GraphEdges(NamedTuple):
    """E as the compiled loops take it: the arrays of a sparse matrix in rows."""

    indptr: NDArray
    indices: NDArray
    weights: NDArray


class FeatureArrays(NamedTuple):
    """The arrays of conjugate gradients for one feature, of shape (m, b): right-hand side, solution, and r, p, q."""

    rhs: NDArray
    x: NDArray
    r: NDArray
    p: NDArray
    q: NDArray


class RowAndEdgeSums(NamedTuple):
    """Norms of the rows of P, shape (features, m), and squared norms of its differences over the edges."""

    norms: NDArray
    edge_squares: NDArray


@fast
def _solve_feature(k, edges, arrays, tol, max_iter):
    """Jacobi-preconditioned CG for (diag(k) - E) x = rhs from x = 0, all columns under common scalars.

    Sums are in double precision. Everything else has the type of the arrays, because one double in an inner loop halves
    its speed.
    """
    indptr, indices, w = edges
    rhs, x, r, p, q = arrays
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


@fast
def _solve_and_respond(k, edges, c, U, tol, out, arrays):
    """x = M^-1 (c * U) and out += c * x, for the matrix and the anchors' values of one feature."""
    rhs, x = arrays.rhs, arrays.x
    m, b = U.shape
    for j in range(m):
        for t in range(b):
            rhs[j, t] = c[j] * U[j, t]
    _solve_feature(k, edges, arrays, tol, _MAX_INNER)
    for j in range(m):
        for t in range(b):
            out[j, t] += c[j] * x[j, t]


@fast
def _new_arrays(U):
    return FeatureArrays(np.empty_like(U), np.empty_like(U), np.empty_like(U), np.empty_like(U), np.empty_like(U))


@fast
def _add_responses(k, edges, anchors, U, tol, out):
    """out += sum_f c_f * M_f^-1 (c_f * U)."""
    arrays = _new_arrays(U)
    for f in range(len(anchors)):
        _solve_and_respond(k[f], edges, anchors[f], U, tol, out, arrays)


@fast
def _add_weights(k, edges, anchors, U, tol, out, sums):
    """As :func:`_add_responses`, and the norms of P's rows and the squared norms of its differences over the edges."""
    arrays = _new_arrays(U)
    x, indptr, indices = arrays.x, edges.indptr, edges.indices
    norms, edge_squares = sums
    m, b = U.shape
    for f in range(len(anchors)):
        _solve_and_respond(k[f], edges, anchors[f], U, tol, out, arrays)
        for j in range(m):
            s = 0.0
            for t in range(b):
                s += x[j, t] * x[j, t]
            norms[f, j] = np.sqrt(s)
            for e in range(indptr[j], indptr[j + 1]):
                s = 0.0
                for t in range(b):
                    v = x[j, t] - x[indices[e], t]
                    s += v * v
                edge_squares[e] += s


@fast
def _add_paths_of_two(S, edges, scaled, inverse):
    """Add the third Neumann term to S: what goes from an anchor over one other to a third, or back.

    ``scaled`` is c/k and ``inverse`` 1/k, both of shape (m, features).
    """
    indptr, indices, w = edges
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
