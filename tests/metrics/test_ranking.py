"""Average precision and hits, by every rule for ties, against their definitions."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.codes import hamming_distances, pack
from hashlearn.metrics import (
    TrueNeighbor,
    average_precision,
    mean_average_precision,
    pairs,
    precision_at,
    ranking,
    ranking_histograms,
    recall_at,
    relevance_of_labels,
    score_codes,
    top_query_map,
)
from hashlearn.metrics.ties import harmonic_sum

RULES = ("pessimistic", "expected", "stable", "optimistic")


def average_precision_of_order(relevant):
    """The definition: mean over the relevant items of the precision where they stand."""
    precisions = [sum(relevant[: p + 1]) / (p + 1) for p, hit in enumerate(relevant) if hit]
    return sum(precisions) / len(precisions) if precisions else 0.0


def all_orders(distances, relevant):
    """Relevance in every order that the distances allow, each order of the database once."""
    for permuted in permutations(range(len(distances))):
        order = sorted(permuted, key=lambda item: distances[item])
        yield [relevant[item] for item in order]


def codes_at(distances, n_bits):
    """Codes at the given distances from the code of zeros."""
    return pack(np.arange(n_bits)[None, :] < np.asarray(distances)[:, None])


def random_case(rng, n_queries=7, n_items=60, n_bits=12, n_classes=4):
    queries = pack(rng.integers(0, 2, (n_queries, n_bits)))
    codes = pack(rng.integers(0, 2, (n_items, n_bits)))
    return queries, codes, n_bits, rng.integers(0, n_classes, n_queries), rng.integers(0, n_classes, n_items)


small_rankings = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6)


@given(small_rankings)
@settings(deadline=None, max_examples=60)
def test_the_rules_are_mean_minimum_and_maximum_over_all_orders_of_ties(items):
    distances, relevant = zip(*items)
    query, codes = codes_at([0], 3), codes_at(distances, 3)
    relevance = relevance_of_labels([1], np.array(relevant, int))
    positions = [1, 2, 3, len(items)]
    orders = list(all_orders(distances, relevant))
    values = [average_precision_of_order(order) for order in orders]
    hits = np.array([[sum(order[:n]) for n in positions] for order in orders])
    wanted = {
        "expected": (np.mean(values), hits.mean(axis=0)),
        "optimistic": (max(values), hits.max(axis=0)),
        "pessimistic": (min(values), hits.min(axis=0)),
    }
    for ties, (value, hit_counts) in wanted.items():
        scores = score_codes(codes, query, 3, relevance, positions, ties)
        assert scores.average_precision[0] == pytest.approx(value, abs=1e-12)
        np.testing.assert_allclose(scores.hits[0], hit_counts, atol=1e-12)


@given(small_rankings)
@settings(deadline=None, max_examples=60)
def test_stable_keeps_the_order_of_the_database(items):
    distances, relevant = zip(*items)
    relevance = relevance_of_labels([1], np.array(relevant, int))
    order = sorted(range(len(items)), key=lambda item: distances[item])
    ranked = [relevant[item] for item in order]
    scores = score_codes(codes_at(distances, 3), codes_at([0], 3), 3, relevance, [2], "stable")
    assert scores.average_precision[0] == pytest.approx(average_precision_of_order(ranked), abs=1e-12)
    assert scores.hits[0, 0] == sum(ranked[:2])


@given(st.integers(0, 2**32 - 1), st.integers(1, 80))
@settings(deadline=None, max_examples=30)
def test_every_rule_lies_between_pessimistic_and_optimistic(seed, n_bits):
    queries, codes, n_bits, query_labels, labels = random_case(np.random.default_rng(seed), n_bits=n_bits)
    relevance = relevance_of_labels(query_labels, labels)
    scores = [score_codes(codes, queries, n_bits, relevance, [1, 5, 20, 60], ties) for ties in RULES]
    for between in scores[1:3]:
        assert np.all(scores[0].average_precision <= between.average_precision + 1e-12)
        assert np.all(between.average_precision <= scores[3].average_precision + 1e-12)
        assert np.all(scores[0].hits <= between.hits + 1e-12)
        assert np.all(between.hits <= scores[3].hits + 1e-12)


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=20)
def test_only_stable_depends_on_the_order_of_the_database(seed):
    rng = np.random.default_rng(seed)
    queries, codes, n_bits, query_labels, labels = random_case(rng)
    order = rng.permutation(len(codes))
    for ties in ("expected", "optimistic", "pessimistic"):
        before = score_codes(codes, queries, n_bits, relevance_of_labels(query_labels, labels), [3, 30], ties)
        after = score_codes(
            codes[order], queries, n_bits, relevance_of_labels(query_labels, labels[order]), [3, 30], ties
        )
        np.testing.assert_array_equal(after.average_precision, before.average_precision)
        np.testing.assert_array_equal(after.hits, before.hits)


def test_stable_does_depend_on_it():
    codes = codes_at([1, 1, 1], 3)
    first, last = relevance_of_labels([1], [1, 0, 0]), relevance_of_labels([1], [0, 0, 1])
    assert average_precision(codes, codes_at([0], 3), 3, first, "stable")[0] == 1
    assert average_precision(codes, codes_at([0], 3), 3, last, "stable")[0] == pytest.approx(1 / 3)


def test_expected_is_what_random_orders_of_a_large_database_average_to():
    rng = np.random.default_rng(5)
    queries, codes, n_bits, query_labels, labels = random_case(rng, n_items=400, n_bits=8)
    expected = mean_average_precision(codes, queries, n_bits, relevance_of_labels(query_labels, labels))
    sampled = []
    for _ in range(60):
        order = rng.permutation(len(codes))
        relevance = relevance_of_labels(query_labels, labels[order])
        sampled.append(mean_average_precision(codes[order], queries, n_bits, relevance, "stable"))
    assert abs(np.mean(sampled) - expected) < 4 * np.std(sampled) / np.sqrt(len(sampled))


@pytest.mark.parametrize("ties", RULES)
def test_a_perfect_ranking_has_average_precision_one(ties):
    codes = codes_at([0, 0, 1, 2, 2, 3], 3)
    relevance = relevance_of_labels([1, 1], [1, 1, 1, 0, 0, 0])
    assert average_precision(codes, codes_at([0, 0], 3), 3, relevance, ties).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("ties", RULES)
def test_a_query_without_relevant_items_has_zero_and_counts(ties):
    codes = codes_at([0, 1], 3)
    relevance = relevance_of_labels([1, 7], [1, 0])
    assert average_precision(codes, codes_at([0, 0], 3), 3, relevance, ties).tolist() == [1.0, 0.0]
    assert mean_average_precision(codes, codes_at([0, 0], 3), 3, relevance, ties) == 0.5


@pytest.mark.parametrize("n_bits", [1, 7, 64, 65, 130, 300])
def test_histograms_count_pairs_whatever_the_blocks(monkeypatch, n_bits):
    queries, codes, n_bits, query_labels, labels = random_case(np.random.default_rng(n_bits), n_bits=n_bits)
    relevance = relevance_of_labels(query_labels, labels)
    same = query_labels[:, None] == labels
    for rows in (128, 3, 1):
        monkeypatch.setattr(pairs, "_QUERIES_PER_BLOCK", rows)
        check_histograms(queries, codes, n_bits, relevance, same)


@pytest.mark.parametrize("n_bits", [12, 96])
def test_histograms_know_every_kind_of_relevance(monkeypatch, n_bits):
    rng = np.random.default_rng(n_bits)
    queries, codes, n_bits, _, _ = random_case(rng, n_bits=n_bits)
    query_labels, labels = rng.integers(0, 2, (len(queries), 5)), rng.integers(0, 2, (len(codes), 5))
    check_histograms(queries, codes, n_bits, relevance_of_labels(query_labels, labels), query_labels @ labels.T > 0)
    neighbors = np.array([rng.permutation(len(codes))[:9] for _ in queries])
    listed = np.zeros((len(queries), len(codes)), bool)
    np.put_along_axis(listed, neighbors, True, axis=1)
    for items in (2**14, 7):
        monkeypatch.setattr(pairs, "_ITEMS_PER_BLOCK", items)
        check_histograms(queries, codes, n_bits, TrueNeighbor(neighbors, len(codes)), listed)


def check_histograms(queries, codes, n_bits, relevance, relevant):
    distances = hamming_distances(queries, codes, n_bits)
    histograms = ranking_histograms(codes, queries, n_bits, relevance)
    for r in range(n_bits + 1):
        np.testing.assert_array_equal(histograms.all[:, r], (distances == r).sum(axis=1))
        np.testing.assert_array_equal(histograms.relevant[:, r], ((distances == r) & relevant).sum(axis=1))


@pytest.mark.parametrize("n_bits", [5, 64, 300])
def test_stable_scores_are_those_of_a_stable_sort_whatever_the_blocks(monkeypatch, n_bits):
    queries, codes, n_bits, query_labels, labels = random_case(np.random.default_rng(n_bits), n_bits=n_bits)
    relevance = relevance_of_labels(query_labels, labels)
    distances = hamming_distances(queries, codes, n_bits)
    ranked = (query_labels[:, None] == labels)[
        np.arange(len(queries))[:, None], distances.argsort(axis=1, kind="stable")
    ]
    for n_pairs in (2**18, 100, 1):
        monkeypatch.setattr(ranking, "_PAIRS_PER_BLOCK", n_pairs)
        scores = score_codes(codes, queries, n_bits, relevance, [1, 10, 60], "stable")
        wanted = [average_precision_of_order(row) for row in ranked.tolist()]
        np.testing.assert_allclose(scores.average_precision, wanted, atol=1e-12)
        np.testing.assert_array_equal(scores.hits, [[row[:n].sum() for n in (1, 10, 60)] for row in ranked])
        np.testing.assert_array_equal(scores.n_relevant, ranked.sum(axis=1))


def test_distances_above_255_keep_their_order():
    codes = codes_at([256, 0, 300, 255], 300)
    relevance = relevance_of_labels([1], [1, 0, 0, 0])
    assert average_precision(codes, codes_at([0], 300), 300, relevance, "stable")[0] == pytest.approx(1 / 3)


def test_a_relevant_item_late_in_a_long_ranking_keeps_its_precision():
    n = 10**6
    histogram = np.array([[n - 1, 2]]), np.array([[0, 1]])
    groups = ranking.TieGroups.of_histograms(*histogram)
    expected = (1 / n + 1 / (n + 1)) / 2
    assert ranking.groups_average_precision(groups)[0] == pytest.approx(expected, rel=1e-12)
    assert ranking.groups_average_precision(groups, "optimistic")[0] == pytest.approx(1 / n, rel=1e-9)
    assert ranking.groups_average_precision(groups, "pessimistic")[0] == pytest.approx(1 / (n + 1), rel=1e-9)


@pytest.mark.parametrize("start", [0, 1, 60, 63, 64, 65, 1000, 10**7])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 100, 5000])
def test_harmonic_sum(start, count):
    exact = math.fsum(1 / (start + s) for s in range(1, count + 1))
    assert float(harmonic_sum(start, count)) == pytest.approx(exact, rel=2e-14, abs=0)


def test_top_query_map_is_the_mean_of_the_best():
    values = [0.1, 0.9, 0.5, 0.7]
    assert top_query_map(values, 2) == pytest.approx(0.8)
    assert top_query_map(values, 4) == pytest.approx(np.mean(values))
    with pytest.raises(ValueError, match=r"n_best must be at most the number of queries \(4\), got 100"):
        top_query_map(values)
    with pytest.raises(ValueError, match="n_best must be at least 1"):
        top_query_map(values, 0)
    with pytest.raises(ValueError, match=r"average_precision must have shape \(n_queries,\)"):
        top_query_map([values], 1)


def test_positions_beyond_the_database_count_empty_places_as_misses():
    codes = codes_at([0, 1, 2], 3)
    relevance = relevance_of_labels([1], [1, 1, 0])
    for ties in RULES:
        arguments = codes, codes_at([0], 3), 3, relevance, [2, 3, 10], ties
        np.testing.assert_allclose(precision_at(*arguments), [1, 2 / 3, 0.2])
        np.testing.assert_allclose(recall_at(*arguments), [1, 1, 1])


def test_what_does_not_fit_is_refused():
    codes, relevance = codes_at([0, 1], 3), relevance_of_labels([1], [1, 0])
    with pytest.raises(
        ValueError, match="relevance is for 1 queries and 2 database items, but there are 2 queries and 2"
    ):
        ranking_histograms(codes, codes, 3, relevance)
    with pytest.raises(ValueError, match="at least one query and one database item, got 0 and 2"):
        ranking_histograms(codes, codes[:0], 3, relevance)
    with pytest.raises(ValueError, match=r"ties must be one of 'expected', .* got 'lucky'"):
        average_precision(codes, codes[:1], 3, relevance, ties="lucky")
    for positions in ([], [0, 1], [1.5], 100):
        with pytest.raises(ValueError, match="positions must be a list of whole numbers of at least 1"):
            score_codes(codes, codes[:1], 3, relevance, positions)
    with pytest.raises(TypeError, match="query_codes must be packed codes of dtype uint8"):
        average_precision(codes, codes[:1].astype(int), 3, relevance)
