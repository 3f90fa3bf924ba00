"""KNNH: ITQ on rows that have been replaced by the mean of their neighbors."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from hashlearn import ITQ, KNNH, hamming_distances, unpack
from hashlearn.hashers.knnh import shrunk
from hashlearn.linalg.neighbors import nearest_others


@pytest.fixture(scope="module")
def digits():
    return load_digits().data[:500].astype(np.float64)


def test_neighbors_are_those_of_brute_force_without_the_row_itself(digits):
    V = PCA(16).fit_transform(digits)
    wanted = NearestNeighbors(n_neighbors=6).fit(V).kneighbors(V)[1][:, 1:]
    np.testing.assert_array_equal(np.sort(nearest_others(V, 5)), np.sort(wanted))


def test_rows_that_are_there_many_times_have_each_other_as_neighbors():
    V = np.repeat(np.arange(4.0)[:, None], 5, axis=0)
    neighbors = nearest_others(V, 4)
    assert not (neighbors == np.arange(20)[:, None]).any()
    np.testing.assert_array_equal(shrunk(V, neighbors), V)


def test_fewer_rows_than_neighbors_work():
    V = np.eye(3)
    np.testing.assert_allclose(shrunk(V, nearest_others(V, 20)), (1 - np.eye(3)) / 2)


def test_the_rotation_is_that_of_itq_for_the_shrunk_components(digits):
    directions = PCA(8, svd_solver="full").fit(digits).components_.T
    init = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 8)))[0]
    knnh = KNNH(8, n_neighbors=5, init=init).fit(digits)
    V = (digits - digits.mean(axis=0)) @ directions
    V = np.mean([V[column] for column in nearest_others(V, 5).T], axis=0)
    error = ((np.where(unpack(knnh.training_codes_, 8), 1, -1) - V @ (directions.T @ knnh.projection_)) ** 2).sum(
        axis=1
    )
    assert error.mean() <= knnh.quantization_error_[-1] + 1e-9
    assert all(after <= before + 1e-9 for before, after in zip(knnh.quantization_error_, knnh.quantization_error_[1:]))


def test_without_shrinkage_it_is_itq(digits):
    np.testing.assert_array_equal(
        KNNH(12, n_shrinks=0, random_state=0).fit_transform(digits), ITQ(12, random_state=0).fit_transform(digits)
    )


def test_codes_of_the_training_rows_are_those_of_their_neighborhoods(digits):
    hasher = KNNH(16, random_state=0)
    learned = hasher.fit_codes(digits)
    np.testing.assert_array_equal(learned, hasher.training_codes_)
    plain, neighbors = hasher.transform(digits), nearest_others(digits, 5)
    gaps = [
        np.mean([hamming_distances(codes[row : row + 1], codes[neighbors[row]], 16).mean() for row in range(100)])
        for codes in (learned, plain)
    ]
    assert gaps[0] < gaps[1]


def test_with_a_sample_every_row_still_gets_a_code(digits):
    assert KNNH(16, train_sample=100, random_state=0).fit_codes(digits).shape == (500, 2)
