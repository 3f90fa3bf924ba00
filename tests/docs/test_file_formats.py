"""The page of the file formats is enough to read them: a reader without hashlearn finds what hashlearn wrote."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from format_reader import Index, Model, bits_of, search_of, sha256, sidecar_of, vectors_of
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
    file = VectorFile.create(tmp_path / "v.hlv", 3, dtype, calibration).add(rows[:1200])
    file.remove([7]).upsert(rows[1200:], np.arange(300))
    read = vectors_of(tmp_path / "v.hlv")
    assert sorted(read) == list(range(1200))
    np.testing.assert_allclose([read[id] for id in range(1200)], file.take(range(1200)), rtol=1e-6)


@pytest.mark.parametrize("as_text", [False, True], ids=["numbers", "strings"])
def test_a_search_with_changes_in_its_journal(as_text, tmp_path):
    def ids_of(rows):
        return [f"digit {row}" for row in rows] if as_text else list(rows)

    search = SimilaritySearch(ITQ(16, random_state=0), metric="euclidean", keep_vectors="float32").fit(X)
    payloads = [{"row": row} for row in range(200)]
    search.add(X[:200], ids=ids_of(range(200)), payloads=payloads)
    search.save(tmp_path / "search")
    search.remove(ids_of([3])).upsert(X[200:250], ids=ids_of(range(190, 240)), payloads=[{"new": "ä"}] * 50)
    search.save(tmp_path / "search")
    assert next((tmp_path / "search").glob("generation-*/journal.hlj")).stat().st_size > 8

    read = search_of(tmp_path / "search")
    assert sorted(read) == sorted(ids_of(row for row in range(240) if row != 3))
    codes = search.hasher.transform(X)
    for row in range(240):
        if row != 3:
            code, payload, vector = read[ids_of([row])[0]]
            source = row if row < 190 else row + 10
            assert payload == ({"row": row} if row < 190 else {"new": "ä"})
            np.testing.assert_array_equal(code, codes[source])
            np.testing.assert_array_equal(vector, X[source])
