"""Can the recall and the drift that a server measures be trusted?

    python benchmarks/upkeep.py vectors.npy                   # or a place such as data.npz:X
    python benchmarks/upkeep.py glove.npy --method abh --bits 128 --metric cosine --other sift.npy

**Recall**: the mean of 1,000 queries is the truth. In each of 200 runs some of these queries are measured as a server
does it; in how many runs does the interval have the truth? **Drift**: rows of the same kind, then rows with their
dimensions shuffled, rows of a normal distribution with the same mean and spread, and rows of another file (its first
dimensions), a block of 500 at a time. After how many rows is it reported, and how often without a reason? A line is
added to ``results/upkeep.jsonl``.
"""

import argparse
import json
from collections.abc import Iterator

import numpy as np
from runs import add_out_option, append_run

from hashlearn import METHODS, SimilaritySearch
from hashlearn.rows.formats import read_place
from hashlearn.server.watch import compared_rows, drift_reference
from hashlearn.upkeep.drift import BLOCK_ROWS, DriftReport, DriftWatch
from hashlearn.upkeep.recall import estimated_recall, recall_of_query

N_QUERIES, N_RUNS, PER_RUN, K = 1000, 200, 100, 10


def recall_runs(search: SimilaritySearch, queries: np.ndarray, rng: np.random.Generator) -> dict:
    recalls = np.array([recall_of_query(search, query, K) for query in queries])
    truth = float(recalls.mean())
    runs = [estimated_recall(rng.choice(recalls, PER_RUN, replace=False).tolist()) for _ in range(N_RUNS)]
    inside = sum(run is not None and run.low <= truth <= run.high for run in runs)
    widths = [run.high - run.low for run in runs if run is not None]
    return {"true_recall": truth, "runs_inside": inside, "runs": N_RUNS, "mean_width": float(np.mean(widths))}


def drift_runs(search: SimilaritySearch, same: np.ndarray, others: dict[str, np.ndarray]) -> dict:
    """Rows of the same kind and of other kinds, looked at as a server does."""
    reference = drift_reference(search)
    assert reference is not None

    def reports(X: np.ndarray) -> Iterator[DriftReport]:
        watch = DriftWatch(reference)
        for start in range(0, len(X), 100):
            report = watch.add(*compared_rows(search, X[start : start + 100]))
            if report is not None:
                yield report

    same_kind = list(reports(same))
    errors = [report.error for report in same_kind if report.error is not None]
    line = {
        "same_rows": len(same),
        "false_reports": sum(report.is_large for report in same_kind),
        "largest_shares": max(report.shares for report in same_kind),
        "largest_novelty": max(abs(report.novelty) for report in same_kind),
        "largest_error": max(errors, default=None),
    }
    for name, X in others.items():
        made = list(reports(X))
        first = next((number for number, report in enumerate(made, start=1) if report.is_large), None)
        line[f"rows_until_{name}"] = None if first is None else first * BLOCK_ROWS
        line[f"first_{name}"] = made[0]._asdict()
    return line


def other_kinds(X: np.ndarray, other: str | None, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """2,000 rows each that are not of the kind of X."""
    n_features = X.shape[1]
    normal = rng.standard_normal((2000, n_features)) * X.std(axis=0) + X.mean(axis=0)
    kinds = {"shuffled": X[:2000][:, rng.permutation(n_features)], "normal": normal.astype(np.float32)}
    if other is not None:
        rows = read_place(other)
        chosen = np.sort(rng.choice(len(rows), 2000, replace=False))
        kinds["other_file"] = np.asarray(rows[chosen, :n_features], np.float32)
    return kinds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("vectors")
    parser.add_argument("--method", default="itq")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--rows", type=int, default=200_000, help="half of them are in the search")
    parser.add_argument("--queries", type=int, default=N_QUERIES)
    parser.add_argument("--metric", default="euclidean")
    parser.add_argument("--other", help="a file of vectors of another kind, at least as wide")
    add_out_option(parser)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = np.asarray(read_place(options.vectors), np.float32)
    X = X[rng.permutation(len(X))[: options.rows + options.queries]]
    queries, rows = X[: options.queries], X[options.queries :]
    same, rows = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    hasher = METHODS[options.method](n_bits=options.bits, random_state=0)
    search = SimilaritySearch(hasher, metric=options.metric, keep_vectors="float32").fit(rows).add(rows)
    line = {
        "vectors": options.vectors.rpartition("/")[2],
        "method": options.method,
        "bits": options.bits,
        **recall_runs(search, queries, rng),
        **drift_runs(search, same, other_kinds(rows, options.other, rng)),
    }
    print(json.dumps(line))
    append_run(options.out, "upkeep", line)


if __name__ == "__main__":
    main()
