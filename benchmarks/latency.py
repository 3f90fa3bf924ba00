"""One row at a time: what it costs to encode and to search, against the bare arithmetic and against faiss.

    python benchmarks/latency.py             # two minutes
    python benchmarks/latency.py --quick     # fewer repetitions, fewer codes

Both sides of a comparison take turns in one process on one thread; a figure is the median of the times of single calls.
A run adds one line to ``results/latency.jsonl``.
"""

import os

from machine import all_instructions, one_thread

os.environ.update(one_thread() | all_instructions())

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray
from runs import add_out_option, append_run
from training import clusters

from hashlearn import ITQ, JPSH, SAH, SimilaritySearch

N_BITS = 64
N_ANCHORS = 800
K = 10


class Compared(NamedTuple):
    """Two ways to the same result, and how many times the time of the other ours may take."""

    name: str
    ours: Callable[[NDArray], Any]
    theirs: Callable[[NDArray], Any]
    rows: NDArray[np.float32]
    target: float


def main() -> None:
    options = parse()
    n_codes, n_calls = (10_000, 300) if options.quick else (100_000, 3000)
    found = []
    for compared in (encoding(), *anchored(), searching(n_codes)):
        ours, theirs = medians(compared, n_calls)
        line = {"name": compared.name, "us": ours, "bare_us": theirs, "times": ours / theirs, "target": compared.target}
        found.append(line)
        print(f"{compared.name:45} {ours:6.1f} us, against {theirs:6.1f} us: {ours / theirs:.2f} x")
    run = {"quick": options.quick, "n_codes": n_codes, "n_calls": n_calls, "k": K, "rows": found}
    print(append_run(options.out, "latency", run))


def encoding() -> Compared:
    """A row through ITQ, against a product and packbits."""
    X = clusters(5000, 384)
    hasher = ITQ(n_bits=N_BITS, random_state=0).fit(X)
    return Compared("ITQ-64, d = 384, against numpy", hasher.transform, sign_of(hasher), X, 4.0)


def anchored() -> list[Compared]:
    """A row through methods with anchors, against the product with the anchors and that with the projection."""
    X = clusters(5000, 784)
    compared = []
    for method in (JPSH, SAH):
        hasher = method(n_bits=N_BITS, n_anchors=N_ANCHORS, random_state=0).fit(X)
        name = f"{method.__name__}-64, 800 anchors, d = 784, against numpy"
        compared.append(Compared(name, hasher.transform, products_of(784), X, 2.5))
    return compared


def searching(n_codes: int) -> Compared:
    """A search among many codes, against faiss with numpy's sign."""
    X = clusters(n_codes, 384)
    hasher = ITQ(n_bits=N_BITS, random_state=0).fit(X[:5000])
    search = SimilaritySearch(hasher).add(X).warm()
    sign, index = sign_of(hasher), faiss.IndexBinaryFlat(N_BITS)
    index.add(hasher.transform(X))
    queries = X[np.random.default_rng(0).permutation(n_codes)[:5000]] + np.float32(0.01)
    return Compared(
        f"search of {n_codes} codes, against faiss",
        lambda row: search.search(row, K),
        lambda row: index.search(sign(row), K),
        queries,
        1.0,
    )


def sign_of(hasher: ITQ) -> Callable[[NDArray], NDArray[np.uint8]]:
    """The codes of a linear hasher by numpy alone."""
    mean, projection = hasher.mean_.astype(np.float32), hasher.projection_.astype(np.float32)
    return lambda row: np.packbits((row - mean) @ projection > 0, axis=1)


def products_of(n_features: int) -> Callable[[NDArray], NDArray]:
    """A row times the anchors, and times the projection."""
    rng = np.random.default_rng(0)
    anchors = rng.standard_normal((n_features, N_ANCHORS), np.float32)
    projection = rng.standard_normal((n_features, N_BITS), np.float32)

    def both(row: NDArray) -> NDArray:
        row @ anchors
        return row @ projection

    return both


def medians(compared: Compared, n_calls: int) -> tuple[float, float]:
    """Median microseconds of a call, ours and theirs."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(n_calls):
        row = compared.rows[number % len(compared.rows)][None]
        for call, seconds in zip((compared.ours, compared.theirs), times):
            start = time.perf_counter()
            call(row)
            seconds.append(time.perf_counter() - start)
    ours, theirs = (1e6 * float(np.median(seconds)) for seconds in times)
    return ours, theirs


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    add_out_option(parser)
    return parser.parse_args()


if __name__ == "__main__":
    main()
