"""How many true neighbors codes find by themselves, from 1 to 8 bits for each feature: ABH beside other quantizers.

    python benchmarks/rates.py glove.npz --bits 2 3 4 6 8

A file has rows ``X`` and queries ``Q``. A line for every point is added to ``results/rates.jsonl``, with the bytes of
a row: its code and what is kept beside it (turbovec: its file). Where another method with the same bits for each
feature finds more, ABH is measured with as many bytes as that one has, too. One seed; nothing is ranked again. Times
are wall-clock times: encoding has all cores, the search of all queries one.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import faiss
import numpy as np
import rabitqlib
import turbovec
from runs import add_out_option, append_run

from hashlearn import ABH, AsymmetricIndex
from hashlearn.experiments.judge import neighbor_hits
from hashlearn.metrics import true_neighbors

N_RESULTS = 10
MOST_BITS = 4096
TURBOVEC_BITS = (2, 3, 4)
SCALAR = {4: "SQ4", 6: "SQ6", 8: "SQ8"}
PEERS = ("turbovec", "faiss RaBitQ", "rabitqlib", "faiss SQ")


class Point(NamedTuple):
    """What a method finds, the bytes of a row, and the seconds to learn, to encode all rows and to search."""

    found: np.ndarray
    n_bytes: float
    fit_s: float
    encode_s: float
    search_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--bits", type=int, nargs="+", default=(1, 2, 3, 4, 6, 8), help="for each feature")
    parser.add_argument(
        "--peers", nargs="*", default=PEERS, choices=PEERS, help="the methods beside ABH; all by default"
    )
    add_out_option(parser)
    options = parser.parse_args()
    for path in options.files:
        with np.load(path) as arrays:
            X, Q = arrays["X"], arrays["Q"]
        neighbors = true_neighbors(X, Q, 10)
        for bits in options.bits:
            for method, point in points(X, Q, bits, neighbors, options.peers):
                measured = {
                    "method": method,
                    "bits": bits,
                    "bytes": round(point.n_bytes, 1),
                    "recall_at_10": recall_of(point, neighbors),
                    "fit_s": round(point.fit_s, 2),
                    "encode_s": round(point.encode_s, 2),
                    "microseconds": round(point.search_s / len(Q) * 1e6),
                }
                print(path.stem, measured, flush=True)
                append_run(options.out, "rates", {"dataset": path.stem, "rows": len(X), **measured})


def recall_of(point: Point, neighbors: np.ndarray) -> float:
    return round(float(neighbor_hits(point.found, neighbors)[0] / 10), 4)


def points(
    X: np.ndarray, Q: np.ndarray, bits: int, neighbors: np.ndarray, names: tuple[str, ...]
) -> Iterator[tuple[str, Point]]:
    """The points of ABH and of these peers, of those that have this rate."""
    ours = 0.0
    if bits * X.shape[1] <= MOST_BITS:
        point = of_abh(X, Q, bits * X.shape[1])
        ours = recall_of(point, neighbors)
        yield "ABH", point
    for method, point in peers(X, Q, bits, names):
        yield method, point
        n_bits = min(int(point.n_bytes - 1) * 8, 8 * X.shape[1] // 8 * 8)
        if ours < recall_of(point, neighbors) and bits * X.shape[1] < n_bits <= MOST_BITS:
            yield f"ABH, bytes of {method}", of_abh(X, Q, n_bits)


def peers(X: np.ndarray, Q: np.ndarray, bits: int, names: tuple[str, ...]) -> Iterator[tuple[str, Point]]:
    if "turbovec" in names and bits in TURBOVEC_BITS and np.allclose(np.linalg.norm(X, axis=1), 1, atol=1e-3):
        yield "turbovec", of_turbovec(X, Q, bits)
    if "faiss RaBitQ" in names:
        yield "faiss RaBitQ", of_faiss(X, Q, "RR,RaBitQ" if bits == 1 else f"RR,RaBitQ{bits}")
    if "rabitqlib" in names:
        yield "rabitqlib", of_rabitqlib(X, Q, bits)
    if "faiss SQ" in names and bits in SCALAR:
        yield "faiss SQ", of_faiss(X, Q, SCALAR[bits])


def of_abh(X: np.ndarray, Q: np.ndarray, n_bits: int) -> Point:
    clock = Clock()
    hasher = ABH(n_bits, random_state=0).fit(X)
    fit_s = clock.lap()
    codes = hasher.transform(X)
    index = AsymmetricIndex(n_bits).add(codes, corrections=hasher.corrections(X, codes))
    encode_s = clock.lap()
    index.search(hasher.query_weights(Q[:5]), N_RESULTS)  # compiles
    clock.lap()
    found = index.search(hasher.query_weights(Q), N_RESULTS).ids
    return Point(found, codes.shape[1] + 1, fit_s, encode_s, clock.lap())


def of_faiss(X: np.ndarray, Q: np.ndarray, factory: str) -> Point:
    index, clock = faiss.index_factory(X.shape[1], factory), Clock()
    index.train(X)
    fit_s = clock.lap()
    index.add(X)
    encode_s = clock.lap()
    faiss.omp_set_num_threads(1)
    found = index.search(Q, N_RESULTS)[1]
    return Point(found, float(index.sa_code_size()), fit_s, encode_s, clock.lap())


def of_turbovec(X: np.ndarray, Q: np.ndarray, bits: int) -> Point:
    """Rows of length one (for others its inner products are another question), padded to a multiple of 8 features."""
    padding = ((0, 0), (0, -X.shape[1] % 8))
    rows, queries = (np.ascontiguousarray(np.pad(some, padding)) for some in (X, Q))
    index, clock = turbovec.TurboQuantIndex(rows.shape[1], bits), Clock()
    index.add(rows)
    encode_s = clock.lap()
    found = np.asarray(index.search(queries, N_RESULTS)[1]).astype(np.int64)
    search_s = clock.lap()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index.tv"
        index.write(str(path))
        return Point(found, path.stat().st_size / len(X), 0.0, encode_s, search_s)


def of_rabitqlib(X: np.ndarray, Q: np.ndarray, bits: int) -> Point:
    """One cluster, all of it searched; features are filled up to a multiple of 64."""
    clock = Clock()
    index = rabitqlib.IvfIndex(X.shape[1], len(X), 1, bits)
    index.build(X, X.mean(axis=0, keepdims=True).astype(np.float32), np.zeros(len(X), np.uint32))
    encode_s = clock.lap()
    found = np.asarray(index.search(Q, N_RESULTS, 1)[0]).astype(np.int64)
    n_bytes = bits * (-(-X.shape[1] // 64) * 64) / 8 + (8 if bits == 1 else 20)
    return Point(found, n_bytes, 0.0, encode_s, clock.lap())


class Clock:
    """Seconds since the last lap."""

    def __init__(self) -> None:
        self.start = time.perf_counter()

    def lap(self) -> float:
        before, self.start = self.start, time.perf_counter()
        return self.start - before


if __name__ == "__main__":
    main()
