"""A server is killed under load: nothing that was answered as written is lost, and what is there is what was written.

``HASHLEARN_KILLS=50 pytest tests/server/test_durability.py`` kills it fifty times.
"""

import os
import random
import sqlite3
import threading
import time
from collections import Counter

import httpx
import numpy as np
from served import Server
from small_disk import needs_mount, run_on_small_disk

from hashlearn import SimilaritySearch

KILLS = int(os.environ.get("HASHLEARN_KILLS", "2"))
N_CLIENTS = 8
SECONDS_OF_LOAD = 1.5


class Writer(threading.Thread):
    """Writes and removes rows of its own, and keeps what it was told."""

    def __init__(self, number, seed, known):
        super().__init__(daemon=True)
        self.ids = range(10_000 + 100 * number, 10_000 + 100 * (number + 1))
        self.random = random.Random(seed)
        self.known = known
        self.n_answered = Counter()
        self.stopped = False

    def start_at(self, url):
        self.url = url
        self.start()

    def run(self):
        with httpx.Client(base_url=self.url, timeout=30) as client:
            while not self.stopped:
                id = self.random.choice(self.ids)
                version = self.random.randrange(10**9)
                before = self.known.get(id, {None})
                wanted = None if self.random.random() < 0.3 else version
                # Until there is an answer, the row may be as it was or as it was to be.
                self.known[id] = before | {wanted}
                try:
                    status = self._write(client, id, wanted)
                except httpx.TransportError:
                    return
                self.n_answered[status] += 1
                # What is refused is not made.
                self.known[id] = before if status == 503 else {wanted}

    def _write(self, client, id, version):
        if version is None:
            return client.delete(f"/v1/points/{id}").status_code
        point = {"id": id, "vector": vector_of(version), "payload": {"version": version}}
        return client.put("/v1/points", json={"points": [point]}).status_code


def wait_for_answers(writers, n=10):
    """Until each writer has n more."""
    wanted = [writer.n_answered.total() + n for writer in writers]
    while any(writer.n_answered.total() < count for writer, count in zip(writers, wanted)):
        time.sleep(0.02)


def answers(writers):
    """End the writers; how often each status was answered."""
    for writer in writers:
        writer.stopped = True
        writer.join()
    return sum((writer.n_answered for writer in writers), Counter())


def vector_of(version):
    return np.random.default_rng(version).integers(0, 16, 64).astype(float).tolist()


def test_nothing_answered_is_lost_when_the_server_is_killed(make_search, tmp_path):
    folder = make_search(tmp_path / "search")
    known: dict[int, set[int | None]] = {}
    for kill in range(KILLS):
        with Server(folder) as server:
            server.ready()
            writers = [Writer(number, 1000 * kill + number, known) for number in range(N_CLIENTS)]
            for writer in writers:
                writer.start_at(server.url)
            time.sleep(SECONDS_OF_LOAD * random.Random(kill).random())
            server.kill()
            assert set(answers(writers)) <= {200, 204, 404}
        check(folder, known)
    assert any(versions != {None} for versions in known.values())


def check(folder, known):
    """Each row is in a state that its writer was told, or was waiting for; the rest is untouched."""
    search = SimilaritySearch.open(folder)
    rows = {record.id: record for record in search.get(sorted(known))}
    for id, versions in known.items():
        version = rows[id].payload["version"] if id in rows else None
        assert version in versions
        if version is not None:
            np.testing.assert_array_equal(rows[id].vector, vector_of(version))
            np.testing.assert_array_equal(
                rows[id].code, search.hasher.transform(np.array([vector_of(version)], "f4"))[0]
            )
        known[id] = {version}
    assert len(search) == 1000 + len(rows)


def test_two_servers_on_one_folder_lose_nothing(make_search, tmp_path):
    """Each takes over what the other has written; one of them is killed while both write."""
    folder = make_search(tmp_path / "search")
    known: dict[int, set[int | None]] = {}
    with Server(folder, "--refresh", "0.1") as left, Server(folder, "--refresh", "0.1") as right:
        servers = left.ready(), right.ready()
        writers = [Writer(number, number, known) for number in range(N_CLIENTS)]
        for number, writer in enumerate(writers):
            writer.start_at(servers[number % 2].url)
        wait_for_answers(writers)
        left.kill()
        wait_for_answers(writers[1::2])
        assert set(answers(writers)) <= {200, 204, 404}
        check(folder, known)
        for id, (version,) in known.items():
            status = right.client.get(f"/v1/points/{id}").status_code
            assert status == (404 if version is None else 200)
    assert any(versions != {None} for versions in known.values())


FULL = """
import os, shutil, sys
from contextlib import suppress
from pathlib import Path
from server.test_durability import N_CLIENTS, Writer, answers, check, wait_for_answers
from served import Server
disk, known, seen = Path(sys.argv[1]), {}, []
shutil.copytree(sys.argv[2], disk / "search")
with Server(disk / "search") as server:
    server.ready()
    for turn, free in enumerate((64, 0)):
        with open(disk / "ballast", "wb", buffering=0) as ballast, suppress(OSError):
            while True:
                ballast.write(b"b" * 4096)
        os.truncate(disk / "ballast", max(0, os.path.getsize(disk / "ballast") - free * 4096))
        writers = [Writer(number, 100 * turn + number, known) for number in range(N_CLIENTS)]
        for writer in writers:
            writer.start_at(server.url)
        wait_for_answers(writers)
        seen.append(answers(writers))
        os.unlink(disk / "ballast")
        check(disk / "search", known)
    writers = [Writer(number, number, known) for number in range(N_CLIENTS)]
    for writer in writers:
        writer.start_at(server.url)
    wait_for_answers(writers)
    after = answers(writers)
check(disk / "search", known)
assert all(set(each) <= {200, 204, 404, 503} for each in seen), seen
assert sum(each[503] for each in seen) > 10, seen
assert after[200] > 10 and not after[503], after
"""


@needs_mount
def test_a_full_disk_under_a_server_refuses_writes_and_makes_none_of_them(make_search, tmp_path):
    (tmp_path / "disk").mkdir()
    run_on_small_disk(4, FULL, tmp_path / "disk", make_search(tmp_path / "search"))


def test_a_write_that_another_program_holds_up_is_given_up_in_its_time(make_search, tmp_path):
    """The catalog waits half a minute for other programs; a request has less, and its thread is wanted by others."""
    folder = make_search(tmp_path / "search")
    with Server(folder, "--timeout", 1) as server:
        server.ready()
        other = sqlite3.connect(folder / "catalog.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        point = {"id": 5000, "vector": [1.0] * 64}
        refused = server.client.put("/v1/points", json={"points": [point]}, timeout=15)
        assert refused.status_code == 503
        assert server.post("/v1/search", {"id": 1}).status_code == 200
        other.execute("ROLLBACK")
        other.close()
        assert server.client.get("/v1/points/5000").status_code == 404
        assert server.put(point).status_code == 200
