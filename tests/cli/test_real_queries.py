"""Codes that are made for real queries (ABH) on the command line, where only the codes are left or a model is given."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from hashlearn import ABH, AsymmetricIndex, Corrections, HammingIndex
from hashlearn.hashers.saving import digest_of, save_hasher
from hashlearn.metrics import recall_of_ids, true_neighbors
from hashlearn.search.code_search import CodeSearch
from hashlearn.stores import open_store

SEARCH = ("search", "model", "codes.npy")
EVALUATE = ("evaluate", "codes.npy", "query_codes.npy", "--vectors", "vectors.npy", "--query-vectors", "queries.npy")


@pytest.fixture(scope="module", params=["hasher", "pipeline"])
def fitted(request):
    hasher = ABH(n_bits=32, random_state=0)
    hasher = make_pipeline(Normalizer(), hasher) if request.param == "pipeline" else hasher
    return hasher.fit(load_digits().data[100:].astype(np.float32))


@pytest.fixture
def digits(fitted, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = load_digits().data.astype(np.float32)
    save_hasher(fitted, "model")
    np.save("vectors.npy", X[100:])
    np.save("queries.npy", X[:100])
    for vectors, codes in (("vectors.npy", "codes.npy"), ("queries.npy", "query_codes.npy")):
        assert run("encode", "model", vectors, "--out", codes).code == 0
    seen = X if isinstance(fitted, ABH) else Normalizer().transform(X)
    return fitted, X, true_neighbors(seen[100:], seen[:100], 10)


def recall(ids, truth):
    return float(recall_of_ids(ids, truth, 10, [10])[0])


def test_a_search_of_codes_alone_compares_them_with_real_queries(run, digits):
    _, _, truth = digits
    assert run(*SEARCH, "queries.npy", "--out", "real.npz").code == 0
    assert run(*SEARCH, "query_codes.npy", "--out", "codes.npz").code == 0
    real, of_codes = (recall(np.load(f"{name}.npz")["ids"], truth) for name in ("real", "codes"))
    index = HammingIndex(32).add(np.load("codes.npy"))
    assert real > of_codes > recall(index.search(np.load("query_codes.npy"), 10).ids, truth)
    assert real > 0.3


def test_a_reranked_search_takes_its_candidates_by_real_queries(run, digits):
    hasher, X, _ = digits
    options = ("-k", 5, "--candidates", 5, "--rerank", "vectors.npy")
    assert run(*SEARCH, "queries.npy", *options, "--out", "found.npz").code == 0
    expected = CodeSearch.of(hasher, X[100:]).nearest(X[:100], 5).ids
    np.testing.assert_array_equal(np.sort(np.load("found.npz")["ids"]), np.sort(expected))


def test_evaluate_judges_by_real_queries_where_the_model_is_given(run, digits):
    hasher, X, _ = digits
    labels = load_digits().target
    np.save("y.npy", labels[100:])
    np.save("yq.npy", labels[:100])
    truth = true_neighbors(X[100:], X[:100], 10)
    by_hamming = run(*EVALUATE, "--json", "hamming.json")
    assert by_hamming.code == 0
    assert "made for real queries" in by_hamming.err
    of_labels = ("--labels", "y.npy", "--query-labels", "yq.npy", "--json", "real.json")
    outcome = run(*EVALUATE, "--model", "model", *of_labels)
    assert (outcome.code, outcome.err) == (0, "")
    real, hamming = (json.loads(Path(f"{name}.json").read_text()) for name in ("real", "hamming"))
    assert real["neighbor_recall"] > hamming["neighbor_recall"]
    found = CodeSearch.of(hasher, X[100:]).nearest(X[:100], 10).ids
    assert real["neighbor_recall"] == pytest.approx(recall(found, truth), abs=0.02)  # the index rounds the weights
    assert (real["n_bits"], real["lookup"]) == (32, None)
    assert 0.3 < real["mAP"] <= 1


def test_what_real_queries_need_is_asked_for_in_one_line(refused, digits):
    line = refused("evaluate", "codes.npy", "query_codes.npy", "--model", "model")
    assert "--vectors and --query-vectors" in line


def test_results_are_not_written_over_the_model(refused, digits):
    assert "model" in refused(*EVALUATE, "--model", "model", "--json", "model/config.json")


@pytest.mark.parametrize("out", ["codes.hli", "duckdb://codes.duckdb"])
def test_codes_made_for_real_queries_go_into_no_index_of_bits(run, refused, digits, out):
    pytest.importorskip("duckdb")
    assert "not compared by their bits; search them with 'hashlearn search MODEL codes.npy QUERIES'" in refused(
        "index", "build", "codes.npy", "--out", out
    )
    np.save("plain.npy", np.load("codes.npy"))  # without a sidecar nobody knows what they are
    assert run("index", "build", "plain.npy", "--bits", 32, "--out", out).code == 0
    np.save("ids.npy", np.arange(2000, 2100))
    for command in (("add", out, "query_codes.npy", "--ids", "ids.npy"), ("search", out, "query_codes.npy")):
        assert "not compared by their bits" in refused("index", *command)


def test_vectors_are_encoded_into_a_store_with_their_corrections(run, refused, digits):
    """The store, read back into an index, finds what the codes and corrections of the hasher find."""
    pytest.importorskip("duckdb")
    fitted, X, _ = digits
    uri = "duckdb://codes.duckdb"
    assert run("encode", "model", "vectors.npy", "--to", uri, "--keep-vectors").code == 0
    last, seen = (fitted, X) if isinstance(fitted, ABH) else (fitted[-1], fitted[:-1].transform(X))
    codes = last.transform(seen[100:])
    wanted = last.corrections(seen[100:], codes)
    with open_store(uri) as store:
        assert tuple(store.corrections) == (wanted.scale, wanted.offset)
        (block,) = store.scan()
        assert np.array_equal(block.codes, codes)
        assert np.abs(block.corrections.astype(int) - wanted.values).max() <= 1  # blocks of other sizes round otherwise
        mirror = AsymmetricIndex(32).add(block.codes, block.ids, Corrections(block.corrections, *store.corrections))
        assert np.array_equal(store.vectors([7]), X[107:108])
    found = mirror.search(last.query_weights(seen[:100]), 10)
    expected = CodeSearch.of(fitted, X[100:]).nearest(X[:100], 10)
    assert np.mean(found.ids == expected.ids) > 0.99
    assert run("index", "info", uri).out.split("\n")[4].split()[:4] == ["compared", "with", "real", "queries,"]
    assert "not compared by their bits" in refused("index", "search", uri, "query_codes.npy")
    hamming = "duckdb://hamming.duckdb"
    open_store(hamming, 32, model=digest_of(fitted), create=True).close()
    assert f"corrections must be None, as {hamming} has it" in refused(
        "encode", "model", "vectors.npy", "--to", hamming
    )
