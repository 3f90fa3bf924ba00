"""A dataset's parts put together again are the whole."""

import numpy as np
import pytest

from hashlearn.datasets import Dataset

FEATURES = np.arange(30).reshape(10, 3)
LABELS = np.arange(10) % 3


@pytest.mark.parametrize("query", [[4, 2], [8, 9], [0]])
def test_every_row_is_in_one_part(query):
    data = Dataset("x", FEATURES, LABELS, np.array(query))
    np.testing.assert_array_equal(data.queries, FEATURES[query])
    np.testing.assert_array_equal(data.query_labels, LABELS[query])
    rest = [row for row in range(10) if row not in query]
    np.testing.assert_array_equal(data.database_rows, rest)
    np.testing.assert_array_equal(data.database, FEATURES[rest])
    np.testing.assert_array_equal(data.database_labels, LABELS[rest])


def test_queries_at_the_end_cost_no_copy():
    data = Dataset("x", FEATURES, LABELS, np.array([8, 9]))
    assert np.shares_memory(data.database, FEATURES)
    assert np.shares_memory(data.queries, FEATURES)


def test_labels_are_counted():
    assert Dataset("x", FEATURES, LABELS, np.array([0])).n_classes == 3
    many = Dataset("x", FEATURES, np.eye(10, dtype=np.uint8), np.array([0]))
    assert many.multilabel
    assert many.n_classes == 10
    none = Dataset("x", FEATURES, None, np.array([0]))
    assert none.n_classes == 0
    assert none.database_labels is None
    assert "no labels" in repr(none)


@pytest.mark.parametrize("query", [[], [10], [-1], [1, 1], list(range(10)), [0.5], [[1]]])
def test_queries_must_be_some_of_the_rows(query):
    with pytest.raises(ValueError, match="query must be"):
        Dataset("x", FEATURES, LABELS, np.array(query))


def test_labels_and_images_must_fit():
    with pytest.raises(ValueError, match="labels must have a row for each of the 10"):
        Dataset("x", FEATURES, LABELS[:9], np.array([0]))
    with pytest.raises(ValueError, match="images must"):
        Dataset("x", FEATURES, LABELS, np.array([0]), images=np.zeros((9, 2, 2)))


def test_a_dataset_does_not_change():
    with pytest.raises(AttributeError):
        Dataset("x", FEATURES, LABELS, np.array([0])).labels = None
