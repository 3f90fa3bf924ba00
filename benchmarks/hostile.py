"""Eight plain clients beside three hostile ones: how much longer they wait, and how soon SIGTERM ends the server.

    python benchmarks/hostile.py                       # every kind, 3 turns of 4 seconds each
    python benchmarks/hostile.py --rows 20000 --turns 1 --kinds filter unread

For each kind the plain clients are measured in turns, alone and beside three connections that send the hostile request
again and again; the figures are medians of the turns. Then SIGTERM is sent while they do. A line for each kind is added
to ``results/hostile.jsonl``. "plain" is not hostile: for comparison, three more clients ask what the others ask.
"""

import argparse
import asyncio
import json
import os
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
from statistics import median

import numpy as np
from load import measure, prepared
from runs import add_out_option, append_run
from serving import free_port, wait_until_ready

from hashlearn import LSH, SimilaritySearch

N_HOSTILE, N_PLAIN, WIDTH = 3, 8, 32
NEW = "new00000"
"""Stands in requests for a name that is another one each time."""
BACKSLASH = "\\"


def hostile_requests() -> dict[str, bytes]:
    """Name -> a whole request; the last four may write where the others read."""
    vector = "[" + ",".join(["0.5"] * WIDTH) + "]"
    tests = ",".join(f'{{"name":{{"$gt":"{number}"}}}}' for number in range(500))
    values = ",".join(map(str, range(99_000)))
    too_many = ",".join(map(str, range(1_500_000)))
    unknown = ",".join(f'{{"{NEW}{number}":1}}' for number in range(500))
    bodies = {
        "plain": f'{{"vector":{vector},"k":10}}',
        "filter": f'{{"vector":{vector},"filter":{{"$or":[{tests}]}}}}',
        "unknown fields": f'{{"vector":{vector},"filter":{{"$or":[{unknown}]}}}}',
        "values": f'{{"vector":{vector},"filter":{{"number":{{"$in":[{values}]}}}}}}',
        "too many values": f'{{"vector":{vector},"filter":{{"number":{{"$in":[{too_many}]}}}}}}',
        "unread": f'{{"k":300,"vectors":[{",".join([vector] * 300)}]}}',
        "exact": f'{{"k":10,"recall":1,"vectors":[{",".join([vector] * 100)}]}}',
        "subset": f'{{"vector":{vector},"subset":[{values}]}}',
        "fields": "{" + ",".join(f'"f{number}":1' for number in range(140_000)) + "}",
        "queries": f'{{"k":10,"vectors":[{",".join([vector] * 1000)}]}}',
    }
    strings = ",".join(f'"{number:0100}"' for number in range(99_000))
    bodies |= {
        "base64": f'{{"vector":"{"A" * 10_000_000}"}}',
        "long value": f'{{"vector":{vector},"filter":{{"name":"{"a" * 10_000_000}"}}}}',
        "strings": f'{{"vector":{vector},"filter":{{"name":{{"$in":[{strings}]}}}}}}',
    }
    requests = {name: prepared("/v1/search", [body.encode()])[0] for name, body in bodies.items()}
    form = prepared("/page/query", [b"&" * 15_000_000])[0]
    requests["form"] = form.replace(b"application/json", b"application/x-www-form-urlencoded", 1)
    requests["facets"] = prepared("/v1/points/facets", [b'{"field":"name","limit":1000}'])[0]
    points = {
        "rows": ",".join(f'{{"id":{row},"vector":{vector}}}' for row in range(1000)),
        "payload": f'{{"id":1,"vector":{vector},"payload":{{"a":[{",".join(["[]"] * 100_000)}]}}}}',
        "no rows": ",".join(["{}"] * 140_000),
        "backslashes": f'{{"id":1,"x":1,"vector":{vector},"payload":{{"a":"{"," * 1_000_000}{BACKSLASH * 12_000_000}"}}}}',  # noqa: E501
    }
    for name, listed in points.items():
        written = prepared("/v1/points", [f'{{"points":[{listed}]}}'.encode()])[0]
        requests[name] = written.replace(b"POST", b"PUT", 1)
    return requests


def make_search(folder: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, WIDTH)).astype(np.float32)
    search = SimilaritySearch(LSH(n_bits=64, random_state=0), keep_vectors="float32").fit(X[:1000])
    search.add(X, payloads=[{"name": f"row {row}", "number": row} for row in range(n)]).save(folder)


@contextmanager
def attacked(port: int, kind: str, nice: int) -> Iterator[None]:
    """Another process, whose connections send a request again and again."""
    command = [sys.executable, __file__, "--attack", str(port), "--kinds", kind, "--nice", str(nice)]
    process = subprocess.Popen(command)
    time.sleep(2)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def attack(port: int, kind: str) -> None:
    """What the other process does, until it is killed; who does not read keeps the answer waiting."""
    request = hostile_requests()[kind]

    def again_and_again() -> None:
        while True:
            name = f"{time.monotonic_ns():016x}"[-len(NEW) :]
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(request.replace(NEW.encode(), name.encode()))
                if kind == "unread":
                    time.sleep(2)
                else:
                    connection.recv(65536)

    for _ in range(N_HOSTILE):
        threading.Thread(target=again_and_again).start()


def measured(folder: Path, name: str, n_turns: int, seconds: float, nice: int) -> dict:
    port = free_port()
    command = [sys.executable, "-m", "hashlearn", "serve", str(folder), "--port", str(port), "--timeout", "10"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(port, process)
        rng = np.random.default_rng(1)
        queries = rng.standard_normal((200, WIDTH)).round(4).tolist()
        plain = prepared("/v1/search", [json.dumps({"vector": query, "k": 10}).encode() for query in queries])
        alone, beside = [], []
        for turn in range(n_turns):
            alone.append(asyncio.run(measure(plain, port, N_PLAIN, seconds)))
            with attacked(port, name, nice):
                beside.append(asyncio.run(measure(plain, port, N_PLAIN, seconds)))
                if turn == n_turns - 1:
                    start = time.perf_counter()
                    process.send_signal(signal.SIGTERM)
                    status = process.wait(60)
                    seconds_to_end = time.perf_counter() - start
        return {
            "kind": name,
            "turns": n_turns,
            "p99_ms_alone": median(each["p99_ms"] for each in alone),
            "p99_ms_beside": median(each["p99_ms"] for each in beside),
            "p99_ratio": median(b["p99_ms"] / a["p99_ms"] for a, b in zip(alone, beside)),
            "errors": sum(each["errors"] for each in beside),
            "seconds_to_end": seconds_to_end,
            "status": status,
        }
    finally:
        process.kill()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=4, help="of each turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--kinds", nargs="*", choices=list(hostile_requests()), default=list(hostile_requests()))
    parser.add_argument("--nice", type=int, default=0, help="of the hostile process: how much it steps back")
    parser.add_argument("--folder", type=Path, help="where the search is, or is made; left out: a temporary folder")
    parser.add_argument("--attack", type=int, metavar="PORT", help=argparse.SUPPRESS)
    add_out_option(parser)
    options = parser.parse_args()
    if options.attack is not None:
        os.nice(options.nice)
        attack(options.attack, options.kinds[0])
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary) / "search"
        if not folder.exists():
            make_search(folder, options.rows)
        for kind in options.kinds:
            line = measured(folder, kind, options.turns, options.seconds, options.nice)
            print(json.dumps(line), flush=True)
            append_run(options.out, "hostile", {"rows": options.rows, "nice": options.nice, **line})


if __name__ == "__main__":
    main()
