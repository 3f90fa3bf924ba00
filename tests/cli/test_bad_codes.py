"""Codes that are none, of another model, or of other bits than they say: refused in one line."""

import json

import numpy as np
import pytest

LABELS = ("--labels", "y.npy", "--query-labels", "yq.npy")
SEARCH = ("search", "model", "codes.npy", "queries.npy")
EVALUATE = ("evaluate", "codes.npy", "query_codes.npy")


@pytest.fixture(autouse=True)
def codes(run, folder):
    """Codes of the vectors and of the queries."""
    run("encode", "model", "vectors.npy", "-o", "codes.npy")
    run("encode", "model", "queries.npy", "-o", "query_codes.npy")
    return folder


def test_arrays_that_are_no_codes(refused):
    assert "dtype uint8, got float64" in refused("evaluate", "vectors.npy", "query_codes.npy", "-b", 12, *LABELS)
    assert "vectors.npy has no sidecar" in refused("evaluate", "vectors.npy", "query_codes.npy", *LABELS)
    assert "dtype uint8, got float64" in refused("search", "model", "vectors.npy", "queries.npy")
    np.save("wide.npy", np.zeros((150, 3), np.uint8))
    assert "wide.npy must have shape (n, 2)" in refused("search", "model", "wide.npy", "queries.npy")
    np.save("padded.npy", np.full((150, 2), 255, np.uint8))
    assert "beyond n_bits=12" in refused("search", "model", "padded.npy", "queries.npy")


def test_bits_that_are_not_the_codes(refused):
    assert "12 bits by its sidecar, wanted 16" in refused(*EVALUATE, "-b", 16, *LABELS)


def test_codes_of_another_model(refused, run):
    run("fit", "vectors.npy", "-m", "lsh", "-b", 12, "-o", "other")
    run("encode", "other", "queries.npy", "-o", "other_codes.npy")
    run("fit", "vectors.npy", "-m", "lsh", "-b", 6, "-o", "short")
    run("encode", "short", "queries.npy", "-o", "short_codes.npy")
    assert "another model than other" in refused("search", "other", "codes.npy", "queries.npy")
    assert "different models" in refused("evaluate", "codes.npy", "other_codes.npy", *LABELS)
    assert "6 bits by its sidecar, wanted 12" in refused("search", "model", "codes.npy", "short_codes.npy")
    assert "codes of 12 bits, short_codes.npy of 6" in refused("evaluate", "codes.npy", "short_codes.npy", *LABELS)


@pytest.mark.parametrize(
    "change",
    [{"n_bits": "12"}, {"n_bits": 0}, {"count": 149}, {"bit_order": "middle"}, {"format": "x"}, {"codes_sha256": ""}],
)
def test_edited_sidecars(change, refused, folder):
    path = folder / "codes.npy.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert "codes.npy" in refused(*SEARCH)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"n_bits": 12}', "\x00"])
def test_sidecars_that_are_none(text, refused, folder):
    (folder / "codes.npy.json").write_text(text)
    assert "no sidecar of hashlearn codes" in refused(*SEARCH)


def test_codes_with_the_sidecar_of_others(refused):
    np.save("codes.npy", np.load("codes.npy")[::-1])
    assert "encode again" in refused(*SEARCH)


def test_queries_with_nan_or_other_features(refused):
    X = np.load("queries.npy")
    np.save("bad.npy", X[:, :5])
    assert "bad.npy has 5 features" in refused("search", "model", "codes.npy", "bad.npy", "-o", "new.npz")
    X[0, 0] = np.nan
    np.save("bad.npy", X)
    assert "bad.npy must not contain NaN or infinity: row 0 has NaN" in refused(
        "search", "model", "codes.npy", "bad.npy", "-o", "new.npz"
    )


def test_more_neighbors_than_codes(refused):
    assert "-k must be at most the 150 codes" in refused(*SEARCH, "-k", 151)


def test_label_counts(refused):
    def line(labels, query_labels):
        return refused(*EVALUATE, "--labels", labels, "--query-labels", query_labels)

    assert "labels must have one row for each of the 150" in line("yq.npy", "yq.npy")
    assert "query_labels must have one row for each of the 30" in line("y.npy", "y.npy")
    assert "given together" in refused(*EVALUATE, "--labels", "y.npy")
    assert "to judge by" in refused(*EVALUATE)


def test_rules_for_ties_that_are_not_there(refused):
    assert "ties" in refused(*EVALUATE, *LABELS, "--ties", "fair")


def test_a_failed_evaluation_writes_no_json(refused):
    refused(*EVALUATE, "--labels", "yq.npy", "--query-labels", "yq.npy", "--json", "result.json")
