import numpy as np
import pytest
from duplicates.near_pairs import with_planted

from hashlearn import find_duplicates
from hashlearn.duplicates.chance import distance_by_chance


@pytest.mark.parametrize("n", [500, 2000, 8000])
def test_unrelated_rows_have_hardly_a_pair_within_it(n):
    X = np.random.RandomState(n).standard_normal((n, 6))
    distance = distance_by_chance(X, 0.0, 0.8, metric="euclidean")
    assert 0 < distance < 0.8
    assert len(find_duplicates(X, 0.8, metric="euclidean").pairs.first) > 10
    assert len(find_duplicates(X, distance, metric="euclidean").pairs.first) <= 3


def test_duplicates_do_not_change_it():
    """Only pairs further apart than any duplicate are counted."""
    X = np.random.RandomState(0).standard_normal((1000, 6))
    copies = X + 1e-3 * np.random.RandomState(1).standard_normal(X.shape)
    alone = distance_by_chance(X, 0.0, 0.8, metric="euclidean")
    doubled = distance_by_chance(np.concatenate([X, copies]), 0.0, 0.8, metric="euclidean")
    assert doubled == pytest.approx(alone, rel=0.15)


def test_rows_far_from_each_other_get_the_largest():
    assert distance_by_chance(with_planted(500, 40, 100, step=0.1), 0.01, 0.5, metric="euclidean") == 0.5
    assert distance_by_chance([[1.0, 2.0]], 0.01, 0.5) == 0.5


def test_it_is_never_below_the_least():
    crowd = np.random.RandomState(0).uniform(0, 1, (2000, 1))
    assert distance_by_chance(crowd, 0.05, 0.2, metric="euclidean") == 0.05


def test_the_order_of_the_rows_plays_no_part():
    X = np.random.RandomState(0).standard_normal((3000, 6))
    shuffled = X[np.random.RandomState(1).permutation(len(X))]
    wanted = distance_by_chance(X, 0.0, 0.8, metric="euclidean")
    assert distance_by_chance(shuffled, 0.0, 0.8, metric="euclidean") == pytest.approx(wanted, rel=1e-6)


def test_bad_ranges():
    with pytest.raises(ValueError, match="high must be at least"):
        distance_by_chance([[1.0]], 0.5, 0.1)
