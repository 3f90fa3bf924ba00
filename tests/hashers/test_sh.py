"""SH: the slowest standing waves along the principal axes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn import SH, hamming_distances, unpack
from hashlearn.hashers.sh import slowest_modes

X = np.random.default_rng(0).normal(size=(400, 6)) * [9, 5, 3, 2, 1, 0.5]


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=6), st.integers(1, 40))
@settings(max_examples=50, deadline=None)
def test_the_modes_are_the_slowest_of_all(lengths, n_modes):
    lengths = np.array(lengths)
    axis, number = slowest_modes(lengths, n_modes)
    assert len(set(zip(axis, number))) == n_modes
    frequencies = number / lengths[axis]
    every = np.sort((np.arange(1, n_modes + 1) / lengths[:, None]).ravel())
    np.testing.assert_allclose(frequencies, every[:n_modes])


def test_an_axis_twice_as_long_carries_twice_the_waves():
    axis, number = slowest_modes(np.array([2.0, 1.0]), 3)
    assert list(zip(axis, number)) == [(0, 1), (0, 2), (1, 1)]


def test_an_axis_of_no_length_carries_no_wave():
    axis, _ = slowest_modes(np.array([0.0, 1.0, 1e-17]), 20)
    assert set(axis) == {1}


def test_the_first_bit_cuts_the_longest_axis_in_the_middle():
    hasher = SH(1).fit(X)
    along = (X - X.mean(axis=0)) @ hasher.directions_[:, 0]
    middle = (along.min() + along.max()) / 2
    np.testing.assert_array_equal(unpack(hasher.transform(X), 1)[:, 0], along < middle)


def test_codes_may_be_longer_than_the_vectors():
    bits = unpack(SH(40).fit_transform(X), 40)
    assert np.ptp(bits, axis=0).all()
    assert len(np.unique(bits, axis=1).T) == 40


@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_distances_do_not_depend_on_the_origin_or_on_a_mirror(shift):
    codes, other = SH(24).fit_transform(X), SH(24).fit_transform(shift - X)
    np.testing.assert_array_equal(hamming_distances(codes, codes, 24), hamming_distances(other, other, 24))


def test_constant_data_get_one_code():
    assert len(np.unique(SH(8).fit_transform(np.ones((20, 3))), axis=0)) == 1
