"""Pooled curves and the macro look-up, against their definitions over all pairs."""

import numpy as np
import pytest

from hashlearn.codes import hamming_distances, pack
from hashlearn.metrics import (
    Histograms,
    curve_positions,
    precision_at,
    radius_curve,
    radius_lookup,
    ranking_histograms,
    recall_at,
    relevance_of_labels,
)


@pytest.fixture
def case():
    rng = np.random.default_rng(3)
    queries, codes = pack(rng.integers(0, 2, (9, 10))), pack(rng.integers(0, 2, (50, 10)))
    query_labels, labels = rng.integers(0, 4, 9), rng.integers(0, 4, 50)
    return queries, codes, relevance_of_labels(query_labels, labels), query_labels[:, None] == labels


def test_the_radius_curve_pools_all_pairs(case):
    queries, codes, relevance, relevant = case
    distances = hamming_distances(queries, codes, 10)
    curve = radius_curve(ranking_histograms(codes, queries, 10, relevance), include_last=True)
    assert curve.radii.tolist() == list(range(11))
    for r, precision, recall in zip(curve.radii, curve.precision, curve.recall):
        retrieved = distances <= r
        good = (retrieved & relevant).sum()
        assert precision == pytest.approx(good / retrieved.sum() if retrieved.any() else 0.0)
        assert recall == pytest.approx(good / relevant.sum())
    assert curve.recall[-1] == 1
    assert np.all(np.diff(curve.recall) >= 0)


def test_the_field_s_curve_ends_before_the_last_radius(case):
    queries, codes, relevance, _ = case
    histograms = ranking_histograms(codes, queries, 10, relevance)
    whole, usual = radius_curve(histograms, include_last=True), radius_curve(histograms)
    assert usual.radii.tolist() == list(range(10))
    np.testing.assert_array_equal(usual.precision, whole.precision[:-1])
    np.testing.assert_array_equal(usual.recall, whole.recall[:-1])


def test_nothing_retrieved_is_precision_zero_and_nothing_relevant_no_recall():
    curve = radius_curve(Histograms(np.array([[0, 3, 1]]), np.array([[0, 0, 0]])))
    assert curve.precision.tolist() == [0, 0]
    assert np.isnan(curve.recall).all()


def test_recall_is_pooled_over_queries_not_averaged():
    # Query 0 finds its single relevant item first, query 1 the first of its three.
    codes = pack([[0, 0, 0], [0, 1, 1], [1, 1, 1], [1, 1, 1]])
    queries = pack([[0, 0, 0], [1, 1, 1]])
    relevance = relevance_of_labels([0, 1], [0, 1, 1, 1])
    assert recall_at(codes, queries, 3, relevance, [1])[0] == pytest.approx(2 / 4)
    assert precision_at(codes, queries, 3, relevance, [1, 2])[1] == pytest.approx((1 + 2) / 4)


def test_positions_of_the_field():
    assert curve_positions(1).tolist() == [1]
    assert curve_positions(99).tolist() == [1, 31, 61, 91]
    assert curve_positions(1000).tolist() == [1, 31, 61, 91, *range(100, 1001, 100)]
    with pytest.raises(ValueError, match="last must be at least 1, got 0"):
        curve_positions(0)


@pytest.mark.parametrize("radius", [0, 2, 5, 10, 99])
def test_the_lookup_averages_over_queries(case, radius):
    queries, codes, relevance, relevant = case
    found = hamming_distances(queries, codes, 10) <= radius
    precisions = [(f & r).sum() / f.sum() if f.any() else 0.0 for f, r in zip(found, relevant)]
    recalls = [(f & r).sum() / r.sum() if r.any() else 0.0 for f, r in zip(found, relevant)]
    lookup = radius_lookup(ranking_histograms(codes, queries, 10, relevance), radius)
    p, r = np.mean(precisions), np.mean(recalls)
    assert lookup.precision == pytest.approx(p)
    assert lookup.recall == pytest.approx(r)
    assert lookup.f_measure == pytest.approx(2 * p * r / (p + r) if p + r else np.nan, nan_ok=True)
    assert lookup.empty_fraction == pytest.approx(np.mean(~found.any(axis=1)))


def test_empty_balls_count_zero_or_are_skipped():
    histograms = Histograms(np.array([[2, 0, 2], [0, 0, 4]]), np.array([[1, 0, 1], [0, 0, 2]]))
    zero, skip = radius_lookup(histograms, 1), radius_lookup(histograms, 1, empty="skip")
    assert (zero.precision, zero.recall, zero.empty_fraction) == (0.25, 0.25, 0.5)
    assert (skip.precision, skip.recall, skip.empty_fraction) == (0.5, 0.25, 0.5)
    assert skip.f_measure == pytest.approx(1 / 3)


def test_a_lookup_that_finds_nothing_has_no_f_measure():
    histograms = Histograms(np.array([[0, 4]]), np.array([[0, 2]]))
    zero, skip = radius_lookup(histograms, 0), radius_lookup(histograms, 0, empty="skip")
    assert (zero.precision, zero.recall) == (0, 0)
    assert np.isnan(zero.f_measure)
    assert np.isnan(skip.precision)


def test_bad_options_are_refused(case):
    queries, codes, relevance, _ = case
    histograms = ranking_histograms(codes, queries, 10, relevance)
    with pytest.raises(ValueError, match="radius must be at least 0, got -1"):
        radius_lookup(histograms, -1)
    with pytest.raises(TypeError, match=r"radius must be an integer, got 1\.5"):
        radius_lookup(histograms, 1.5)
    with pytest.raises(ValueError, match="empty must be one of 'zero', 'skip', got 'one'"):
        radius_lookup(histograms, 2, empty="one")
