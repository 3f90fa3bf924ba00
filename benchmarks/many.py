"""Many small searches in one server: each is asked once, and the memory is looked at.

    python benchmarks/many.py                          # 1,000 searches of 1,000 rows; five minutes
    python benchmarks/many.py --searches 50

Clients ask every search by vectors and by a filter, and write to every tenth. A line is added to
``results/many.jsonl``.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
from runs import add_out_option, append_run
from serving import free_port, wait_until_ready

from hashlearn import LSH, SimilaritySearch

N_ROWS, WIDTH, N_CLIENTS = 1000, 64, 8


def make_searches(above: Path, n: int) -> None:
    """Copies of one search, each with a row that says its number."""
    X = np.random.default_rng(0).standard_normal((N_ROWS, WIDTH)).astype(np.float32)
    first = SimilaritySearch(LSH(n_bits=64, random_state=0), keep_vectors="float32").fit(X)
    first.add(X, payloads=[{"number": row % 10} for row in range(N_ROWS)]).save(above / "s0")
    first.close()
    for number in range(1, n):
        shutil.copytree(above / "s0", above / f"s{number}")


def asked(client: httpx.Client, number: int) -> int:
    """How many answers of one search were not what was expected."""
    path, wrong = f"/v1/s{number}", 0
    if number % 10 == 0:
        point = {"id": N_ROWS + number, "vector": [9.0] * WIDTH, "payload": {"number": number}}
        wrong += client.put(f"{path}/points", json={"points": [point]}).status_code != 200
        found = client.post(f"{path}/search", json={"vector": [9.0] * WIDTH, "k": 1})
        wrong += found.status_code != 200 or found.json()["results"][0]["ids"] != [N_ROWS + number]
    found = client.post(f"{path}/search", json={"id": 17, "k": 10, "filter": {"number": 7}})
    wrong += found.status_code != 200 or found.json()["results"][0]["ids"][0] != 17
    return wrong


def measured(above: Path, n: int) -> dict:
    port = free_port()
    command = [sys.executable, "-m", "hashlearn", "serve", str(above), "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(port, process)
        status = Path(f"/proc/{process.pid}/status")
        start = time.perf_counter()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600) as client:
            with ThreadPoolExecutor(N_CLIENTS) as pool:
                wrong = sum(pool.map(lambda number: asked(client, number), range(n)))
            seconds = time.perf_counter() - start
            listed = client.get("/v1/searches").json()["searches"]
        kilobytes = dict(line.split(":") for line in status.read_text().splitlines())
        return {
            "searches": n,
            "rows": N_ROWS,
            "wrong": wrong,
            "open_at_the_end": sum(search["open"] for search in listed),
            "listed": len(listed),
            "milliseconds_each": round(1000 * seconds / n, 1),
            "megabytes_at_most": int(kilobytes["VmHWM"].split()[0]) // 1024,
        }
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--searches", type=int, default=1000)
    add_out_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        make_searches(Path(temporary), options.searches)
        line = measured(Path(temporary), options.searches)
    print(json.dumps(line))
    append_run(options.out, "many", line)


if __name__ == "__main__":
    main()
