"""Everything at once: the numbers are those of the single functions, the forms hold them, the memory is bounded."""

import json
import tracemalloc

import numpy as np
import pytest

from hashlearn.codes import pack
from hashlearn.metrics import (
    average_precision,
    evaluate,
    evaluate_vectors,
    mean_average_precision,
    neighbor_recall,
    neighbor_recalls,
    precision_at,
    radius_curve,
    radius_lookup,
    ranking_histograms,
    recall_at,
    relevance_of_labels,
    top_query_map,
    true_neighbors,
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 420)
    X = rng.normal(size=(420, 16)) + 2 * np.eye(5, 16)[labels]
    codes = pack(X.mean(axis=0) < X)
    return X[:120], X[120:], codes[:120], codes[120:], labels[:120], labels[120:]


@pytest.mark.parametrize("ties", ["expected", "stable", "optimistic", "pessimistic"])
def test_it_gives_what_the_single_functions_give(data, ties):
    Xq, X, queries, codes, yq, y = data
    result = evaluate(
        codes,
        queries,
        16,
        query_labels=yq,
        labels=y,
        query_vectors=Xq,
        vectors=X,
        positions=[1, 20],
        radius=3,
        ties=ties,
    )
    relevance = relevance_of_labels(yq, y)
    histograms = ranking_histograms(codes, queries, 16, relevance)
    ap = average_precision(codes, queries, 16, relevance, ties)
    np.testing.assert_array_equal(result.average_precision, ap)
    assert result.mAP == mean_average_precision(codes, queries, 16, relevance, ties)
    assert result.pre100_of_the_paper == top_query_map(ap, 100) > result.mAP
    assert result.precision_at_100 == pytest.approx(precision_at(codes, queries, 16, relevance, [100], ties)[0])
    assert result.positions.tolist() == [1, 20]
    np.testing.assert_allclose(result.precision_at, precision_at(codes, queries, 16, relevance, [1, 20], ties))
    np.testing.assert_allclose(result.recall_at, recall_at(codes, queries, 16, relevance, [1, 20], ties))
    np.testing.assert_array_equal(result.radius_curve.recall, radius_curve(histograms).recall)
    assert result.lookup == radius_lookup(histograms, 3)
    nearest = true_neighbors(X, Xq, 10)
    assert result.n_neighbors == 10
    assert result.neighbor_recall == pytest.approx(neighbor_recall(codes, queries, 16, nearest, 10, ties))
    at_100 = neighbor_recalls(codes, queries, 16, nearest, 10, [100], ties)[0]
    assert result.neighbor_recall_at_100 == pytest.approx(at_100)
    assert (result.n_queries, result.n_database, result.n_bits, result.ties) == (120, 300, 16, ties)


def test_neighbors_may_stand_for_the_vectors(data):
    Xq, X, queries, codes, _, _ = data
    by_vectors = evaluate(codes, queries, 16, query_vectors=Xq, vectors=X, k=7)
    by_rows = evaluate(codes, queries, 16, neighbors=true_neighbors(X, Xq, 20), k=7)
    assert by_rows.neighbor_recall == by_vectors.neighbor_recall
    assert by_vectors.mAP is by_vectors.lookup is by_vectors.precision_at is None
    assert "recall 7@7 of true neighbors" in by_vectors.table()
    assert "recall 7@100 of true neighbors" in by_vectors.table()
    assert "mAP" not in by_vectors.table()


def test_multi_label_one_hot_is_single_label(data):
    _, _, queries, codes, yq, y = data
    single = evaluate(codes, queries, 16, query_labels=yq, labels=y)
    multi = evaluate(codes, queries, 16, query_labels=np.eye(5, dtype=int)[yq], labels=np.eye(5, dtype=int)[y])
    assert multi.to_dict(per_query=True) == single.to_dict(per_query=True)


def test_the_vectors_own_ranking_has_the_same_form(data):
    Xq, X, queries, codes, yq, y = data
    reference = evaluate_vectors(X, Xq, query_labels=yq, labels=y)
    coded = evaluate(codes, queries, 16, query_labels=yq, labels=y)
    assert coded.mAP < reference.mAP < 1
    assert reference.positions.tolist() == coded.positions.tolist() == [1, 31, 61, 91, 100, 200, 300]
    assert reference.neighbor_recall == 1
    assert reference.n_bits is reference.lookup is reference.radius_curve is None
    assert reference.to_dict().keys() == coded.to_dict().keys()
    order = np.argsort(((Xq[:, None] - X) ** 2).sum(axis=2), axis=1)
    hits = y[order] == yq[:, None]
    ranks = np.arange(1, len(y) + 1)
    wanted = np.mean([(np.cumsum(row) / ranks)[row].mean() for row in hits])
    assert reference.mAP == pytest.approx(wanted, abs=1e-12)
    assert reference.precision_at_100 == pytest.approx(hits[:, :100].mean())


def test_json_is_valid_and_complete(data):
    _, _, queries, codes, yq, y = data
    result = evaluate(codes, queries, 16, query_labels=yq, labels=y)
    stored = json.loads(result.to_json())
    assert stored["mAP"] == result.mAP
    assert stored["radius_curve"]["precision"] == result.radius_curve.precision.tolist()
    assert stored["lookup"]["radius"] == 2
    assert stored["neighbor_recall"] is None
    assert "average_precision" not in stored
    assert json.loads(result.to_json(per_query=True))["average_precision"] == result.average_precision.tolist()


def test_undefined_numbers_are_null_in_json_and_a_dash_in_the_table():
    codes = pack([[0] * 8, [1] * 8])
    result = evaluate(codes[1:], codes[:1], 8, query_labels=[0], labels=[1])
    stored = json.loads(result.to_json())
    assert stored["lookup"]["f_measure"] is None
    assert stored["recall_at"] == [None]
    assert stored["pre100_of_the_paper"] is None
    lines = dict(line.rsplit(maxsplit=1) for line in result.table().splitlines() if line)
    assert lines["look-up within radius 2: F"] == "-"
    assert lines["mAP of the best 100 queries (the paper's Pre@100)"] == "-"


def test_the_table_shows_the_numbers(data):
    _, _, queries, codes, yq, y = data
    result = evaluate(codes, queries, 16, query_labels=yq, labels=y, positions=[1, 50])
    lines = result.table().splitlines()
    shown = dict(line.rsplit(maxsplit=1) for line in lines[:-4])
    assert shown["mAP"] == f"{result.mAP:.4f}"
    assert shown["precision@100"] == f"{result.precision_at_100:.4f}"
    assert shown["look-up within radius 2: recall"] == f"{result.lookup.recall:.4f}"
    assert lines[-1].split() == ["50", f"{result.precision_at[1]:.4f}", f"{result.recall_at[1]:.4f}"]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, ValueError, "give query_labels and labels, or query_vectors and vectors, or neighbors"),
        ({"labels": [0, 1, 1]}, ValueError, "query_labels and labels must be given together"),
        (
            {"query_labels": [0], "labels": [0, 1, 1]},
            ValueError,
            "query_labels must have one row for each of the 2 queries",
        ),
        ({"query_labels": [0, 1], "labels": [0, 1]}, ValueError, "labels must have one row for each of the 3 database"),
        ({"vectors": np.zeros((3, 2))}, ValueError, "query_vectors and vectors must be given together"),
        (
            {"query_vectors": np.zeros((2, 2)), "vectors": np.zeros((4, 2))},
            ValueError,
            "vectors must have one row for each of the 3 database items, got 4",
        ),
        ({"query_vectors": np.zeros((2, 2)), "vectors": np.zeros((3, 2))}, ValueError, "k must be at most 3, got 10"),
        ({"neighbors": [[0]], "k": 1}, ValueError, "neighbors must have one row for each of the 2 queries, got 1"),
        ({"neighbors": [[0], [3]], "k": 1}, ValueError, "neighbors must be row numbers from 0 to 2"),
        (
            {"neighbors": [[0], [1]], "k": 1, "query_vectors": np.zeros((2, 2)), "vectors": np.zeros((3, 2))},
            ValueError,
            "give neighbors or vectors to judge by, not both",
        ),
        ({"query_labels": [0, 1], "labels": [0, 1, 1], "ties": "lucky"}, ValueError, "ties must be one of"),
        ({"query_labels": [0, 1], "labels": [0, 1, 1], "radius": -1}, ValueError, "radius must be at least 0"),
        ({"query_labels": [0, 1], "labels": [0, 1, 1], "positions": [0]}, ValueError, "positions must be a list"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(arguments, error, words):
    codes = pack([[0, 1], [1, 0], [1, 1]])
    with pytest.raises(error, match=words) as caught:
        evaluate(codes, codes[:2], 2, **arguments)
    assert "\n" not in str(caught.value)


def test_codes_that_are_none_are_refused_by_name():
    codes = pack([[0, 1], [1, 0]])
    with pytest.raises(TypeError, match="codes must be packed codes of dtype uint8"):
        evaluate(codes.astype(float), codes, 2, query_labels=[0, 1], labels=[0, 1])
    with pytest.raises(ValueError, match="at least one query and one database item, got 0 and 2"):
        evaluate(codes, codes[:0], 2, query_labels=[], labels=[0, 1])
    with pytest.raises(ValueError, match=r"query_codes must have shape \(n, 2\) for n_bits=9"):
        evaluate(codes, codes, 9, query_labels=[0, 1], labels=[0, 1])


@pytest.mark.parametrize("ties", ["expected", "stable"])
def test_memory_stays_bounded_for_many_pairs(ties):
    rng = np.random.default_rng(0)
    codes, queries = (rng.integers(0, 256, (n, 8)).astype(np.uint8) for n in (69_000, 300))
    labels, query_labels = rng.integers(0, 10, 69_000), rng.integers(0, 10, 300)
    tracemalloc.start()
    try:
        evaluate(codes, queries, 64, query_labels=query_labels, labels=labels, ties=ties)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40e6, "the dense matrix of these distances alone would be 83 MB"
