"""SP: a quantizing rotation tied to a sparse projection."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import ITQ, LSH, SP, hamming_distances, unpack

X, Y = load_digits(return_X_y=True)


@pytest.mark.parametrize("n_bits", [7, 24, 64, 80])
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.9])
def test_the_projection_has_the_wanted_number_of_entries(n_bits, sparsity):
    projection = SP(n_bits, sparsity=sparsity, max_iter=5, random_state=0).fit(X).projection_
    wanted = np.ceil((1 - sparsity) * projection.size)
    # The features that are always zero have weights of no consequence, some of them zero.
    assert wanted - 3 * n_bits <= np.count_nonzero(projection) <= wanted + 2


def test_without_sparsity_and_bond_it_is_itq():
    init = np.random.default_rng(0).normal(size=(64, 16))
    sp = SP(16, sparsity=0, beta=0, max_iter=200, rescale=False, init=init).fit(X)
    itq = ITQ(16, max_iter=200, random_state=0).fit(X)

    def error(hasher):
        scores = hasher.decision_function(X)
        return ((np.sign(scores) - scores) ** 2).sum(axis=1).mean()

    np.testing.assert_allclose(sp.projection_.T @ sp.projection_, np.eye(16), atol=1e-9)
    assert error(sp) == pytest.approx(error(itq), rel=0.01)


def test_a_round_reads_the_same_as_the_objective_written_out():
    init = np.random.default_rng(1).normal(size=(64, 8))
    hasher = SP(8, max_iter=1, beta=0.5, sparsity=0.75, rescale=False, init=init).fit(X)
    centered = X - X.mean(axis=0)
    directions = np.linalg.svd(centered, full_matrices=False)[2][:8].T
    target = (np.where(centered @ init > 0, 1, -1) + 0.5 * centered @ init) / 1.5
    left, _, right = np.linalg.svd((centered @ directions).T @ target)
    dense = directions @ left @ right
    limit = np.sort(np.abs(dense).ravel())[-128]
    np.testing.assert_allclose(hasher.projection_, np.where(np.abs(dense) >= limit, dense, 0), atol=1e-9)


def test_it_finds_the_digits_that_lsh_does_not():
    def nearest_agree(hasher):
        codes = hasher.fit_transform(X)
        nearest = np.argsort(hamming_distances(codes, codes, 32), axis=1, kind="stable")[:, 1:51]
        return (Y[nearest] == Y[:, None]).mean()

    assert nearest_agree(SP(32, random_state=0)) > nearest_agree(LSH(32, random_state=0)) + 0.05


def test_the_unit_and_the_origin_of_the_features_do_not_matter():
    codes = SP(16, random_state=0).fit_transform(X)
    np.testing.assert_array_equal(SP(16, random_state=0).fit_transform(X * 1000 + np.arange(64)), codes)


def test_a_score_of_zero_is_a_one():
    hasher = SP(4, center=False, max_iter=1, init=np.eye(6, 4)).fit(np.eye(6)[[0, 1, 2, 3, 0, 1, 2, 3]])
    zeros = np.zeros((1, 6))
    assert unpack(hasher.transform(zeros), 4).all()
    assert (hasher.decision_function(zeros) > 0).all()


@pytest.mark.parametrize(
    "changes", [{"sparsity": 1.5}, {"sparsity": -0.1}, {"beta": -1}, {"max_iter": 0}, {"init": np.zeros((3, 3))}]
)
def test_a_wrong_parameter_is_named(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        SP(8, **changes).fit(X)
