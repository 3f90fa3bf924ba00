"""The personalized weights are those of the whole md x md system of eq. 14, solved directly."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.linalg.feature_system import FeatureSystem
from hashlearn.linalg.personalized import IdentityPenalty, Penalty


def problem(seed, m=12, d=5, b=3, *, bias=True):
    rng = np.random.default_rng(seed)
    anchors = rng.normal(size=(m, d))
    anchors[:, 1] = 0
    if bias:
        anchors[:, -1] = 1
    S = np.triu(rng.random((m, m)) * (rng.random((m, m)) < 0.3), 1)
    S = S + S.T
    K = rng.random((d, m)) * 50
    if bias:
        K[-1] = 0
    T = np.where(rng.normal(size=(m, b)) > 0, 1.0, -1.0)
    return anchors, S, K + S.sum(axis=1) + 1e-3, T


def direct(D, anchors, T):
    """P from the dense system (D + YY') P = YT, as (m, d, b)."""
    m, d = anchors.shape
    Y = np.zeros((m * d, m))
    for j in range(m):
        Y[j * d : (j + 1) * d, j] = anchors[j]
    return np.linalg.solve(D + Y @ Y.T, Y @ T).reshape(m, d, -1)


def check(found, P, anchors, graph, tol):
    rows = np.repeat(np.arange(len(P)), np.diff(graph.indptr))
    edges = np.linalg.norm((P[rows] - P[graph.indices]).reshape(len(rows), -1), axis=1)
    np.testing.assert_allclose(found.in_full(), P, atol=tol)
    np.testing.assert_allclose(found.responses, np.einsum("jd,jdb->jb", anchors, P), atol=tol)
    np.testing.assert_allclose(found.row_norms, np.linalg.norm(P, axis=2).T, atol=tol)
    np.testing.assert_allclose(found.edge_norms, edges, atol=tol)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_solution_equals_the_direct_one(seed, bias):
    anchors, S, diagonals, T = problem(seed, bias=bias)
    d = anchors.shape[1]
    P = direct(np.diag(diagonals.T.ravel()) - np.kron(S, np.eye(d)), anchors, T)
    graph = scipy.sparse.csr_array(S)
    unpenalized = (d - 1,) if bias else ()
    found = Penalty(diagonals, graph, unpenalized).solve(anchors, T, tol=1e-12)
    assert found.residual <= 1e-12
    check(found, P, anchors, graph, 1e-8)


def test_features_without_penalties_share_a_matrix_and_are_solved_as_well():
    anchors, S, _, T = problem(3)
    d = anchors.shape[1]
    diagonals = np.tile(S.sum(axis=1) + 1e-3, (d, 1))
    P = direct(np.diag(diagonals.T.ravel()) - np.kron(S, np.eye(d)), anchors, T)
    graph = scipy.sparse.csr_array(S)
    found = Penalty(diagonals, graph, tuple(range(d))).solve(anchors, T, tol=1e-10)
    check(found, P, anchors, graph, 1e-6)


def test_first_round_is_the_system_with_the_identity():
    anchors, S, _, T = problem(0)
    graph = scipy.sparse.csr_array(S)
    P = direct(np.eye(anchors.size), anchors, T)
    check(IdentityPenalty(graph).solve(anchors, T, tol=1e-5), P, anchors, graph, 1e-10)


@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-9])
def test_the_residual_is_what_was_asked_for(tol):
    anchors, S, diagonals, T = problem(1, m=60, d=20, b=16)
    penalty = Penalty(diagonals, scipy.sparse.csr_array(S), (19,))
    found = penalty.solve(anchors, T, tol=tol)
    exact = penalty.solve(anchors, T, tol=1e-13)
    assert found.residual <= tol
    assert np.abs(found.responses - exact.responses).max() <= 20 * tol * np.abs(exact.responses).max()


@pytest.mark.parametrize("weight", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("n_components", [1, 3])
def test_heavy_edges_need_no_outer_iterations(monkeypatch, weight, n_components):
    """lambda2 = 1e6 makes neighbors' weights alike and their edges heavier still: M_f is nearly a bare Laplacian."""
    rng = np.random.default_rng(4)
    m, d, b = 60, 8, 4
    S = weight * np.triu(rng.random((m, m)) * (rng.random((m, m)) < 0.5), 1)
    part = np.arange(m) % n_components
    S = (S + S.T) * (part[:, None] == part)
    anchors = rng.normal(size=(m, d)) + rng.normal(size=d)
    diagonals = S.sum(axis=1) + 1 + rng.random((d, m))
    T = np.where(rng.normal(size=(m, b)) > 0, 1.0, -1.0)
    monkeypatch.setattr(FeatureSystem, "_conjugate_gradients", None)
    graph = scipy.sparse.csr_array(S)
    found = Penalty(diagonals, graph).solve(anchors, T, tol=1e-6)
    assert found.residual <= 1e-6
    P = direct(np.diag(diagonals.T.ravel()) - np.kron(S, np.eye(d)), anchors, T)
    check(found, P, anchors, graph, 1e-5)
