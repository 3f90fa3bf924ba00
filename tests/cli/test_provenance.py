"""Codes, indexes and models know each other: those of two models are not mixed unless you insist."""

import json

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import hashlearn
from hashlearn import ITQ, HammingIndex
from hashlearn.hashers.saving import digest_of

LABELS = ("--labels", "y.npy", "--query-labels", "yq.npy")
ANOTHER = {
    "index add": ("index", "add", "codes.hli", "other_codes.npy"),
    "index search": ("index", "search", "codes.hli", "other_codes.npy", "-k", 3),
    "search of other codes": ("search", "model", "other_codes.npy", "queries.npy", "-k", 3),
    "search for other codes": ("search", "model", "codes.npy", "other_codes.npy", "-k", 3),
    "search with another model": ("search", "other", "codes.npy", "queries.npy", "-k", 3),
    "evaluate": ("evaluate", "codes.npy", "other_codes.npy", *LABELS),
}


@pytest.fixture(autouse=True)
def codes(run, folder):
    """Codes and an index of one model, and query codes of another of the same length."""
    assert run("fit", "vectors.npy", "-m", "lsh", "-b", 12, "-o", "other").code == 0
    assert run("encode", "model", "vectors.npy", "-o", "codes.npy").code == 0
    assert run("encode", "model", "queries.npy", "-o", "query_codes.npy").code == 0
    assert run("encode", "other", "queries.npy", "-o", "other_codes.npy").code == 0
    assert run("index", "build", "codes.npy", "-o", "codes.hli").code == 0


@pytest.mark.parametrize("command", ANOTHER.values(), ids=ANOTHER)
def test_codes_of_another_model_are_refused_unless_you_insist(command, refused, run):
    assert "model" in (line := refused(*command))
    assert "--force" in line
    assert run(*command, "--force").code == 0


def test_an_index_says_whose_codes_it_has(run, folder):
    digest = digest_of(hashlearn.load("model"))
    assert HammingIndex.open("codes.hli").model == digest
    assert f"model     {digest}\n" in run("index", "info", "codes.hli").out
    assert run("index", "add", "codes.hli", "query_codes.npy").code == 0
    assert HammingIndex.open("codes.hli").model == digest
    assert run("index", "add", "codes.hli", "other_codes.npy", "--force").code == 0
    assert HammingIndex.open("codes.hli").model is None
    assert "model     not known\n" in run("index", "info", "codes.hli").out


def test_codes_of_unknown_origin_are_taken_as_they_are(run, folder):
    np.save("bare.npy", np.load("other_codes.npy"))
    assert run("index", "add", "codes.hli", "bare.npy").code == 0
    assert run("index", "build", "bare.npy", "--bits", 12, "-o", "bare.hli").code == 0
    assert run("index", "search", "bare.hli", "query_codes.npy", "-k", 2).code == 0


def test_the_same_model_saved_again_is_the_same(run, folder):
    hashlearn.load("model").save("copy")
    assert run("search", "copy", "codes.npy", "queries.npy", "-k", 2).code == 0


@pytest.mark.parametrize("model", ["x", [], 7, {"path": "model"}, {"checksum": 1}])
def test_a_sidecar_whose_model_is_none_is_one_line(model, refused, folder):
    sidecar = json.loads((folder / "codes.npy.json").read_text())
    (folder / "codes.npy.json").write_text(json.dumps(sidecar | {"model": model}))
    for command in (
        ("search", "model", "codes.npy", "queries.npy"),
        ("index", "build", "codes.npy", "-o", "new.hli"),
        ("near-duplicates", "codes.npy"),
    ):
        assert "codes.npy.json is no sidecar of hashlearn codes" in refused(*command)


def test_a_pipeline_encodes_and_searches_as_a_model(run, folder):
    X, queries = np.load("vectors.npy"), np.load("queries.npy")
    pipeline = make_pipeline(Normalizer(), ITQ(n_bits=12, random_state=0)).fit(X)
    hashlearn.save(pipeline, "pipeline")
    assert run("encode", "pipeline", "vectors.npy", "-o", "p.npy").code == 0
    np.testing.assert_array_equal(np.load("p.npy"), pipeline.transform(X))
    assert run("search", "pipeline", "p.npy", "queries.npy", "-k", 3, "-o", "found.npz").code == 0
    wanted = HammingIndex(12).add(pipeline.transform(X)).search(pipeline.transform(queries), 3)
    np.testing.assert_array_equal(np.load("found.npz")["ids"], wanted.ids)
