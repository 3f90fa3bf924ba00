"""Scores of ranked lists of ids, against definitions and against the scores of codes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hashlearn import ITQ, LSH
from hashlearn.codes import hamming_distances, pack
from hashlearn.metrics import (
    neighbor_recalls,
    neighbor_scorer,
    pooled_precision,
    pooled_recall,
    recall_of_ids,
    relevance_of_labels,
    score_codes,
    score_ids,
    true_neighbors,
)


def test_recall_counts_the_true_neighbors_among_the_first():
    lists = [[1, 2, 3, 4], [9, 8, -1, -1]]
    truth = [[3, 1, 7], [5, 8, 9]]
    np.testing.assert_allclose(recall_of_ids(lists, truth, k=2, positions=[1, 2, 4]), [0.25, 0.5, 0.75])
    np.testing.assert_allclose(recall_of_ids(lists, truth, k=1, positions=[2, 3]), [0, 0.5])


def test_an_id_that_is_listed_twice_is_found_once_and_places_that_are_empty_find_nothing():
    assert recall_of_ids([[5, 5]], [[5, 6]], k=2, positions=[2]) == [0.5]
    assert recall_of_ids([[-1, -1]], [[-1, 3]], k=2, positions=[2]) == [0]
    assert recall_of_ids(np.array([["a", None]], object), [["b", "a"]], k=2, positions=[2]) == [0.5]


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=25)
def test_whole_rankings_of_codes_score_as_their_codes_do(seed):
    rng = np.random.default_rng(seed)
    codes, labels = pack(rng.integers(0, 2, (60, 9))), rng.integers(0, 3, 60)
    relevance = relevance_of_labels(labels[:10], labels[10:])
    lists = np.argsort(hamming_distances(codes[:10], codes[10:], 9), axis=1, kind="stable")
    of_ids = score_ids(lists, relevance, [1, 7, 50])
    of_codes = score_codes(codes[10:], codes[:10], 9, relevance, [1, 7, 50], "stable")
    np.testing.assert_allclose(of_ids.average_precision, of_codes.average_precision)
    np.testing.assert_array_equal(of_ids.hits, of_codes.hits)
    np.testing.assert_array_equal(of_ids.n_relevant, of_codes.n_relevant)
    truth = np.stack([rng.permutation(50)[:10] for _ in range(10)])
    recalls = neighbor_recalls(codes[10:], codes[:10], 9, truth, 10, [10, 40], "stable")
    np.testing.assert_allclose(recall_of_ids(lists, truth, 10, [10, 40]), recalls)


def test_what_is_cut_off_a_list_counts_as_never_found():
    relevance = relevance_of_labels([1, 2], [1, 1, 1, 0])
    scores = score_ids([[3, 0], [0, 1]], relevance, [1, 2])
    np.testing.assert_allclose(scores.average_precision, [0.5 / 3, 0])
    np.testing.assert_allclose(pooled_precision(scores), [0, 0.25])
    np.testing.assert_allclose(pooled_recall(scores), [0, 1 / 3])


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (ValueError, "ids must be lists of ids", lambda r: recall_of_ids([1, 2], [[1]], 1)),
        (ValueError, "a list for each of the 2 queries", lambda r: recall_of_ids([[1]], [[1], [2]], 1)),
        (ValueError, "at least k=3", lambda r: recall_of_ids([[1]], [[1]], 3)),
        (ValueError, "a list for each of the 2 queries, got 1", lambda r: score_ids([[0]], r)),
        (ValueError, "row numbers from 0 to 3, or -1, got 0 to 4", lambda r: score_ids([[0], [4]], r)),
        (ValueError, "row numbers from 0 to 3, or -1, got -2 to 0", lambda r: score_ids([[0], [-2]], r)),
        (ValueError, "must not name a database row twice", lambda r: score_ids([[0, 0], [1, 2]], r)),
        (TypeError, "row numbers of the database, got dtype float64", lambda r: score_ids([[0.0], [1.0]], r)),
    ],
)
def test_lists_that_cannot_be_scored_are_refused(error, words, call):
    with pytest.raises(error, match=words):
        call(relevance_of_labels([1, 2], [1, 1, 1, 0]))


def test_grid_search_chooses_the_codes_that_keep_more_neighbors():
    X, _ = load_digits(return_X_y=True)
    scorer = neighbor_scorer(n_queries=50)
    grid = GridSearchCV(ITQ(random_state=0), {"n_bits": [8, 16, 48]}, scoring=scorer, cv=3, error_score="raise").fit(X)
    scores = grid.cv_results_["mean_test_score"]
    assert grid.best_params_ == {"n_bits": 48}
    assert 0 < scores[0] < scores[1] < scores[2] < 1


def test_a_pipeline_is_scored_by_the_neighbors_of_the_rows_that_it_is_given():
    X, _ = load_digits(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(with_std=False), LSH(n_bits=64, random_state=0)).fit(X)
    order = np.random.RandomState(0).permutation(len(X))
    found = np.argsort(
        hamming_distances(pipeline.transform(X[order[:100]]), pipeline.transform(X[order[100:]]), 64),
        axis=1,
        kind="stable",
    )
    expected = recall_of_ids(found, true_neighbors(X[order[100:]], X[order[:100]], 5), 5, [20])[0]
    assert neighbor_scorer(5, 20)(pipeline, X) == pytest.approx(expected)


def test_a_scorer_refuses_what_it_cannot_score():
    X = np.random.default_rng(0).normal(size=(30, 8))
    with pytest.raises(ValueError, match="X must have at least 20 rows beside the queries, got 15"):
        neighbor_scorer(10, 20)(ITQ(n_bits=4).fit(X), X)
    with pytest.raises(ValueError, match="metric must be one of"):
        neighbor_scorer(metric="manhattan")
