"""What sentence-transformers makes of embeddings: int8 and binary. It compares inner products.

All rows are ranked as its ``semantic_search_usearch`` rescores candidates: by the inner product of a float query with
the code.
"""

import numpy as np
from board_method import Method

from hashlearn.codes import pack
from hashlearn.index.hamming import HammingIndex
from hashlearn.search import nearest_vectors


def quantized(X: np.ndarray, precision: str) -> np.ndarray:
    from sentence_transformers.quantization import quantize_embeddings

    return quantize_embeddings(X, precision)


class SentenceMethod(Method):
    family, needs, seeded = "sentence-transformers", "sentence_transformers", False

    @classmethod
    def suits(cls, setting, n_features, metric):
        return metric == "cosine"

    def search(self, Q, k):
        found = nearest_vectors(self.rows, Q, k, metric="dot")
        return found.distances, found.ids


class SentenceInt8(SentenceMethod):
    name = "int8"

    def encode(self, X):
        low = X.min(axis=0)
        step = (X.max(axis=0) - low) / 255
        self.rows = (quantized(X, "int8").astype(np.float32) + 128) * step + low
        return float(X.shape[1])


class SentenceBinary(SentenceMethod):
    name = "binary"

    def encode(self, X):
        self.index = HammingIndex(X.shape[1]).add(quantized(X, "ubinary"))
        return float(-(-X.shape[1] // 8))

    def search(self, Q, k):
        found = self.index.search(pack(Q > 0), k)
        return found.distances, found.ids


class SentenceRescored(SentenceMethod):
    name = "binary rescored"

    def encode(self, X):
        packed = quantized(X, "ubinary")
        self.rows = np.unpackbits(packed, axis=1)[:, : X.shape[1]].astype(np.float32)
        return float(packed.shape[1])


METHODS = [SentenceInt8, SentenceBinary, SentenceRescored]
