"""Many queries at once: files with what one search finds, on workers that may be lost."""

import os
import signal
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

from hashlearn.index.partitioned import PartitionedIndex
from hashlearn.search.bulk import near_pairs, search_in_bulk

distributed = pytest.importorskip("distributed")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """An index of rows in clusters, 100 of them copies with a little noise, its vectors, and queries."""
    folder, rng = tmp_path_factory.mktemp("bulk"), np.random.default_rng(0)
    centers = rng.standard_normal((40, 16))
    X = (centers[rng.integers(0, 40, 3000)] + 0.5 * rng.standard_normal((3000, 16))).astype(np.float32)
    X[:100] = X[1000:1100] + 1e-3 * rng.standard_normal((100, 16))
    Q = (centers[rng.integers(0, 40, 500)] + 0.5 * rng.standard_normal((500, 16))).astype(np.float32)
    np.save(folder / "rows.npy", X)
    np.save(folder / "queries.npy", Q)
    PartitionedIndex(32, n_lists=40, random_state=0).fit(X).add(X).tune(X).save(folder / "lists.hll")
    return folder


def read(parts):
    tables = [parquet.read_table(part) for part in parts]
    return [np.concatenate([table[name].to_numpy() for table in tables]) for name in ("query", "row", "distance")]


def test_the_files_have_what_one_search_finds_and_a_lost_worker_costs_time_only(files, tmp_path):
    arguments = {"queries": files / "queries.npy", "k": 4, "recall": 0.9, "queries_per_task": 20}
    index, X = PartitionedIndex.open(files / "lists.hll"), np.load(files / "rows.npy")
    found = index.search(np.load(files / "queries.npy"), 4, recall=0.9, vectors=X)
    with losing_a_worker(tmp_path) as client:
        parts = search_in_bulk(files / "lists.hll", files / "rows.npy", tmp_path, client=client, **arguments)
    assert len(parts) == 25
    query, row, distance = read(parts)
    order = np.argsort(query, kind="stable")
    np.testing.assert_array_equal(query[order], np.repeat(np.arange(500), 4))
    np.testing.assert_array_equal(row[order].reshape(500, 4), found.ids)
    np.testing.assert_array_equal(distance[order].reshape(500, 4), found.distances)


@contextmanager
def losing_a_worker(folder):
    """A cluster of two workers, one of which is killed once there are files in the folder."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers,
        distributed.Client(workers) as client,
    ):
        first = next(iter(client.run(os.getpid).values()))
        killer = threading.Thread(target=kill_when_parts_come, args=(first, folder))
        killer.start()
        yield client
        killer.join()


def kill_when_parts_come(pid, folder):
    while not list(folder.glob("part-*")):
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)


def test_all_near_pairs_are_found_once_and_parts_are_kept(files, tmp_path):
    arguments = {"k": 5, "max_distance": 0.01, "queries_per_task": 700}
    parts = search_in_bulk(files / "lists.hll", files / "rows.npy", tmp_path, **arguments)
    pairs, distances = near_pairs(parts)
    np.testing.assert_array_equal(pairs, np.stack([np.arange(100), np.arange(1000, 1100)], axis=1))
    assert (distances <= 0.01).all()
    written = [part.stat().st_mtime_ns for part in parts]
    parts[1].unlink()
    assert search_in_bulk(files / "lists.hll", files / "rows.npy", tmp_path, **arguments) == parts
    again = [part.stat().st_mtime_ns for part in parts]
    assert [old == new for old, new in zip(written, again)] == [True, False, True, True, True]
    np.testing.assert_array_equal(near_pairs(parts)[0], pairs)
    with pytest.raises(ValueError, match="has parts of another search"):
        search_in_bulk(files / "lists.hll", files / "rows.npy", tmp_path, **{**arguments, "k": 6})


def test_near_pairs_are_those_of_one_machine_where_a_worker_is_lost(files, tmp_path):
    arguments = {"k": 5, "max_distance": 0.3, "queries_per_task": 100}
    alone = near_pairs(search_in_bulk(files / "lists.hll", files / "rows.npy", tmp_path / "alone", **arguments))
    folder = tmp_path / "cluster"
    with losing_a_worker(folder) as client:
        parts = search_in_bulk(files / "lists.hll", files / "rows.npy", folder, client=client, **arguments)
    assert len(parts) == 30
    pairs, distances = near_pairs(parts)
    assert len(pairs) >= 100
    np.testing.assert_array_equal(pairs, alone[0])
    np.testing.assert_array_equal(distances, alone[1])


def test_an_index_that_was_not_tuned_is_refused_before_anything_is_written(files, tmp_path):
    X = np.load(files / "rows.npy")
    PartitionedIndex(16, n_lists=9, random_state=0).fit(X).add(X).save(tmp_path / "lists.hll")
    with pytest.raises(ValueError, match="call tune"):
        search_in_bulk(tmp_path / "lists.hll", files / "rows.npy", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_that_were_written_again_are_another_search(files, tmp_path):
    X = np.load(files / "rows.npy")
    for name in ("rows.npy", "lists.hll"):
        (tmp_path / name).write_bytes((files / name).read_bytes())
    arguments = {"k": 3, "max_distance": 0.01}
    first = search_in_bulk(tmp_path / "lists.hll", tmp_path / "rows.npy", tmp_path / "out", **arguments)
    assert len(near_pairs(first)[0]) == 100
    X[:50] += 10
    np.save(tmp_path / "rows.npy", X)
    with pytest.raises(ValueError, match="has parts of another search"):
        search_in_bulk(tmp_path / "lists.hll", tmp_path / "rows.npy", tmp_path / "out", **arguments)
    PartitionedIndex(32, n_lists=40, random_state=0).fit(X).add(X).tune(X).save(tmp_path / "lists.hll")
    again = search_in_bulk(tmp_path / "lists.hll", tmp_path / "rows.npy", tmp_path / "new", **arguments)
    assert len(near_pairs(again)[0]) == 50
