"""The start of the published programs: MATLAB's generator of version 4."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from hashlearn import JPSH, JSH
from hashlearn.hashers.published_start import matlab4_normals, published_start


def test_numbers_are_those_of_matlab():
    # randn('seed', 0); randn(1, 8) as printed with format short
    printed = [1.1650, 0.6268, 0.0751, 0.3516, -0.6965, 1.6961, 0.0591, 1.7971]
    np.testing.assert_allclose(matlab4_normals(0, 8), printed, atol=5e-5)


@given(st.integers(1, 2**15 - 1))
def test_numbers_are_standard_normal(seed):
    numbers = matlab4_normals(seed, 2000)
    assert abs(numbers.mean()) < 6 / np.sqrt(2000)
    assert 0.8 < numbers.std() < 1.2


def test_a_longer_code_starts_from_other_signs_of_the_same_sequence():
    np.testing.assert_array_equal(published_start(4, 6).T.ravel(), published_start(8, 3).T.ravel())


@pytest.mark.parametrize("make", [JPSH, JSH])
def test_only_the_anchors_differ_between_runs(make):
    X = load_digits(return_X_y=True)[0][:300]
    anchors = X[::10]
    first, second = (make(8, init="published", anchors=anchors, random_state=seed).fit_transform(X) for seed in (0, 1))
    np.testing.assert_array_equal(first, second)
    assert JPSH.paper("mnist").init == "published"
