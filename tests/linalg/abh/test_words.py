"""Sums of free words: the search against all choices there are."""

from itertools import product

import numpy as np
import pytest

from hashlearn.linalg.abh.signs import WordSums
from hashlearn.linalg.abh.words import WordSearch, coefficients_of, combined, relative_weights


def errors(X, chosen, words):
    return ((X - chosen @ words) ** 2).sum(axis=1)


def found(X, words, restarts=0):
    return coefficients_of(WordSearch(words, restarts, X.dtype)(X) > 0, len(words), X.dtype)


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 6)).astype(np.float32), rng.normal(size=(48, 6))


def test_with_restarts_the_search_finds_the_best_words_of_nearly_every_row(case):
    X, words = case
    groups = words.reshape(3, 16, 6)
    sums = np.array([sum(choice) for choice in product(*groups)])
    least = np.array([((x - sums) ** 2).sum(axis=1).min() for x in X])
    assert np.mean(errors(X, found(X, words, restarts=20), words) <= least * (1 + 1e-4)) > 0.95
    assert np.all(errors(X, found(X, words, restarts=20), words) <= errors(X, found(X, words), words) * (1 + 1e-4))


def test_a_score_is_what_the_flip_of_its_bit_adds_to_the_error(case):
    X, words = case
    scores = WordSearch(words, 0, X.dtype)(X)
    bits = scores > 0
    before = errors(X, coefficients_of(bits, len(words), X.dtype), words)
    for bit in range(12):
        flipped = bits.copy()
        flipped[:, bit] ^= True
        added = errors(X, coefficients_of(flipped, len(words), X.dtype), words) - before
        np.testing.assert_allclose(np.abs(scores[:, bit]), added, atol=1e-3)


def test_words_of_a_row_do_not_depend_on_the_other_rows(case):
    X, words = case
    np.testing.assert_array_equal(found(X, words)[50:60], found(X[50:60], words))


def test_combined_words_are_the_sums_of_signed_words():
    words = np.random.default_rng(0).normal(size=(8, 3))
    bits = np.random.default_rng(1).random((50, 8)) < 0.5
    free = coefficients_of(bits, 32, np.dtype(np.float64)) @ combined(words)
    np.testing.assert_allclose(free, (2.0 * bits - 1) @ words)


def test_rows_with_small_errors_weigh_more_and_weights_are_those_of_repeated_rows(case):
    X, words = case
    chosen = found(X, words)
    weights = relative_weights(X, chosen, words.astype(np.float32), 6.0)
    assert np.all(np.diff(weights[np.argsort(errors(X, chosen, words))]) <= 1e-3)
    counts = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = WordSums.weighted(X, chosen, counts.astype(np.float32))
    repeated = WordSums.of(np.repeat(X, counts, axis=0), np.repeat(chosen, counts, axis=0))
    for one, other in zip(weighted, repeated):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-2)


def test_words_of_zero_are_searched_too():
    assert np.all(np.isfinite(WordSearch(np.zeros((32, 3)), 0, np.dtype(np.float32))(np.ones((4, 3), np.float32))))
