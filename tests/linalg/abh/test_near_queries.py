"""What rows tell about the queries near them, on data where that is known."""

import numpy as np
import pytest

from hashlearn.linalg.abh.near_queries import MetricGeometry, NearQueries, best_weights, recall
from hashlearn.linalg.neighbors import nearest_of


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)


@pytest.mark.parametrize("metric", ["euclidean", "dot"])
def test_the_nearest_others_are_those_of_brute_force(rows, metric):
    mean = np.full(8, 0.5, np.float32)
    queries = np.array([0, 7, 299])
    found = nearest_of(rows, queries, 5, MetricGeometry.named(metric, mean))
    for query, nearest in zip(queries, found):
        if metric == "dot":
            distances = -(rows + mean) @ (rows[query] + mean)
        else:
            distances = ((rows - rows[query]) ** 2).sum(axis=1)
        distances[query] = np.inf
        np.testing.assert_array_equal(nearest, np.argsort(distances)[:5])


def test_directions_in_which_near_rows_agree_have_large_factors():
    rng = np.random.default_rng(1)
    shared = np.repeat(5 * rng.normal(size=(100, 3)), 4, axis=0)  # what the four rows of a group have in common
    rows = np.hstack([shared, rng.normal(size=(400, 5))])
    queries = np.arange(0, 400, 4)
    nearest = queries[:, None] + np.arange(1, 4)
    near = NearQueries.of(rows, queries, nearest, np.zeros(8))
    assert np.all(near.factors[:3] > 0.9)
    assert np.all(near.factors[3:] < 0.2)
    assert 0 <= near.rest <= 1


def test_terms_are_the_norms_and_the_expected_query_times_the_error(rows):
    rng = np.random.default_rng(2)
    words = rng.normal(size=(4, 8)).astype(np.float32)
    signs = np.sign(rng.normal(size=(300, 4))).astype(np.float32)
    directions = np.linalg.qr(rng.normal(size=(8, 3)))[0].astype(np.float32)
    origin = rng.normal(size=8)
    near = NearQueries(origin, directions, np.array([0.9, 0.5, 0.2]), 0.1)
    R = signs @ words
    inside = rows @ directions
    expected = origin + (inside * [0.9, 0.5, 0.2]) @ directions.T + 0.1 * (rows - inside @ directions.T)
    pairs = ((rows, rows), (R, R), (expected, rows - R), (R, rows - R))
    wanted = np.stack([(one * other).sum(axis=1) for one, other in pairs], axis=1)
    np.testing.assert_allclose(near.terms(rows, signs, words), wanted, rtol=1e-3, atol=1e-3)


def test_recall_counts_the_truth_among_the_first_and_no_ties_beyond():
    estimates = np.array([[3.0, 1.0, 2.0, 4.0], [1.0, 1.0, 1.0, 1.0]])
    truth = np.array([[1], [0]])
    assert recall(estimates, truth, [1]) == 0.5
    assert recall(estimates, np.array([[0], [0]]), [1, 3]) == 0.25


def test_weights_are_at_least_as_good_as_the_best_start(rows):
    rng = np.random.default_rng(3)
    features = rng.normal(size=(300, 2))
    truth = np.argsort(features @ [0.7, -0.4])[None, :10].repeat(5, axis=0)
    products = 0.1 * rng.normal(size=(5, 300))
    starts = [(1.0, 0.0), (0.0, -1.0)]
    weights = best_weights(products, features, truth, starts, [10])
    scores = [recall(products + features @ np.array(start), truth, [10]) for start in starts]
    assert recall(products + features @ weights, truth, [10]) > max(scores)
