"""The page of the file formats is enough to read them: a reader without hashlearn finds what hashlearn wrote."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from format_reader import Index, Model, Search, bits_of, sha256, sidecar_of, vectors_of
from sklearn.datasets import load_digits

from hashlearn import ABH, ITQ, JPSH, SAH, AsymmetricIndex, HammingIndex, SimilaritySearch, unpack
from hashlearn.search import Calibration, VectorFile

X = load_digits().data[:300].astype(np.float32)


def random_codes(n, n_bits):
    bits = np.random.default_rng(0).integers(0, 2, (n, n_bits), dtype=np.uint8)
    return np.packbits(bits, axis=1)


def test_the_reader_needs_no_hashlearn():
    program = "import sys, format_reader; assert not [m for m in sys.modules if m.startswith('hashlearn')]"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[1])


def test_codes_and_their_sidecar(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from hashlearn.cli import commands

    monkeypatch.chdir(tmp_path)
    np.save("vectors.npy", X)
    for line in (
        "fit vectors.npy --method itq --bits 20 --out model",
        "encode model vectors.npy --out codes.npy",
    ):
        assert CliRunner().invoke(commands, line.split()).exit_code == 0
    codes, said = np.load("codes.npy"), sidecar_of("codes.npy")
    assert (said["n_bits"], said["bit_order"], said["count"]) == (20, "big", len(X))
    assert said["codes_sha256"] == sha256(codes.tobytes())
    model = Model("model")
    assert said["model"]["checksum"] == model.config["model_sha256"]
    np.testing.assert_array_equal(bits_of(codes, 20), model.bits(X))


@pytest.mark.parametrize("hasher", [JPSH(16, n_anchors=30), SAH(16, n_anchors=30)], ids=["jpsh", "sah"])
def test_bits_by_anchors(hasher, tmp_path):
    hasher.set_params(random_state=0).fit(X).save(tmp_path / "model")
    np.testing.assert_array_equal(Model(tmp_path / "model").bits(X), unpack(hasher.transform(X), 16))


@pytest.mark.parametrize("n_bits", [8, 12, 20, 64, 96, 130, 256])
@pytest.mark.parametrize("n_codes", [0, 64, 100])
def test_an_index(n_bits, n_codes, tmp_path):
    codes, ids = random_codes(n_codes, n_bits), 5 + 2 * np.arange(n_codes)
    HammingIndex(n_bits).add(codes, ids).save(tmp_path / "index.hli")
    read = Index(tmp_path / "index.hli")
    np.testing.assert_array_equal(read.codes, codes)
    np.testing.assert_array_equal(read.ids, ids)


@pytest.mark.parametrize("words", ["signed", "free"])
def test_corrections_and_real_queries(words, tmp_path):
    hasher = ABH(16, words=words, train_sample=200, random_state=0).fit(X)
    codes = hasher.transform(X)
    index = AsymmetricIndex(16).add(codes, corrections=hasher.corrections(X, codes))
    index.save(tmp_path / "index.hli")
    hasher.save(tmp_path / "model")
    read = Index(tmp_path / "index.hli")
    distances = Model(tmp_path / "model").distances(X[0], read.codes, read.corrections)
    ours = index.search(hasher.query_weights(X[:1]), k=len(X))
    np.testing.assert_allclose(distances[ours.ids[0]], ours.distances[0], rtol=1e-4, atol=np.ptp(distances) / 100)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_vectors(dtype, tmp_path):
    rows = np.random.default_rng(0).normal(size=(1500, 3)).astype(np.float32)
    calibration = Calibration.of(rows) if dtype == "int8" else None
    file = VectorFile.create(tmp_path / "v.hlv", 3, dtype, calibration).add(rows[:1200]).add(rows[1200:])
    np.testing.assert_allclose(vectors_of(tmp_path / "v.hlv"), file.take(range(1500)), rtol=1e-6)


def test_a_swapped_vector_is_refused(tmp_path):
    path = tmp_path / "v.hlv"
    VectorFile.create(path, 2, "float32").add(X[:2, 20:22])
    content = bytearray(path.read_bytes())
    content[8192:8204], content[8204:8216] = content[8204:8216], content[8192:8204]
    path.write_bytes(content)
    with pytest.raises(AssertionError):
        vectors_of(path)


def ids_of(rows, as_text):
    return [f"digit \N{GREEK SMALL LETTER ALPHA} {row}" for row in rows] if as_text else [3 * row for row in rows]


class Expected:
    """What a search must hold: the row of X that each id has, and its payload."""

    def __init__(self, search, as_text):
        self.search, self.as_text, self.rows = search, as_text, {}

    def upsert(self, ids, first, payloads):
        ids = ids_of(ids, self.as_text)
        self.search.upsert(X[first : first + len(ids)], ids, payloads)
        for number, id in enumerate(ids):
            self.rows.pop(id, None)
            self.rows[id] = first + number, payloads[number] or {}

    def remove(self, ids):
        ids = ids_of(ids, self.as_text)
        self.search.remove(ids)
        for id in ids:
            del self.rows[id]

    def check(self, folder):
        read = Search(folder)
        assert list(read.rows) == list(self.rows)
        codes = self.search.encode(X)
        kept = dict(zip(self.rows, self.search.get(list(self.rows)), strict=True))
        for id, (row, payload) in self.rows.items():
            assert read.rows[id].payload == payload
            np.testing.assert_array_equal(read.rows[id].code, codes[row])
            if self.search.keep_vectors is None:
                assert read.rows[id].vector is None
            else:
                np.testing.assert_allclose(read.rows[id].vector, kept[id].vector, rtol=1e-6)
        return read


@pytest.mark.parametrize("keep", [None, "float32", "int8"])
@pytest.mark.parametrize("as_text", [False, True], ids=["numbers", "strings"])
def test_a_search_after_every_kind_of_change(as_text, keep, tmp_path):
    folder = tmp_path / "search"
    search = SimilaritySearch(ITQ(16, random_state=0), keep_vectors=keep, folder=folder).fit(X)
    expected = Expected(search, as_text)
    assert expected.check(folder).facts["id_type"] is None

    expected.upsert(range(100), 0, [{"row": row} if row % 3 else None for row in range(100)])
    expected.remove([3, 50])
    expected.upsert(range(90, 140), 100, [{"new": "\N{GREEK SMALL LETTER ALPHA}\n", "list": [1, None, 0.5]}] * 50)
    read = expected.check(folder)
    assert (folder / "catalog.db-wal").stat().st_size > 0
    assert read.facts["codes"] is None, "all codes are fresh"
    assert len(read.buried) == 12

    search.compact()
    read = expected.check(folder)
    assert (read.facts["codes"]["places"], read.facts["first_row"], read.buried) == (138, 150, {})

    expected.remove([7])
    expected.upsert([8, 200], 200, [{"last": True}, None])
    expected.check(folder)
    search.save(tmp_path / "copy")
    expected.check(tmp_path / "copy")
    search.close()
    assert not (folder / "catalog.db-wal").exists(), "the log is merged"
    expected.search = SimilaritySearch.open(folder)
    expected.check(folder)


def test_a_search_with_corrections(tmp_path):
    search = SimilaritySearch(ABH(16, train_sample=200, random_state=0), folder=tmp_path / "search").fit(X)
    search.add(X[:200]).compact().add(X[200:])
    read = Search(tmp_path / "search")
    codes = np.array([row.code for row in read.rows.values()])
    distances = read.model.distances(X[0], codes, np.array([row.correction for row in read.rows.values()]))
    ours = search.search(X[:1], k=len(X))
    np.testing.assert_allclose(distances[ours.ids[0]], ours.distances[0], rtol=1e-4, atol=np.ptp(distances) / 100)


def test_a_search_with_lists_words_and_an_encoder(tmp_path):
    folder, texts = tmp_path / "search", [f"word{n % 13} thing{n % 7} number{n}" for n in range(1100)]
    hasher = ITQ(16, random_state=0)
    search = SimilaritySearch(hasher, keep_vectors="float32", folder=folder, index="lists", encoder="tfidf")
    search.fit(texts=texts).add(texts=texts, ids=list(map(str, range(1100)))).remove(["7"])
    search.upsert(texts=["word1 thing2"], ids=["9"])
    assert search.has_lists
    for place in (folder, tmp_path / "copy"):
        read = Search(place)
        assert (place / read.facts["lists"]["file"]).is_file()
        assert (place / "encoder.safetensors").is_file()
        for record in search.get(search.ids):
            row = read.rows.pop(record.id)
            assert row.payload == record.payload
            np.testing.assert_array_equal(row.code, record.code)
            np.testing.assert_array_equal(row.vector, record.vector)
        assert not read.rows
        search.save(tmp_path / "copy")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rows SET id = 'another' WHERE row = 2",
        "UPDATE rows SET row = 99 WHERE row = 2",
        "UPDATE rows SET sum = sum + 1 WHERE row = 2",
        "DELETE FROM rows WHERE row = 2",
        "UPDATE payloads SET payload = '{}' WHERE row = 2",
        "DELETE FROM payloads WHERE row = 2",
        "UPDATE fresh SET code = x'000000000000' WHERE row = 2",
        "UPDATE facts SET change = change + 1",
        "UPDATE facts SET text = replace(text, 'euclidean', 'cosine')",
    ],
)
def test_an_edited_catalog_is_refused(statement, tmp_path):
    search = SimilaritySearch(ITQ(16, random_state=0), folder=tmp_path / "search").fit(X)
    search.add(X[:5], list("abcde"), [{"row": row} for row in range(5)]).close()
    assert len(Search(tmp_path / "search").rows) == 5
    with closing(sqlite3.connect(tmp_path / "search" / "catalog.db")) as catalog, catalog:
        assert catalog.execute(statement).rowcount == 1
    with pytest.raises(AssertionError):
        Search(tmp_path / "search")


def test_a_lost_log_is_refused(tmp_path):
    search = SimilaritySearch(ITQ(16, random_state=0), folder=tmp_path / "search").fit(X)
    search.add(X[:5])
    shutil.copytree(tmp_path / "search", tmp_path / "copy")
    for name in ("catalog.db-wal", "catalog.db-shm"):
        (tmp_path / "copy" / name).unlink()
    with pytest.raises((AssertionError, sqlite3.Error)):
        Search(tmp_path / "copy")
