"""What needs no learning to speak of: fewer features, fewer bits a feature."""

from typing import ClassVar

import numpy as np
from board_method import Method

from hashlearn.codes import pack
from hashlearn.index.hamming import HammingIndex
from hashlearn.linalg.projections import unit_rows
from hashlearn.search import nearest_vectors

LENGTHS: list[dict[str, int]] = [{"features": n} for n in (4, 8, 16, 32, 64, 128, 256)]


class Floats(Method):
    """The vectors themselves: the reference."""

    name, family, seeded = "float32", "plain", False

    def encode(self, X):
        self.rows = X
        return 4.0 * X.shape[1]

    def search(self, Q, k):
        found = nearest_vectors(self.rows, Q, k)
        return found.distances, found.ids


class FirstFeatures(Floats):
    """The first features alone, of unit length for the cosine. This is made for Matryoshka embeddings."""

    name = "first features"
    settings: ClassVar = LENGTHS

    @classmethod
    def suits(cls, setting, n_features, metric):
        return setting["features"] < n_features

    def encode(self, X):
        return super().encode(self.shortened(X))

    def search(self, Q, k):
        return super().search(self.shortened(Q), k)

    def shortened(self, X):
        kept = np.ascontiguousarray(X[:, : self.setting["features"]])
        return unit_rows(kept) if self.metric == "cosine" else kept


class PrincipalFeatures(FirstFeatures):
    name = "PCA"

    def fit(self, X):
        self.mean = X.mean(axis=0)
        directions = np.linalg.eigh(np.cov(X.T))[1][:, ::-1]
        self.directions = directions[:, : self.setting["features"]].astype(np.float32)

    def shortened(self, X):
        return (X - self.mean) @ self.directions


class SignBits(Method):
    """A bit for each feature: whether it is above 0."""

    name, family, seeded = "sign bits", "plain", False

    def encode(self, X):
        self.index = HammingIndex(X.shape[1]).add(pack(X > 0))
        return float(-(-X.shape[1] // 8))

    def search(self, Q, k):
        found = self.index.search(pack(Q > 0), k)
        return found.distances, found.ids


class Int8(Floats):
    """256 levels between the least and the largest value of a feature; queries are not rounded."""

    name = "int8"

    def fit(self, X):
        self.low = X.min(axis=0)
        self.step = np.maximum(X.max(axis=0) - self.low, np.float32(1e-20)) / 255

    def encode(self, X):
        levels = np.clip(np.rint((X - self.low) / self.step), 0, 255).astype(np.uint8)
        super().encode(levels * self.step + self.low)
        return float(X.shape[1])


METHODS = [Floats, FirstFeatures, PrincipalFeatures, SignBits, Int8]
