"""The dimension that the distances of neighbors tell."""

import numpy as np
import pytest

from hashlearn.hashers.starts import local_dimension


@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_flat_data_have_the_dimension_of_their_plane(dimension):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3000, dimension)) @ rng.standard_normal((dimension, 40))
    assert local_dimension(X, 1000, 20) == pytest.approx(dimension, rel=0.2)


def test_neither_the_unit_nor_the_place_nor_the_order_of_the_rows_matters():
    rng = np.random.default_rng(0)
    X = np.sort(rng.standard_normal((2000, 8)), axis=0)
    found = local_dimension(X, 2000, 20)
    assert local_dimension(1000 * X + 7, 2000, 20) == pytest.approx(found, rel=1e-6)
    assert local_dimension(rng.permutation(X), 2000, 20) == pytest.approx(found)
    assert local_dimension((X + 100).astype(np.float32), 2000, 20) == pytest.approx(found, rel=0.01)


def test_queries_are_taken_from_all_over_the_rows():
    rng = np.random.default_rng(0)
    flat, full = np.zeros((900, 30)), rng.standard_normal((2100, 30))
    flat[:, 0] = rng.uniform(size=900)
    assert local_dimension(np.vstack([flat, full]), 100, 20) > 10
    assert local_dimension(np.vstack([full[:900], np.tile(flat, (3, 1))]), 100, 20) < 2


def test_rows_whose_neighbors_are_all_equally_far_do_not_count():
    rng = np.random.default_rng(0)
    plane = np.zeros((1000, 3002), np.float32)
    plane[:, :2] = rng.uniform(size=(1000, 2))
    apart = np.zeros((3000, 3002), np.float32)
    apart[np.arange(3000), 2 + np.arange(3000)] = 100
    assert local_dimension(np.vstack([plane, apart]), 1000, 20) == pytest.approx(2, rel=0.2)
    assert local_dimension(apart, 100, 20) == np.inf


def test_rows_that_are_there_many_times_have_no_dimension():
    X = np.repeat(np.random.default_rng(0).standard_normal((50, 5)), 30, axis=0)
    assert local_dimension(X, 500, 20) == 0
    assert local_dimension(np.zeros((100, 3)), 500, 20) == 0
    assert local_dimension(np.zeros((2, 3)), 500, 20) == 0
