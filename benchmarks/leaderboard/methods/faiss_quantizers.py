"""The quantizers of faiss, each by its factory string."""

from typing import ClassVar

import numpy as np
from board_method import Method

PARTS = (4, 8, 16, 32, 64, 96)


class FaissIndex(Method):
    family, needs, factory = "faiss", "faiss", ""

    def fit(self, X):
        import faiss

        self.index = faiss.index_factory(X.shape[1], self.factory.format(**self.setting, d=X.shape[1]))
        # faiss has fixed seeds of its own: the order of the rows is what the seed changes.
        self.index.train(X[np.random.default_rng(self.seed).permutation(len(X))])

    def encode(self, X):
        self.index.add(X)
        return float(self.index.sa_code_size())

    def search(self, Q, k):
        return self.index.search(Q, k)


class FaissPQ(FaissIndex):
    name, factory = "PQ", "PQ{bytes}"
    settings: ClassVar = [{"bytes": m} for m in PARTS]

    @classmethod
    def suits(cls, setting, n_features, metric):
        return n_features % setting["bytes"] == 0


class FaissOPQ(FaissPQ):
    name, factory = "OPQ", "OPQ{bytes},PQ{bytes}"
    settings: ClassVar = [{"bytes": m} for m in (8, 16, 32)]


class FaissPRQ(FaissPQ):
    name, factory = "PRQ", "PRQ{parts}x4x8"
    settings: ClassVar = [{"parts": m} for m in (2, 4)]

    @classmethod
    def suits(cls, setting, n_features, metric):
        return n_features % setting["parts"] == 0


class FaissLSQ(FaissIndex):
    name, factory = "LSQ", "LSQ{bytes}x8"
    settings: ClassVar = [{"bytes": m} for m in (4, 8)]


class FaissRaBitQ(FaissIndex):
    name, factory = "RaBitQ", "RR,RaBitQ{bits}"
    settings: ClassVar = [{"bits": bits} for bits in range(1, 9)]

    def encode(self, X):
        import faiss

        self.index.add(X)
        return float(faiss.downcast_index(self.index.index).code_size)


class FaissSQ(FaissIndex):
    name, factory, seeded = "SQ", "SQ{bits}", False
    settings: ClassVar = [{"bits": bits} for bits in (4, 6, 8)]


METHODS = [FaissSQ, FaissRaBitQ, FaissPQ, FaissOPQ, FaissPRQ, FaissLSQ]
