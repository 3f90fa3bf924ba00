"""Texts to vectors that tell how many words two texts share, for near-duplicates.

1. A text is the set of its words, in lower case and between spaces, and of its pairs of neighboring words (shingles: A.
   Broder, On the resemblance and containment of documents, 1997).
2. Each word and each pair adds 1 or -1 to one of a few hundred numbers, chosen by a hash (feature hashing: K.
Weinberger et al., ICML 2009). The cosine of two such vectors is, up to chance, ``|A and B| / sqrt(|A| |B|)`` of the two
sets.

Nothing is learned: a word that was never seen counts like any other, and a text's vector depends on that text alone.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
import sklearn  # loads its parts at their first use: every search imports this module, and few encode texts
from numpy.typing import NDArray

from hashlearn.checks import check_integer

N_FEATURES = 512
_AT_A_TIME = 4096


class ShingleEncoder:
    """The words and pairs of words of a text, hashed to a few numbers. A text without a word is zero.

    Parameters
    ----------
    n_features : int
        Length of a vector. The error of the cosine is about ``1 / sqrt(n_features)`` for two texts that share nothing,
        and less for texts that share words.

    Examples
    --------
    >>> encoder = ShingleEncoder()
    >>> fox, same, dog = encoder.encode(["The quick brown fox", "the quick  brown fox", "a lazy dog"])
    >>> round(float(fox @ same), 3), bool(fox @ dog < 0.2)
    (1.0, True)
    """

    kind = "text"
    name = "shingles"
    metric = "cosine"

    def __init__(self, n_features: int = N_FEATURES):
        self.n_features = check_integer("n_features", n_features, low=1)

    def fit(self, items: Sequence[str]) -> Self:
        return self

    def encode(self, items: Sequence[str]) -> NDArray[np.float32]:
        hasher = sklearn.feature_extraction.FeatureHasher(self.n_features, input_type="string", dtype=np.float32)
        vectors = np.empty((len(items), self.n_features), np.float32)
        for start in range(0, len(items), _AT_A_TIME):
            block = items[start : start + _AT_A_TIME]
            counts = hasher.transform(map(shingles, block))
            vectors[start : start + len(block)] = sklearn.preprocessing.normalize(counts).toarray()
        return vectors

    def config(self) -> dict[str, Any]:
        return {"n_features": self.n_features}

    def tensors(self) -> dict[str, NDArray]:
        return {}

    @classmethod
    def restored(cls, parameters: dict[str, Any], tensors: dict[str, NDArray]) -> Self:
        return cls(**parameters)


def shingles(text: str) -> set[str]:
    """The words of a text and its pairs of neighboring words."""
    words = text.lower().split()
    return {*words, *map(" ".join, pairwise(words))}
