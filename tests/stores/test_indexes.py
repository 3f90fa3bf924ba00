"""Approximate indexes are used on request only, and threads may share a store."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hashlearn.codes import pack
from hashlearn.stores import open_store


def clustered_codes(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    centers = rng.integers(0, 2, (20, 64))
    return pack(centers[rng.integers(0, 20, n)] ^ (rng.random((n, 64)) < 0.05))


@pytest.mark.parametrize(("kind", "index"), [("postgresql", "hnsw"), ("lance", "ivf")], indirect=["kind"])
def test_an_index_on_request_finds_most_neighbors_in_order(make, uri, index):
    codes = clustered_codes(2000)
    payloads = [{"even": number % 2 == 0} for number in range(2000)]
    with make(64) as store:
        store.upsert(range(2000), codes, payloads=payloads)
        exact = store.search(codes[:50], k=10)
    with open_store(uri, index=index) as store:
        assert not store.exact
        found = store.search(codes[:50], k=10)
        even = store.search(codes[:50], k=10, filter={"even": True}).ids
    recall = np.mean(found.distances <= exact.distances[:, -1:])
    assert recall > 0.8
    assert np.all(np.diff(found.distances, axis=1) >= 0)
    assert np.all(even % 2 == 0)
    with open_store(uri) as store:  # without asking, the index is not used
        assert store.exact
        again = store.search(codes[:50], k=10)
    assert np.array_equal(again.ids, exact.ids)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_postgresql_does_use_the_index(make, uri):
    with make(64) as store:
        store.upsert(range(500), clustered_codes(500))
    with open_store(uri, index="hnsw") as store:
        engine = store._engine
        scans = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = ?"
        store.search(clustered_codes(3), k=3)
        engine.rows("SELECT pg_stat_force_next_flush()", [])
        assert engine.rows(scans, [f"{engine.table}_hnsw"])[0][0] == 3


@pytest.mark.parametrize(
    ("kind", "index", "offered"),
    [
        ("sqlite", "hnsw", "it searches exactly"),
        ("duckdb", "ivf", "it searches exactly"),
        ("lance", "hnsw", "'ivf'"),
        ("milvus", "ivf", "Milvus Lite, which only searches exactly"),
    ],
    indirect=["kind"],
)
def test_an_index_that_a_store_does_not_have(make, uri, index, offered):
    make(8).close()
    with pytest.raises(ValueError, match="index must be") as caught:
        open_store(uri, index=index)
    assert offered in str(caught.value)


def test_threads_share_a_store(make):
    """Readers and a writer at once: an answer is that of before or after a write."""
    codes = clustered_codes(300)
    store = make(64)
    store.upsert(range(200), codes[:200])
    wanted = store.search(codes[:1], k=1).ids.tolist()

    def read(_) -> bool:
        return store.search(codes[:1], k=1).ids.tolist() == wanted and 200 <= len(store) <= 300

    def write(number) -> bool:
        store.upsert([number], codes[number : number + 1])
        return True

    with ThreadPoolExecutor(4) as pool:
        writes = pool.map(write, range(200, 215))
        assert all(pool.map(read, range(40)))
        assert all(writes)
    assert len(store) == 215
