"""Many codes: block by block, with progress, and going on after an interruption."""

import subprocess
import sys

import numpy as np
import pytest
from forked import ForkedPython

from hashlearn.codes import pack
from hashlearn.progress import reporting
from hashlearn.stores import load_codes, open_store


class Interrupted(Exception):
    pass


def random_codes(n: int) -> np.ndarray:
    return pack(np.random.default_rng(0).integers(0, 2, (n, 24)))


def stop_after(store, n_calls: int, monkeypatch) -> None:
    """Let the store fail at the next upsert after so many."""
    upsert, calls = store.upsert, iter(range(n_calls))

    def failing(*arguments):
        if next(calls, None) is None:
            raise Interrupted
        upsert(*arguments)

    monkeypatch.setattr(store, "upsert", failing)


def test_an_array_a_memmap_and_a_file_load_alike(make, tmp_path):
    codes = random_codes(1000)
    np.save(tmp_path / "codes.npy", codes)
    for source in (codes, np.load(tmp_path / "codes.npy", mmap_mode="r"), str(tmp_path / "codes.npy")):
        store = make(24)
        assert load_codes(store, source, block_rows=300) == 0
        assert len(store) == 1000
        assert np.array_equal([record.code for record in store.get(range(1000))], codes)


def test_a_load_goes_on_where_it_was_interrupted(make, monkeypatch):
    codes = random_codes(1000)
    store = make(24)
    with monkeypatch.context() as context:
        stop_after(store, 3, context)
        with pytest.raises(Interrupted):
            load_codes(store, codes, block_rows=200)
    assert len(store) == 600
    assert load_codes(store, codes, block_rows=200) == 600
    assert len(store) == 1000
    assert np.array_equal([record.code for record in store.get(range(1000))], codes)
    assert load_codes(store, codes, block_rows=200) == 0  # a load that has ended begins anew


LOADER = """
import sys, numpy as np
from hashlearn.progress import reporting
from hashlearn.stores import load_codes, loading, open_store
loading.SECONDS_BETWEEN_NOTES = 0
with open_store(sys.argv[1]) as store, reporting(lambda task, done, total: print(done, flush=True)):
    load_codes(store, sys.argv[2], block_rows=100)
"""


def test_a_load_goes_on_after_its_process_was_killed(make, uri, tmp_path):
    codes = random_codes(10_000)
    np.save(tmp_path / "codes.npy", codes)
    make(24).close()
    command = [sys.executable, "-c", LOADER, uri, str(tmp_path / "codes.npy")]
    with ForkedPython(command, stdout=subprocess.PIPE, text=True) as loader:
        for line in loader.stdout:
            if int(line) == 5:
                loader.kill()
                break
    store = make(24)
    assert 500 <= load_codes(store, tmp_path / "codes.npy", block_rows=100) < 10_000
    assert len(store) == 10_000
    sample = np.random.default_rng(0).permutation(10_000)[:500]
    assert np.array_equal([record.code for record in store.get(sample)], codes[sample])


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_other_codes_are_another_job(make, monkeypatch):
    codes = random_codes(1000)
    store = make(24)
    with monkeypatch.context() as context:
        stop_after(store, 3, context)
        with pytest.raises(Interrupted):
            load_codes(store, codes, block_rows=200)
    assert load_codes(store, codes ^ 128, block_rows=200) == 0
    assert load_codes(store, codes, first=900, block_rows=200) == 900
    assert load_codes(store, codes, block_rows=200) == 0  # which the last call has ended


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_stream_of_blocks_goes_on_if_its_job_has_a_name(make, monkeypatch):
    codes = random_codes(1000)
    asked = []

    def blocks(first):
        asked.append(first)
        for start in range(first, 1000, 100):
            yield slice(start, start + 100), codes[start : start + 100]

    store = make(24)
    with monkeypatch.context() as context:
        stop_after(store, 4, context)
        with pytest.raises(Interrupted):
            load_codes(store, blocks, job="vectors of May", block_rows=100)
    load_codes(store, blocks, job="vectors of May", block_rows=100)
    assert asked == [0, 400]
    assert len(store) == 1000


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_small_blocks_are_joined_into_few_writes(make, monkeypatch):
    codes, memory = random_codes(1000), np.empty((30, 3), np.uint8)
    store, written = make(24), []
    upsert = store.upsert
    monkeypatch.setattr(store, "upsert", lambda ids, *rest: (written.append(len(ids)), upsert(ids, *rest)))

    def blocks(first):
        for start in range(first, 1000, 30):
            part = codes[start : start + 30]
            memory[: len(part)] = part
            yield slice(start, start + len(part)), memory[: len(part)]

    load_codes(store, blocks, block_rows=400)
    assert written == [420, 420, 160]
    assert np.array_equal([record.code for record in store.get(range(1000))], codes)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_ids_vectors_and_payloads_are_cut_into_the_same_blocks(make):
    codes, vectors = random_codes(100), np.random.default_rng(1).random((100, 3), np.float32)
    ids = [f"id {number}" for number in range(100)]
    store = make(24, id_type="str", n_features=3)
    load_codes(store, codes, ids, vectors=vectors, payloads=[{"n": n} for n in range(100)], block_rows=30)
    assert np.array_equal(store.vectors(ids), vectors)
    assert [record.payload["n"] for record in store.get(ids)] == list(range(100))


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_progress_counts_blocks(make):
    calls = []
    with reporting(lambda task, done, total: calls.append((task, done, total))):
        load_codes(make(24), random_codes(1000), block_rows=400)
    assert calls == [("load", 0, 3), ("load", 1, 3), ("load", 2, 3), ("load", 3, 3)]


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_what_cannot_be_loaded_gets_one_line(make, tmp_path):
    store = make(24)
    (tmp_path / "text.npy").write_text("no array")
    for arguments, says in (
        ({"codes": np.zeros((3, 2), np.uint8)}, "codes must have shape"),
        ({"codes": np.zeros((3, 3))}, "codes must be packed codes"),
        ({"codes": tmp_path / "text.npy"}, "codes must be an array or an .npy file"),
        ({"codes": random_codes(3), "ids": [1, 2]}, "ids must be as many as the codes, got 2 for 3"),
        ({"codes": random_codes(3), "payloads": [{}]}, "payloads must be as many as the codes"),
        ({"codes": random_codes(3), "block_rows": 0}, "block_rows must be at least 1"),
        ({"codes": random_codes(3), "first": -1}, "first must be at least 0"),
    ):
        with pytest.raises((ValueError, TypeError), match=says):
            load_codes(store, **arguments)
    strings = open_store(f"sqlite://{tmp_path}/strings.db", 24, "str", create=True)
    with strings, pytest.raises(ValueError, match="ids must be given for a store whose ids are strings"):
        load_codes(strings, random_codes(3))
