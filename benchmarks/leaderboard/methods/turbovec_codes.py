"""turbovec, which compares inner products: for rows of unit length only."""

from typing import ClassVar

import numpy as np
from board_method import Method

SAMPLE = 1024
"""Rows that its documentation says are enough to calibrate by."""


class Turbovec(Method):
    name, family, needs = "turbovec", "turbovec", "turbovec"
    settings: ClassVar = [{"bits": bits} for bits in (2, 3, 4)]

    @classmethod
    def suits(cls, setting, n_features, metric):
        return metric == "cosine"

    def fit(self, X):
        import turbovec

        self.index = turbovec.TurboQuantIndex(padded(X[:1]).shape[1], self.setting["bits"])
        rows = np.random.default_rng(self.seed).permutation(len(X))[:SAMPLE]
        self.index.calibrate(padded(X[rows]))

    def encode(self, X):
        self.index.add(padded(X))
        self.index.prepare()
        return padded(X[:1]).shape[1] * self.setting["bits"] / 8 + 4

    def search(self, Q, k):
        products, ids = (np.asarray(part).reshape(len(Q), -1) for part in self.index.search(padded(Q), k))
        return -products, ids.astype(np.int64)


def padded(X: np.ndarray) -> np.ndarray:
    """It wants whole groups of 8 features."""
    return np.ascontiguousarray(np.pad(X, ((0, 0), (0, -X.shape[1] % 8))))


METHODS = [Turbovec]
