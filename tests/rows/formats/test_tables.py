"""Files of embeddings as other tools write them: vectors, and the ids and texts beside them."""

import errno
import json
import mmap
import os

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import safetensors.numpy

from hashlearn import LSH
from hashlearn.rows import as_rows
from hashlearn.rows.formats import FileProblem, describe_file, read_array, read_place, read_records, read_vectors
from hashlearn.rows.formats import arrow_table as arrow_table_module

X = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
WORDS = [f"wörd {letter}" for letter in "abcdefghi"]
FRAME = pd.DataFrame({"id": WORDS, "embedding": list(X), "year": range(2000, 2009)})


def write_stream(path, table):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)


def arrow_table():
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 4)
    return pa.table({"id": WORDS, "embedding": vectors, "year": range(2000, 2009)})


def polars_table():
    """A file of polars has no schema before its batches, and categories in batches of their own."""
    return pl.from_arrow(arrow_table()).with_columns(pl.col("id").cast(pl.Categorical))


def write_words(path, head=""):
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, X)]
    path.write_text(head + "".join(lines), encoding="utf-8")


WRITE = {
    "a.parquet": FRAME.to_parquet,
    "a.feather": lambda path: pyarrow.feather.write_feather(arrow_table(), path, compression="zstd", chunksize=4),
    "b.feather": lambda path: pyarrow.feather.write_feather(arrow_table(), path, compression="uncompressed"),
    "a.arrow": lambda path: write_stream(path, arrow_table()),
    "polars.arrow": lambda path: polars_table().write_ipc(path, compression="zstd"),
    "a.jsonl": lambda path: FRAME.to_json(path, orient="records", lines=True, double_precision=15),
}
"""Tables with the columns id, embedding and year."""


@pytest.mark.parametrize("name", WRITE)
class TestTables:
    @pytest.fixture
    def path(self, tmp_path, name):
        WRITE[name](tmp_path / name)
        return tmp_path / name

    def test_the_vectors(self, path):
        np.testing.assert_array_equal(read_vectors(path), X)
        np.testing.assert_array_equal(read_place(f"{path}:embedding"), X)
        np.testing.assert_array_equal(as_rows(str(path)).take(np.arange(9)), X)

    def test_ids_and_texts(self, path):
        assert read_array(path, "id").tolist() == WORDS
        assert read_array(path, "year").tolist() == list(range(2000, 2009))
        assert read_records(path, ["year", "id"])[1] == {"year": 2001, "id": "wörd b"}

    def test_a_column_that_is_not_there(self, path):
        with pytest.raises(FileProblem, match="named 'title'; it has id, embedding, year"):
            read_array(path, "title")

    def test_what_is_said_of_it(self, path):
        (said,) = describe_file(path).values()
        assert "embedding" in said
        assert "year" in said


class TestCsv:
    def test_a_header_of_numbers_is_no_vector(self, tmp_path):
        """pandas names columns 0, 1, 2, ... where nobody else has; read as a vector, it moves every later id by one."""
        pd.DataFrame(X).to_csv(tmp_path / "a.csv", index=False)
        np.testing.assert_array_equal(read_vectors(tmp_path / "a.csv").astype(np.float32), X)
        assert describe_file(tmp_path / "a.csv")["header"].startswith("the first line names the columns: 0, 1, 2, 3;")

    def test_the_labels_of_rows_are_no_feature(self, tmp_path):
        pd.DataFrame(X).to_csv(tmp_path / "a.csv")
        np.testing.assert_array_equal(read_vectors(tmp_path / "a.csv").astype(np.float32), X)
        assert describe_file(tmp_path / "a.csv")["left out"] == "no numbers of a vector: (no name)"

    def test_columns_of_texts_beside_the_vector(self, tmp_path):
        frame = pd.DataFrame(X)
        frame.insert(0, "id", WORDS)
        frame.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
        np.testing.assert_array_equal(read_vectors(tmp_path / "a.tsv").astype(np.float32), X)
        assert read_array(tmp_path / "a.tsv", "id").tolist() == WORDS

    def test_texts_of_several_lines(self, tmp_path):
        pd.DataFrame({"text": ["one\ntwo, three", "four\n"], "a": [1.5, 2.5], "b": [3, 4]}).to_csv(tmp_path / "a.csv")
        assert read_vectors(tmp_path / "a.csv").tolist() == [[1.5, 3], [2.5, 4]]
        assert read_array(tmp_path / "a.csv", "text").tolist() == ["one\ntwo, three", "four\n"]

    @pytest.mark.parametrize("write", [lambda row: json.dumps(row.tolist()), str, list], ids=["json", "numpy", "list"])
    def test_a_column_of_vectors_between_brackets(self, tmp_path, write):
        """So pandas writes a column of lists or arrays; the numbers beside it are no vectors."""
        FRAME.assign(embedding=[write(row) for row in X]).to_csv(tmp_path / "a.csv", index=False)
        text = (tmp_path / "a.csv").read_text().replace("np.float32(", "").replace(")", "")
        (tmp_path / "a.csv").write_text(text)
        for place in (tmp_path / "a.csv", f"{tmp_path}/a.csv:embedding"):
            np.testing.assert_allclose(read_place(place), X, rtol=1e-5)
        assert read_array(tmp_path / "a.csv", "id").tolist() == WORDS
        assert describe_file(tmp_path / "a.csv")["vectors"] == "in brackets: embedding"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("v\n[1 2 ... 3]\n", "'v' has ... in place of lost numbers; save it as .npy or .parquet"),
            ('v,w\n"[1, 2]",a\n"[1]",b\n', "row 1 must have a list of 2 numbers in 'v'"),
            ('v,w\n"[1, 2]",a\n,b\n', "row 1 must have a list of 2 numbers in 'v'"),
            ('v\n"[1, x]"\n', "could not convert|not a readable csv"),
        ],
    )
    def test_vectors_that_are_none(self, tmp_path, text, message):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(FileProblem, match=message):
            read_vectors(tmp_path / "a.csv")

    def test_the_only_column_needs_no_name(self, tmp_path):
        table = pd.DataFrame({"id": WORDS})
        table.to_csv(tmp_path / "a.csv", index=False)
        table.to_parquet(tmp_path / "a.parquet")
        (tmp_path / "a.txt").write_text("".join(f"w{row}\n" for row in range(9)))
        assert read_array(tmp_path / "a.csv").tolist() == read_array(tmp_path / "a.parquet").tolist() == WORDS
        assert read_array(tmp_path / "a.txt").tolist() == [f"w{row}" for row in range(9)]
        with pytest.raises(FileProblem, match=r"vectors must have shape \(n, d\), got shape \(9,\)"):
            read_vectors(tmp_path / "a.txt")

    @pytest.mark.parametrize(
        ("text", "rows"),
        [
            ("0,1\n5,6\n", [[0, 1], [5, 6]]),  # two integers say too little
            ("0,1\n5,6.5\n", [[5, 6.5]]),
            ("1,2\n5,6.5\n", [[1, 2], [5, 6.5]]),
            ("0,1,2,3,4,5,6,7\n1,1,1,1,1,1,1,1\n", [[1] * 8]),
            ("0.0,1.0\n5,6.5\n", [[0, 1], [5, 6.5]]),
            ("0\n1\n2\n", [[0], [1], [2]]),
        ],
    )
    def test_what_a_first_line_of_numbers_is(self, tmp_path, text, rows):
        (tmp_path / "a.csv").write_text(text)
        assert read_vectors(tmp_path / "a.csv").tolist() == rows

    def test_the_user_knows_better(self, tmp_path):
        (tmp_path / "a.csv").write_text("0,1\n5,6\n")
        assert read_vectors(tmp_path / "a.csv", header=True).tolist() == [[5, 6]]
        (tmp_path / "a.csv").write_text("0,1\n5,6.5\n")
        assert read_vectors(tmp_path / "a.csv", header=False).tolist() == [[0, 1], [5, 6.5]]
        assert read_array(tmp_path / "a.csv", "0").tolist() == [5]  # a name that the first line has
        np.save(tmp_path / "a.npy", X)
        with pytest.raises(FileProblem, match="only csv and tsv files have a header"):
            read_vectors(tmp_path / "a.npy", header=True)


class TestWordVectors:
    @pytest.mark.parametrize(("name", "head"), [("glove.txt", ""), ("fast.vec", "9 4\n")])
    def test_words_and_vectors(self, tmp_path, name, head):
        write_words(tmp_path / name, head)
        np.testing.assert_array_equal(read_vectors(tmp_path / name), X)
        assert read_array(tmp_path / name, "word").tolist() == WORDS
        assert describe_file(tmp_path / name)["columns"].startswith("word, then 4 numbers")

    def test_numbers_alone(self, tmp_path):
        np.savetxt(tmp_path / "a.txt", X)
        np.testing.assert_array_equal(read_vectors(tmp_path / "a.txt"), X)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("hello world\n", "first line must be a word and the numbers"),
            ("the 1 2 3\nof 1 2\n", "line 2 must have a word and 3 numbers"),
            ("the 1 2 3\nof 1 x 3\n", "not a readable text file"),
            ("\n", "no vectors in its first line"),
        ],
    )
    def test_what_is_none(self, tmp_path, text, message):
        (tmp_path / "a.txt").write_text(text)
        with pytest.raises(FileProblem, match=message):
            read_vectors(tmp_path / "a.txt")


class TestSafetensors:
    def test_named_tensors_are_mapped(self, tmp_path):
        safetensors.numpy.save_file({"embeddings": X, "labels": np.arange(9)}, tmp_path / "a.safetensors")
        found = read_vectors(tmp_path / "a.safetensors")
        assert isinstance(found, np.memmap)
        np.testing.assert_array_equal(found, X)
        np.testing.assert_array_equal(read_array(tmp_path / "a.safetensors", "labels"), np.arange(9))

    def test_bfloat16(self, tmp_path):
        bits = (np.round(X * 4) / 4).astype(np.float32).view(np.uint32)
        header = json.dumps({"X": {"dtype": "BF16", "shape": [9, 4], "data_offsets": [0, 72]}}).encode()
        data = len(header).to_bytes(8, "little") + header + (bits >> 16).astype("<u2").tobytes()
        (tmp_path / "a.safetensors").write_bytes(data)
        np.testing.assert_array_equal(read_vectors(tmp_path / "a.safetensors"), np.round(X * 4) / 4)


class TestPlaces:
    """FILE:NAME wherever a path may stand."""

    def test_an_array_of_an_archive(self, tmp_path):
        np.savez(tmp_path / "s.npz", embeddings=X, other=X[:2])
        np.testing.assert_array_equal(as_rows(f"{tmp_path}/s.npz:other").take(np.arange(2)), X[:2])
        assert LSH(n_bits=8, random_state=0).fit(f"{tmp_path}/s.npz:embeddings").transform(X).shape == (9, 1)

    def test_a_path_in_hdf5(self, tmp_path):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["group/X"] = X
        for name in ("/group/X", "group/X"):
            np.testing.assert_array_equal(read_place(f"{tmp_path}/a.h5:{name}"), X)

    def test_a_file_whose_name_has_a_colon(self, tmp_path):
        np.save(tmp_path / "a.npz:b.npy", X)
        np.testing.assert_array_equal(read_place(tmp_path / "a.npz:b.npy"), X)


class TestHostile:
    """One line, and no memory for what a file promises."""

    def line(self, path, message=": ", **arguments):
        with pytest.raises(FileProblem, match=message) as caught:
            read_array(path, **arguments)
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)

    def test_a_compressed_batch_of_zeros(self, tmp_path):
        zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(1 << 20, np.float32)), 1 << 10)
        path = tmp_path / "a.feather"
        pyarrow.feather.write_feather(pa.table({"X": zeros}), path, compression="zstd")
        assert path.stat().st_size < 1 << 13
        self.line(path, "its array would take 4194", max_bytes=1 << 20)
        assert read_array(path, max_bytes=1 << 23).shape == (1 << 10, 1 << 10)

    @pytest.mark.parametrize(
        "header",
        [
            {"X": {"dtype": "F32", "shape": [1 << 40, 4], "data_offsets": [0, 144]}},
            {"X": {"dtype": "F32", "shape": [9, 4], "data_offsets": [0, 1 << 40]}},
            {"X": {"dtype": "F32", "shape": [9, 4], "data_offsets": [1 << 20, (1 << 20) + 144]}},
            {"X": {"dtype": "F32", "shape": [-9, -4], "data_offsets": [0, 144]}},
            {"X": {"dtype": "F32", "shape": ["9", 4], "data_offsets": [0, 144]}},
            {"X": {"dtype": "F8_E4M3", "shape": [9, 4], "data_offsets": [0, 36]}},
            {"X": {"dtype": "F32", "shape": [9, 4]}},
            {"X": 3},
            [1, 2],
            {},
        ],
        ids=str,
    )
    def test_headers_of_safetensors(self, tmp_path, header):
        text = json.dumps(header).encode()
        (tmp_path / "a.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + X.tobytes())
        self.line(tmp_path / "a.safetensors")

    def test_a_header_that_is_longer_than_the_file(self, tmp_path):
        (tmp_path / "a.safetensors").write_bytes((1 << 62).to_bytes(8, "little") + b"{}")
        self.line(tmp_path / "a.safetensors", "should have 4611686018427387904 bytes")
        (tmp_path / "a.safetensors").write_bytes(b"123")
        self.line(tmp_path / "a.safetensors", "too short")

    @pytest.mark.parametrize(
        "name", ["a.feather", "b.feather", "a.arrow", "polars.arrow", "a.jsonl", "a.safetensors", "a.txt"]
    )
    def test_files_that_are_cut_or_have_a_wrong_byte(self, tmp_path, name):
        """Nothing but the vectors or one line, wherever a byte is wrong; a wrong number cannot be seen."""
        path = tmp_path / name
        others = {
            "a.safetensors": lambda path: safetensors.numpy.save_file({"X": X}, path),
            "a.txt": write_words,
        }
        (WRITE | others)[name](path)
        good = path.read_bytes()
        rng = np.random.default_rng(1)
        for cut in rng.integers(1, len(good), 30):
            path.write_bytes(good[:cut])
            self.vectors_or_line(path)
        for place in rng.integers(0, len(good), 150):
            path.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :])
            self.vectors_or_line(path)

    def vectors_or_line(self, path):
        try:
            found = read_vectors(path)
        except FileProblem as problem:
            found, line = None, str(problem)
        assert found.ndim == 2 if found is not None else "\n" not in line

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[1, 2]\n", "line 1 must be an object"),
            ('{"v": [1, 2]}\n{"v": [1]}\n', "line 2 must have a list of 2 numbers in 'v'"),
            ('{"v": [1, 2]}\n{"w": [1, 2]}\n', "line 2 has no field 'v'"),
            ('{"v": [1, 2]}\n\n{"v": [1, 2}\n', "line 3: Expecting"),
            ('{"v": [1, true]}\n', "no field with a list of numbers; it has v"),
            ('{"v": [1, 2], "w": [1, 2]}\n', "name one of its arrays with array=: v, w"),
            ("[" * 100_000, "not a readable JSON lines file"),
            ('{"v": [1e999, 1]}\n{"v": [%s]}' % ("9" * 5000 + ",1"), "not a readable JSON lines file"),
            ("\n\n", "no object in it"),
        ],
        ids=lambda text: text[:30],
    )
    def test_lines_that_are_no_vectors(self, tmp_path, text, message):
        (tmp_path / "a.jsonl").write_text(text)
        self.line(tmp_path / "a.jsonl", message)

    def test_version_1_of_feather(self, tmp_path):
        (tmp_path / "a.feather").write_bytes(b"FEA1" + bytes(100) + b"FEA1")
        self.line(tmp_path / "a.feather", "Feather version 1 is not read")


def test_fields_that_some_lines_of_json_lack(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"v": [1, 2]}\n{"v": [3, 4], "year": 1999}\n')
    assert read_array(tmp_path / "a.jsonl", "year").tolist() == [None, 1999]
    assert read_records(tmp_path / "a.jsonl", ["year"]) == [{"year": None}, {"year": 1999}]
    with pytest.raises(FileProblem, match="no field named 'month'; it has v"):
        read_array(tmp_path / "a.jsonl", "month")


@pytest.mark.parametrize("has_room", [True, False])
def test_a_large_array_of_a_table_lies_on_the_disk_if_there_is_room(tmp_path, monkeypatch, has_room):
    def allocate(*_):
        raise OSError(errno.ENOSPC, "no room")

    FRAME.to_parquet(tmp_path / "a.parquet")
    monkeypatch.setattr(arrow_table_module, "_MOST_IN_MEMORY", 100)
    if not has_room:
        monkeypatch.setattr(os, "posix_fallocate", allocate, raising=False)
    read = read_vectors(tmp_path / "a.parquet", "embedding")
    assert np.array_equal(read, X)
    in_file = has_room and hasattr(os, "posix_fallocate")
    base = read
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(getattr(base, "obj", base), mmap.mmap) == in_file
