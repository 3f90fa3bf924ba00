"""Training on data beyond memory: time per row, peak memory, and a cluster of two processes.

Each fit runs in a process of its own, which says how long it took and how much memory it had above what it started
with. Pages of the mapped file are not counted: the system takes them back at will.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from machine import THREADS

from hashlearn import JPSH

WIDTH, N_BITS, N_ANCHORS = 256, 64, 800
SAMPLE = 50_000
SAMPLING_SECONDS = 0.02


def time_per_row(folder: Path, sizes: tuple[int, ...]) -> list[dict]:
    """Seconds a row of fits whose anchors come from a sample of the same size, against that of the smallest."""
    path = file_of_clusters(folder, max(sizes))
    lines = []
    for n in sizes:
        fit = fit_apart(path, rows=n, kmeans_sample=SAMPLE)
        lines.append({"what": f"time per row, n={n}", "seconds": [fit["seconds"]], "per_row": fit["seconds"] / n})
    return [{**line, "ratio": line["per_row"] / lines[0]["per_row"]} for line in lines]


def memory_of_fit(folder: Path, n: int) -> dict:
    """Peak memory in MB of a fit with all the defaults, which reads every row in every round of k-means."""
    fit = fit_apart(file_of_clusters(folder, n), rows=n)
    return {"what": f"memory in MB above the data's own, n={n}", "ratio": fit["megabytes"], "seconds": [fit["seconds"]]}


def cluster_against_one_thread(folder: Path, n: int, repeat: int = 3) -> list[dict]:
    """A fit in one process on one thread against the same on two threads, and on a cluster of two processes, in turns.

    Two threads of one process say what a second core is worth on this machine.
    """
    rows = np.load(file_of_clusters(folder, n), mmap_mode="r")
    parts = [folder / f"part-{i}.npy" for i in range(4)]
    for i, path in enumerate(parts):
        np.save(path, rows[i * n // 4 : (i + 1) * n // 4])

    def apart(threads: int) -> float:
        return fit_apart(*parts, threads=threads)["seconds"]

    one, two, cluster = (
        min(times) for times in zip(*((apart(1), apart(2), _fit_on_cluster(parts)) for _ in range(repeat)))
    )
    return [
        {"what": f"one thread against two, n={n}", "ratio": one / two, "seconds": [one, two]},
        {
            "what": f"one thread against a cluster of two processes, n={n}",
            "ratio": one / cluster,
            "seconds": [one, cluster],
        },
    ]


def _fit_on_cluster(paths: list[Path]) -> float:
    from distributed import Client, LocalCluster

    from hashlearn.rows.cluster import on_cluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as two, Client(two) as client:
        shared = on_cluster([str(path) for path in paths], client)
        _hasher(kmeans_max_iter=1, n_anchors=10).fit(shared)  # workers import what they need
        start = time.perf_counter()
        _hasher().fit(shared)
        return time.perf_counter() - start


def file_of_clusters(folder: Path, n: int, d: int = WIDTH) -> Path:
    """A file of rows around 100 centers; one that is long enough is used again."""
    path = folder / f"clusters-{d}.npy"
    if path.exists() and len(np.load(path, mmap_mode="r")) >= n:
        return path
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((100, d), dtype=np.float32)
    out = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
    for start in range(0, n, 100_000):
        part = out[start : start + 100_000]
        part[:] = centers[rng.integers(0, 100, len(part))]
        part += rng.standard_normal(part.shape, dtype=np.float32)
    out.flush()
    return path


def fit_apart(*paths: Path, rows: int | None = None, threads: int | None = None, **changes) -> dict:
    """Fit in a new process, on the first rows of a file or on several files: its seconds and megabytes."""
    job = json.dumps({"paths": [str(path) for path in paths], "rows": rows, "changes": changes})
    # Dask leaves these at one in the environment of a process that has had workers.
    limits = {} if threads is None else dict.fromkeys(THREADS, str(threads))
    done = subprocess.run(
        [sys.executable, __file__, job], env={**os.environ, **limits}, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)


def _hasher(**changes) -> JPSH:
    return JPSH(**{"n_bits": N_BITS, "n_anchors": N_ANCHORS, "random_state": 0, **changes})


class PeakMemory(threading.Thread):
    """The most memory of its own, in MB, that the process has while this runs, above what it had before."""

    def __init__(self):
        super().__init__(daemon=True)
        self.before = self.peak = self._now()
        self.running = True

    def run(self):
        while self.running:
            self.peak = max(self.peak, self._now())
            time.sleep(SAMPLING_SECONDS)

    def above(self) -> float:
        self.running = False
        return self.peak - self.before

    @staticmethod
    def _now() -> float:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")) / 1024


def main(job: dict) -> None:
    source = job["paths"] if job["rows"] is None else np.load(*job["paths"], mmap_mode="r")[: job["rows"]]
    warm = np.random.default_rng(0).standard_normal((2_000, WIDTH)).astype(np.float32)
    _hasher(n_anchors=50, kmeans_max_iter=1).fit(warm)  # compiled loops and thread pools are there
    peak = PeakMemory()
    peak.start()
    start = time.perf_counter()
    _hasher(**job["changes"]).fit(source)
    print(json.dumps({"seconds": time.perf_counter() - start, "megabytes": peak.above()}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
