"""ScaNN's anisotropic product codes: a brute-force scan of 4 bits for each block of features, without its tree."""

from typing import ClassVar

import numpy as np
from board_method import Method


class Scann(Method):
    name, family, needs, seeded = "ScaNN", "ScaNN", "scann", False
    settings: ClassVar = [{"features_a_block": n} for n in (1, 2, 4, 8)]
    threshold = 0.2
    """Of the anisotropic loss: the value of its documentation."""

    def encode(self, X):
        from scann import scann_ops_pybind

        near = "dot_product" if self.metric == "cosine" else "squared_l2"
        builder = scann_ops_pybind.builder(X, 10, near).set_n_training_threads(1)
        size = self.setting["features_a_block"]
        self.index = builder.score_ah(size, anisotropic_quantization_threshold=self.threshold).build()
        return -(-X.shape[1] // size) / 2

    def search(self, Q, k):
        ids, scores = self.index.search_batched(Q, k)
        return (-scores if self.metric == "cosine" else scores), ids.astype(np.int64)


METHODS = [Scann]
