"""Several processes at one store, locked files, and databases that may only be read."""

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from forked import ForkedPython, run_forked

from hashlearn.stores import open_store

CODES = np.arange(4, dtype=np.uint8)[:, None]
WRITER = """
import sys, numpy as np
from hashlearn.stores import open_store
with open_store(sys.argv[1]) as store:
    store.upsert([10, 11], np.array([[200], [201]], np.uint8), payloads=[{"from": "elsewhere"}, None])
    store.delete([0])
    print("written", len(store), flush=True)
"""
HOLDER = """
import sys
from hashlearn.stores import open_store
with open_store(sys.argv[1]) as store:
    print("open", len(store), flush=True)
    sys.stdin.readline()
"""
LOCKER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
"""


def run(program: str, uri: str) -> subprocess.CompletedProcess:
    return run_forked([sys.executable, "-c", program, uri], capture_output=True, text=True, timeout=120)


def test_a_reader_sees_what_another_process_has_written(make, uri, kind):
    """Where the engine lets in one process at a time, the other gets a line that says so."""
    store = make(8)
    store.upsert(range(4), CODES)
    if kind in ("duckdb", "milvus"):
        outcome = run(WRITER, uri)
        assert outcome.returncode == 1
        assert "ConnectionError" in outcome.stderr.splitlines()[-1]
        assert "another process" in outcome.stderr.splitlines()[-1]
        store.close()
    outcome = run(WRITER, uri)
    assert outcome.stdout.split() == ["written", "5"], outcome.stderr
    reader = make(8) if kind in ("duckdb", "milvus") else store
    assert len(reader) == 5
    assert reader.search(np.array([[200]], np.uint8), k=1).ids.tolist() == [[10]]
    assert reader.get([0, 10])[0].payload == {"from": "elsewhere"}


def test_several_writers_at_once_lose_nothing(make, uri):
    """Each with a store of its own, as the workers of a cluster have it; some delete and compact meanwhile."""
    make(8).close()

    def write(worker: int) -> None:
        with open_store(uri) as store:
            for first in range(100 * worker, 100 * worker + 100, 20):
                store.upsert(range(first, first + 20), np.full((20, 1), worker, np.uint8))
                store.delete([first])
            store.keep_note(f"worker {worker}", "done")
            store.compact()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    with open_store(uri) as store:
        ids = sorted(id for block in store.scan() for id in block.ids.tolist())
        assert ids == [id for id in range(300) if id % 20]
        assert [store.note(f"worker {worker}") for worker in range(3)] == ["done"] * 3
        assert store.within(np.array([[2]], np.uint8), 0).ids.tolist() == [id for id in range(200, 300) if id % 20]


def test_writers_of_the_same_ids_leave_one_row_of_each(make, uri):
    make(8).close()

    def write(worker: int) -> None:
        with open_store(uri) as store:
            store.upsert(range(50), np.full((50, 1), worker, np.uint8))
            store.keep_note("last", f"{worker}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    with open_store(uri) as store:
        assert len(store) == 50
        assert sorted(id for block in store.scan() for id in block.ids.tolist()) == list(range(50))
        assert store.note("last") in "0123"


def test_a_store_that_another_process_holds_open(make, uri, kind):
    make(8).close()
    holder = ForkedPython([sys.executable, "-c", HOLDER, uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "open 0\n"
        if kind in ("duckdb", "milvus"):
            with pytest.raises(ConnectionError, match="another process") as caught:
                open_store(uri)
            assert "\n" not in str(caught.value)
        else:
            with open_store(uri) as store:
                store.upsert(range(4), CODES)
                assert len(store) == 4
    finally:
        holder.communicate("\n", timeout=60)


def test_a_locked_sqlite_file_gets_a_line_and_is_not_changed(tmp_path, monkeypatch):
    monkeypatch.setattr("hashlearn.stores.sqlite.BUSY_SECONDS", 0.2)
    path = tmp_path / "codes.db"
    with open_store(f"sqlite://{path}", 8, create=True) as store:
        store.upsert(range(4), CODES)
        other = ForkedPython(
            [sys.executable, "-c", LOCKER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert other.stdout.readline() == "locked\n"
        for write in (lambda: store.upsert([9], CODES[:1]), lambda: store.delete([1])):
            with pytest.raises(ConnectionError, match="is locked by another process") as caught:
                write()
            assert "\n" not in str(caught.value)
        assert len(store) == 4  # readers do not wait
        other.communicate("\n", timeout=60)
        store.upsert([9], CODES[:1])
        assert len(store) == 5


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"], indirect=True)
def test_a_file_opened_for_reading_only(make, uri):
    with make(8) as store:
        store.upsert(range(4), CODES)
    with open_store(f"{uri}?mode=ro") as store, open_store(f"{uri}?mode=ro") as second:
        assert store.search(CODES[:1], k=1).ids.tolist() == second.search(CODES[:1], k=1).ids.tolist() == [[0]]
        for write in (
            lambda: store.upsert([9], CODES[:1]),
            lambda: store.delete([1]),
            lambda: store.keep_note("a", "b"),
        ):
            with pytest.raises(ValueError, match="cannot be written") as caught:
                write()
            assert "\n" not in str(caught.value)
        assert len(store) == 4


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_server_that_is_read_only(make, uri):
    with make(8) as store:
        store.upsert(range(4), CODES)
    with open_store(f"{uri}&options=-c%20default_transaction_read_only%3Don") as store:
        assert store.search(CODES[:1], k=1).ids.tolist() == [[0]]
        for write in (lambda: store.upsert([9], CODES[:1]), lambda: store.delete([1])):
            with pytest.raises(ValueError, match="cannot be written") as caught:
                write()
            assert "\n" not in str(caught.value)
        assert len(store) == 4


@pytest.fixture
def readable_folder():
    """A folder that everybody may read, and a user who may not write to it."""
    if not hasattr(os, "seteuid"):
        pytest.skip("needs users of a Unix system")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


@pytest.mark.parametrize("kind", ["lance", "sqlite", "duckdb"], indirect=True)
def test_files_that_belong_to_somebody_else(kind, readable_folder):
    uri = f"{kind}://{readable_folder}/codes"
    pytest.importorskip({"lance": "lancedb", "sqlite": "sqlite_vec", "duckdb": "duckdb"}[kind])
    with open_store(uri, 8, create=True) as store:
        store.upsert(range(4), CODES)
    paths = [readable_folder, *readable_folder.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(65534)
        with pytest.raises((ValueError, ConnectionError)) as caught, open_store(uri) as store:
            store.upsert([9], CODES[:1])
        assert "\n" not in str(caught.value)
        assert uri in str(caught.value)
    finally:
        if is_root:
            os.seteuid(0)
        for path in paths:
            path.chmod(0o755)
    with open_store(uri) as store:
        assert len(store) == 4
