"""Sums of signed words: the search against all signs there are, the words against least squares."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.linalg.abh.signs import SignSearch, WordSums, signs_of, starting_words

REAL = np.dtype(np.float32)


def errors(X, signs, words):
    return ((X - signs @ words) ** 2).sum(axis=1)


def all_signs(b):
    return np.array(list(product([-1.0, 1.0], repeat=b)))


def found(X, words, patience=20, restarts=0):
    return signs_of(SignSearch(words, patience, restarts, X.dtype)(X)).astype(np.float64)


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    words = rng.normal(size=(9, 6)) * np.linspace(1, 0.2, 9)[:, None]
    return rng.normal(size=(200, 6)).astype(np.float32), words


def test_with_restarts_the_search_finds_the_best_signs_of_nearly_every_row(case):
    X, words = case
    least = np.array([errors(x, all_signs(9), words).min() for x in X])
    assert np.mean(errors(X, found(X, words, restarts=30), words) <= least * (1 + 1e-4)) > 0.95


def test_patience_and_restarts_never_raise_an_error(case):
    X, words = case
    ways = [found(X, words, *way) for way in ((0, 0), (5, 0), (20, 0), (20, 3))]
    by_way = [errors(X, signs, words) for signs in ways]
    for before, after in pairwise(by_way):
        assert np.all(after <= before * (1 + 1e-4) + 1e-6)
    assert by_way[-1].sum() < by_way[0].sum()


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=25)
def test_a_score_is_what_the_flip_of_its_sign_adds_to_the_error(b, d, seed):
    rng = np.random.default_rng(seed)
    words = rng.normal(size=(b, d))
    X = 0.5 * rng.choice([-1.0, 1.0], (5, b)) @ words
    scores = SignSearch(words, 20, 0, X.dtype)(X)
    signs = signs_of(scores)
    for j in range(b):
        flipped = signs.copy()
        flipped[:, j] *= -1
        added = errors(X, flipped, words) - errors(X, signs, words)
        np.testing.assert_allclose(np.maximum(added, 0), np.abs(scores[:, j]), atol=1e-4 * np.abs(scores).max())


def test_the_signs_depend_on_the_row_alone(case):
    X, words = case
    search = SignSearch(words, 20, 2, X.dtype)
    whole = search(X)
    np.testing.assert_allclose(np.vstack([search(row[None]) for row in X[:20]]), whole[:20], rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(search(np.repeat(X[:1], 50, axis=0)), np.repeat(whole[:1], 50, axis=0))


def test_rows_far_from_all_others_get_the_signs_of_their_products(case):
    X, words = case
    far = (1e6 * X).astype(np.float32)
    np.testing.assert_array_equal(found(far, words), signs_of(far @ words.T))


def test_words_of_zero_have_signs_too():
    scores = SignSearch(np.zeros((4, 3)), 20, 0, REAL)(np.ones((2, 3), np.float32))
    assert np.isfinite(scores).all()
    assert np.all(scores != 0)


def test_words_are_those_of_least_squares(case):
    X, words = case
    signs = found(X, words)
    sums = WordSums.of(X.astype(np.float64), signs)
    learned = sums.words(ridge=0)
    np.testing.assert_allclose(learned, np.linalg.lstsq(signs, X, rcond=None)[0], atol=1e-5)
    assert sums.error(learned) == pytest.approx(errors(X, signs, learned).sum() / (X**2).sum(), rel=1e-4)
    assert sums.error(learned) < sums.error(words)


@pytest.mark.parametrize("n_words", [3, 6, 14, 40])
def test_more_words_leave_less(case, n_words):
    X, _ = case
    rng = np.random.RandomState(0)
    few, more = (starting_words(X, n, 1e-4, 10, rng) for n in (n_words, 2 * n_words))
    assert few.shape == (n_words, 6)
    assert errors(X, found(X, more), more).sum() < 0.9 * errors(X, found(X, few), few).sum()
