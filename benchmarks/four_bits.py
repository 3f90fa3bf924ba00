"""Would kept vectors of four bits for each feature do? Recall after a rerank of 100 candidates, by what is kept.

    python benchmarks/four_bits.py glove.npz

A file has rows ``X`` and queries ``Q``. The candidates are the 100 nearest by codes of ABH with 128 bits. They are put
in order by the float vectors, by int8 values as a search keeps them, and by ABH's levels of 4 and 5 bits for each
feature with the learned correction, kept as a float32. "of the rest" are levels of what the code of 128 bits leaves
over: the row is then the sum of both. A line for each file is added to ``results/four_bits.jsonl``.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from runs import add_out_option, append_run

from hashlearn import ABH, AsymmetricIndex
from hashlearn.experiments.judge import neighbor_hits
from hashlearn.linalg.abh.near_queries import MetricGeometry, NearQueries, best_weights
from hashlearn.linalg.neighbors import nearest_of
from hashlearn.metrics import true_neighbors

N_CANDIDATES, K = 100, 10
BITS = (4, 5)
MOST_BITS = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--queries", type=int, default=500)
    add_out_option(parser)
    options = parser.parse_args()
    for path in options.files:
        with np.load(path) as arrays:
            X, Q = arrays["X"], arrays["Q"][: options.queries]
        neighbors, (candidates, short) = true_neighbors(X, Q, K), candidates_of(X, Q)
        recalls = {}
        for kept, estimates in orders(X, Q, candidates, short):
            first = np.argsort(estimates, axis=1, kind="stable")[:, :K]
            found = np.take_along_axis(candidates, first, axis=1)
            recalls[kept] = round(float(neighbor_hits(found, neighbors)[0] / K), 4)
        print(path.stem, recalls, flush=True)
        append_run(options.out, "four_bits", {"dataset": path.stem, "rows": len(X), "recalls": recalls})


def candidates_of(X: NDArray, Q: NDArray) -> tuple[NDArray[np.int64], NDArray]:
    """The candidates of every query, and the rows that the codes stand for."""
    hasher = ABH(128, random_state=0).fit(X)
    codes = hasher.transform(X)
    index = AsymmetricIndex(128).add(codes, corrections=hasher.corrections(X, codes))
    return index.search(hasher.query_weights(Q), N_CANDIDATES).ids, hasher.decode(codes)


def orders(X: NDArray, Q: NDArray, candidates: NDArray[np.int64], short: NDArray) -> Iterator[tuple[str, NDArray]]:
    """What is kept, and an estimate of the distance of every candidate by it; ``short`` is what the short codes say."""
    yield "float32", distances(X, Q, candidates)
    low, high = X.min(axis=0), X.max(axis=0)
    step = np.maximum((high - low) / 254, 1e-30)
    middle = (low + high) / 2
    yield "int8", distances(middle + step * np.rint((X - middle) / step), Q, candidates)
    for bits in BITS:
        n_bits = bits * X.shape[1] // 4 * 4
        if n_bits <= MOST_BITS:
            for name, known in (("", np.zeros_like(X)), (" of the rest", short)):
                hasher = ABH(n_bits, words="levels", random_state=0).fit(X - known)
                yield (
                    f"{bits} bits{name}",
                    corrected(X, known + hasher.decode(hasher.transform(X - known)), Q, candidates),
                )


def corrected(X: NDArray, decoded: NDArray, Q: NDArray, candidates: NDArray[np.int64]) -> NDArray:
    """Distances of decoded rows, with a learned correction of their errors for the queries near them."""
    mean, rng = X.mean(axis=0), np.random.default_rng(0)
    sample = np.sort(rng.choice(len(X), min(len(X), 20_000), replace=False))
    rows, whole, geometry = X[sample] - mean, np.eye(X.shape[1], dtype=X.dtype), MetricGeometry.named("euclidean", mean)
    queries = np.sort(rng.choice(len(rows), 500, replace=False))
    truth = nearest_of(rows, queries, K, geometry)
    near = NearQueries.of(rows, queries, truth, geometry.origin)
    products = geometry.products(rows[queries], decoded[sample] - mean)
    products[np.arange(len(queries)), queries] = np.inf
    terms = near.terms(rows, decoded[sample] - mean, whole)
    weights = best_weights(products, terms, truth, geometry.starts, [K, N_CANDIDATES])
    numbers = near.terms(X - mean, decoded - mean, whole) @ weights
    return np.stack(
        [numbers[found] - 2 * (decoded[found] - mean) @ (query - mean) for found, query in zip(candidates, Q)]
    )


def distances(rows: NDArray, Q: NDArray, candidates: NDArray[np.int64]) -> NDArray:
    return np.stack([((rows[near] - query) ** 2).sum(axis=1) for near, query in zip(candidates, Q)])


if __name__ == "__main__":
    main()
