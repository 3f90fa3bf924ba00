"""SGH: kernel bits that repeat the similarities of all pairs."""

import numpy as np
import pytest
import scipy.linalg
from sklearn.datasets import load_digits

from hashlearn import LSH, SGH, hamming_distances, unpack
from hashlearn.hashers.sgh import _linearized
from hashlearn.linalg.projections import unit_rows

X, Y = load_digits(return_X_y=True)
X = X[:600] / 16
Y = Y[:600]


def on_sphere(points):
    return unit_rows(points - X.mean(axis=0))


def kernel(points, bases):
    squared = ((on_sphere(points)[:, None] - on_sphere(bases)) ** 2).sum(axis=2)
    train = ((on_sphere(X)[:, None] - on_sphere(bases)) ** 2).sum(axis=2)
    return np.exp(-squared / (2 * train.mean())) - np.exp(-train / (2 * train.mean())).mean(axis=0)


@pytest.mark.parametrize("rho", [2.0, 5.0])
def test_the_linear_form_is_the_similarity(rho):
    points = on_sphere(X)
    F = _linearized(points, rho)
    exact = 2 * np.exp(-((points[:, None] - points) ** 2).sum(axis=2) / rho) - 1
    inner = 2 * points @ points.T / rho
    chord = 2 * np.exp(-2 / rho) * (np.sinh(1) * inner + np.cosh(1)) - 1
    np.testing.assert_allclose(F @ F.T - 1, chord, atol=1e-12)
    # The chord of exp over [-1, 1] is off by 0.558 at worst.
    assert np.abs(F @ F.T - 1 - exact).max() < 2 * np.exp(-2 / rho) * 0.558


def test_bits_are_generalised_eigenvectors_learned_one_against_the_others():
    bases, order = X[::12], [2, 0, 1]
    hasher = SGH(3, bases=bases, refine_order=order).fit(X)
    K, F = kernel(X, bases), _linearized(on_sphere(X), 2.0)
    A, Z = 3 * K.T @ (F @ F.T - 1) @ K, K.T @ K + 1e-6 * np.eye(len(bases))
    v = np.zeros((3, len(bases)))
    for bit in [0, 1, 2, *order]:
        others = A - sum(np.outer(v[i], v[i]) for i in range(3) if i != bit)
        w = scipy.linalg.eigh(others, Z)[1][:, -1]
        v[bit] = K.T @ np.sign(K @ w)
    np.testing.assert_allclose(np.abs(K.T @ np.sign(K @ hasher.weights_)), np.abs(v.T), rtol=1e-6)


def test_scores_are_kernels_times_weights():
    hasher = SGH(12, n_bases=50, random_state=0).fit(X[100:])
    assert hasher.weights_.shape == (50, 12)
    bases = X[::12]
    hasher = SGH(12, bases=bases, random_state=0).fit(X)
    scores = kernel(X, bases) @ hasher.weights_
    np.testing.assert_allclose(hasher.decision_function(X), scores, atol=1e-6 * np.abs(scores).max())
    np.testing.assert_array_equal(unpack(hasher.transform(X), 12), scores > 0)


def test_codes_of_single_and_double_precision_agree():
    double = SGH(16, random_state=0).fit(X)
    single = double.transform(X.astype(np.float32))
    assert np.mean(unpack(single, 16) == unpack(double.transform(X), 16)) > 0.999


def test_refinement_brings_codes_nearer_to_the_similarities():
    F = _linearized(on_sphere(X), 2.0)

    def error(n_sweeps):
        B = 2.0 * unpack(SGH(16, n_sweeps=n_sweeps, random_state=0).fit_transform(X), 16) - 1
        return ((16 * (F @ F.T - 1) - B @ B.T) ** 2).mean()

    assert error(1) < error(0)


def test_it_finds_the_digits_that_lsh_does_not():
    def nearest_agree(hasher):
        codes = hasher.fit_transform(X)
        nearest = np.argsort(hamming_distances(codes, codes, 32), axis=1, kind="stable")[:, 1:31]
        return (Y[nearest] == Y[:, None]).mean()

    assert nearest_agree(SGH(32, random_state=0)) > nearest_agree(LSH(32, random_state=0)) + 0.05


def test_a_row_at_the_mean_is_no_trouble():
    rows = np.vstack([X, X.mean(axis=0)])
    hasher = SGH(8, random_state=0).fit(rows)
    assert np.isfinite(hasher.decision_function(rows)).all()


def test_more_bits_than_bases_still_differ():
    bits = unpack(SGH(12, n_bases=6, random_state=0).fit_transform(X), 12)
    assert len(np.unique(bits, axis=1).T) > 6


def test_all_rows_are_bases_where_there_are_few():
    assert len(SGH(4, random_state=0).fit(X[:30]).bases_) == 30
    with pytest.raises(ValueError, match=r"n_bases=31.*n_samples=30"):
        SGH(4, n_bases=31).fit(X[:30])


@pytest.mark.parametrize(
    "changes",
    [{"rho": 0}, {"gamma": -1}, {"n_sweeps": -1}, {"bases": np.ones((4, 3))}, {"refine_order": [0, 1, 1, 3]}],
)
def test_a_wrong_parameter_is_named(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        SGH(4, **changes).fit(X)


def test_a_singular_kernel_needs_gamma():
    with pytest.raises(ValueError, match="gamma"):
        SGH(2, gamma=0, bases=np.repeat(X[:3], 5, axis=0)).fit(X)
