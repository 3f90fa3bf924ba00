"""Sixteen clients search, write and remove for a long time: errors, wrong answers, and the memory of the server.

    python benchmarks/soak.py                        # 100,000 requests over 5 searches, then 100 kills
    python benchmarks/soak.py --requests 2000 --kills 2
    python benchmarks/soak.py --requests 0 --kills 20 --folder kept/    # only kills; repeat it to go on where it ended

Each client writes and removes rows of its own in one of the searches, and keeps a log of what it was answered. A search
for one of its vectors, for the words of a row, or with a filter that only this row meets, must find the row that the
log says, with the payload that it has there, and must not find it if it was removed. At the end every row is read and
compared with the log.

Then the server is killed (SIGKILL) under the same load, again and again. After each kill every row is read from the
folder: it must be as its client was told, or, for the one write that a client was waiting for, as it was to be. What is
there is what the next server must answer; after the last kill every row is also read from a server.

Each of the two parts adds one line to ``results/soak.jsonl``.
"""

import argparse
import json
import random
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from runs import add_out_option, append_run
from serving import HERE, PATIENCE, WIDTH, make_search, running

from hashlearn import SimilaritySearch

N_CLIENTS = 16
N_IDS = 200
N_SEARCHES = 5
LOGS = "logs.json"


class Client(threading.Thread):
    """Asks, and compares the answers with what it knows."""

    def __init__(self, number: int, port: int, n_requests: int):
        super().__init__()
        self.search_name = f"s{number % N_SEARCHES}"
        self.ids = range(10_000_000 + N_IDS * number, 10_000_000 + N_IDS * (number + 1))
        self.random = random.Random(number)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}/v1/{self.search_name}", timeout=PATIENCE)
        self.n_requests = n_requests
        self.log: dict[int, int] = {}
        """Version of each row that is there."""
        self.unanswered: dict[int, int | None] = {}
        """What a write was to make of a row, while there is no answer."""
        self.errors: list[str] = []
        self.wrong: list[str] = []
        self.n_done = 0
        self.is_to_be_killed = False

    def run(self) -> None:
        while self.n_done < self.n_requests:
            id = self.random.choice(self.ids)
            actions = self.search, self.filtered, self.by_words, self.write, self.remove
            action = self.random.choices(actions, (4, 1, 1, 3, 1))[0]
            try:
                action(id)
            except (httpx.HTTPError, KeyError, ValueError) as error:
                if self.is_to_be_killed and isinstance(error, httpx.TransportError):
                    return
                self.errors.append(f"{action.__name__} {id}: {error!r}")
            self.n_done += 1

    def search(self, id: int) -> None:
        self._check(id, {"vector": vector_of(id, self.log.get(id, 0)), "rerank": "vectors"})

    def filtered(self, id: int) -> None:
        version = self.log.get(id, 0)
        self._check(id, {"vector": vector_of(id, version), "filter": {"version": version}})

    def by_words(self, id: int) -> None:
        self._check(id, {"text": f"w{self.log.get(id, 0)}", "by": "words"})

    def _check(self, id: int, body: dict[str, Any]) -> None:
        """Search, and compare the answer with the log."""
        version = self.log.get(id)
        response = self.http.post("/search", json={"k": 1, **body}).raise_for_status()
        (found,) = response.json()["results"]
        if (found["ids"] == [id]) != (version is not None):
            self.wrong.append(f"search {id}: {found}, version {version}, {list(body)}")
        elif version is not None and found["payloads"] != [payload_of(version)]:
            self.wrong.append(f"payload {id}: {found}, version {version}")

    def write(self, id: int) -> None:
        version = self.random.randrange(1, 10**9)
        point = {"id": id, "vector": vector_of(id, version), "payload": payload_of(version)}
        self.unanswered[id] = version
        self.http.put("/points", json={"points": [point]}).raise_for_status()
        self.log[id] = version
        del self.unanswered[id]

    def remove(self, id: int) -> None:
        self.unanswered[id] = None
        status = self.http.delete(f"/points/{id}").status_code
        if status != (204 if id in self.log else 404):
            self.wrong.append(f"remove {id}: {status}")
        self.log.pop(id, None)
        del self.unanswered[id]

    def check_all(self) -> None:
        """Compare every row that the server has with the log."""
        responses = {id: self.http.get(f"/points/{id}") for id in self.ids}
        self.compare({id: response.json()["payload"] for id, response in responses.items() if response.is_success})

    def check_folder(self, search: SimilaritySearch) -> None:
        """Compare every row that was saved with the log, and go on from there."""
        self.compare({record.id: record.payload for record in search.get(self.ids)})

    def compare(self, payloads: dict[int, dict[str, Any]]) -> None:
        versions = {id: payload["version"] for id, payload in payloads.items()}
        for id in self.ids:
            known, version = self.log.get(id), versions.get(id)
            if version not in (known, self.unanswered.get(id, known)):
                self.wrong.append(f"at the end {id}: {version}, not {known}")
        self.log = versions
        self.unanswered.clear()


def payload_of(version: int) -> dict[str, Any]:
    return {"version": version, "text": f"w{version} of a row"}


def vector_of(id: int, version: int) -> list[float]:
    """A vector that no other row has, far from the rows that were there before."""
    return np.round(10 * np.random.default_rng([id, version]).standard_normal(WIDTH), 3).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--n", type=int, default=20_000, help="rows that each search has before")
    parser.add_argument("--folder", type=Path, help="where the searches and the clients' logs are kept")
    add_out_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        if not (folder / "search").is_dir():
            make_searches(folder, options.n)
        logs = read_logs(folder)
        if options.requests:
            with running("several", folder) as port:
                clients = [Client(number, port, options.requests // N_CLIENTS) for number in range(N_CLIENTS)]
                measured = soak(port, clients)
            logs = [client.log for client in clients]
            print(
                append_run(
                    options.out,
                    "soak",
                    {"n": options.n, "searches": N_SEARCHES, "clients": N_CLIENTS, "soak": measured},
                ),
                measured,
            )
        if options.kills:
            killed, logs = kill_again_and_again(folder, options.kills, logs)
            print(
                append_run(
                    options.out,
                    "soak",
                    {"n": options.n, "searches": N_SEARCHES, "clients": N_CLIENTS, "killed": killed},
                ),
                killed,
            )
        (folder / LOGS).write_text(json.dumps(logs))


def read_logs(folder: Path) -> list[dict[int, int]]:
    """What the clients of an earlier run were told last, or nothing."""
    if not (folder / LOGS).is_file():
        return [{} for _ in range(N_CLIENTS)]
    return [{int(id): version for id, version in log.items()} for log in json.loads((folder / LOGS).read_text())]


def make_searches(folder: Path, n: int) -> None:
    """A folder with the searches."""
    folder.mkdir(exist_ok=True)
    make_search(folder, n, text_field="text")
    (folder / "search").rename(folder / "s0")
    (folder / "search").mkdir()
    for number in range(N_SEARCHES):
        shutil.copytree(folder / "s0", folder / "search" / f"s{number}")
    shutil.rmtree(folder / "s0")


def soak(port: int, clients: list[Client]) -> dict[str, Any]:
    """Errors, wrong answers, and megabytes of the server: when it has been filled, and at each tenth of them."""
    server = server_process(port)
    start = time.perf_counter()
    n_requests = sum(client.n_requests for client in clients)
    for client in clients:
        client.start()
    while sum(len(client.log) for client in clients) < N_CLIENTS * N_IDS // 2 and any(c.is_alive() for c in clients):
        time.sleep(0.1)  # until about as many rows are there as will ever be
    megabytes = [server.memory_info().rss / 1e6]
    while any(client.is_alive() for client in clients):
        time.sleep(0.1)
        if sum(client.n_done for client in clients) >= n_requests * len(megabytes) / 10:
            megabytes.append(server.memory_info().rss / 1e6)
    seconds = time.perf_counter() - start
    megabytes.append(server.memory_info().rss / 1e6)
    for client in clients:
        client.check_all()
    return {"requests": n_requests, "seconds": seconds, **counted(clients), "megabytes": megabytes}


def kill_again_and_again(
    folder: Path, n_kills: int, logs: list[dict[int, int]]
) -> tuple[dict[str, Any], list[dict[int, int]]]:
    """Writes that were lost, and seconds from a start to a server that is ready; and the logs after the last kill."""
    seconds, n_requests = [], 0
    moments = random.Random(sum(len(log) for log in logs))
    for kill in range(n_kills + 1):  # the last start is to look
        start = time.perf_counter()
        with running("several", folder) as port:
            seconds.append(time.perf_counter() - start)
            clients = [Client(number, port, 10**9) for number in range(N_CLIENTS)]
            for client, log in zip(clients, logs):
                client.log, client.is_to_be_killed = log, True
                client.random.seed(moments.random())
            if kill == n_kills:
                for client in clients:
                    client.check_all()
                break
            for client in clients:
                client.start()
            time.sleep(0.2 + 2 * moments.random())
            server_process(port).kill()
            for client in clients:
                client.join()
        saved = {name: SimilaritySearch.open(folder / "search" / name) for name in {c.search_name for c in clients}}
        for client in clients:
            client.check_folder(saved[client.search_name])
        n_requests += sum(client.n_done for client in clients)
        logs = [client.log for client in clients]
        print(f"kill {kill + 1}: ready after {seconds[-1]:.1f} s, {n_requests} requests so far", flush=True)
        if any(client.errors or client.wrong for client in clients):
            n_kills = kill + 1
            break
    return {"kills": n_kills, "requests": n_requests, "seconds_to_ready": seconds, **counted(clients)}, logs


def counted(clients: list[Client]) -> dict[str, Any]:
    """How many errors and wrong answers, and the first of them."""
    errors = [error for client in clients for error in client.errors]
    wrong = [answer for client in clients for answer in client.wrong]
    return {"errors": len(errors), "wrong": len(wrong), "first": (errors + wrong)[:3]}


def server_process(port: int) -> psutil.Process:
    """The process that ``running`` has started."""
    for process in psutil.Process().children():
        if str(HERE) in process.cmdline() and str(port) in process.cmdline():
            return process
    raise RuntimeError("the server is gone")


if __name__ == "__main__":
    main()
