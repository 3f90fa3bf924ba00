"""Commands on stores: ``hashlearn index`` and ``hashlearn encode`` with a URI."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hashlearn
from hashlearn import HammingIndex, SimilaritySearch
from hashlearn.stores import open_store

pytest.importorskip("duckdb")
URI = "duckdb://codes.duckdb"


@pytest.fixture
def codes(run, folder):
    run("encode", "model", "vectors.npy", "-o", "codes.npy")
    run("encode", "model", "queries.npy", "-o", "query_codes.npy")
    return np.load("codes.npy")


def test_a_store_is_built_grown_searched_and_described(run, codes):
    assert run("index", "build", "codes.npy", "-o", URI).out == f"{URI}: 150 codes of 12 bits, 150 of them written\n"
    np.save("ids.npy", np.arange(1000, 1030))
    assert run("index", "add", URI, "query_codes.npy", "--ids", "ids.npy").code == 0
    queries = np.load("query_codes.npy")
    ids = np.concatenate([np.arange(150), np.arange(1000, 1030)])
    index = HammingIndex(12).add(np.concatenate([codes, queries]), ids)
    run("index", "search", URI, "query_codes.npy", "-k", 3, "-o", "found.npz")
    with np.load("found.npz") as found:
        np.testing.assert_array_equal(found["ids"], index.search(queries, 3).ids)
    run("index", "search", URI, "query_codes.npy", "--radius", 1, "-o", "found.npz")
    with np.load("found.npz") as found:
        np.testing.assert_array_equal(found["ids"], index.within(queries, 1).ids)
    printed = run("index", "search", URI, "query_codes.npy", "-k", 1).out.split("\n")
    assert printed[0].startswith("0\t")
    assert run("index", "info", URI).out.split("\n")[0].split() == ["codes", "180"]


def test_vectors_are_encoded_into_a_store(run, codes):
    assert run("encode", "model", "vectors.npy", "--to", URI, "--keep-vectors").code == 0
    with open_store(URI) as store:
        assert np.array_equal([record.code for record in store.get(np.arange(150))], codes)
        assert np.array_equal(store.vectors([7]), np.load("vectors.npy")[[7]].astype(np.float32))


def test_a_saved_search_is_searched(run, refused, folder):
    X = np.load("vectors.npy")
    search = SimilaritySearch(hashlearn.load("model"), keep_vectors="float32").add(X, [f"row {n}" for n in range(150)])
    search.save("photos")
    printed = run("search", "photos", "vectors.npy", "-k", 2).out.split("\n")
    assert printed[7].split("\t")[1].startswith("row 7:")
    run("search", "photos", "vectors.npy", "-k", 2, "-o", "found.npz")
    with np.load("found.npz") as found:
        assert found["ids"].tolist() == search.search(X, 2).ids.tolist()
    refused("search", "model", "vectors.npy")
    refused("search", "photos", "missing.npy")


def test_what_does_not_fit_is_one_line(run, refused, codes):
    run("index", "build", "codes.npy", "-o", URI)
    refused("index", "add", URI, "query_codes.npy")
    refused("index", "info", "mongodb://somewhere")
    refused("index", "info", "duckdb://missing.duckdb")
    refused("encode", "model", "vectors.npy")
    refused("encode", "model", "vectors.npy", "--out", "more.npy", "--to", URI)
    refused("encode", "model", "vectors.npy", "--out", "more.npy", "--keep-vectors")


def test_ids_texts_and_payloads_come_from_columns_of_a_table(run, refused, codes):
    table = pd.DataFrame({"key": [f"row-{row}" for row in range(150)], "year": range(150), "body": ["text"] * 150})
    table.to_parquet("table.parquet")
    table.to_csv("table.csv", index=False)
    for name in ("table.parquet", "table.csv"):
        uri = f"duckdb://{name}.duckdb"
        columns = ["--ids", f"{name}:key", "--payloads", f"{name}:year,key", "--texts", f"{name}:body"]
        outcome = run("index", "build", "codes.npy", "-o", uri, *columns)
        assert outcome.code == 0, outcome.err
        with open_store(uri) as store:
            (record,) = store.get(["row-7"])
            assert record.payload == {"year": 7, "key": "row-7", "text": "text"}
            np.testing.assert_array_equal(record.code, codes[7])
    table[["key"]].to_csv("keys.csv", index=False)
    Path("keys.txt").write_text("\n".join(table["key"]))
    for name in ("keys.csv", "keys.txt"):
        assert run("index", "build", "codes.npy", "-o", f"duckdb://{name}.duckdb", "--ids", name).code == 0
        with open_store(f"duckdb://{name}.duckdb") as store:
            assert store.get(["row-7"])[0].id == "row-7"
    assert "a store takes strings" in refused("index", "build", "codes.npy", "-o", "a.hli", "--ids", "keys.csv")
    np.savetxt("numbers.csv", np.arange(150)[::-1])
    assert run("index", "build", "codes.npy", "-o", "a.hli", "--ids", "numbers.csv").code == 0
    assert "need a store" in refused("index", "build", "codes.npy", "-o", "a.hli", "--texts", "table.csv:body")
    table.assign(body=[None, *["text"] * 149]).to_parquet("some.parquet")
    assert run("index", "build", "codes.npy", "-o", "duckdb://some.duckdb", "--texts", "some.parquet:body").code == 0
    with open_store("duckdb://some.duckdb") as store:
        assert [record.payload["text"] for record in store.get([0, 1])] == ["", "text"]
    two = ("index", "build", "codes.npy", "-o", URI, "--texts", "table.csv:body,key")
    assert "must name one column of texts" in refused(*two)
    assert "must name columns" in refused("index", "build", "codes.npy", "-o", URI, "--payloads", "table.csv")
    assert "no column named 'x'" in refused("index", "build", "codes.npy", "-o", URI, "--payloads", "table.csv:x")
