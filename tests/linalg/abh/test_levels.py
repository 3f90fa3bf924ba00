"""Levels of directions: bits shared out, cut at every fourth bit, and found without a search."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.linalg.abh.levels import (
    MOST_BITS,
    Levels,
    LevelSearch,
    fitted_levels,
    pieces_of,
    shared_bits,
)


def rows(n, scales, seed=0):
    X = np.random.RandomState(seed).standard_normal((n, len(scales))) * scales
    return (X - X.mean(axis=0)).astype(np.float32)


def levels_of(X, n_bits, rng):
    """With differences that are the same in every direction."""
    return Levels.of(X, np.ones((1, 1), X.dtype) * np.eye(X.shape[1], dtype=X.dtype), n_bits, rng)


@settings(deadline=None)
@given(st.lists(st.just(0.0) | st.floats(1e-6, 1e6), min_size=1, max_size=12), st.integers(0, 96))
def test_bits_shared_out_are_all_bits_and_go_to_the_largest_variances(variances, n_bits):
    n_bits = min(n_bits, MOST_BITS * len(variances))
    bits = shared_bits(np.array(variances), n_bits)
    assert bits.sum() == n_bits
    assert bits.max() <= MOST_BITS
    order = np.argsort(variances, kind="stable")
    assert all(bits[i] <= bits[j] for i, j in itertools.pairwise(order) if variances[i] < variances[j])


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(1, MOST_BITS))
def test_pieces_lie_within_groups_of_four_bits(first, n_bits):
    pieces = pieces_of(first, n_bits)
    assert sum(pieces) == n_bits
    for piece in pieces:
        assert first // 4 == (first + piece - 1) // 4
        first += piece


@pytest.mark.parametrize(
    ("pieces", "known"), [([1], 0.3634), ([2], 0.1175), ([3], 0.0345), ([4], 0.0095), ([2, 1], 0.036)]
)
def test_levels_of_normal_components_leave_what_is_known_of_them(pieces, known):
    components = np.random.RandomState(0).standard_normal(20_000)
    levels = fitted_levels(components, pieces)
    error = np.square(components[:, None] - levels).min(axis=1).mean()
    assert error == pytest.approx(known, rel=0.1)


@pytest.mark.parametrize("pieces", [[1, 4], [2, 4], [3, 4], [1, 4, 4], [3, 4, 4], [2, 4, 2]])
def test_the_longest_piece_of_a_direction_counts_most(pieces):
    components = np.random.RandomState(0).standard_normal(20_000)
    levels = fitted_levels(components, pieces).reshape([1 << piece for piece in pieces])
    spreads = [float(np.ptp(levels, axis=axis).mean()) for axis in range(len(pieces))]
    assert max(spreads) == spreads[pieces.index(4)]
    whole = fitted_levels(components, sorted(pieces, reverse=True))
    np.testing.assert_allclose(np.sort(levels, axis=None), np.sort(whole), atol=0.02)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(0, 2**31 - 1))
def test_a_row_takes_the_nearest_of_all_codes(n_groups, seed):
    X = rows(60, np.array([3, 2, 1.5, 1, 0.5]), seed)
    levels = levels_of(X, 4 * n_groups, np.random.RandomState(seed))
    every = np.array(list(itertools.product([0, 1], repeat=4 * n_groups)), np.uint8)
    numbers = every.reshape(len(every), -1, 4) @ [8, 4, 2, 1]
    decoded = levels.words().reshape(-1, 16, 5)[np.arange(n_groups), numbers].sum(axis=1)
    least = np.square(X[:, None] - decoded).sum(axis=2).min(axis=1)
    bits = LevelSearch(levels)(X) > 0
    reached = np.square(X - levels.components(bits, X.dtype) @ levels.directions.T).sum(axis=1)
    np.testing.assert_allclose(reached, least, rtol=1e-4, atol=1e-5)


def test_directions_in_which_near_rows_differ_get_more_bits():
    X = np.linalg.qr(rows(500, np.ones(4)))[0] * np.array([1.2, 1.1, 1.0, 0.9], np.float32)
    plain = levels_of(X, 12, np.random.RandomState(0))
    assert plain.bits.tolist() == [3, 3, 3, 3]
    differences = rows(200, np.array([4, 4, 1, 1])) * np.float32(1e-3)
    levels = Levels.of(X, differences, 12, np.random.RandomState(0))
    along = np.square(levels.directions[:2]).sum(axis=0)  # the share of a direction in the first two features
    assert sorted(levels.bits.tolist()) == [2, 2, 4, 4]
    assert (levels.bits[along > 0.5] == 4).all()


def test_a_score_is_what_a_flip_adds_to_the_error():
    X = rows(30, np.array([4, 2, 1, 0.5]))
    levels = levels_of(X, 12, np.random.RandomState(0))
    scores = LevelSearch(levels)(X)

    def errors(bits):
        return np.square(X - levels.components(bits, X.dtype) @ levels.directions.T).sum(axis=1)

    for bit in range(12):
        flipped = scores > 0
        flipped[:, bit] ^= True
        np.testing.assert_allclose(errors(flipped) - errors(scores > 0), np.abs(scores[:, bit]), rtol=1e-3, atol=1e-4)


def test_rows_that_are_all_the_same_have_levels():
    X = np.zeros((5, 3), np.float32)
    scores = LevelSearch(levels_of(X, 8, np.random.RandomState(0)))(X)
    assert (scores != 0).all()


@pytest.mark.parametrize(("n_bits", "left"), [(20, 0.0), (40, 0.3)])
def test_squares_of_words_add_up_to_the_squared_length_but_for_directions_that_are_cut(n_bits, left):
    X = np.random.default_rng(0).standard_normal((3000, 5)).astype(np.float32)
    levels = levels_of(X, n_bits, np.random.RandomState(0))
    assert (levels.bits == n_bits // 5).all()
    bits = LevelSearch(levels)(X) > 0
    numbers = bits.reshape(len(X), -1, 4) @ [8, 4, 2, 1]
    added = levels.squares().reshape(-1, 16)[np.arange(n_bits // 4), numbers].sum(axis=1)
    lengths = np.square(levels.components(bits, X.dtype)).sum(axis=1)
    assert (added - lengths).std() <= left * lengths.std() + 1e-5
