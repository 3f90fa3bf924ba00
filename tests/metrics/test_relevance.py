"""Which labels make a right answer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hashlearn.metrics import TrueNeighbor, relevance_of_labels

EVERYTHING = slice(None)


@given(st.integers(2, 150), st.data())
@settings(deadline=None, max_examples=40)
def test_one_shared_label_is_enough(n_labels, data):
    left = data.draw(arrays(np.uint8, (3, n_labels), elements=st.integers(0, 1)))
    right = data.draw(arrays(np.uint8, (5, n_labels), elements=st.integers(0, 1)))
    relevance = relevance_of_labels(left, right)
    wanted = left.astype(int) @ right.T.astype(int) > 0
    np.testing.assert_array_equal(relevance.block(EVERYTHING, EVERYTHING), wanted)
    np.testing.assert_array_equal(relevance.block(slice(1, 3), slice(2, 4)), wanted[1:3, 2:4])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.lists(st.integers(0, 5), min_size=1, max_size=8))
@settings(deadline=None, max_examples=40)
def test_classes_and_their_one_hot_matrix_say_the_same(left, right):
    one_hot = np.eye(6, dtype=int)
    as_classes = relevance_of_labels(left, right).block(EVERYTHING, EVERYTHING)
    np.testing.assert_array_equal(as_classes, np.equal.outer(left, right))
    as_sets = relevance_of_labels(one_hot[left], one_hot[right]).block(EVERYTHING, EVERYTHING)
    np.testing.assert_array_equal(as_sets, as_classes)


@pytest.mark.parametrize(
    ("query_labels", "labels"),
    [
        (["cat", "dog"], ["dog", "dog", "cat"]),
        (np.array(["cat", "dog"], object), np.array(["dog", "dog", "cat"], object)),
        (np.array([[0], [1]]), np.array([[1], [1], [0]])),
        ([-1.5, 2.0], [2, 2, -1.5]),
        ([False, True], [1, 1, 0]),
        (np.array([0, 200], np.uint8), np.array([200, 200, 0], np.int64)),
    ],
)
def test_classes_may_be_strings_numbers_or_one_column(query_labels, labels):
    block = relevance_of_labels(query_labels, labels).block(EVERYTHING, EVERYTHING)
    assert block.astype(int).tolist() == [[0, 0, 1], [1, 1, 0]]


def test_an_item_without_labels_is_relevant_to_nothing():
    labels = np.array([[0, 0], [1, 0]])
    assert relevance_of_labels(labels, labels).block(EVERYTHING, EVERYTHING).tolist() == [[False, False], [False, True]]


@pytest.mark.parametrize(
    ("query_labels", "labels", "error", "words"),
    [
        ([1, 2], [[1, 0], [0, 1]], ValueError, r"got shapes \(2,\) and \(2, 2\)"),
        ([[1, 0]], [[1, 0, 0]], ValueError, r"got shapes \(1, 2\) and \(1, 3\)"),
        ([[2, 0]], [[1, 0]], ValueError, r"query_labels of shape \(1, 2\) must be a 0/1 matrix"),
        ([], [1], ValueError, "query_labels must have shape .* not be empty"),
        ([1], 3, ValueError, r"labels must have shape .* got shape \(\)"),
        ([1.0], [np.nan], ValueError, "labels must not contain NaN"),
        ([1], [None], TypeError, "labels must be numbers or strings, got dtype object"),
        (["1"], [1], TypeError, "both be numbers or both strings"),
    ],
)
def test_labels_that_do_not_fit_are_refused(query_labels, labels, error, words):
    with pytest.raises(error, match=words):
        relevance_of_labels(query_labels, labels)


def test_true_neighbors_are_relevant_in_every_block():
    relevance = TrueNeighbor([[4, 0], [2, 3]], 5)
    whole = relevance.block(EVERYTHING, EVERYTHING)
    assert whole.astype(int).tolist() == [[1, 0, 0, 0, 1], [0, 0, 1, 1, 0]]
    np.testing.assert_array_equal(relevance.block(slice(1, 2), slice(2, 5)), whole[1:2, 2:5])


@pytest.mark.parametrize(
    ("neighbors", "error", "words"),
    [
        ([1, 2], ValueError, r"neighbors must have shape \(n_queries, k\)"),
        ([[1.0, 2.0]], TypeError, "neighbors must be row numbers of the database, got dtype float64"),
        ([[1, 5]], ValueError, "row numbers from 0 to 4, got 1 to 5"),
        ([[-1, 2]], ValueError, "row numbers from 0 to 4, got -1 to 2"),
        ([[2, 2]], ValueError, "must not name a database row twice"),
    ],
)
def test_neighbors_that_do_not_fit_are_refused(neighbors, error, words):
    with pytest.raises(error, match=words):
        TrueNeighbor(neighbors, 5)
