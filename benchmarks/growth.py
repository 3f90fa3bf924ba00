"""How the time of a query grows with the number of codes, and what a build and a cold query take.

    python benchmarks/growth.py sift.npy --folder FOLDER --rows 1000000 10000000 100000000
    python benchmarks/growth.py sift.npy --folder FOLDER --rows 1000000 --only-build

Rows are real descriptors with noise: every descriptor many times, each time with normal noise of another width. 1,000
of the descriptors are no rows but queries: an index is tuned with half of them and measured with the others.

All is kept in the folder, and a run that was interrupted goes on where it was: the rows (``rows.int8``), an index of
each size (``index-N.hll``, or ``index-N.part.hll`` while rows are added), and the true neighbors (``truth-N.npz``).
A line for each size is added to ``results/growth.jsonl``:

- ``build``: seconds of each step, and the most memory that the process had above what it began with;
- ``warm``: for each recall the milliseconds of one query a call, one thread, all pages of its lists in memory;
- ``cold``: opening the file and one query, after it was dropped from the page cache: milliseconds, and what was read
  from the disk, which depends on how far the system reads ahead; and what the codes and rows of its lists take.
"""

import argparse
import gc
import json
import os
import time
from pathlib import Path
from statistics import median

from machine import all_instructions

os.environ.update(all_instructions())

import numpy as np
from large import PeakMemory
from runs import add_out_option, append_run

from hashlearn.index.kernels.rerank import METRIC_NUMBERS, Vectors, nearest_of_candidates
from hashlearn.index.partitioned import PartitionedIndex

K = 10
N_QUERIES = 1000
RECALLS = (0.9, 0.95, 0.98)
COLD_RECALL = 0.95
WRITTEN_AT_ONCE = 1 << 19
ADDED_AT_ONCE = 10_000_000
NARROWEST, WIDEST = 4.0, 24.0  # noise of a row; the median distance of a descriptor to its nearest is about 200


def main() -> None:
    options = asked_options()
    options.folder.mkdir(parents=True, exist_ok=True)
    base, queries = descriptors(options.file)
    rows = rows_of(options.folder / "rows.int8", base, max(options.rows))
    for n in options.rows:
        build = built(options.folder, rows[:n], queries[: N_QUERIES // 2], round(options.lists * n**0.5))
        if not options.only_build:
            asked = queries[N_QUERIES // 2 :]
            truth = true_neighbors(options.folder / f"truth-{n}.npz", rows[:n], asked)
            measures = {
                "rows": n,
                "build": build,
                **searched(options.folder / f"index-{n}.hll", rows[:n], asked, truth),
            }
            append_run(options.out, "growth", measures)
            print(json.dumps(measures), flush=True)


def asked_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="descriptors, npy, uint8")
    parser.add_argument("--folder", type=Path, required=True, help="for rows and indexes: 150 bytes for each row")
    parser.add_argument("--rows", nargs="+", type=int, default=[1_000_000, 10_000_000, 100_000_000])
    parser.add_argument("--lists", type=float, default=2.0, help="times the root of the rows: the lists of a new index")
    parser.add_argument("--only-build", action="store_true", help="leave the measuring to another run")
    add_out_option(parser)
    return parser.parse_args()


def descriptors(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The descriptors less 128, so that they fit int8, in random order; and those that are queries."""
    X = np.load(path)
    X = (X[np.random.default_rng(0).permutation(len(X))].astype(np.int16) - 128).astype(np.int8)
    return X[N_QUERIES:], X[:N_QUERIES].astype(np.float32)


def rows_of(path: Path, base: np.ndarray, n: int) -> np.ndarray:
    """The file of rows, mapped; it is made, or made longer."""
    width = base.shape[1]
    path.touch()
    done = path.stat().st_size // width // WRITTEN_AT_ONCE
    with path.open("r+b") as file:
        for part in range(done, -(-n // WRITTEN_AT_ONCE)):
            file.seek(part * WRITTEN_AT_ONCE * width)
            file.write(noisy(base, part).tobytes())
    return np.memmap(path, np.int8, "r").reshape(-1, width)[:n]


def noisy(base: np.ndarray, part: int) -> np.ndarray:
    """A part of the rows, which depends on its number alone."""
    rng = np.random.default_rng(part)
    numbers = np.arange(part * WRITTEN_AT_ONCE, (part + 1) * WRITTEN_AT_ONCE) % len(base)
    X = base[numbers].astype(np.float32)
    widths = np.exp(rng.uniform(np.log(NARROWEST), np.log(WIDEST), len(X))).astype(np.float32)
    X += widths[:, None] * rng.standard_normal(X.shape, dtype=np.float32)
    return np.clip(np.rint(X), -128, 127).astype(np.int8)


def built(folder: Path, rows: np.ndarray, queries: np.ndarray, n_lists: int) -> dict:
    """Build the index of some rows, unless it is there; returns what was measured meanwhile."""
    path, part, said = (folder / f"index-{len(rows)}{suffix}" for suffix in (".hll", ".part.hll", ".json"))
    if path.exists():
        return json.loads(said.read_text())
    peak = PeakMemory()
    peak.start()
    seconds = json.loads(said.read_text()) if said.exists() else {}
    start = time.perf_counter()
    if part.exists():
        index = PartitionedIndex.open(part)
    else:
        index = PartitionedIndex(128, n_lists=n_lists, random_state=0).fit(rows)
        seconds["fit"] = time.perf_counter() - start
        print(f"{len(rows):,}: fitted in {seconds['fit']:.0f} s", flush=True)
    while len(index) < len(rows):
        start = time.perf_counter()
        index.add(rows[len(index) : len(index) + ADDED_AT_ONCE])
        seconds["add"] = seconds.get("add", 0) + time.perf_counter() - start
        index.save(part)
        said.write_text(json.dumps(seconds))
        print(f"{len(rows):,}: {len(index):,} rows, {seconds['add']:.0f} s", flush=True)
    start = time.perf_counter()
    index.tune(rows, queries)
    seconds["tune"] = time.perf_counter() - start
    seconds |= {"megabytes": peak.above(), "megabytes_of_index": index.nbytes / 2**20}
    said.write_text(json.dumps(seconds))
    index.save(path)
    part.unlink()
    return seconds


def true_neighbors(path: Path, rows: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The distances of the K nearest rows of each query: equal ones are equally true."""
    if path.exists():
        return np.load(path)["distances"]
    distances = np.full((len(queries), K), np.inf, np.float32)
    squares = np.einsum("ij,ij->i", queries, queries)[:, None]
    for first in range(0, len(rows), 1 << 18):
        X = rows[first : first + (1 << 18)].astype(np.float32)
        here = squares - 2 * queries @ X.T + np.einsum("ij,ij->i", X, X)
        here = np.partition(here, K - 1, axis=1)[:, :K]
        distances = np.sort(np.concatenate([distances, here], axis=1), axis=1)[:, :K]
    np.savez(path, distances=distances)
    return distances


def searched(path: Path, rows: np.ndarray, queries: np.ndarray, truth: np.ndarray) -> dict:
    """Warm and cold searches of an index in its file."""
    cold = cold_queries(path, queries)
    index = PartitionedIndex.open(path)
    warm = {}
    for recall in RECALLS:
        plan = index.plan(K, recall)
        found, probed = asked_each(index, plan, rows, queries)[:2]
        reached = float(np.mean(found <= truth[:, -1:] * (1 + 1e-6)))
        milliseconds = [asked_each(index, plan, rows, queries)[2] for _ in range(3)]
        warm[str(recall)] = {
            "recall": reached,
            "milliseconds": 1000 * median(milliseconds),
            "lists": float(np.mean(probed)),
            "candidates": plan.candidates,
        }
    return {"n_lists": index.n_lists, "megabytes": index.nbytes / 2**20, "warm": warm, "cold": cold}


def asked_each(index: PartitionedIndex, plan, rows, queries) -> tuple[np.ndarray, np.ndarray, float]:
    """The distances that are found, one query a call, the lists looked at, and the median of the seconds."""
    distances, seconds, probed = np.empty((len(queries), K), np.float32), [], []
    ids, vectors = np.empty((1, K), np.int64), Vectors.of(rows)
    for q in range(len(queries)):
        query = queries[q : q + 1]
        start = time.perf_counter()
        found = index.candidates(query, plan)
        nearest_of_candidates(vectors, query, found.ids, METRIC_NUMBERS["euclidean"], distances[q : q + 1], ids)
        seconds.append(time.perf_counter() - start)
        probed.append(int(found.probed[0]))
    return distances, np.array(probed), median(seconds)


def cold_queries(path: Path, queries: np.ndarray, n: int = 20) -> dict:
    """Medians over single queries, each with a file that nothing of is in memory."""
    measures = [cold_query(path, query) for query in queries[:n, None]]
    return {name: median(measure[name] for measure in measures) for name in measures[0]}


def cold_query(path: Path, query: np.ndarray) -> dict:
    """Open an index and take the candidates of a query."""
    gc.collect()  # pages stay in memory while an index of the file is there
    drop_from_cache(path)
    read, times = [bytes_read()], [time.perf_counter()]
    index = PartitionedIndex.open(path)
    plan = index.plan(K, COLD_RECALL)
    read.append(bytes_read())
    times.append(time.perf_counter())
    found = index.candidates(query, plan)
    read.append(bytes_read())
    times.append(time.perf_counter())
    opening, asking = np.diff(read) / 2**20
    bytes_of_code = index.n_bits // 8 + 5
    return {
        "milliseconds_to_open": 1000 * (times[1] - times[0]),
        "milliseconds": 1000 * (times[2] - times[1]),
        "megabytes_to_open": float(opening),
        "megabytes": float(asking),
        "megabytes_of_lists": float(index.list_sizes.mean() * found.probed[0] * bytes_of_code / 2**20),
    }


def drop_from_cache(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def bytes_read() -> int:
    """What this process has had read from disks."""
    lines = Path("/proc/self/io").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


if __name__ == "__main__":
    main()
