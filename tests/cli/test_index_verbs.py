"""``hashlearn index`` and ``hashlearn near-duplicates``."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from forked import ForkedPython

import hashlearn
from hashlearn import HammingIndex
from hashlearn.codes import hamming_distances


@pytest.fixture
def codes(run, folder):
    run("encode", "model", "vectors.npy", "-o", "codes.npy")
    run("encode", "model", "queries.npy", "-o", "query_codes.npy")
    assert run("index", "build", "codes.npy", "-o", "codes.hli").code == 0
    return np.load("codes.npy")


def test_an_index_is_built_grown_searched_and_described(run, codes):
    np.save("ids.npy", np.arange(1000, 1030))
    outcome = run("index", "add", "codes.hli", "query_codes.npy", "--ids", "ids.npy")
    assert outcome.out == "codes.hli: 180 codes of 12 bits, 30 of them new\n"
    assert run("index", "search", "codes.hli", "query_codes.npy", "-k", 3, "-o", "found.npz", "-j", 2).code == 0
    everything = np.concatenate([codes, np.load("query_codes.npy")])
    ids = np.concatenate([np.arange(150), np.arange(1000, 1030)])
    wanted = HammingIndex(12).add(everything, ids).search(everything[150:], 3)
    with np.load("found.npz") as found:
        np.testing.assert_array_equal(found["ids"], wanted.ids)
        np.testing.assert_array_equal(found["distances"], wanted.distances)
    described = run("index", "info", "codes.hli").out.split("\n")
    assert described[0].split() == ["codes", "180"]
    assert described[3].split() == ["ids", "0", "to", "1029"]


def test_a_search_within_a_radius_is_printed_and_written_with_offsets(run, codes):
    result = HammingIndex(12).add(codes).within(np.load("query_codes.npy"), 1)
    printed = run("index", "search", "codes.hli", "query_codes.npy", "--radius", 1).out.split("\n")[:-1]
    wanted = [
        f"{query}\t" + " ".join(f"{i}:{d}" for i, d in zip(hits.ids, hits.distances))
        for query, hits in enumerate(result)
    ]
    assert printed == wanted
    run("index", "search", "codes.hli", "query_codes.npy", "--radius", 1, "-o", "found.npz")
    with np.load("found.npz") as found:
        np.testing.assert_array_equal(found["offsets"], result.offsets)
        np.testing.assert_array_equal(found["ids"], result.ids)


@pytest.mark.parametrize("place", ["codes.npy", "codes.hli"])
def test_near_duplicates_are_all_pairs_within_the_radius(run, codes, place):
    distances = hamming_distances(codes, codes, 12)
    first, second = np.nonzero(np.triu(distances <= 1, 1))
    wanted = {f"{i}\t{j}\t{distances[i, j]}" for i, j in zip(first, second)}
    printed = run("near-duplicates", place, "--radius", 1).out.split("\n")[:-1]
    assert set(printed) == wanted
    assert len(printed) == len(wanted)
    outcome = run("near-duplicates", place, "--radius", 1, "-o", "pairs.tsv")
    assert outcome.out == f"pairs.tsv: {len(wanted)} pairs within 1 of 150 codes\n"
    with open("pairs.tsv") as file:
        assert set(file.read().split("\n")[:-1]) == wanted


def test_problems_are_one_line_and_leave_what_was_there(refused, codes, folder):
    np.save("bare.npy", codes)
    np.save("ids.npy", np.arange(150))
    assert "say --bits" in refused("index", "build", "bare.npy", "-o", "new.hli")
    assert "ids must be new, got 0" in refused("index", "add", "codes.hli", "codes.npy", "--ids", "ids.npy")
    assert "-k must be at most the 150 codes" in refused("index", "search", "codes.hli", "codes.npy", "-k", 151)
    assert "codes.npy: not an index file" in refused("index", "info", "codes.npy")
    assert "No such file" in refused("near-duplicates", "nowhere.npy")
    assert "--out" in refused("index", "build", "codes.npy", "-o", "nowhere/new.hli")
    assert "n_jobs must not be 0" in refused("near-duplicates", "codes.npy", "-j", 0)
    damaged = bytearray((folder / "codes.hli").read_bytes())
    damaged[4096] ^= 1
    (folder / "codes.hli").write_bytes(damaged)
    assert "does not match its checksum" in refused("index", "info", "codes.hli")
    assert "does not match its checksum" in refused("near-duplicates", "codes.hli", "-o", "pairs.tsv")


def test_no_code_is_lost_when_two_add_to_one_index(folder, codes):
    np.save("one.npy", codes[:40])
    np.save("other.npy", codes[40:])
    command = [sys.executable, "-m", "hashlearn", "index", "add", "codes.hli"]
    env = os.environ | {"PYTHONPATH": str(Path(hashlearn.__file__).parents[1])}
    adding = [ForkedPython([*command, name], env=env) for name in ("one.npy", "other.npy")]
    assert [process.wait() for process in adding] == [0] * 2
    index = HammingIndex.open("codes.hli").verify()
    assert len(index) == 2 * 150
    assert sorted(map(bytes, index.codes())) == sorted(map(bytes, [*codes] * 2))
    assert not list(folder.glob(".codes.hli*"))
