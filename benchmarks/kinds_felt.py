"""Whether neighborhoods tell, without labels, if codes of JPSH rank by meaning above the float vectors.

    python benchmarks/kinds_felt.py ag-news-minilm cifar-10-cnn mnist kinds/*.npz

Of 3,000 rows, by cosine:

- closed: of the 10 nearest rows of the 10 nearest rows, the share that is among the 100 nearest of the row itself;
- mutual: the share of the 10 nearest rows that have the row among their own 10;
- decay: the similarity of the 100th nearest row over that of the 10th, both less the median similarity.

A line for every dataset is added to ``results/kinds_felt.jsonl``; docs/measurements/embeddings.md has the table.
"""

import argparse

import numpy as np
from numpy.typing import NDArray
from runs import add_out_option, append_run
from scipy.sparse import csr_matrix

from hashlearn.datasets import load
from hashlearn.linalg.projections import unit_rows

SAMPLE_ROWS = 3_000
NEAR, FAR = 10, 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", metavar="DATASET")
    add_out_option(parser)
    options = parser.parse_args()
    for name in options.datasets:
        data = load(name)
        sample = np.random.default_rng(0).permutation(len(data.database))[:SAMPLE_ROWS]
        found = felt(unit_rows(np.asarray(data.database[sample], np.float32)))
        append_run(options.out, "kinds_felt", {"dataset": data.name, **found})
        print(data.name, found)


def felt(rows: NDArray[np.float32]) -> dict[str, float]:
    """The three numbers of rows of unit length."""
    similarities = rows @ rows.T
    np.fill_diagonal(similarities, -2)
    nearest = np.argsort(-similarities, axis=1)[:, :FAR]
    sorted_values = np.take_along_axis(similarities, nearest, axis=1)
    middle = np.median(similarities, axis=1)
    near, far = graph(nearest[:, :NEAR]), graph(nearest)
    two_steps = near @ near
    return {
        "closed": round(float(two_steps.multiply(far).sum() / two_steps.sum()), 3),
        "mutual": round(float(near.multiply(near.T).sum() / near.sum()), 3),
        "decay": round(float(np.mean((sorted_values[:, FAR - 1] - middle) / (sorted_values[:, NEAR - 1] - middle))), 3),
    }


def graph(nearest: NDArray[np.intp]) -> csr_matrix:
    """A matrix with a 1 for every row and each of its neighbors."""
    n, k = nearest.shape
    return csr_matrix((np.ones(n * k), nearest.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))


if __name__ == "__main__":
    main()
