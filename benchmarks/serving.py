"""The HTTP API under load: requests a second, p50 and p99, beside an echo and beside faiss behind the same endpoint.

    python benchmarks/serving.py                     # a million codes; three minutes
    python benchmarks/serving.py --n 100000 --seconds 1

Each contender is a server process of its own on loopback, and one more process asks (``load.py``): 1, 8 and 64 clients
that each send the next request when the last one is answered. The contenders take turns, so that what else the machine
does hits all alike; numbers are medians of the rounds, and ratios medians of the ratios within a round.

- ``hashlearn``: ``POST /v1/search`` by one vector, k=10, ordered by codes.
- ``hashlearn, lists``: the same without ``rerank``: looked for in lists, and ordered by vectors of int8 on disk.
- ``hashlearn, lists, not watched``: the same by a server that measures no recall (``--recall-share 0``).
- ``faiss``: the same endpoint and hasher; ``IndexBinaryFlat`` finds the codes.
- ``echo``: a bare FastAPI application that reads the same body into the same model, and returns an answer of the same
  size.

A run adds one line to ``results/serving.jsonl``.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from load import prepared
from machine import one_thread
from runs import add_out_option, append_run

from hashlearn.codes.results import Neighbors

N_BITS, WIDTH, K, N_CENTERS, NOISE = 64, 128, 10, 10_000, 0.5
BLOCK = 50_000
CLIENTS = (1, 8, 64)
PATIENCE = 600
"""Seconds of a request: a machine that is stopped for a while is no fault of the server."""
ANSWER = {"results": [{"ids": list(range(900_000, 900_000 + K)), "distances": [10.0] * K, "payloads": [{}] * K}]}
HERE = Path(__file__)


def main() -> None:
    options = parse()
    if options.serve:
        serve(options.serve, Path(options.folder), options.port)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(options.folder or name)
        if not (folder / "search").exists():
            make_search(folder, options.n)
        write_requests(folder)
        rounds = measure(folder, options.rounds, options.seconds)
    lines = [medians(same) for same in zip(*rounds)]
    for line in lines:
        times = f"p50 {line['p50_ms']:7.2f} ms  p99 {line['p99_ms']:7.2f} ms"
        print(f"{line['contender']:18} {line['clients']:3} clients {line['per_second']:8.0f}/s  {times}")
    run = {"n": options.n, "n_bits": N_BITS, "n_features": WIDTH, "k": K}
    run |= {"rounds": options.rounds, "seconds": options.seconds, "servers": lines}
    print(append_run(options.out, "serving", {**run, "ratios": medians([ratios(lines) for lines in rounds])}))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=lambda text: int(float(text)), default=1_000_000, help="codes")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each contender")
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help="where the search is, or is made; left out: a temporary folder")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    add_out_option(parser)
    return parser.parse_args()


def vectors(n: int, seed: int) -> np.ndarray:
    """Clusters of Gaussians; the centers are the same for every seed."""
    centers = np.random.default_rng(0).standard_normal((N_CENTERS, WIDTH), dtype=np.float32)
    rng = np.random.default_rng(seed)
    return centers[rng.integers(0, N_CENTERS, n)] + NOISE * rng.standard_normal((n, WIDTH), dtype=np.float32)


def make_search(folder: Path, n: int, **options: Any) -> None:
    from hashlearn import ITQ, SimilaritySearch

    search = SimilaritySearch(ITQ(n_bits=N_BITS, random_state=0), keep_vectors="int8", **options)
    search.fit(vectors(20_000, 1))
    for start in range(0, n, BLOCK):
        search.add(vectors(min(BLOCK, n - start), 2 + start))
    search.save(folder / "search")


def write_requests(folder: Path) -> None:
    """Files of prepared requests: the same queries, ordered by codes or as the search is set up for."""
    queries = [[round(float(value), 6) for value in query] for query in vectors(1000, 1_000_001)]
    for name, options in (("codes", {"rerank": "codes"}), ("vectors", {})):
        bodies = [json.dumps({"vector": query, "k": K, **options}).encode() for query in queries]
        (folder / f"{name}.hex").write_text("\n".join(request.hex() for request in prepared("/v1/search", bodies)))


CONTENDERS = {
    "hashlearn": ("hashlearn", "codes"),
    "hashlearn, lists": ("hashlearn", "vectors"),
    "hashlearn, lists, not watched": ("not watched", "vectors"),
    "faiss": ("faiss", "codes"),
    "echo": ("echo", "codes"),
}


def measure(folder: Path, n_rounds: int, seconds: float) -> list[list[dict[str, Any]]]:
    """For each round, a line for each contender and number of clients."""
    rounds: list[list[dict[str, Any]]] = [[] for _ in range(n_rounds)]
    with ExitStack() as stack:
        ports = {name: stack.enter_context(running(name, folder)) for name in dict(CONTENDERS.values())}
        for n_clients, lines in itertools.product(CLIENTS, rounds):
            for name, (server, requests) in CONTENDERS.items():
                command = [sys.executable, HERE.with_name("load.py"), folder / f"{requests}.hex"]
                command += ["--port", ports[server], "--clients", n_clients, "--seconds", seconds]
                done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
                lines.append({"contender": name, **json.loads(done.stdout)})
    return rounds


def medians(same: Sequence[Any]) -> Any:
    """The median of numbers, also within dicts with the same keys; what is no number is the same in all."""
    first = same[0]
    if isinstance(first, dict):
        return {name: medians([each[name] for each in same]) for name in first}
    return first if isinstance(first, str) else statistics.median(same)


def ratios(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Throughput and p99 against the echo's with as many clients."""
    echo = {line["clients"]: line for line in lines if line["contender"] == "echo"}
    return {
        f"{line['contender']}, {line['clients']} clients": {
            "throughput": line["per_second"] / echo[line["clients"]]["per_second"],
            "p99": line["p99_ms"] / echo[line["clients"]]["p99_ms"],
        }
        for line in lines
        if line["contender"] != "echo"
    }


@contextmanager
def running(name: str, folder: Path) -> Iterator[int]:
    """A server that is ready, and its port."""
    port = free_port()
    command = [sys.executable, str(HERE), "--serve", name, "--folder", str(folder), "--port", str(port)]
    # Requests have threads of their own; further ones of a library would only be in their way.
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, **one_thread()})
    try:
        wait_until_ready(port, process)
        yield port
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    from hashlearn.server.run import bind

    with bind("127.0.0.1", 0) as listening:
        return listening.getsockname()[1]


def wait_until_ready(port: int, process: subprocess.Popen) -> None:
    while process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise RuntimeError("the server ended before it was ready")


def serve(name: str, folder: Path, port: int) -> None:
    """Run a contender; this is what a server process does."""
    from hashlearn import SimilaritySearch
    from hashlearn.server import Settings, create_app
    from hashlearn.server.run import run_server

    if name == "echo":
        run_server(echo_app(), port=port)
        return
    share = 0 if name in ("faiss", "not watched") else Settings.recall_share
    settings = Settings(timeout_seconds=PATIENCE, recall_share=share)
    if name == "several":  # a folder of searches
        run_server(create_app([folder / "search"], settings), port=port)
        return
    search = SimilaritySearch.open(folder / "search")
    run_server(create_app(FaissSearch(search) if name == "faiss" else search, settings), port=port)


def echo_app():
    """FastAPI as everybody writes it: no limits, no log, no metrics."""
    from fastapi import FastAPI

    from hashlearn.server import Settings
    from hashlearn.server.models import SearchRequest, SearchResponse

    app = FastAPI()
    app.state.workers = SimpleNamespace(settings=Settings(), give_up=lambda: None)

    @app.get("/readyz")
    async def readyz() -> str:
        return "ready"

    @app.post("/v1/search")
    async def search(body: SearchRequest) -> SearchResponse:
        return ANSWER  # type: ignore[return-value]

    return app


class FaissSearch:
    """A similarity search whose codes are found by faiss."""

    def __init__(self, search: Any):
        import faiss

        self.inner = search
        self.flat = faiss.IndexBinaryFlat(search.n_bits)
        for start in range(0, len(search), BLOCK):
            self.flat.add(np.array([record.code for record in search.get(range(start, start + BLOCK))]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __len__(self) -> int:
        return len(self.inner)

    def search(self, X: np.ndarray, k: int, rerank: str) -> Neighbors:
        return Neighbors(*self.flat.search(self.inner.encode(X), k))


if __name__ == "__main__":
    main()
