"""Sixteen clients search, write and remove for a long time: errors, wrong answers, and the memory of the server.

    python benchmarks/soak.py                        # 100,000 requests
    python benchmarks/soak.py --requests 2000        # a minute

Each client writes and removes rows of its own, and keeps a log of what it was answered. A search for one of its vectors
must find the row that the log says, with the payload that it has there, and must not find it if it was removed. At the
end every row is read and compared with the log. A run adds one line to ``results/soak.jsonl``.
"""

import argparse
import random
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import psutil
from runs import add_out_option, append_run
from serving import HERE, WIDTH, make_search, running

N_CLIENTS = 16
N_IDS = 200


class Client(threading.Thread):
    """Asks, and compares the answers with what it knows."""

    def __init__(self, number: int, port: int, n_requests: int):
        super().__init__()
        self.ids = range(10_000_000 + N_IDS * number, 10_000_000 + N_IDS * (number + 1))
        self.random = random.Random(number)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        self.n_requests = n_requests
        self.log: dict[int, int] = {}
        """Version of each row that is there."""
        self.errors: list[str] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        for _ in range(self.n_requests):
            id = self.random.choice(self.ids)
            action = self.random.choices((self.search, self.write, self.remove), (6, 3, 1))[0]
            try:
                action(id)
            except (httpx.HTTPError, KeyError, ValueError) as error:
                self.errors.append(f"{action.__name__} {id}: {error!r}")

    def search(self, id: int) -> None:
        version = self.log.get(id)
        body = {"vector": vector_of(id, version or 0), "k": 1, "rerank": "vectors"}
        response = self.http.post("/v1/search", json=body).raise_for_status()
        (found,) = response.json()["results"]
        if (found["ids"] == [id]) != (version is not None):
            self.wrong.append(f"search {id}: {found}, version {version}")
        elif version is not None and found["payloads"] != [{"version": version}]:
            self.wrong.append(f"payload {id}: {found}, version {version}")

    def write(self, id: int) -> None:
        version = self.random.randrange(1, 10**9)
        point = {"id": id, "vector": vector_of(id, version), "payload": {"version": version}}
        self.http.put("/v1/points", json={"points": [point]}).raise_for_status()
        self.log[id] = version

    def remove(self, id: int) -> None:
        status = self.http.delete(f"/v1/points/{id}").status_code
        if status != (204 if id in self.log else 404):
            self.wrong.append(f"remove {id}: {status}")
        self.log.pop(id, None)

    def check_all(self) -> None:
        """Compare every row with the log."""
        for id in self.ids:
            response = self.http.get(f"/v1/points/{id}")
            version = response.json()["payload"]["version"] if response.status_code == 200 else None
            if version != self.log.get(id):
                self.wrong.append(f"at the end {id}: {version}, not {self.log.get(id)}")


def vector_of(id: int, version: int) -> list[float]:
    """A vector that no other row has, far from the rows that were there before."""
    return np.round(10 * np.random.default_rng([id, version]).standard_normal(WIDTH), 3).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--n", type=int, default=100_000, help="rows that are there before")
    add_out_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        make_search(Path(name), options.n)
        with running("hashlearn", Path(name)) as port:
            measured = soak(port, options.requests)
    print(measured)
    print(append_run(options.out, "soak", {"n": options.n, "clients": N_CLIENTS, **measured}))


def soak(port: int, n_requests: int) -> dict:
    """Errors, wrong answers, and megabytes of the server when it has been filled and at the end."""
    server = server_process(port)
    start = time.perf_counter()
    clients = [Client(number, port, n_requests // N_CLIENTS) for number in range(N_CLIENTS)]
    for client in clients:
        client.start()
    while sum(len(client.log) for client in clients) < N_CLIENTS * N_IDS // 2 and any(c.is_alive() for c in clients):
        time.sleep(0.1)  # until about as many rows are there as will ever be
    before = server.memory_info().rss
    for client in clients:
        client.join()
    seconds = time.perf_counter() - start
    after = server.memory_info().rss
    for client in clients:
        client.check_all()
    errors = [error for client in clients for error in client.errors]
    wrong = [answer for client in clients for answer in client.wrong]
    return {
        "requests": n_requests // N_CLIENTS * N_CLIENTS,
        "seconds": seconds,
        "errors": len(errors),
        "wrong": len(wrong),
        "first": (errors + wrong)[:3],
        "megabytes": [before / 1e6, after / 1e6],
    }


def server_process(port: int) -> psutil.Process:
    """The process that ``running`` has started."""
    for process in psutil.Process().children():
        if str(HERE) in process.cmdline() and str(port) in process.cmdline():
            return process
    raise RuntimeError("the server is gone")


if __name__ == "__main__":
    main()
