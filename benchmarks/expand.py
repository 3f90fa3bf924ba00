"""What the neighborhood of a query is worth by meaning: codes, real queries, and queries made from their neighbors.

    python benchmarks/expand.py kinds/reuters.npz kinds/wordnet.npz digits

The query is ``f(q) + sum of the codes of its 10 nearest rows`` with f the scores of JPSH, each divided by its mean size
and cut by tanh. The neighbors are those of the vectors (cosine), or those of the codes. ``expand=10`` is what
SimilaritySearch does, in plain numpy: f of the rows in the place of their codes, and the nearest vectors among the 40
nearest codes, or among all with ``recall=1.0``. A line for every dataset is added to ``results/expand.jsonl``.
"""

import argparse

import numpy as np
from numpy.typing import NDArray
from runs import add_out_option, append_run

from hashlearn import JPSH
from hashlearn.codes.packing import unpack
from hashlearn.datasets import load
from hashlearn.metrics import evaluate, evaluate_vectors
from hashlearn.search.nearest import CANDIDATES_PER_RESULT

N_NEIGHBORS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", metavar="DATASET")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 on")
    add_out_option(parser)
    options = parser.parse_args()
    for name in options.datasets:
        data = load(name)
        database, queries = (np.asarray(rows, np.float32) for rows in (data.database, data.queries))
        runs = [ways(database, queries, data, options.bits, seed) for seed in range(options.seeds)]
        means = {way: np.mean([run[way] for run in runs], axis=0).round(4).tolist() for way in runs[0]}
        append_run(options.out, "expand", {"dataset": data.name, "bits": options.bits, "ways": means})
        print(data.name, means)


def ways(database: NDArray, queries: NDArray, data, n_bits: int, seed: int) -> dict[str, tuple[float, float]]:
    """mAP and precision@100 of each way to ask."""
    labels = {"labels": data.database_labels, "query_labels": data.query_labels}
    hasher = JPSH(n_bits, random_state=seed).fit(database)
    packed, packed_queries = hasher.transform(database), hasher.transform(queries)
    codes = np.where(unpack(packed, n_bits), 1, -1).astype(np.float32)
    size = np.maximum(np.abs(hasher.decision_function(database)).mean(axis=0), 1e-9)
    scores, row_scores = (
        np.tanh(hasher.decision_function(rows) / size).astype(np.float32) for rows in (queries, database)
    )
    cosines = unit(queries) @ unit(database).T
    signs = np.where(unpack(packed_queries, n_bits), 1, -1).astype(np.float32)
    candidates = nearest(signs @ codes.T, CANDIDATES_PER_RESULT * N_NEIGHBORS)
    best = nearest(np.take_along_axis(cosines, candidates, axis=1))
    asked = {
        "real queries": scores,
        "expanded by codes": scores + codes[nearest(scores @ codes.T)].sum(axis=1),
        "expanded by vectors": scores + codes[nearest(cosines)].sum(axis=1),
        "expand=10": scores + row_scores[np.take_along_axis(candidates, best, axis=1)].sum(axis=1),
        "expand=10, recall=1.0": scores + row_scores[nearest(cosines)].sum(axis=1),
    }
    found = {"float vectors, cosine": evaluate_vectors(unit(database), unit(queries), **labels)}
    found["codes"] = evaluate(packed, packed_queries, n_bits, **labels)
    # All codes have the same length, so the Euclidean order is that of the scalar product.
    found |= {way: evaluate_vectors(codes, vectors, **labels) for way, vectors in asked.items()}
    return {way: (result.mAP, result.precision_at_100) for way, result in found.items()}


def nearest(similarities: NDArray, n: int = N_NEIGHBORS) -> NDArray[np.intp]:
    """The columns of the n largest similarities of every row; of equal ones, the first."""
    return np.argsort(-similarities, axis=1, kind="stable")[:, :n]


def unit(rows: NDArray) -> NDArray[np.float32]:
    """The rows with length one."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


if __name__ == "__main__":
    main()
