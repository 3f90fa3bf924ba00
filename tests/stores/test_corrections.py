"""Codes with corrections, as those of ABH, in every store: kept, read back, and never compared by their bits."""

import json
import sqlite3

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import ABH, AsymmetricIndex, Corrections, HammingIndex
from hashlearn.codes import pack
from hashlearn.stores import load_codes, open_store, to_faiss, to_numpy, to_parquet, to_usearch
from hashlearn.stores.base import Description

SCALE = (0.1, -2.5)
CODES = pack(np.random.default_rng(0).integers(0, 2, (300, 20)))
BYTES = np.random.default_rng(1).integers(0, 256, 300).astype(np.uint8)
BYTES[:2] = 0, 255


def corrections_in(store, **options) -> dict:
    """The corrections of all rows by their ids, as a scan gives them."""
    found = {}
    for block in store.scan(70, **options):
        assert block.corrections.dtype == np.uint8
        assert block.corrections.shape == (len(block.ids),)
        found.update(zip(block.ids.tolist(), block.corrections.tolist(), strict=True))
    return found


@pytest.mark.parametrize("id_type", ["int64", "str"])
@pytest.mark.parametrize("n_features", [None, 3])
def test_corrections_come_back_as_they_were_given(make, uri, id_type, n_features):
    ids = list(range(300)) if id_type == "int64" else [f"row {number}" for number in range(300)]
    vectors = None if n_features is None else np.random.default_rng(2).random((300, 3), np.float32)
    payloads = [{"odd": number % 2 == 1} for number in range(300)]
    with make(20, id_type=id_type, n_features=n_features, corrections=SCALE) as store:
        store.upsert(ids, CODES, vectors, payloads, corrections=BYTES)
    with open_store(uri) as store:
        assert tuple(store.corrections) == SCALE
        records = store.get(ids)
        assert [record.correction for record in records] == BYTES.tolist()
        assert np.array_equal([record.code for record in records], CODES)
        assert [record.payload for record in records] == payloads
        assert corrections_in(store) == dict(zip(ids, BYTES.tolist()))
        assert corrections_in(store, payloads=True) == dict(zip(ids, BYTES.tolist()))
        assert corrections_in(store, filter={"odd": True}) == dict(zip(ids[1::2], BYTES[1::2].tolist()))
        if vectors is not None:
            assert np.array_equal(store.vectors(ids), vectors)


def test_an_upsert_replaces_the_correction_and_a_delete_removes_it(make):
    store = make(20, corrections=SCALE)
    store.upsert(range(5), CODES[:5], corrections=BYTES[:5])
    store.upsert([1, 7], CODES[5:7], corrections=Corrections(np.array([9, 8], np.uint8), *SCALE))
    assert store.delete([0, 99]) == 1
    store.compact()
    wanted = {1: 9, 2: int(BYTES[2]), 3: int(BYTES[3]), 4: int(BYTES[4]), 7: 8}
    assert corrections_in(store) == wanted
    assert np.array_equal(store.get([1])[0].code, CODES[5])
    assert len(store) == store.count() == 5


def test_codes_with_corrections_are_not_compared_by_their_bits(make, uri, kind):
    store = make(20, corrections=SCALE)
    store.upsert(range(5), CODES[:5], corrections=BYTES[:5])
    for call in (lambda: store.search(CODES[:1], 1), lambda: store.within(CODES[:1], 3)):
        with pytest.raises(ValueError, match=r"not compared by their bits; take SimilaritySearch\(hasher, store=") as e:
            call()
        assert "\n" not in str(e.value)
    store.close()
    index = {"postgresql": "hnsw", "lance": "ivf", "milvus": "ivf"}.get(kind)
    if index is not None:
        with pytest.raises(ValueError, match=r"index must be None for .* not compared by their bits"):
            open_store(uri, index=index)


def test_a_store_is_of_one_kind_of_codes(make, uri):
    with make(20) as store:
        assert store.corrections is None
        with pytest.raises(ValueError, match="corrections must be None: this store was made without them"):
            store.upsert([1], CODES[:1], corrections=BYTES[:1])
        store.upsert([1], CODES[:1])
        assert store.get([1])[0].correction is None
        assert [block.corrections for block in store.scan()] == [None]
    with pytest.raises(ValueError, match=r"corrections must be None, as .* has it, got \(0.1, -2.5\)") as caught:
        open_store(uri, corrections=SCALE)
    assert "\n" not in str(caught.value)


def test_corrections_of_another_scale_are_refused(make, uri):
    with make(20, corrections=SCALE) as store:
        store.upsert([1], CODES[:1], corrections=BYTES[:1])
        for bad, says in (
            (None, "corrections must be given: this store keeps one correction byte"),
            (BYTES[:2], r"corrections must have shape \(1,\), one for each code, got \(2,\)"),
            (BYTES[:1, None], "corrections must have shape"),
            (BYTES[:1].astype(np.int64), "corrections must be bytes of dtype uint8, got int64"),
            ([300], "corrections must be bytes of dtype uint8"),
            (np.ma.masked_array(BYTES[:1], [True]), "corrections must be a plain array"),
            (Corrections(BYTES[:1], 0.2, -2.5), "corrections must have scale 0.1 and offset -2.5, as the store, got"),
        ):
            with pytest.raises((ValueError, TypeError), match=says) as caught:
                store.upsert([2], CODES[1:2], corrections=bad)
            assert "\n" not in str(caught.value)
        assert corrections_in(store) == {1: int(BYTES[0])}
    with pytest.raises(ValueError, match=r"corrections must be \(0.1, -2.5\), as .* has it, got \(0.2, -2.5\)"):
        open_store(uri, corrections=(0.2, -2.5))
    open_store(uri, corrections=SCALE).close()


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("corrections", "says"),
    [
        (0.5, "corrections must be a pair of scale and offset"),
        ((0.5,), "corrections must be a pair of scale and offset"),
        ((0, 1), "the scale of corrections must be at least"),
        ((float("nan"), 1), "the scale of corrections must be finite"),
        ((1, "a"), "the offset of corrections must be a number"),
    ],
)
def test_what_is_no_scale_of_corrections(uri, tmp_path, corrections, says):
    with pytest.raises((ValueError, TypeError), match=says):
        open_store(uri, 8, corrections=corrections, create=True)
    assert list(tmp_path.iterdir()) == []


def test_stores_made_before_are_read_as_stores_of_hamming_codes():
    """Version 1 of the description says nothing of corrections; a later version than ours is refused."""
    told = {"format": "hashlearn codes", "format_version": 1, "bit_order": "big", "n_bits": 8, "id_type": "int64"}
    told |= {"n_features": None, "model": "m"}
    assert Description.from_json(json.dumps(told), "x") == Description(8, "int64", None, "m", None)
    with pytest.raises(ValueError, match="x has store format 3, this hashlearn reads up to 2; update hashlearn"):
        Description.from_json(json.dumps({**told, "format_version": 3}), "x")
    for damaged in ([1.0], "ab", 3, ["a", "b"]):
        with pytest.raises(ValueError, match="x holds a table that hashlearn did not make"):
            Description.from_json(json.dumps({**told, "format_version": 2, "corrections": damaged}), "x")


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_file_made_before_goes_on_working(make, uri, tmp_path):
    with make(20) as store:
        store.upsert(range(3), CODES[:3])
    connection = sqlite3.connect(tmp_path / "codes")
    ((text,),) = connection.execute("SELECT value FROM codes_meta WHERE key = 'description'").fetchall()
    told = json.loads(text)
    del told["corrections"]
    told["format_version"] = 1
    with connection:
        connection.execute("UPDATE codes_meta SET value = ? WHERE key = 'description'", [json.dumps(told)])
    connection.close()
    with open_store(uri) as store:
        store.upsert([3], CODES[3:4])
        assert store.corrections is None
        assert store.search(CODES[3:4], 1).ids.tolist() == [[3]]


def test_many_codes_are_loaded_with_their_corrections(make):
    store = make(20, corrections=SCALE)
    assert load_codes(store, CODES, corrections=Corrections(BYTES, *SCALE), block_rows=70) == 0
    assert corrections_in(store) == dict(enumerate(BYTES.tolist()))

    def blocks(first):
        for start in range(first, 300, 20):
            yield slice(start, start + 20), CODES[start : start + 20], 255 - BYTES[start : start + 20]

    load_codes(store, blocks, block_rows=70)
    assert corrections_in(store) == dict(enumerate((255 - BYTES).tolist()))


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_load_without_what_the_store_wants_gets_one_line(make, tmp_path):
    store = make(20, corrections=SCALE)
    pairs, triples = (
        lambda first: [(slice(0, 3), CODES[:3])],
        lambda first: [(slice(0, 3), CODES[:3], BYTES[:3])],
    )
    for arguments, says in (
        ({"codes": CODES}, "corrections must be given"),
        ({"codes": CODES, "corrections": BYTES[:3]}, r"corrections must have shape \(300,\)"),
        ({"codes": pairs}, "codes must return a slice of rows, their codes, their corrections for .* got 2 things"),
        ({"codes": triples, "corrections": BYTES[:3]}, "corrections must be None beside a callable"),
    ):
        with pytest.raises(ValueError, match=says):
            load_codes(store, **arguments)
    assert len(store) == 0
    with open_store(f"sqlite://{tmp_path}/hamming.db", 20, create=True) as hamming:
        for arguments, says in (
            ({"codes": CODES, "corrections": BYTES}, "corrections must be None: this store was made without them"),
            ({"codes": triples}, "codes must return a slice of rows, their codes for .* got 3 things"),
        ):
            with pytest.raises(ValueError, match=says):
                load_codes(hamming, **arguments)
        assert len(hamming) == 0


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_other_corrections_are_another_job(make, monkeypatch):
    store, upsert = make(20, corrections=SCALE), None
    calls = iter(range(2))

    def failing(*arguments):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        upsert(*arguments)

    upsert = store.upsert
    with monkeypatch.context() as context:
        context.setattr(store, "upsert", failing)
        with pytest.raises(KeyboardInterrupt):
            load_codes(store, CODES, corrections=BYTES, block_rows=50)
    assert load_codes(store, CODES, corrections=255 - BYTES, block_rows=50) == 0
    assert load_codes(store, CODES, corrections=BYTES, block_rows=50) == 100


def test_parquet_keeps_corrections(make, tmp_path):
    pytest.importorskip("duckdb")
    store = make(20, model="m", corrections=SCALE)
    store.upsert(range(300), CODES, payloads=[{"n": number} for number in range(300)], corrections=BYTES)
    to_parquet(store, tmp_path / "codes.parquet")
    with open_store(f"parquet://{tmp_path}/codes.parquet", 20, model="m", corrections=SCALE) as files:
        assert corrections_in(files) == dict(enumerate(BYTES.tolist()))
        assert corrections_in(files, filter={"n": {"$lt": 9}}) == dict(enumerate(BYTES[:9].tolist()))
        (record,) = files.get([7])
        assert (record.code.tobytes(), record.payload, record.correction) == (CODES[7].tobytes(), {"n": 7}, BYTES[7])
        with pytest.raises(ValueError, match="not compared by their bits"):
            files.search(CODES[:1], 1)


def test_an_index_with_corrections_goes_to_parquet(tmp_path):
    pytest.importorskip("duckdb")
    index = AsymmetricIndex(20).add(CODES, corrections=Corrections(BYTES, *SCALE))
    to_parquet(index, tmp_path / "codes.parquet")
    with open_store(f"parquet://{tmp_path}/codes.parquet") as files:
        assert tuple(files.corrections) == SCALE
        assert corrections_in(files) == dict(enumerate(BYTES.tolist()))


def test_parquet_files_that_do_not_say_what_their_corrections_are(tmp_path):
    pytest.importorskip("duckdb")
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"id": [1], "code": [b"a"], "correction": [3]})
    parquet.write_table(table, tmp_path / "theirs.parquet")
    with pytest.raises(ValueError, match="has a column correction, and no metadata that say its scale and offset"):
        open_store(f"parquet://{tmp_path}/theirs.parquet")
    said = {b"hashlearn": Description(8, "int64", None, None, SCALE).to_json()}
    parquet.write_table(table.drop(["correction"]).replace_schema_metadata(said), tmp_path / "cut.parquet")
    with pytest.raises(ValueError, match="must have the column correction, as its metadata say"):
        open_store(f"parquet://{tmp_path}/cut.parquet")


@pytest.mark.parametrize("export", [to_faiss, to_usearch])
@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_what_compares_codes_by_their_bits_does_not_get_them(make, export):
    store = make(20, corrections=SCALE)
    for source in (store, AsymmetricIndex(20).add(CODES, corrections=Corrections(BYTES, *SCALE))):
        with pytest.raises(ValueError, match=r"source must hold codes without corrections for .* by SimilaritySearch"):
            export(source)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_numpy_gives_ids_and_codes_only(make):
    with pytest.raises(ValueError, match=r"source must hold codes without corrections: .* take the blocks of"):
        to_numpy(make(20, corrections=SCALE))


def test_a_mirror_of_a_store_finds_what_an_index_finds(make):
    """What the corrections are kept for: the distances of real queries, from a store read back."""
    X = load_digits().data.astype(np.float32)[:400]
    hasher = ABH(n_bits=20, random_state=0).fit(X)
    codes = hasher.transform(X)
    given = hasher.corrections(X, codes)
    store = make(20, corrections=(hasher.correction_scale_, hasher.correction_offset_))
    store.upsert(range(400), codes, corrections=given)
    mirror = AsymmetricIndex(20)
    for block in store.scan(150):
        mirror.upsert(block.codes, block.ids, Corrections(block.corrections, *store.corrections))
    weights = hasher.query_weights(X[:20] + 0.1)
    wanted = AsymmetricIndex(20).add(codes, corrections=given).search(weights, 10)
    found = mirror.search(weights, 10)
    assert np.array_equal(found.ids, wanted.ids)
    assert np.array_equal(found.distances, wanted.distances)
    assert not np.array_equal(HammingIndex(20).add(codes).search(codes[:20], 10).ids, wanted.ids)
