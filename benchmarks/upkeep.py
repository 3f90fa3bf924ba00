"""Can the recall and the drift that a server measures be trusted?

    python benchmarks/upkeep.py vectors.npy                   # or a place such as data.npz:X
    python benchmarks/upkeep.py vectors.npy --method abh --bits 128

**Recall**: the mean of 1,000 queries is the truth. In each of 20 runs some of these queries are measured as a server
does it; in how many runs does the interval have the truth? **Drift**: rows of the same kind, then rows with their
dimensions shuffled, and rows of a normal distribution with the same mean and spread, a block of 500 at a time. After
how many rows is it reported, and how often without a reason? A line is added to ``results/upkeep.jsonl``.
"""

import argparse
import json

import numpy as np
from runs import add_out_option, append_run

from hashlearn import METHODS, SimilaritySearch
from hashlearn.rows.formats import read_place
from hashlearn.upkeep.drift import BLOCK_ROWS, DriftReference, DriftWatch
from hashlearn.upkeep.recall import estimated_recall, recall_of_query

N_QUERIES, N_RUNS, PER_RUN, K = 1000, 20, 100, 10


def recall_runs(search: SimilaritySearch, queries: np.ndarray, rng: np.random.Generator) -> dict:
    recalls = np.array([recall_of_query(search, query, K) for query in queries])
    truth = float(recalls.mean())
    runs = [estimated_recall(rng.choice(recalls, PER_RUN, replace=False).tolist()) for _ in range(N_RUNS)]
    inside = sum(run is not None and run.low <= truth <= run.high for run in runs)
    widths = [run.high - run.low for run in runs if run is not None]
    return {"true_recall": truth, "runs_inside": inside, "runs": N_RUNS, "mean_width": float(np.mean(widths))}


def drift_runs(search: SimilaritySearch, reference: np.ndarray, same: np.ndarray, rng: np.random.Generator) -> dict:
    watch = DriftWatch(DriftReference(search.encode(reference), search.n_bits))

    def reports(X: np.ndarray) -> list:
        made = [watch.add(search.encode(X[start : start + 100])) for start in range(0, len(X), 100)]
        return [report for report in made if report is not None]

    def rows_until(X: np.ndarray) -> int | None:
        for number, report in enumerate(reports(X), start=1):
            if report.is_large:
                return number * BLOCK_ROWS
        return None

    same_kind = reports(same)
    shuffled = reference[:2000][:, rng.permutation(reference.shape[1])]
    normal = (rng.standard_normal((2000, reference.shape[1])) * reference.std(axis=0) + reference.mean(axis=0)).astype(
        "f4"
    )
    return {
        "same_rows": len(same),
        "false_reports": sum(report.is_large for report in same_kind),
        "largest_shares": max(report.shares for report in same_kind),
        "largest_novelty": max(abs(report.novelty) for report in same_kind),
        "rows_until_shuffled": rows_until(shuffled),
        "rows_until_normal": rows_until(normal),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("vectors")
    parser.add_argument("--method", default="itq")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=N_QUERIES)
    parser.add_argument("--metric", default="euclidean")
    add_out_option(parser)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = np.asarray(read_place(options.vectors), np.float32)
    X = X[rng.permutation(len(X))[: options.rows + options.queries]]
    queries, rows = X[: options.queries], X[options.queries :]
    half = min(len(rows) // 2, 4000)
    hasher = METHODS[options.method](n_bits=options.bits, random_state=0)
    search = (
        SimilaritySearch(hasher, metric=options.metric, keep_vectors="float32").fit(rows[: len(rows) // 2]).add(rows)
    )
    line = {
        "vectors": options.vectors.rpartition("/")[2],
        "method": options.method,
        "bits": options.bits,
        **recall_runs(search, queries, rng),
        **drift_runs(search, rows[:half], rows[half:], rng),
    }
    print(json.dumps(line))
    append_run(options.out, "upkeep", line)


if __name__ == "__main__":
    main()
