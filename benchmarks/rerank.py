"""Rerank from disk: the vectors of candidates, read from a file that is not in memory, ours against numpy.

    python benchmarks/rerank.py --folder /data --gigabytes 4

100 candidates of each of 100 queries, at random places of a file, are put in order by Euclidean distance. Before every
measurement the pages of the file are dropped from memory (``posix_fadvise``), and ``mincore`` says how many were left.
The contenders read the same vectors and must find the same neighbors:

- ``numpy``: ``memmap[candidates]`` and a distance by numpy, as one writes it;
- ``numpy, sorted``: the same with every row once and in ascending order;
- ``rerank_exact``: of the same memmap, and of a VectorFile of float32 and of int8.

Times are medians over rounds in which all take turns. A run adds one line to ``results/rerank.jsonl``. The files (2.25
times as large as told) are made once in the folder and stay there: remove them afterwards.
"""

import os

from machine import one_thread

os.environ.update(one_thread())

import argparse
import ctypes
import mmap
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from runs import add_out_option, append_run

from hashlearn.search import Calibration, VectorFile, rerank_exact

K = 10
BLOCK_ROWS = 1 << 14
OURS = "rerank_exact, float32 file"
DONE = "made.txt"

Search = Callable[[NDArray, NDArray], NDArray]


class Turn(NamedTuple):
    """What a contender took and found, and the share of its file that was in memory before."""

    seconds: float
    in_memory: float
    found: NDArray


def main() -> None:
    options = parse()
    n = int(options.gigabytes * 2**30) // (4 * options.features)
    make_files(options.folder, n, options.features)
    rng = np.random.default_rng(1)
    queries = rng.normal(size=(options.queries, options.features)).astype(np.float32)
    rerank_exact(queries, queries, [[0]] * len(queries), 1)  # compiles
    turns: dict[str, list[Turn]] = {name: [] for name in CONTENDERS}
    for _ in range(options.rounds):
        candidates = rng.integers(0, n, (options.queries, options.candidates))
        for name, (file, open_file) in CONTENDERS.items():
            turns[name].append(measure(open_file, options.folder / file, queries, candidates))
            print(f"  {name:<28} {1000 * turns[name][-1].seconds:>10.1f} ms", flush=True)
            if "int8" not in name and not np.array_equal(turns[name][-1].found, turns["numpy"][-1].found):
                raise SystemExit(f"{name} finds other neighbors than numpy")
    medians = {name: statistics.median(turn.seconds for turn in of_one) for name, of_one in turns.items()}
    in_memory = {name: max(turn.in_memory for turn in of_one) for name, of_one in turns.items()}
    for name, median in medians.items():
        print(
            f"{name:<28} {1000 * median:>10.1f} ms  {medians['numpy'] / median:>6.2f} x the speed of numpy, "
            f"at most {in_memory[name]:.2%} of the file in memory before"
        )
    ratio = medians["numpy"] / medians[OURS]
    print(f"at least 2 times the speed of numpy: {'yes' if ratio >= 2 else 'NO'}, {ratio:.2f}")
    run = {"gigabytes": options.gigabytes, "n_vectors": n, "n_features": options.features, "n_queries": options.queries}
    run |= {
        "candidates": options.candidates,
        "rounds": options.rounds,
        "threads": 1,
        "share_in_memory": in_memory,
        "seconds": medians,
    }
    print(append_run(options.out, "rerank", run))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--folder", type=Path, required=True, help="where the files are, or are made; remove them after"
    )
    parser.add_argument("--gigabytes", type=float, default=4.0, help="of the float32 vectors")
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    add_out_option(parser)
    return parser.parse_args()


def make_files(folder: Path, n: int, d: int) -> None:
    """The same random vectors as an .npy file and as vector files, unless they are there."""
    if (folder / DONE).exists() and (folder / DONE).read_text() == f"{n} x {d}":
        return
    array = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, (n, d))
    rng = np.random.default_rng(0)
    for start in range(0, n, BLOCK_ROWS):
        block = rng.integers(-1000, 1000, (min(BLOCK_ROWS, n - start), d), np.int16)
        array[start : start + len(block)] = block / np.float32(500)
    array.flush()
    VectorFile.create(folder / "float32.hlv", d).add(array)
    VectorFile.create(folder / "int8.hlv", d, "int8", Calibration.of(array[:BLOCK_ROWS])).add(array)
    (folder / DONE).write_text(f"{n} x {d}")


def numpy_as_written(path: Path) -> Search:
    vectors = np.load(path, mmap_mode="r")

    def search(queries: NDArray, candidates: NDArray) -> NDArray:
        distances = np.linalg.norm(vectors[candidates] - queries[:, None], axis=2)
        return np.take_along_axis(candidates, np.argsort(distances, axis=1)[:, :K], axis=1)

    return search


def numpy_sorted(path: Path) -> Search:
    vectors = np.load(path, mmap_mode="r")

    def search(queries: NDArray, candidates: NDArray) -> NDArray:
        rows, place = np.unique(candidates, return_inverse=True)
        distances = np.linalg.norm(vectors[rows][place.reshape(candidates.shape)] - queries[:, None], axis=2)
        return np.take_along_axis(candidates, np.argsort(distances, axis=1)[:, :K], axis=1)

    return search


def ours_of_memmap(path: Path) -> Search:
    vectors = np.load(path, mmap_mode="r")
    return lambda queries, candidates: rerank_exact(vectors, queries, candidates, K).ids


def ours_of_file(path: Path) -> Search:
    vectors = VectorFile.open(path)
    len(vectors)  # reads the ids, which stay in memory
    return lambda queries, candidates: rerank_exact(vectors, queries, candidates, K).ids


CONTENDERS: dict[str, tuple[str, Callable[[Path], Search]]] = {
    "numpy": ("vectors.npy", numpy_as_written),
    "numpy, sorted": ("vectors.npy", numpy_sorted),
    "rerank_exact, memmap": ("vectors.npy", ours_of_memmap),
    OURS: ("float32.hlv", ours_of_file),
    "rerank_exact, int8 file": ("int8.hlv", ours_of_file),
}
"""Who takes part: the file, and who opens it."""


def measure(open_file: Callable[[Path], Search], path: Path, queries: NDArray, candidates: NDArray) -> Turn:
    """A turn of one contender, with the pages of its file dropped before; only a file that nobody maps loses them."""
    search = open_file(path)
    drop_pages(path)
    in_memory = share_in_memory(path)
    start = time.perf_counter()
    found = search(queries, candidates)
    return Turn(time.perf_counter() - start, in_memory, found)


def drop_pages(path: Path) -> None:
    """Have the operating system forget what it has of a file; it must be on the disk for that."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def share_in_memory(path: Path) -> float:
    """The share of the pages of a file that the operating system has in memory (mincore)."""
    pages = np.memmap(path, np.uint8, "r")
    there = np.zeros(-(-len(pages) // mmap.PAGESIZE), np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mincore(
        ctypes.c_void_p(pages.ctypes.data), ctypes.c_size_t(len(pages)), ctypes.c_void_p(there.ctypes.data)
    ):
        raise OSError(ctypes.get_errno(), "mincore")
    return float((there & 1).mean())


if __name__ == "__main__":
    main()
