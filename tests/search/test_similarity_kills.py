"""Killed at any moment of a change or a save: what was reported as saved is there, and the folder can be read.

``HASHLEARN_KILLS=500 pytest tests/search/test_similarity_kills.py`` kills as often as you like.
"""

import os
import random
import signal
import struct
import time

import numpy as np
import pytest
from replay import HASHER, LAST, after, operation

from hashlearn import SimilaritySearch
from hashlearn.search import search_folder

N_KILLS = int(os.environ.get("HASHLEARN_KILLS", "10"))

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


def change_and_save(folder, first: int, reports: int) -> None:
    """Make one change after the other, save each, and report its number then."""
    search = SimilaritySearch.open(folder)
    rows = dict.fromkeys(search)
    for number in range(first, first + 10_000):
        change = operation(number)
        change.on(search, rows)
        rows = after(rows, change)
        search.save()
        os.write(reports, struct.pack("<q", number))


def killed_run(folder, first: int, n_awaited: int, seconds: float) -> int:
    """The number of the last change that a process reported before it was killed, some time after so many reports."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            change_and_save(folder, first, send)
        finally:
            os._exit(1)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        reported = pipe.read(8 * n_awaited)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        reported += pipe.read()
    return struct.unpack("<q", reported[-8:])[0] if reported else first - 1


def check_holds(search: SimilaritySearch, rows: dict) -> None:
    assert list(search) == sorted(rows)
    records = search.get(sorted(rows))
    assert [record.payload for record in records] == [rows[record.id][1] for record in records]
    X = np.array([rows[record.id][0] for record in records])
    assert np.array_equal([record.code for record in records], HASHER.transform(X))
    if search.keep_vectors:
        assert np.array_equal([record.vector for record in records], X)


@pytest.mark.parametrize("keep_vectors", [None, "float32"])
def test_what_was_reported_as_saved_is_there_after_a_kill(tmp_path, keep_vectors, monkeypatch):
    monkeypatch.setattr(search_folder, "_LEAST_JOURNAL", 4000)  # so that generations are made often, too
    folder, rng = tmp_path / "search", random.Random(0)
    search = SimilaritySearch(HASHER, keep_vectors=keep_vectors)
    first = operation(0)
    first.on(search, {})
    search.save(folder)
    rows, done, n_reported = after({}, first), 0, 0
    n_kills = -(-N_KILLS // 2)
    for _ in range(n_kills):
        reported = killed_run(folder, done + 1, rng.randrange(5), rng.uniform(0, 0.05))
        search = SimilaritySearch.open(folder)
        now = search.get([LAST])[0].payload["operation"]
        assert now in (reported, reported + 1)
        for number in range(done + 1, now + 1):
            rows = after(rows, operation(number))
        check_holds(search, rows)
        n_reported += reported - done
        done = now
    print(f"{n_kills} kills, {n_reported} saves reported, 0 lost, 0 unreadable")
    change = operation(done + 1)
    change.on(search, rows)
    search.save()
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 2
    assert names[1] == "search.json"
