"""A server is killed under load: nothing that was answered as written is lost, and what is there is what was written.

``HASHLEARN_KILLS=50 pytest tests/server/test_durability.py`` kills it fifty times.
"""

import os
import random
import threading
import time

import httpx
import numpy as np
from served import Server

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
                    self._write(client, id, wanted)
                except httpx.TransportError:
                    return
                self.known[id] = {wanted}

    def _write(self, client, id, version):
        if version is None:
            status = client.delete(f"/v1/points/{id}").status_code
            assert status in (204, 404), status
            return
        point = {"id": id, "vector": vector_of(version), "payload": {"version": version}}
        response = client.put("/v1/points", json={"points": [point]})
        assert response.status_code == 200, response.text


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
            for writer in writers:
                writer.stopped = True
                writer.join()
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
