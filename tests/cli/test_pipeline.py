"""From vectors to judged codes, as the README writes it."""

import json
import os

import numpy as np
import pytest
import scipy.sparse

import hashlearn
from hashlearn import ITQ, METHODS, hamming_distances
from hashlearn.metrics import evaluate


def test_the_four_commands(run, folder):
    assert run("fit", "vectors.npy", "--method", "jpsh", "--bits", 64, "--out", "new/").code == 0
    assert run("encode", "new/", "vectors.npy", "--out", "codes.npy").code == 0
    assert run("encode", "new/", "queries.npy", "--out", "query_codes.npy").code == 0
    assert run("search", "new/", "codes.npy", "queries.npy", "-k", 10, "--out", "neighbors.npz").code == 0
    judged = run("evaluate", "codes.npy", "query_codes.npy", "--labels", "y.npy", "--query-labels", "yq.npy")
    assert judged.code == 0

    hasher = hashlearn.load("new")
    codes, query_codes = hasher.transform(np.load("vectors.npy")), hasher.transform(np.load("queries.npy"))
    np.testing.assert_array_equal(np.load("codes.npy"), codes)
    np.testing.assert_array_equal(np.load("query_codes.npy"), query_codes)

    distances = hamming_distances(query_codes, codes, 64)
    with np.load("neighbors.npz") as found:
        assert (found["distances"].dtype, found["ids"].dtype) == (np.int32, np.int64)
        np.testing.assert_array_equal(found["ids"], np.argsort(distances, axis=1, kind="stable")[:, :10])
        np.testing.assert_array_equal(found["distances"], np.sort(distances, axis=1)[:, :10])

    expected = evaluate(codes, query_codes, 64, query_labels=np.load("yq.npy"), labels=np.load("y.npy"))
    assert judged.out == expected.table() + "\n"


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_fitted_and_used(method, run, folder):
    assert run("fit", "vectors.npy", "-m", method.upper(), "-b", 10, "--seed", 3, "-o", "new").code == 0
    assert run("encode", "new", "queries.npy", "-o", "codes.npy").code == 0
    direct = METHODS[method](n_bits=10, random_state=3).fit(np.load("vectors.npy"))
    np.testing.assert_array_equal(np.load("codes.npy"), direct.transform(np.load("queries.npy")))


def test_the_sidecar_says_what_the_codes_are(run, folder):
    run("encode", "model", "vectors.npy", "-o", "codes.npy")
    sidecar = json.loads((folder / "codes.npy.json").read_text())
    assert (sidecar["n_bits"], sidecar["bit_order"], sidecar["count"]) == (12, "big", 150)
    assert (sidecar["model"]["path"], sidecar["model"]["method"]) == ("model", "itq")
    assert sidecar["model"]["checksum"] == json.loads((folder / "model/config.json").read_text())["model_sha256"]


def test_parameters_reach_the_method(run, folder):
    np.save("rotation.npy", np.eye(12))
    arguments = ["--param", "max_iter=7", "--param", "center=false", "--param", "init=@rotation.npy"]
    assert run("fit", "vectors.npy", "-m", "itq", "-b", 12, *arguments, "-o", "new").code == 0
    loaded = hashlearn.load("new")
    assert (loaded.max_iter, loaded.center, loaded.random_state) == (7, False, 0)
    np.testing.assert_array_equal(loaded.init, np.eye(12))
    arguments = ["-p", "init=itq", "-p", "n_anchors=20"]
    assert run("fit", "vectors.npy", "-m", "jpsh", "-b", 8, *arguments, "-o", "new").code == 0
    loaded = hashlearn.load("new")
    assert (loaded.init, loaded.n_anchors) == ("itq", 20)


@pytest.mark.parametrize("arguments", [["data.npz:X"], ["data.npz", "--array", "X"], ["one.npz"], ["sparse.npz"]])
def test_arrays_of_npz_files(arguments, run, folder):
    X = np.load("vectors.npy")
    np.savez("data.npz", X=X, y=np.load("y.npy"))
    np.savez_compressed("one.npz", only=X)
    scipy.sparse.save_npz("sparse.npz", scipy.sparse.csc_matrix(X))
    assert run("encode", "model", *arguments, "-o", "codes.npy").code == 0
    np.testing.assert_array_equal(np.load("codes.npy"), hashlearn.load("model").transform(X))


@pytest.mark.parametrize("dtype", ["float16", "float32", "int16", "bool", ">f8"])
def test_vectors_of_any_number_type(dtype, run, folder):
    np.save("typed.npy", (10 * np.load("vectors.npy")).astype(dtype))
    assert run("fit", "typed.npy", "-m", "lsh", "-o", "new").code == 0
    assert run("encode", "new", "typed.npy", "-o", "codes.npy").code == 0
    assert np.load("codes.npy").shape == (150, 8)


@pytest.mark.parametrize("method", METHODS)
def test_constant_features_and_duplicate_rows_are_data(method, run, folder):
    X = np.repeat(np.load("vectors.npy")[:40], 3, axis=0)
    X[:, 2] = 7.0
    np.save("odd.npy", X)
    assert run("fit", "odd.npy", "-m", method, "-b", 6, "-o", "new").code == 0


def test_queries_may_be_codes(run, folder):
    run("encode", "model", "vectors.npy", "-o", "codes.npy")
    run("encode", "model", "queries.npy", "-o", "query_codes.npy")
    run("search", "model", "codes.npy", "queries.npy", "-o", "of_vectors.npz")
    run("search", "model", "codes.npy", "query_codes.npy", "-o", "of_codes.npz")
    for name in ("distances", "ids"):
        np.testing.assert_array_equal(np.load("of_vectors.npz")[name], np.load("of_codes.npz")[name])


def test_without_out_neighbors_are_printed(run, folder):
    run("encode", "model", "vectors.npy", "-o", "codes.npy")
    printed = run("search", "model", "codes.npy", "vectors.npy", "-k", 1).out.splitlines()
    assert len(printed) == 150
    assert all(line.endswith(":0") for line in printed)


def test_codes_without_a_sidecar_need_bits(run, folder):
    codes, y = np.random.RandomState(0).randint(0, 256, (150, 3)).astype(np.uint8), np.load("y.npy")
    np.save("codes.npy", codes)
    result = run("evaluate", "codes.npy", "codes.npy", "--bits", 24, "--labels", "y.npy", "--query-labels", "y.npy")
    assert result.out == evaluate(codes, codes, 24, query_labels=y, labels=y).table() + "\n"


def test_codes_of_the_other_bit_order(run, folder):
    run("encode", "model", "vectors.npy", "-o", "codes.npy")
    expected = run("evaluate", "codes.npy", "codes.npy", "--labels", "y.npy", "--query-labels", "y.npy").out
    np.save("little.npy", hashlearn.pack(hashlearn.unpack(np.load("codes.npy"), 12), bit_order="little"))
    sidecar = {"format": "hashlearn codes", "n_bits": 12, "bit_order": "little", "count": 150}
    (folder / "little.npy.json").write_text(json.dumps(sidecar))
    result = run("evaluate", "codes.npy", "little.npy", "--labels", "y.npy", "--query-labels", "y.npy")
    assert result.out == expected


def test_evaluation_as_json_and_by_vectors(run, folder):
    run("encode", "model", "vectors.npy", "-o", "codes.npy")
    run("encode", "model", "queries.npy", "-o", "query_codes.npy")
    arguments = ["--vectors", "vectors.npy", "--query-vectors", "queries.npy", "-k", 5, "--json", "result.json"]
    assert run("evaluate", "codes.npy", "query_codes.npy", *arguments).code == 0
    result = json.loads((folder / "result.json").read_text())
    assert result["n_neighbors"] == 5
    assert 0 < result["neighbor_recall"] <= 1


def test_saving_over_a_model_replaces_it(run, folder):
    assert run("fit", "vectors.npy", "-m", "lsh", "-b", 9, "-o", "model").code == 0
    assert hashlearn.load("model").n_bits == 9
    assert sorted(os.listdir("model")) == ["config.json", "model.safetensors"]


def test_a_model_of_the_library_is_a_model_of_the_command_line(run, folder):
    hasher = ITQ(n_bits=5, random_state=1).fit(np.load("vectors.npy"))
    hasher.save("mine")
    assert run("encode", "mine", "queries.npy", "-o", "codes.npy").code == 0
    np.testing.assert_array_equal(np.load("codes.npy"), hasher.transform(np.load("queries.npy")))
