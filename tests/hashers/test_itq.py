"""ITQ: what holds for it alone."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import ITQ
from hashlearn.linalg.moments import Moments
from hashlearn.linalg.projections import principal_directions
from hashlearn.rows import RowBlocks

X = load_digits().data[:500].astype(np.float64)


def test_the_principal_directions_that_are_given_are_those_that_are_found():
    known = ITQ(12, directions=principal_directions(Moments.of(RowBlocks(X)), 12), random_state=0).fit(X)
    np.testing.assert_allclose(known.projection_, ITQ(12, random_state=0).fit(X).projection_)


@pytest.mark.parametrize("n_directions", [5, 64])
def test_fewer_directions_than_bits_are_rotated_into_more_dimensions(n_directions):
    directions = np.eye(64)[:, :n_directions]
    hasher = ITQ(80, directions=directions, random_state=0).fit(X)
    # A rotation keeps inner products, also into more dimensions: P P' is the projection onto the directions.
    np.testing.assert_allclose(hasher.projection_ @ hasher.projection_.T, directions @ directions.T, atol=1e-5)
    errors = hasher.quantization_error_
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(errors))
    assert hasher.transform(X).shape == (500, 10)


def test_more_directions_than_bits_are_refused():
    with pytest.raises(ValueError, match="directions must be at most n_bits=4, got 5"):
        ITQ(4, directions=np.eye(64)[:, :5]).fit(X)
