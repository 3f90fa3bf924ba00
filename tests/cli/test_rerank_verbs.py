"""``hashlearn search --rerank`` and ``hashlearn tune``."""

import json
from pathlib import Path

import numpy as np
import pytest

from hashlearn import ITQ
from hashlearn.search import SimilaritySearch, Tuning, VectorFile, nearest_vectors

SEARCH = ("search", "model", "codes.npy", "queries.npy")
TUNE = ("tune", "model", "codes.npy", "vectors.npy")


@pytest.fixture(autouse=True)
def codes(run, folder):
    assert run("encode", "model", "vectors.npy", "--out", "codes.npy").code == 0
    X = np.load("vectors.npy")
    VectorFile.create("vectors.hlv", 12, "float32").add(X)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "dot"])
@pytest.mark.parametrize("vectors", ["vectors.npy", "vectors.hlv"])
def test_reranking_all_codes_finds_the_nearest_vectors(run, vectors, metric):
    options = ("-k", 5, "--rerank", vectors, "--metric", metric, "--candidates", 150)
    outcome = run(*SEARCH, *options, "--out", "found.npz")
    assert outcome.code == 0, outcome.err
    distances, ids = nearest_vectors(np.load("vectors.npy"), np.load("queries.npy"), 5, metric)
    found = np.load("found.npz")
    np.testing.assert_array_equal(found["ids"], ids)
    np.testing.assert_allclose(found["distances"], distances, rtol=1e-5, atol=1e-6)
    first = run(*SEARCH, *options).out.splitlines()[0]
    assert first.startswith(f"0\t{ids[0, 0]}:{distances[0, 0]:.6g} ")


def test_tune_says_how_many_candidates_reach_the_target_and_search_reaches_it_with_them(run):
    asked = ("--queries", "queries.npy", "-k", 5, "--target-recall", 0.9)
    outcome = run(*TUNE, *asked, "--json", "t.json", "--plot", "t.svg")
    assert outcome.code == 0, outcome.err
    said = json.loads(Path("t.json").read_text())
    reaching = [c for c, recall in zip(said["candidates"], said["recalls"]) if recall >= 0.9]
    assert f"{reaching[0]} candidates reach recall 0.9." in outcome.out
    assert "<svg" in Path("t.svg").read_text()
    run(*SEARCH, "-k", 5, "--rerank", "vectors.npy", "--candidates", reaching[0], "--out", "found.npz")
    truth = nearest_vectors(np.load("vectors.npy"), np.load("queries.npy"), 5).ids
    found = np.load("found.npz")["ids"]
    assert np.mean([np.isin(t, f).mean() for t, f in zip(truth, found)]) >= 0.9


def test_tune_draws_queries_where_none_are_given(run):
    outcome = run("tune", "model", "codes.npy", "vectors.hlv", "--metric", "cosine", "--target-recall", 0.5)
    assert outcome.code == 0, outcome.err
    assert "<- chosen" in outcome.out


def test_a_saved_search_keeps_the_number_of_candidates_that_tune_has_found(run):
    X, queries = np.load("vectors.npy"), np.load("queries.npy")
    search = SimilaritySearch(ITQ(n_bits=12, random_state=0), keep_vectors="int8").fit(X).add(X)
    search.save("saved")
    outcome = run("tune", "saved", "--queries", "queries.npy", "-k", 5, "--target-recall", 0.99, "--json", "t.json")
    assert outcome.code == 0, outcome.err
    chosen = Tuning.from_dict(json.loads(Path("t.json").read_text())).chosen
    assert f"{chosen} candidates reach recall 0.99." in outcome.out
    opened = SimilaritySearch.open("saved")
    by_default, asked_for = opened.search(queries, 5), opened.search(queries, 5, candidates=chosen)
    np.testing.assert_array_equal(by_default.ids, asked_for.ids)
    assert chosen != 20
    assert (search.search(queries, 5, candidates=20).ids != asked_for.ids).any()


def test_a_saved_search_is_asked_for_a_recall(run, refused):
    X, queries = np.load("vectors.npy"), np.load("queries.npy")
    SimilaritySearch(ITQ(n_bits=12, random_state=0), keep_vectors="float32").fit(X).add(X).save("kept")
    outcome = run("search", "kept", "queries.npy", "-k", 5, "--recall", 1, "--out", "found.npz")
    assert "recall 1.000 expected" in outcome.out
    np.testing.assert_array_equal(np.load("found.npz")["ids"], nearest_vectors(X, queries, 5).ids)
    assert "recall must be above 0 and at most 1, got 2" in refused("search", "kept", "queries.npy", "--recall", 2)
    assert "--recall is for a saved search" in refused(*SEARCH, "--recall", 0.9)


def test_bad_input_is_one_line(refused):
    X = np.load("vectors.npy")
    np.save("short.npy", X[:100])
    np.save("narrow.npy", X[:, :5])
    np.save("nan.npy", np.where(np.arange(150)[:, None] == 3, np.nan, X))
    VectorFile.create("short.hlv", 12).add(X[:100])
    Path("truncated.hlv").write_bytes(Path("vectors.hlv").read_bytes()[:9000])
    SimilaritySearch(ITQ(n_bits=12, random_state=0)).fit(X).add(X).save("codes_only")
    for message, command in {
        "tune needs vectors to compare with": ("tune", "codes_only"),
        "VECTORS must be given with CODES": ("tune", "model", "codes.npy"),
        "--metric and --force need CODES": ("tune", "codes_only", "--metric", "dot"),
        "is no saved similarity search: it has no catalog.db": ("tune", "model"),
        "target_recall must be at most 1, got 1.5": (*TUNE, "--target-recall", 1.5),
        "--metric must be one of 'euclidean', 'cosine', 'dot', got 'l1'": (*TUNE, "--metric", "l1"),
        "k must be at most 149, got 150": (*TUNE, "-k", 150),
        "short.npy has 100 vectors, codes.npy has 150 codes": (*SEARCH, "--rerank", "short.npy"),
        "short.hlv has 100 vectors, codes.npy has 150 codes": (*SEARCH, "--rerank", "short.hlv"),
        "narrow.npy has 5 features": (*SEARCH, "--rerank", "narrow.npy"),
        "truncated.hlv: too short for its 150 records": (*SEARCH, "--rerank", "truncated.hlv"),
        "row 3 has NaN": (*SEARCH, "--rerank", "nan.npy", "--candidates", 150),
        "none.hlv": (*SEARCH, "--rerank", "none.hlv"),
        "--candidates and --metric need --rerank": (*SEARCH, "--metric", "cosine"),
        "holds codes; reranking needs the vectors": (
            *("search", "model", "codes.npy", "codes.npy", "--rerank", "vectors.npy"),
        ),
    }.items():
        assert message in refused(*command)
