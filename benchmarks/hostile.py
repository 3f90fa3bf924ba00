"""Eight plain clients beside three hostile ones: how much longer they wait, and how soon SIGTERM ends the server.

    python benchmarks/hostile.py                       # every kind, 10 seconds each
    python benchmarks/hostile.py --rows 20000 --seconds 3 --kinds filter unread

For each kind the plain clients are measured alone, then beside three connections that send the hostile request again
and again. Then SIGTERM is sent while they do. A line for each kind is added to ``results/hostile.jsonl``.
"""

import argparse
import asyncio
import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from load import measure, prepared
from runs import add_out_option, append_run
from serving import free_port, wait_until_ready

from hashlearn import LSH, SimilaritySearch

N_HOSTILE, N_PLAIN, WIDTH = 3, 8, 32


def hostile_requests() -> dict[str, bytes]:
    """Name -> a whole request."""
    vector = "[" + ",".join(["0.5"] * WIDTH) + "]"
    tests = ",".join(f'{{"name":{{"$gt":"{number}"}}}}' for number in range(500))
    values = ",".join(map(str, range(99_000)))
    too_many = ",".join(map(str, range(1_500_000)))
    bodies = {
        "filter": f'{{"vector":{vector},"filter":{{"$or":[{tests}]}}}}',
        "values": f'{{"vector":{vector},"filter":{{"number":{{"$in":[{values}]}}}}}}',
        "too many values": f'{{"vector":{vector},"filter":{{"number":{{"$in":[{too_many}]}}}}}}',
        "unread": f'{{"k":300,"vectors":[{",".join([vector] * 300)}]}}',
        "queries": f'{{"k":10,"vectors":[{",".join([vector] * 1000)}]}}',
    }
    return {name: prepared("/v1/search", [body.encode()])[0] for name, body in bodies.items()}


def make_search(folder: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, WIDTH)).astype(np.float32)
    search = SimilaritySearch(LSH(n_bits=64, random_state=0), keep_vectors="float32").fit(X[:1000])
    search.add(X, payloads=[{"name": f"row {row}", "number": row} for row in range(n)]).save(folder)


@contextmanager
def attacked(port: int, request: bytes, reads: bool) -> Iterator[None]:
    """Connections that send a request again and again; those that do not read keep their answers waiting."""
    stopped = threading.Event()

    def attack() -> None:
        while not stopped.is_set():
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(request)
                if reads:
                    connection.recv(65536)
                else:
                    stopped.wait(2)

    threads = [threading.Thread(target=attack, daemon=True) for _ in range(N_HOSTILE)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    try:
        yield
    finally:
        stopped.set()


def measured(folder: Path, name: str, request: bytes, seconds: float) -> dict:
    port = free_port()
    command = [sys.executable, "-m", "hashlearn", "serve", str(folder), "--port", str(port), "--timeout", "10"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(port, process)
        rng = np.random.default_rng(1)
        queries = rng.standard_normal((200, WIDTH)).round(4).tolist()
        plain = prepared("/v1/search", [json.dumps({"vector": query, "k": 10}).encode() for query in queries])
        alone = asyncio.run(measure(plain, port, N_PLAIN, seconds))
        with attacked(port, request, reads=name != "unread"):
            beside = asyncio.run(measure(plain, port, N_PLAIN, seconds))
            start = time.perf_counter()
            process.send_signal(signal.SIGTERM)
            status = process.wait(60)
        return {
            "kind": name,
            "p99_ms_alone": alone["p99_ms"],
            "p99_ms_beside": beside["p99_ms"],
            "p99_ratio": beside["p99_ms"] / alone["p99_ms"],
            "errors": beside["errors"],
            "seconds_to_end": time.perf_counter() - start,
            "status": status,
        }
    finally:
        process.kill()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--kinds", nargs="*", choices=list(hostile_requests()), default=list(hostile_requests()))
    add_out_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_search(Path(folder) / "search", options.rows)
        for kind in options.kinds:
            line = measured(Path(folder) / "search", kind, hostile_requests()[kind], options.seconds)
            print(json.dumps(line), flush=True)
            append_run(options.out, "hostile", {"rows": options.rows, **line})


if __name__ == "__main__":
    main()
