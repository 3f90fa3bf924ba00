"""Bad input is one line that names the argument, and changes nothing."""

import reprlib
import sqlite3
import sys
from functools import reduce

import numpy as np
import pytest

from hashlearn.stores import open_store
from hashlearn.stores.uri import parse_uri

CODES = np.zeros((2, 1), np.uint8)


def line_of(caught) -> str:
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 400
    return text


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ([1, "a"], "ids must be integers or strings, all of one kind, got int and str"),
        (["a", "b"], "ids must be integers in this store, got strings"),
        (np.array(["a", "b"]), "ids must be integers in this store"),
        ([1.0, 2.0], "ids must be integers or strings, all of one kind, got float"),
        ([True, False], "ids must be integers or strings, all of one kind, got bool"),
        ([-1, 2], "ids must be from 0 to"),
        ([2**63, 1], "ids must be from 0 to"),
        ([7, 7], "ids must be unique in a call, got"),
        ([1], "ids must be as many as the codes, got 1 for 2"),
        ([[1], [2]], "ids must be integers or strings, all of one kind, got list"),
        (np.zeros((2, 1), int), "of shape"),
        ("ab", "ids must be a list of integers"),
        (None, "ids must be a list of integers"),
        (np.ma.masked_array([1, 2], [False, True]), "ids must be a plain array or a list, got a masked array"),
    ],
)
def test_integers_that_are_no_ids(make, ids, says):
    store = make(8)
    with pytest.raises((ValueError, TypeError), match=says) as caught:
        store.upsert(ids, CODES)
    line_of(caught)
    assert len(store) == 0


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ([1, 2], "ids must be strings in this store, got integers"),
        (["a", 1], "ids must be integers or strings, all of one kind, got int and str"),
        (["a", None], "ids must not be missing: entry 1 is None"),
        (["a", ""], "not empty"),
        (["a", "b\0"], "without control characters"),
        (["a", "b\n"], "without control characters"),
        (["a", "\ud800"], "without control characters"),
        (["a", "é" * 513], "at most 1024 bytes"),
        (["a", "a"], "ids must be unique in a call, got 'a' more than once"),
    ],
)
def test_strings_that_are_no_ids(make, ids, says):
    store = make(8, id_type="str")
    with pytest.raises((ValueError, TypeError), match=says) as caught:
        store.upsert(ids, CODES)
    line_of(caught)
    assert len(store) == 0


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "payload",
    [
        {"a": {1, 2}},
        {"a": b"bytes"},
        {1: "a"},
        {"a": 2**63},
        {"a": "nul\0"},
        {"nul\0": 1},
        {"a": "\ud800"},
        ["a"],
        "a",
        3,
        {"a": np.float32("inf")},
        {"a": len},
        reduce(lambda inner, _: {"a": inner}, range(100_000), {}),
    ],
    ids=lambda payload: reprlib.repr(payload).encode("unicode_escape").decode(),
)
def test_payloads_that_are_no_json(make, payload):
    store = make(8)
    with pytest.raises(ValueError, match="payloads must be dicts of JSON") as caught:
        store.upsert([1, 2], CODES, payloads=[{}, payload])
    line_of(caught)
    assert len(store) == 0


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_other_arguments(make):
    store = make(8)
    for call, says in (
        (lambda: store.upsert([1, 2], CODES, payloads=[{}]), "payloads must be as many"),
        (lambda: store.upsert([1, 2], CODES, payloads={"a": 1}), "payloads must be a list of dicts"),
        (lambda: store.upsert([1, 2], CODES, vectors=np.zeros((2, 3))), "vectors must be None"),
        (lambda: store.upsert([1, 2], np.zeros((2, 2), np.uint8)), "codes must have shape"),
        (lambda: store.upsert([1, 2], np.zeros((2, 1))), "codes must be packed codes"),
        (lambda: store.search(CODES, k=0), "k must be at least 1"),
        (lambda: store.within(CODES, radius=-1), "radius must be at least 0"),
        (lambda: store.within(CODES, radius=1.5), "radius must be an integer"),
        (lambda: store.scan(0), "block_rows must be at least 1"),
        (lambda: store.vectors([1]), "keeps no vectors"),
        (lambda: store.keep_note("it's", "x"), "key must be 1 to 100 letters"),
        (lambda: store.search(CODES, filter="a > 1"), "filter must be a dict"),
    ):
        with pytest.raises((ValueError, TypeError), match=says) as caught:
            call()
        line_of(caught)
    assert len(store) == 0


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_vectors_must_fit(make):
    store = make(8, n_features=3)
    for vectors, says in (
        (None, "vectors must be given"),
        (np.zeros((2, 4)), "vectors must have shape"),
        (np.full((2, 3), np.nan), "vectors must be finite"),
        (np.full((2, 3), 1e300), "must fit in float32"),
    ):
        with pytest.raises(ValueError, match=says) as caught:
            store.upsert([1, 2], CODES, vectors)
        line_of(caught)
    assert len(store) == 0


def test_bad_rows_change_no_store(make):
    store = make(8)
    store.upsert([1, 2], CODES)
    for ids, payloads in (([1, "a"], None), ([3, 3], None), ([3, 4], [{}, {"a": float("inf")}])):
        with pytest.raises((ValueError, TypeError)) as caught:
            store.upsert(ids, CODES + 1, payloads=payloads)
        line_of(caught)
    assert [record.code.tolist() for record in store.get([1, 2, 3])] == [[0], [0]]


def test_a_store_of_other_codes(make, uri):
    make(16, id_type="str", model="digest of ours").close()
    for options, says in (
        ({"n_bits": 64}, "n_bits must be 16, as .* has it, got 64"),
        ({"id_type": "int64"}, "id_type must be 'str', as .* has it, got 'int64'"),
        ({"model": "another"}, "model must be 'digest of ours', as .* has it, got 'another'"),
        ({"n_features": 3}, "n_features must be None, as .* has it, got 3"),
    ):
        with pytest.raises(ValueError, match=says) as caught:
            open_store(uri, **options)
        line_of(caught)
        with pytest.raises(ValueError, match=says):
            open_store(uri, create=True, **options)
    with open_store(uri, 16, "str", "digest of ours") as store:
        assert len(store) == 0


def test_a_store_that_is_not_there(uri, kind, tmp_path):
    with pytest.raises(ValueError, match="holds no store of codes") as caught:
        open_store(uri)
    line_of(caught)
    with pytest.raises(ValueError, match="n_bits must be given to make a store"):
        open_store(uri, create=True)
    if kind in ("lance", "sqlite", "duckdb"):
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_bits": 0}, "n_bits must be at least 1"),
        ({"n_bits": 4097}, "n_bits must be at most 4096"),
        ({"n_bits": 8, "id_type": "uuid"}, "id_type must be one of"),
        ({"n_bits": 8, "model": 3}, "model must be the digest"),
        ({"n_bits": 8, "n_features": 0}, "n_features must be at least 1"),
        ({"n_bits": 8, "index": "annoy"}, "index must be"),
    ],
)
def test_options_of_a_new_store(uri, options, says):
    with pytest.raises((ValueError, TypeError), match=says) as caught:
        open_store(uri, create=True, **options)
    line_of(caught)


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("redis://localhost", "uri must be a folder or begin with one of lance://"),
        ("mysql+pymysql://root:secret@localhost/x", "uri must be a folder or begin with"),
        ("sqlite://", "uri must name a file"),
        ("sqlite:///no/such/folder/x.db", "uri must lie in an existing folder"),
        ("sqlite://x.db?table=a;b", "uri must name a table of letters"),
        ("sqlite://x.db?mode=rwx", "uri must have mode=ro or mode=rw"),
        ("duckdb://x.db?cache=1", "uri must have no option 'cache'"),
        ("milvus://x.sqlite3.", "cannot connect to Milvus"),
        ("milvus:///tmp/x.sqlite3", "uri must name a file that ends in .db"),
        ("parquet:///tmp/no-such-file-*.parquet", "names no file"),
        (b"lance://x", "uri must be a string or a Path"),
        ("duckdb://:memory:", "uri must name a file, got duckdb://:memory:, which would keep nothing"),
        ("sqlite://:memory:", "uri must name a file, got sqlite://:memory:, which would keep nothing"),
        ("duckdb://md:x", "uri must name a file of DuckDB, got 'md:x'"),
        ("duckdb:motherduck:x", "uri must name a file of DuckDB, got 'motherduck:x'"),
        ("duckdb://sqlite:x.db", "uri must name a file of DuckDB, got 'sqlite:x.db'"),
    ],
)
def test_uris_of_no_known_kind(uri, says):
    with pytest.raises((ValueError, TypeError, ConnectionError), match=says) as caught:
        open_store(uri, 8, create=True)
    assert "secret" not in line_of(caught)


def test_the_password_is_never_shown():
    for uri in (
        "postgresql://me:secret@host/db",
        "postgresql://host/db?user=me&password=secret",
        "milvus://me:secret@h",
    ):
        _, place = parse_uri(uri)
        assert "secret" not in place.shown
        assert "secret" in place.address


@pytest.mark.parametrize("uri", ["postgresql://me:secret@127.0.0.1:9/db", "milvus://me:secret@127.0.0.1:9"])
def test_a_server_that_is_not_there(uri):
    with pytest.raises(ConnectionError, match=r"cannot connect to (PostgreSQL|Milvus)") as caught:
        open_store(uri, 8, create=True)
    assert "secret" not in line_of(caught)


def test_a_server_that_went_away(postgres):
    store = open_store(f"{postgres}&table=gone", 8, create=True)
    store._engine.rows("SELECT pg_backend_pid()", [])
    with open_store(f"{postgres}&table=gone") as other:
        other._engine.rows("SELECT pg_terminate_backend(?)", [store._engine.connection.info.backend_pid])
    with pytest.raises(ConnectionError, match="cannot be reached any more") as caught:
        len(store)
    line_of(caught)


@pytest.mark.parametrize(
    ("kind", "file"), [("sqlite", "x.db"), ("duckdb", "x.duckdb"), ("milvus", "x.db"), ("parquet", "x.parquet")]
)
def test_a_file_of_another_kind(kind, file, tmp_path):
    (tmp_path / file).write_text("this is a letter, not a database " * 100)
    with pytest.raises((ValueError, ConnectionError)) as caught:
        open_store(f"{kind}://{tmp_path}/{file}", 8, create=True)
    assert file in line_of(caught)


def test_duckdb_opens_no_file_of_sqlite(tmp_path):
    """DuckDB would download an extension that reads it; ours is never asked."""
    pytest.importorskip("duckdb")
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("CREATE TABLE codes (id)")
    before = (tmp_path / "x.db").read_bytes()
    with pytest.raises(ValueError, match=r"x.db is no file of DuckDB; take sqlite://") as caught:
        open_store(f"duckdb://{tmp_path}/x.db", 8, create=True)
    line_of(caught)
    assert (tmp_path / "x.db").read_bytes() == before


@pytest.mark.parametrize("kind", ["duckdb"], indirect=True)
def test_duckdb_downloads_no_extensions(make):
    settings = "SELECT value FROM duckdb_settings() WHERE name IN (?, ?)"
    found = make(8)._engine.rows(settings, ["autoinstall_known_extensions", "autoload_known_extensions"])
    assert [value.lower() for (value,) in found] == ["false", "false"]


def test_a_file_where_a_folder_should_be(tmp_path):
    (tmp_path / "x").write_text("")
    for uri in (tmp_path / "x", f"lance://{tmp_path}/x"):
        with pytest.raises(ValueError, match="uri must be a folder") as caught:
            open_store(uri, 8, create=True)
        line_of(caught)


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgresql"], indirect=True)
def test_a_table_that_is_not_ours(kind, uri, make):
    theirs = uri + ("&" if "?" in uri else "?") + "table=theirs"
    store = make(8)
    store._engine.rows("DROP TABLE IF EXISTS theirs", [])
    store._engine.rows("CREATE TABLE theirs (x integer)", [])
    store.close()
    uri = theirs if kind != "postgresql" else uri.partition("&table")[0] + "&table=theirs"
    with pytest.raises(ValueError, match="holds a table 'theirs' that hashlearn did not make") as caught:
        open_store(uri, 8, create=True)
    line_of(caught)


@pytest.mark.parametrize(
    ("uri", "module", "line"),
    [
        ("lance://x", "lancedb", "pip install 'hashlearn[lance]'"),
        ("postgresql://h/x", "psycopg", "pip install 'hashlearn[pgvector]'"),
        ("milvus://h", "pymilvus", "pip install 'hashlearn[milvus]'"),
        ("sqlite://x", "sqlite_vec", "pip install 'hashlearn[sqlite]'"),
        ("duckdb://x", "duckdb", "pip install 'hashlearn[duckdb]'"),
    ],
)
def test_a_package_that_is_not_installed(monkeypatch, tmp_path, uri, module, line):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name == module or name.startswith(module + ".")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError) as caught:
        open_store(uri, 8, create=True)
    assert line in line_of(caught)


def test_four_slashes_begin_an_absolute_path_as_in_sqlalchemy(tmp_path):
    _, place = parse_uri(f"sqlite:///{tmp_path}/codes.db")
    assert f"{tmp_path}/codes.db" in place
