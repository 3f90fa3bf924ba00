"""The published evaluation code and this one give the same numbers, ties in database order.

Reads every ``metrics_*.npz`` in ``tests/oracles``, or in the folder that HASHLEARN_ORACLES names.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from hashlearn.codes import hamming_distances, pack
from hashlearn.metrics import (
    evaluate,
    radius_curve,
    radius_lookup,
    ranking_histograms,
    relevance_of_labels,
    score_codes,
    top_query_map,
)

FOLDER = Path(os.environ.get("HASHLEARN_ORACLES", Path(__file__).parents[1] / "oracles"))
FILES = sorted(FOLDER.glob("metrics_*.npz"))


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def oracle(request):
    return dict(np.load(request.param))


def codes_of(oracle):
    return pack(oracle["query_bits"]), pack(oracle["train_bits"]), int(oracle["n_bits"])


def agree(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12, equal_nan=True)


@pytest.mark.skipif("HASHLEARN_ORACLES" in os.environ, reason="another folder may hold files of methods only")
def test_the_files_are_there():
    assert len(FILES) >= 6


def test_distances(oracle):
    queries, codes, n_bits = codes_of(oracle)
    np.testing.assert_array_equal(hamming_distances(queries[:5], codes, n_bits), oracle["exact_distances_first5"])


def test_every_number_of_the_evaluation(oracle):
    queries, codes, n_bits = codes_of(oracle)
    relevance = relevance_of_labels(oracle["y_query"], oracle["y_train"])
    result = evaluate(
        codes,
        queries,
        n_bits,
        query_labels=oracle["y_query"],
        labels=oracle["y_train"],
        positions=oracle["positions"],
        radius=2,
        ties="stable",
    )
    agree(result.mAP, oracle["exact_mAP"])
    agree(result.average_precision, oracle["exact_average_precision"])
    agree(result.precision_at, oracle["exact_precision_at"])
    agree(result.recall_at, oracle["exact_recall_at"])
    np.testing.assert_array_equal(result.radius_curve.radii, oracle["radii"])
    agree(result.radius_curve.precision, oracle["exact_pr_precision"])
    agree(result.radius_curve.recall, oracle["exact_pr_recall"])
    agree(result.lookup.precision, oracle["exact_macro_precision_radius2"])
    agree(result.lookup.recall, oracle["exact_macro_recall_radius2"])
    agree(result.lookup.f_measure, oracle["exact_F_radius2"])
    if len(queries) >= 100:
        agree(result.pre100_of_the_paper, oracle["exact_best100_mAP"])

    scores = score_codes(codes, queries, n_bits, relevance, [100], ties="stable")
    assert result.precision_at_100 == pytest.approx(scores.hits.mean() / 100, abs=1e-12)


def test_the_single_functions_agree_too(oracle):
    queries, codes, n_bits = codes_of(oracle)
    relevance = relevance_of_labels(oracle["y_query"], oracle["y_train"])
    histograms = ranking_histograms(codes, queries, n_bits, relevance)
    agree(radius_curve(histograms).precision, oracle["exact_pr_precision"])
    agree(radius_lookup(histograms, 2).f_measure, oracle["exact_F_radius2"])
    if len(queries) >= 100:
        agree(top_query_map(oracle["exact_average_precision"], 100), oracle["exact_best100_mAP"])


def test_the_stable_value_lies_between_the_extremes(oracle):
    queries, codes, n_bits = codes_of(oracle)
    relevance = relevance_of_labels(oracle["y_query"], oracle["y_train"])
    low, middle, high = (
        score_codes(codes, queries, n_bits, relevance, ties=ties).average_precision
        for ties in ("pessimistic", "expected", "optimistic")
    )
    stable = oracle["exact_average_precision"]
    for value in (middle, stable):
        assert np.all(low <= value + 1e-12)
        assert np.all(value <= high + 1e-12)
    assert abs(middle.mean() - stable.mean()) < 0.5 * (high.mean() - low.mean())
