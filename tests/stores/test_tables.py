"""The tables that the page of the file formats describes, read by each database's own client."""

import json
import sqlite3

import numpy as np
import pytest

from hashlearn.codes import pack
from hashlearn.stores import open_store, to_parquet

N_BITS, IDS, BYTES = 12, [3, 5], [0, 255]
BITS = np.random.default_rng(0).integers(0, 2, (2, N_BITS))
CODES = pack(BITS)
VECTORS = np.array([[1.5, -2.0], [0.25, 4.0]], np.float32)
PAYLOADS = [{"a": 1}, {"b": ["x"]}]
SAYS = {"format": "hashlearn codes", "format_version": 2, "bit_order": "big", "n_bits": 12, "id_type": "int64"}
SAYS |= {"n_features": 2, "model": "m", "corrections": [0.5, -1.0]}
COLUMNS = "id, code, payload, vector, correction"
BLOBS = [code.tobytes() for code in CODES]


@pytest.fixture
def written(make):
    """A store with everything in it, closed again."""
    with make(N_BITS, model="m", n_features=2, corrections=(0.5, -1.0)) as store:
        store.upsert(IDS, CODES, VECTORS, PAYLOADS, corrections=np.array(BYTES, np.uint8))


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_sqlite(written, tmp_path):
    connection = sqlite3.connect(tmp_path / "codes")
    ((text,),) = connection.execute("SELECT value FROM codes_meta WHERE key = 'description'").fetchall()
    rows = connection.execute(f"SELECT {COLUMNS} FROM codes ORDER BY id").fetchall()
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    assert json.loads(text) == SAYS
    check(rows, BLOBS, "<f4")
    assert "codes_vec" not in tables  # nothing searches codes with corrections


@pytest.mark.parametrize("kind", ["duckdb"], indirect=True)
def test_duckdb(written, tmp_path):
    with pytest.importorskip("duckdb").connect(tmp_path / "codes") as connection:
        ((text,),) = connection.execute("SELECT value FROM codes_meta WHERE key = 'description'").fetchall()
        rows = connection.execute(f"SELECT {COLUMNS} FROM codes ORDER BY id").fetchall()
    assert json.loads(text) == SAYS
    check(rows, ["".join(map(str, np.unpackbits(code))) for code in CODES], "<f4")


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_postgresql(written, uri):
    server, table = uri.replace("?table=", "&table=").split("&table=")
    with pytest.importorskip("psycopg").connect(server) as connection:
        ((text,),) = connection.execute(f"SELECT value FROM {table}_meta WHERE key = 'description'").fetchall()
        rows = connection.execute(f"SELECT {COLUMNS} FROM {table} ORDER BY id").fetchall()
    assert json.loads(text) == SAYS
    check(rows, ["".join(map(str, bits)) for bits in BITS], ">f4")


@pytest.mark.parametrize("kind", ["lance"], indirect=True)
def test_lancedb(written, tmp_path):
    table = pytest.importorskip("lancedb").connect(tmp_path / "codes").open_table("codes").to_arrow().sort_by("id")
    assert json.loads(table.schema.metadata[b"hashlearn"]) == SAYS
    assert table["code"].to_pylist() == CODES.tolist()
    assert table["vector"].to_pylist() == VECTORS.tolist()
    assert str(table.schema.field("correction").type) == "uint8"
    assert [table["id"].to_pylist(), table["correction"].to_pylist()] == [IDS, BYTES]


@pytest.mark.parametrize("kind", ["milvus"], indirect=True)
def test_milvus(written, uri):
    from hashlearn.stores.uri import parse_uri

    _, place = parse_uri(uri)
    client = pytest.importorskip("pymilvus").MilvusClient(place.address)
    fields = ["id", "code", "payload", "vector", "correction"]
    rows = sorted(client.query(place.table, filter="id >= 0", output_fields=fields), key=lambda row: row["id"])
    key = f"{place.table}/description"
    (note,) = client.query("hashlearn_notes", filter=f'id == "{key}"', output_fields=["value"])
    client.close()
    assert json.loads(note["value"]) == SAYS
    assert [bytes(row["code"][0]) for row in rows] == BLOBS
    assert [list(row["vector"]) for row in rows] == VECTORS.tolist()
    assert [[row[name] for row in rows] for name in ("id", "payload", "correction")] == [IDS, PAYLOADS, BYTES]


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_parquet(written, uri, tmp_path):
    with open_store(uri) as store:
        to_parquet(store, tmp_path / "codes.parquet")
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "codes.parquet")
    assert json.loads(table.schema.metadata[b"hashlearn"]) == {**SAYS, "n_features": None}
    assert table.column_names == ["id", "code", "payload", "correction"]
    assert [table["code"].to_pylist(), table["correction"].to_pylist()] == [BLOBS, BYTES]


def check(rows: list[tuple], codes: list, floats: str) -> None:
    """What a SELECT has found, by columns."""
    ids, found, payloads, vectors, corrections = zip(*rows)
    assert list(ids) == IDS
    assert list(found) == codes
    assert [each if isinstance(each, dict) else json.loads(each) for each in payloads] == PAYLOADS
    assert [np.frombuffer(vector, floats).tolist() for vector in vectors] == VECTORS.tolist()
    assert list(corrections) == BYTES
