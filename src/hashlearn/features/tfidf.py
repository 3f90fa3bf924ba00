"""Texts to vectors without a download: weighted words, and the directions in which they vary most.

1. A text is its words and pairs of words, ``1 + log`` of how often each occurs, times the logarithm of how rare it is
   in the collection, scaled to length 1 (scikit-learn's ``TfidfVectorizer``).
2. The largest singular vectors of that matrix map it to a few hundred dimensions (latent semantic analysis: S.
   Deerwester et al., Indexing by latent semantic analysis, JASIS 1990), scaled to length 1 again.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from hashlearn.checks import check_integer

MAX_TERMS = 50_000
N_COMPONENTS = 256


class TfidfEncoder:
    """TF-IDF of words and pairs of words, reduced by singular vectors. A text without a known word is zero.

    Parameters
    ----------
    n_components : int
        Dimensions at most; small collections have fewer.

    Examples
    --------
    >>> encoder = TfidfEncoder().fit(["a red fox", "a red dog", "the blue sky"])
    >>> fox, sky = encoder.encode(["red fox", "blue sky"])
    >>> bool(fox @ sky < 0.1)
    True
    """

    kind = "text"
    name = "tfidf+svd"
    metric = "cosine"

    def __init__(self, n_components: int = N_COMPONENTS):
        self.n_components = check_integer("n_components", n_components, low=1)

    def fit(self, items: Sequence[str]) -> Self:
        vectorizer = _vectorizer(max_features=MAX_TERMS)
        try:
            weighted = vectorizer.fit_transform(items)
        except ValueError:
            raise ValueError(f"texts must hold words to learn from, got {len(items)} without any") from None
        n_components = min(self.n_components, weighted.shape[1], max(1, weighted.shape[0] - 1))
        # The exact solver depends on the texts alone; it needs one dimension more than it returns.
        exact = n_components < min(weighted.shape)
        svd = TruncatedSVD(n_components, algorithm="arpack" if exact else "randomized", random_state=0).fit(weighted)
        self._set(vectorizer.get_feature_names_out().tolist(), vectorizer.idf_, svd.components_.T)
        return self

    def _set(self, terms: list[str], idf: NDArray, directions: NDArray) -> None:
        self.terms_ = terms
        self.idf_ = np.asarray(idf, np.float64)
        self.directions_ = np.asarray(directions, np.float32)
        self._vectorizer = _vectorizer(vocabulary=terms)
        self._vectorizer.idf_ = self.idf_

    def encode(self, items: Sequence[str]) -> NDArray[np.float32]:
        if len(items) == 0:
            return np.empty((0, self.directions_.shape[1]), np.float32)
        return normalize(self._vectorizer.transform(items) @ self.directions_).astype(np.float32)

    def config(self) -> dict[str, Any]:
        return {"n_components": self.n_components, "terms": self.terms_}

    def tensors(self) -> dict[str, NDArray]:
        return {"idf": self.idf_, "directions": self.directions_}

    @classmethod
    def restored(cls, parameters: dict[str, Any], tensors: dict[str, NDArray]) -> Self:
        encoder = cls(parameters["n_components"])
        encoder._set(parameters["terms"], tensors["idf"], tensors["directions"])
        return encoder


def _vectorizer(**options: Any) -> TfidfVectorizer:
    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, dtype=np.float32, **options)
