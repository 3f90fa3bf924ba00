"""Which start is better for JPSH on which data, and what ``init="auto"`` takes: docs/measurements/jpsh-defaults.md.

    python benchmarks/starts.py mnist cifar-10 cifar-10-cnn ag-news-minilm flickr25k digits
    python benchmarks/starts.py --rows 12000 mnist,white cifar-10-cnn,pca64 ag-news-minilm,half
    python benchmarks/starts.py --rules    # how good simpler rules would be on the stored datasets

A dataset is a name or a file that ``hashlearn.datasets.load`` knows, and may be followed by changes, the keys of
CHANGES. Both starts learn from the same anchors, each with the rounds and the encoding that follow it by default. A
line for every dataset and seed is added to ``results/starts.jsonl``.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from runs import add_out_option, append_run
from sklearn.decomposition import PCA

from hashlearn import JPSH
from hashlearn.datasets import load
from hashlearn.hashers.anchored import AnchorSummary
from hashlearn.hashers.starts import chosen_start, data_local_dimension, effective_directions
from hashlearn.linalg.anchors.search import AnchorSearch
from hashlearn.metrics import evaluate
from hashlearn.rows import map_blocks

STARTS = ("spectral", "itq")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", metavar="DATASET")
    parser.add_argument("--rules", action="store_true", help="compare rules by the stored lines; nothing is measured")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--rows", type=int, help="take this many rows of the database at random")
    parser.add_argument("--seeds", type=int, default=1, help="how many, from 0 on")
    add_out_option(parser)
    options = parser.parse_args()
    if options.rules:
        print_rules(options.out)
        return
    for spelled in options.datasets:
        name, *changes = spelled.split(",")
        data = changed(loaded(name, options.rows), changes)
        for seed in range(options.seeds):
            line = measured(data, options.bits, seed)
            append_run(options.out, "starts", line)
            print({key: line[key] for key in ("dataset", "seed", "directions", "local", "chosen", *STARTS)})


class LabeledRows(NamedTuple):
    """A database and queries, with their labels."""

    name: str
    database: NDArray[np.float32]
    queries: NDArray[np.float32]
    labels: NDArray
    query_labels: NDArray

    def mapped(self, function: Callable[[NDArray], NDArray]) -> "LabeledRows":
        """The same rows with other features."""
        return self._replace(database=function(self.database), queries=function(self.queries))


def loaded(name: str, n_rows: int | None) -> LabeledRows:
    """A dataset, or some rows of it and all its queries."""
    dataset = load(name)
    database, labels = dataset.database, dataset.database_labels
    assert labels is not None
    assert dataset.query_labels is not None
    if n_rows is not None and n_rows < len(database):
        chosen = np.sort(np.random.RandomState(0).choice(len(database), n_rows, replace=False))
        database, labels = database[chosen], labels[chosen]
    queries = np.asarray(dataset.queries, np.float32)
    return LabeledRows(dataset.name, np.asarray(database, np.float32), queries, labels, dataset.query_labels)


def changed(data: LabeledRows, changes: list[str]) -> LabeledRows:
    """The data after some of CHANGES, which its name then says."""
    for change in changes:
        data = CHANGES[change](data)
    return data._replace(name=", ".join([data.name, *changes]))


def unit(data: LabeledRows) -> LabeledRows:
    return data.mapped(lambda X: X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9))


def roots(data: LabeledRows) -> LabeledRows:
    return data.mapped(lambda X: np.sqrt(np.abs(X)))


def half(data: LabeledRows) -> LabeledRows:
    """The first half of the classes."""
    classes = np.unique(data.labels)
    kept = classes[: len(classes) // 2]
    ours, theirs = np.isin(data.labels, kept), np.isin(data.query_labels, kept)
    parts = (data.database[ours], data.queries[theirs], data.labels[ours], data.query_labels[theirs])
    return LabeledRows(data.name, *parts)


def components(data: LabeledRows, n: int, whiten: bool = False) -> LabeledRows:
    """The leading principal components, with the same variance if they are whitened."""
    pca = PCA(n, whiten=whiten, random_state=0).fit(data.database)
    return data.mapped(lambda X: pca.transform(X).astype(np.float32))


def rectified(data: LabeledRows) -> LabeledRows:
    """1,024 random projections, cut at zero."""
    mean, d = data.database.mean(axis=0), data.database.shape[1]
    weights = np.random.RandomState(1).standard_normal((d, 1024)).astype(np.float32) / np.float32(np.sqrt(d))
    return data.mapped(lambda X: np.maximum((X - mean) @ weights, 0))


CHANGES: dict[str, Callable[[LabeledRows], LabeledRows]] = {
    "unit": unit,
    "roots": roots,
    "half": half,
    "pca16": partial(components, n=16),
    "pca32": partial(components, n=32),
    "pca64": partial(components, n=64),
    "pca128": partial(components, n=128),
    "white": partial(components, n=128, whiten=True),
    "white64": partial(components, n=64, whiten=True),
    "rectified": rectified,
}


def measured(data: LabeledRows, n_bits: int, seed: int) -> dict[str, Any]:
    """What is known of the data without labels, and what both starts reach."""
    database = data.database
    summary = JPSH(n_bits, random_state=seed).summarize(database)
    line = {
        "dataset": data.name,
        "rows": len(database),
        "features": database.shape[1],
        "bits": n_bits,
        "seed": seed,
        "anchors": len(summary.anchors),
        "explained": round(explained(summary), 4),
        "directions": round(effective_directions(summary.sums["pairwise"]), 2),
        "local": round(data_local_dimension(summary), 2),
        "chosen": chosen_start(summary, n_bits),
    }
    for start in STARTS:
        hasher = JPSH(n_bits, init=start, random_state=seed)
        hasher.n_features_in_ = database.shape[1]
        line[start] = judged(hasher.fit_summary(summary), data)
    return line


def judged(hasher: JPSH, data: LabeledRows) -> dict[str, float]:
    """mAP and precision@100 of a fitted hasher."""
    result = evaluate(
        hasher.transform(data.database),
        hasher.transform(data.queries),
        hasher.n_bits,
        labels=data.labels,
        query_labels=data.query_labels,
    )
    assert result.mAP is not None
    assert result.precision_at_100 is not None
    return {
        "mAP": round(result.mAP, 4),
        "precision_at_100": round(result.precision_at_100, 4),
        "rounds": hasher.n_iter_,
    }


def print_rules(folder: Path) -> None:
    """What the choice of JPSH loses on the stored datasets, and the best rules of one quantity and one limit."""
    text = (folder / "starts.jsonl").read_text(encoding="utf-8")
    lines = list({(line["dataset"], line["seed"]): line for line in map(json.loads, text.splitlines())}.values())
    print(f"{len(lines)} datasets; lost by a choice: share of the better start's mAP")
    print(f"{'JPSH':26}{lost(lines, [line['chosen'] for line in lines])}")
    for name, quantity in QUANTITIES.items():
        values = np.array([quantity(line) for line in lines])
        chosen = [np.where(sign * values > sign * limit, "itq", "spectral") for limit in values for sign in (1, -1)]
        print(f"{name:26}{min(lost(lines, each) for each in chosen)}")


class Lost(NamedTuple):
    """How often a choice loses more than 1 % of the better start's mAP, and what all choices lose together."""

    n_wrong: int
    total: float


def lost(lines: list[dict[str, Any]], chosen: Iterable[str]) -> Lost:
    """What a choice for every dataset loses."""
    reached = np.array([line[start]["mAP"] for line, start in zip(lines, chosen)])
    best = np.array([max(line[start]["mAP"] for start in STARTS) for line in lines])
    shares = 1 - reached / best
    return Lost(int((shares > 0.01).sum()), round(float(shares.sum()), 3))


QUANTITIES: dict[str, Callable[[dict[str, Any]], float]] = {
    "local": lambda line: line["local"],
    "directions": lambda line: line["directions"],
    "explained": lambda line: line["explained"],
    "local / directions": lambda line: line["local"] / line["directions"],
    "local * directions": lambda line: line["local"] * line["directions"],
    "local / root of features": lambda line: line["local"] / line["features"] ** 0.5,
    "directions / features": lambda line: line["directions"] / line["features"],
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
