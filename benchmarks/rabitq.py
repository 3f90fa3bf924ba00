"""faiss' RaBitQ on the sets of the experiment "embeddings": the reference row of its tables by neighborhood.

    python benchmarks/rabitq.py ag-news-minilm cifar-10-cnn mnist

RaBitQ has one bit for each feature. Shorter codes are those of the leading principal components, rotated. A row
keeps two numbers of 4 bytes beside its bits, which are counted. Queries are not quantized. A line for every dataset is
added to ``results/rabitq.jsonl``.
"""

import argparse
from typing import Any

import faiss
import numpy as np
from runs import add_out_option, append_run

from hashlearn.datasets import load
from hashlearn.experiments.judge import neighbor_hits
from hashlearn.metrics import true_neighbors

LENGTHS = (64, 128, 256, 512)
N_RESULTS = 100
BYTES_OF_FACTORS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", metavar="DATASET")
    parser.add_argument("--bits", type=int, nargs="+", default=LENGTHS, help="beside one bit for each feature")
    add_out_option(parser)
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    for name in options.datasets:
        dataset = load(name)
        database, queries = (np.asarray(rows, np.float32) for rows in (dataset.database, dataset.queries))
        neighbors = true_neighbors(database, queries, 10)
        cases = []
        for n in sorted({*options.bits, database.shape[1]}):
            if n <= database.shape[1]:
                found = ranked(database, queries, n)
                cases.append(
                    judged(found, neighbors, dataset.database_labels, dataset.query_labels)
                    | {"bits": n, "bytes": n / 8 + BYTES_OF_FACTORS}
                )
                print(name, cases[-1])
        append_run(options.out, "rabitq", {"dataset": name, "rows": len(database), "cases": cases})


def ranked(database: np.ndarray, queries: np.ndarray, n_bits: int) -> np.ndarray:
    """The first rows of every query."""
    d = database.shape[1]
    index = faiss.index_factory(d, "RR,RaBitQ" if n_bits == d else f"PCAR{n_bits},RaBitQ")
    index.train(database)
    index.add(database)
    return index.search(queries, N_RESULTS)[1]


def judged(found: np.ndarray, neighbors: np.ndarray, labels: Any, query_labels: Any) -> dict[str, float]:
    """By neighborhood, and by the labels of what was found; mAP would need the whole ranking."""
    right = labels[found] == query_labels[:, None]
    recall_at_10, recall_at_100 = neighbor_hits(found, neighbors) / 10
    return {
        "precision_at_100": round(float(right.mean()), 4),
        "precision_at_1": round(float(right[:, 0].mean()), 4),
        "recall_at_10": round(float(recall_at_10), 4),
        "recall_at_100": round(float(recall_at_100), 4),
    }


if __name__ == "__main__":
    main()
