"""RaBitQ by its authors: all rows in one cluster, and all of it searched."""

from typing import ClassVar

import numpy as np
from board_method import Method


class RabitqLibrary(Method):
    name, family, needs = "rabitqlib", "rabitqlib", "rabitqlib"
    settings: ClassVar = [{"bits": bits} for bits in (1, 2, 3, 4, 6, 8)]

    def fit(self, X):
        self.center = X.mean(axis=0, keepdims=True).astype(np.float32)

    def encode(self, X):
        import rabitqlib

        bits = self.setting["bits"]
        self.index = rabitqlib.IvfIndex(X.shape[1], len(X), 1, bits)
        self.index.build(X, self.center, np.zeros(len(X), np.uint32))
        features = -(-X.shape[1] // 64) * 64  # it works with whole groups of 64
        return bits * features / 8 + (8 if bits == 1 else 20)

    def search(self, Q, k):
        ids, distances = (np.asarray(part) for part in self.index.search(Q, k, 1)[:2])
        return distances, ids.astype(np.int64)


METHODS = [RabitqLibrary]
