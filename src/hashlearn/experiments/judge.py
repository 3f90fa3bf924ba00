"""How good a ranking is, in the numbers and curves that a result keeps: by meaning (labels) and by neighborhood."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hashlearn.experiments.data_cache import N_NEIGHBORS
from hashlearn.experiments.real_queries import EstimateVectors
from hashlearn.experiments.result_lines import Line
from hashlearn.metrics import Evaluation, TrueNeighbor, evaluate, evaluate_vectors, score_codes, true_neighbors

DIGITS = 6
CURVE_DIGITS = 4
RECALL_POSITIONS = (10, 100)


class LabeledData(Protocol):
    """Vectors to judge by: with labels or without."""

    @property
    def database(self) -> NDArray: ...
    @property
    def queries(self) -> NDArray: ...
    @property
    def labels(self) -> NDArray | None: ...
    @property
    def query_labels(self) -> NDArray | None: ...
    def neighbors(self) -> NDArray[np.int64]:
        """The rows of the 10 nearest vectors of every query, nearest first."""
        ...


def judge_codes(
    query_codes: NDArray[np.uint8], codes: NDArray[np.uint8], n_bits: int, data: LabeledData, stable: bool = False
) -> Line:
    """Judge the ranking by Hamming distance; ``stable`` by both rules for equal distances."""
    line: Line = {"measures": {}}
    if data.labels is not None:
        of_labels: dict[str, Any] = {"query_labels": data.query_labels, "labels": data.labels}
        line = by_meaning(evaluate(codes, query_codes, n_bits, **of_labels))
        if stable:
            ranked = evaluate(codes, query_codes, n_bits, ties="stable", positions=[100], **of_labels)
            line["measures"] |= of_stable_ranking(ranked)
    neighbors = TrueNeighbor(data.neighbors(), len(codes))
    hits = score_codes(codes, query_codes, n_bits, neighbors, RECALL_POSITIONS).hits.mean(axis=0)
    line["measures"] |= by_neighborhood(hits)
    return line


def judge_real_queries(estimates: EstimateVectors, data: LabeledData, stable: bool = False) -> Line:
    """Judge the ranking by estimates of the distances between real queries and codes."""
    line = _by_meaning_of_vectors(*estimates, data, stable)
    depth = min(max(RECALL_POSITIONS), len(estimates.database))
    hits = neighbor_hits(true_neighbors(*estimates, depth), data.neighbors())
    line["measures"] |= by_neighborhood(hits)
    return line


def judge_vectors(data: LabeledData, stable: bool = False) -> Line:
    """Judge the Euclidean ranking of the vectors themselves, whose neighbors are the true ones."""
    line = judge_by_labels(data, stable)
    line["measures"] |= by_neighborhood(np.full(len(RECALL_POSITIONS), N_NEIGHBORS))
    return line


def judge_by_labels(data: LabeledData, stable: bool = False) -> Line:
    """Judge the Euclidean ranking of the vectors themselves by meaning; nothing is measured without labels."""
    return _by_meaning_of_vectors(data.database, data.queries, data, stable)


def neighbor_hits(ranked: NDArray[np.int64], neighbors: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many true neighbors are among the first 10 and the first 100 ranked ids, mean over the queries."""
    found = (ranked[:, :, None] == neighbors[:, None, :]).any(axis=2)
    return np.array([found[:, :n].sum(axis=1).mean() for n in RECALL_POSITIONS])


def _by_meaning_of_vectors(database: NDArray, queries: NDArray, data: LabeledData, stable: bool) -> Line:
    if data.labels is None:
        return {"measures": {}}
    of_labels: dict[str, Any] = {"query_labels": data.query_labels, "labels": data.labels}
    line = by_meaning(evaluate_vectors(database, queries, **of_labels))
    if stable:
        line["measures"] |= of_stable_ranking(evaluate_vectors(database, queries, ties="stable", **of_labels))
    return line


def of_stable_ranking(stable: Evaluation) -> dict[str, float | None]:
    """The measures that are also kept with equal distances in the order of the database."""
    return {"mAP_stable": short(stable.mAP), "pre100_stable": short(stable.pre100_of_the_paper)}


def by_meaning(expected: Evaluation) -> Line:
    """The measures by labels, and the curves; equal distances count as if shuffled."""
    assert expected.positions is not None
    assert expected.precision_at is not None
    measures = {
        "mAP": expected.mAP,
        "pre100": expected.pre100_of_the_paper,
        "precision_at_1": expected.precision_at[0],
        "precision_at_100": expected.precision_at_100,
    }
    if expected.lookup is not None:
        plain = expected.to_dict()["lookup"]
        measures |= {f"radius2_{name}": plain[name] for name in ("precision", "recall", "f_measure", "empty_fraction")}
    curves = {
        "positions": [int(n) for n in expected.positions],
        "precision_at": rounded(expected.precision_at),
        "recall_at": rounded(expected.recall_at),
    }
    if expected.radius_curve is not None:
        curves |= {
            "radius_precision": rounded(expected.radius_curve.precision),
            "radius_recall": rounded(expected.radius_curve.recall),
        }
    return {"measures": {name: short(value) for name, value in measures.items()}, "curves": curves}


def by_neighborhood(hits: NDArray) -> dict[str, float | None]:
    """The measures by true neighbors, from their mean number among the first 10 and 100 results."""
    return {f"recall_at_{n}": short(mean / N_NEIGHBORS) for n, mean in zip(RECALL_POSITIONS, hits)}


def rounded(values: Any, digits: int = CURVE_DIGITS) -> list[float | None]:
    """Numbers of a curve, as short as a result keeps them."""
    return [short(value, digits) for value in values]


def short(value: float | None, digits: int = DIGITS) -> float | None:
    """As many digits as the results keep; what is not defined as null."""
    if value is None or not np.isfinite(value):
        return None
    return float(f"{float(value):.{digits}g}")
