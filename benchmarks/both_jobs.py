"""One code for both jobs: codes of the same size that follow the meaning and the neighborhood.

    python benchmarks/both_jobs.py ag-news-minilm cifar-10-cnn mnist

Every contender has 16 bytes a row. By meaning: mAP, precision@100. By neighborhood: 10@10, 10@100. A line for every
dataset is added to ``results/both_jobs.jsonl``; the table is in docs/measurements/embeddings.md.

Two parts make a code. A part is ranked by its Hamming distance, or by the real numbers of the query, and a weight says
how much of the sum of both is the part that follows the meaning. Each part's distances are divided by their spread
over the rows first.
"""

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from runs import add_out_option, append_run

from hashlearn import ABH, ITQ, JPSH, SAH, fit_lengths
from hashlearn.codes import unpack
from hashlearn.datasets import load
from hashlearn.experiments.cache import SourceRows
from hashlearn.experiments.judge import EstimateVectors, estimate_vectors, judge_real_queries
from hashlearn.metrics import true_neighbors

SHOWN = ("mAP", "precision_at_100", "recall_at_10", "recall_at_100")
WEIGHTS = (0.3, 0.5, 0.7)
SPREAD_ROWS, SPREAD_QUERIES = 2000, 100
SCALES = {"mnist": 255}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", metavar="DATASET")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of the database, drawn at random, at most")
    parser.add_argument("--queries", type=int, default=500, help="at most")
    parser.add_argument("--bytes", type=int, default=16, help="of a row")
    parser.add_argument("--seed", type=int, default=0)
    add_out_option(parser)
    options = parser.parse_args()
    for name in options.datasets:
        data = SomeRows(name, options.rows, options.queries)
        cases = []
        for case in contenders(data, 8 * options.bytes, options.seed):
            cases.append(case)
            print(name, {key: round(value, 3) if isinstance(value, float) else value for key, value in case.items()})
        sizes = {"rows": len(data.database), "queries": len(data.queries), "features": data.database.shape[1]}
        line = {"dataset": name, "bytes": options.bytes, "seed": options.seed, **sizes, "cases": cases}
        append_run(options.out, "both_jobs", line)


class SomeRows:
    """Some rows and queries of a dataset, with their labels and true neighbors."""

    def __init__(self, name: str, n_rows: int, n_queries: int):
        dataset, rng, scale = load(name), np.random.RandomState(0), np.float32(SCALES.get(name, 1))
        labels, query_labels = dataset.database_labels, dataset.query_labels
        assert labels is not None
        assert query_labels is not None
        database = SourceRows(dataset.features, dataset.database_rows, labels)
        rows = np.sort(rng.permutation(len(labels))[:n_rows])
        asked = np.sort(rng.permutation(len(query_labels))[:n_queries])
        self.database = np.asarray(dataset.features[database.rows[rows]], np.float32) / scale
        self.queries = np.asarray(dataset.features[dataset.query[asked]], np.float32) / scale
        self.labels, self.query_labels = labels[rows], query_labels[asked]
        self._neighbors = true_neighbors(self.database, self.queries, 10)

    def neighbors(self) -> NDArray[np.int64]:
        return self._neighbors


class Parts(NamedTuple):
    """Fitted hashers, each with the vectors whose distances are its ranking."""

    by_codes: EstimateVectors
    by_real_queries: EstimateVectors


def parts_of(hasher: Any, data: SomeRows) -> Parts:
    """Of a fitted hasher."""
    codes, query_codes = hasher.transform(data.database), hasher.transform(data.queries)
    signs = EstimateVectors(*(2 * unpack(of, hasher.n_bits).astype(np.float32) - 1 for of in (codes, query_codes)))
    return Parts(signs, estimate_vectors(hasher, codes, data.database, data.queries))


def in_units_of_spread(vectors: EstimateVectors) -> EstimateVectors:
    """The vectors scaled so that the squared distances of a query have a standard deviation of one, in the mean."""
    rows = np.random.RandomState(0).permutation(len(vectors.database))[:SPREAD_ROWS]
    database, queries = vectors.database[rows], vectors.queries[:SPREAD_QUERIES]
    squared = (database**2).sum(axis=1) - 2 * queries @ database.T  # but for what is the same for all rows
    scale = np.float32(1 / np.sqrt(squared.std(axis=1).mean()))
    return EstimateVectors(vectors.database * scale, vectors.queries * scale)


def mixed(meaning: EstimateVectors, neighborhood: EstimateVectors, weight: float) -> EstimateVectors:
    """Vectors whose squared distances are ``weight`` times those of the first plus the rest of the second."""
    shares = np.sqrt(np.float32([weight, 1 - weight]))
    parts = [in_units_of_spread(part) for part in (meaning, neighborhood)]
    stacked = [
        np.hstack([s * getattr(part, side) for s, part in zip(shares, parts)]) for side in ("database", "queries")
    ]
    return EstimateVectors(*stacked)


def contenders(data: SomeRows, n_bits: int, seed: int) -> Iterator[dict[str, Any]]:
    """Everything that was tried, at ``n_bits`` a row; a correction of ABH counts as eight of them."""
    half, quarter = n_bits // 2, n_bits // 4
    lengths = (quarter, half, n_bits - quarter, n_bits)

    def fitted(hasher: Any, *bits: int) -> list[Parts]:
        return [parts_of(each, data) for each in fit_lengths(hasher, data.database, bits)]

    itq = dict(zip(lengths, fitted(ITQ(random_state=seed), *lengths)))
    jpsh = dict(zip(lengths, fitted(JPSH(random_state=seed), *lengths)))
    (sah,) = fitted(SAH(random_state=seed), half)
    abh = dict(zip(lengths[1:], fitted(ABH(random_state=seed), *(bits - 8 for bits in lengths[1:]))))
    size = n_bits / 8

    def line(name: str, vectors: EstimateVectors, weight: float | None = None) -> dict[str, Any]:
        measures = judge_real_queries(vectors, data)["measures"]
        return {"name": name, "weight": weight, "bytes": size, **{measure: measures[measure] for measure in SHOWN}}

    def side_by_side(*parts: EstimateVectors) -> EstimateVectors:
        return EstimateVectors(*(np.hstack(each) for each in zip(*parts)))

    yield line("ITQ", itq[n_bits].by_codes)
    yield line("JPSH", jpsh[n_bits].by_codes)
    yield line("ITQ, real queries", itq[n_bits].by_real_queries)
    yield line("ABH", abh[n_bits].by_real_queries)
    yield line("union: half ITQ, half JPSH", side_by_side(itq[half].by_codes, jpsh[half].by_codes))
    yield line("union: 3/4 ITQ, 1/4 JPSH", side_by_side(itq[n_bits - quarter].by_codes, jpsh[quarter].by_codes))
    yield line("union: 1/4 ITQ, 3/4 JPSH", side_by_side(itq[quarter].by_codes, jpsh[n_bits - quarter].by_codes))
    for weight in WEIGHTS:
        yield line(
            "half ITQ with real queries, half JPSH",
            mixed(jpsh[half].by_codes, itq[half].by_real_queries, weight),
            weight,
        )
        yield line("half ABH, half JPSH", mixed(jpsh[half].by_codes, abh[half].by_real_queries, weight), weight)
        yield line("half ABH, half SAH", mixed(sah.by_codes, abh[half].by_real_queries, weight), weight)
        yield line(
            "3/4 ABH, 1/4 JPSH", mixed(jpsh[quarter].by_codes, abh[n_bits - quarter].by_real_queries, weight), weight
        )
        yield line(
            "half ABH, half JPSH, both with real queries",
            mixed(jpsh[half].by_real_queries, abh[half].by_real_queries, weight),
            weight,
        )


if __name__ == "__main__":
    main()
