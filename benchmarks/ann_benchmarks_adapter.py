"""PartitionedIndex as ann-benchmarks and VIBE take an algorithm: copy this file to ``algorithms/hashlearn/module.py``.

Constructor arguments are the metric of the data set and the number of bits of a code; the query argument is the recall
that is asked for. A configuration::

    float:
      any:
      - base_args: ['@metric']
        constructor: Hashlearn
        name: hashlearn
        docker_tag: ann-benchmarks-hashlearn
        module: ann_benchmarks.algorithms.hashlearn
        run_groups:
          base:
            args: [[64, 128, 256]]
            query_args: [[0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995]]
"""

import numpy as np

from hashlearn.index.partitioned import PartitionedIndex

try:
    from ..base.module import BaseANN  # where ann-benchmarks and VIBE have it
except ImportError:
    BaseANN = object

METRICS = {"angular": "cosine", "cosine": "cosine", "normalized": "cosine", "euclidean": "euclidean", "ip": "dot"}


class Hashlearn(BaseANN):
    """Fit to vectors, be told a recall, answer queries."""

    def __init__(self, metric: str, n_bits: int):
        if metric not in METRICS:
            raise ValueError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
        self._metric, self._n_bits, self._recall = METRICS[metric], n_bits, 0.95

    def fit(self, X: np.ndarray) -> None:
        self._vectors = np.ascontiguousarray(X, np.float32)
        self._index = PartitionedIndex(self._n_bits, metric=self._metric, random_state=0)
        self._index.fit(self._vectors).add(self._vectors).tune(self._vectors)

    def set_query_arguments(self, recall: float) -> None:
        self._recall = recall
        self.query(self._vectors[0], 10)  # compiled before the clock starts

    def query(self, q: np.ndarray, n: int) -> np.ndarray:
        return self._index.search(q[None], n, recall=self._recall, vectors=self._vectors).ids[0]

    def batch_query(self, X: np.ndarray, n: int) -> None:
        self._found = self._index.search(X, n, recall=self._recall, vectors=self._vectors, n_jobs=-1).ids

    def get_batch_results(self) -> np.ndarray:
        return self._found

    def get_memory_usage(self) -> float:
        """Kilobytes of the codes; the vectors are the caller's."""
        return self._index.nbytes / 1024

    def done(self) -> None:
        pass

    def __str__(self) -> str:
        return f"hashlearn(bits={self._n_bits}, recall={self._recall})"
