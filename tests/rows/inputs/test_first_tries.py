"""What new users tried first, and was refused or misread: each works as it was written."""

import json
from functools import cache

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pytest
import safetensors.numpy
from input_forms import TensorOfBfloat16

from hashlearn import ITQ, SimilaritySearch
from hashlearn.rows import as_rows
from hashlearn.rows.formats import describe_file, read_array

V = (np.round(np.random.default_rng(0).normal(size=(120, 100)) * 8) / 8).astype(np.float32)
WORDS = [f"word{row:03}" for row in range(120)]
FRAME = pd.DataFrame({"word": WORDS, "embedding": list(V), "year": np.arange(1900, 2020)})


@cache
def fitted() -> ITQ:
    return ITQ(n_bits=32, random_state=0).fit(V)


def found_in(**arguments) -> list:
    """The ids that a new search finds for the first three vectors."""
    search = SimilaritySearch(fitted(), metric="cosine", keep_vectors="float32").add(**arguments)
    return search.search(V[:3], 1).ids[:, 0].tolist()


def test_a_column_of_words_as_ids():
    assert found_in(X=V, ids=FRAME["word"]) == WORDS[:3]


FORMS = {
    "pandas Series of arrays": lambda: FRAME["embedding"],
    "pandas frame with a list column": lambda: FRAME[["word", "embedding"]],
    "pyarrow FixedSizeList": lambda: pa.FixedSizeListArray.from_arrays(pa.array(V.ravel()), 100),
    "polars List": lambda: pl.Series(V.tolist(), dtype=pl.List(pl.Float32)),
    "datasets.Dataset": lambda: datasets.Dataset.from_dict({"embedding": V}),
    "a tensor of bfloat16 with a gradient": lambda: TensorOfBfloat16(V),
    "a column of parquet, which only files could have": lambda: pa.Table.from_pandas(FRAME)["embedding"],
}


@pytest.mark.parametrize("form", FORMS)
def test_vectors_as_people_hold_them(form):
    assert found_in(X=FORMS[form]()) == [0, 1, 2]


def test_one_query_vector():
    search = SimilaritySearch(fitted()).add(V, ids=WORDS)
    distances, ids = search.search(V[7], k=4)
    assert distances.shape == ids.shape == (4,)
    assert ids[0] == WORDS[7]


def test_payloads_with_values_of_numpy_and_pandas():
    given = [{"n": np.int64(3), "x": float("nan"), "when": pd.Timestamp("2024-02-29 12:00")}]
    search = SimilaritySearch(fitted()).add(V[:1], payloads=given)
    assert search.payloads([0]) == [{"n": 3, "x": None, "when": "2024-02-29T12:00:00"}]


@pytest.mark.parametrize("index", [True, False])
def test_a_header_of_numbers_moves_no_id(tmp_path, index):
    pd.DataFrame(V).to_csv(tmp_path / "v.csv", index=index)
    assert found_in(X=tmp_path / "v.csv") == [0, 1, 2]
    assert "the first line names the columns: " in describe_file(tmp_path / "v.csv")["header"]


def test_an_array_of_an_archive(tmp_path):
    np.savez(tmp_path / "s.npz", other=V[::-1], embeddings=V)
    assert found_in(X=f"{tmp_path}/s.npz:embeddings") == [0, 1, 2]


WRITE = {
    "a.jsonl": lambda path: path.write_text(
        "".join(json.dumps({"word": word, "v": row.tolist()}) + "\n" for word, row in zip(WORDS, V))
    ),
    "a.safetensors": lambda path: safetensors.numpy.save_file({"embeddings": V}, path),
    "a.feather": lambda path: pyarrow.feather.write_feather(FRAME, path),
    "glove.txt": lambda path: path.write_text(
        "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, V))
    ),
}


@pytest.mark.parametrize("name", WRITE)
def test_files_that_were_unknown(tmp_path, name):
    WRITE[name](tmp_path / name)
    np.testing.assert_array_equal(as_rows(tmp_path / name).take(np.arange(120)), V)
    if name != "a.safetensors":
        assert found_in(X=tmp_path / name, ids=read_array(tmp_path / name, "word")) == WORDS[:3]
