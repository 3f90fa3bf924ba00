"""Does a second list for each row pay? Codes that must be looked at for a share of the true neighbors.

    python benchmarks/spilling.py glove.npy --metric cosine

A row is in the list of its nearest center, and in one more: that with the least ``|r'|^2 + w (r'.r / |r|)^2``, r and r'
being what the row is beside the first and beside the second center (SOAR: P. Sun and others, NeurIPS 2023). A weight w
of 0 is the second nearest center. Nothing is encoded: what counts is how many codes the nearest lists hold until they
have a share of the true 10 neighbors, the same number of lists for all queries.

A line is added to ``results/spilling.jsonl``.
"""

import argparse
from pathlib import Path

import numpy as np
from engines import data_of
from runs import add_out_option, append_run

from hashlearn.index.partitioned import PartitionedIndex

SHARES = (0.9, 0.95, 0.99)
WEIGHTS = (0.0, 1.0, 1.5)
ROWS_AT_ONCE = 20_000
N_QUERIES = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="npy or HDF5")
    parser.add_argument("--metric", choices=("euclidean", "cosine"))
    parser.set_defaults(glove=None, photos=None, rows=None, name=None)
    add_out_option(parser)
    options = parser.parse_args()
    name, metric, X, Q, truth = data_of(options)
    centers = PartitionedIndex(8, metric=metric, random_state=0).fit(X)._state.partition.centers
    first, seconds = lists_of(X, centers)
    ways = {"one list": [first], **{f"two, weight {w:g}": [first, seconds[w]] for w in WEIGHTS}}
    codes = {way: codes_of(centers, Q[:N_QUERIES], truth[:N_QUERIES], lists) for way, lists in ways.items()}
    append_run(options.out, "spilling", {"dataset": name, "rows": len(X), "n_lists": len(centers), "codes": codes})
    print(codes)


def lists_of(X: np.ndarray, centers: np.ndarray) -> tuple[np.ndarray, dict[float, np.ndarray]]:
    """The first list of each row, and its second one by weight."""
    first, seconds = np.empty(len(X), np.int64), {weight: np.empty(len(X), np.int64) for weight in WEIGHTS}
    squares = np.einsum("ij,ij->i", centers, centers)
    for start in range(0, len(X), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        distances = squares - 2 * X[part] @ centers.T + np.einsum("ij,ij->i", X[part], X[part])[:, None]
        first[part] = distances.argmin(axis=1)
        along = X[part] - centers[first[part]]
        along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
        products = np.einsum("ij,ij->i", X[part], along)[:, None] - along @ centers.T
        np.put_along_axis(distances, first[part, None], np.inf, axis=1)
        for weight, second in seconds.items():
            second[part] = (distances + weight * products**2).argmin(axis=1)
    return first, seconds


def codes_of(centers: np.ndarray, Q: np.ndarray, truth: np.ndarray, lists: list[np.ndarray]) -> dict[str, float]:
    """The codes, in the mean over queries, of as many lists as hold a share of all true neighbors."""
    order = np.argsort(np.einsum("ij,ij->i", centers, centers) - 2 * Q @ centers.T, axis=1)
    places = np.argsort(order, axis=1)
    sizes = sum(np.bincount(which, minlength=len(centers)) for which in lists)
    held = np.cumsum(sizes[order], axis=1)
    needed = np.min([np.take_along_axis(places, which[truth], axis=1) for which in lists], axis=0)
    return {str(share): float(held[:, int(np.quantile(needed, share))].mean()) for share in SHARES}


if __name__ == "__main__":
    main()
