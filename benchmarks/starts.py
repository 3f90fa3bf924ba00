"""Which start is better for JPSH on which data, and what ``init="auto"`` takes: docs/explanation/defaults.md.

    python benchmarks/starts.py mnist cifar-10 cifar-10-cnn ag-news-minilm flickr25k digits

A dataset is a name or a file that ``hashlearn.datasets.load`` knows. Both starts learn from the same anchors, each with
the rounds and the encoding that follow it by default. A line for every dataset and seed is added to
``results/starts.jsonl``.
"""

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray
from runs import add_out_option, append_run

from hashlearn import JPSH
from hashlearn.datasets import Dataset, load
from hashlearn.hashers.anchored import AnchorSummary
from hashlearn.hashers.starts import chosen_start
from hashlearn.linalg.anchors import AnchorSearch
from hashlearn.metrics import evaluate
from hashlearn.rows import map_blocks

STARTS = ("spectral", "itq")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", metavar="DATASET")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from 0 on")
    add_out_option(parser)
    options = parser.parse_args()
    for name in options.datasets:
        dataset = load(name)
        for seed in range(options.seeds):
            line = measured(dataset, options.bits, seed)
            append_run(options.out, "starts", line)
            print({key: line[key] for key in ("dataset", "seed", "directions", "clusters", "chosen", *STARTS)})


def measured(dataset: Dataset, n_bits: int, seed: int) -> dict[str, Any]:
    """What is known of the data without labels, and what both starts reach."""
    database = np.asarray(dataset.database, np.float32)
    summary = JPSH(n_bits, random_state=seed).summarize(database)
    line = {
        "dataset": dataset.name,
        "rows": len(database),
        "features": database.shape[1],
        "bits": n_bits,
        "seed": seed,
        "anchors": len(summary.anchors),
        "explained": round(explained(summary), 4),
        "directions": round(summary.sums["pairwise"].effective_directions, 2),
        "clusters": round(summary.spacing.effective_clusters / len(summary.anchors), 4),
        "chosen": chosen_start(summary, n_bits),
    }
    for start in STARTS:
        hasher = JPSH(n_bits, init=start, random_state=seed)
        hasher.n_features_in_ = database.shape[1]
        line[start] = judged(hasher.fit_summary(summary), database, dataset)
    return line


def judged(hasher: JPSH, database: NDArray, dataset: Dataset) -> dict[str, float]:
    """mAP and precision@100 of a fitted hasher."""
    result = evaluate(
        hasher.transform(database),
        hasher.transform(np.asarray(dataset.queries, np.float32)),
        hasher.n_bits,
        labels=dataset.database_labels,
        query_labels=dataset.query_labels,
    )
    assert result.mAP is not None
    assert result.precision_at_100 is not None
    return {
        "mAP": round(result.mAP, 4),
        "precision_at_100": round(result.precision_at_100, 4),
        "rounds": hasher.n_iter_,
    }


def explained(summary: AnchorSummary) -> float:
    """The share of the variance of the rows that their nearest anchors explain."""
    search = AnchorSearch(summary.anchors)
    within = sum(part.sum() for _, part in map_blocks(summary.rows, _squared_distances, search))
    total = sum(part.sum() for _, part in map_blocks(summary.rows, _squared_norms))  # the rows are centered
    return 1 - float(within / total)


def _squared_distances(block: NDArray, first: int, search: AnchorSearch) -> NDArray:
    return search.nearest(block)[1].astype(np.float64)


def _squared_norms(block: NDArray, first: int) -> NDArray:
    return np.einsum("ij,ij->i", block, block, dtype=np.float64)


if __name__ == "__main__":
    main()
