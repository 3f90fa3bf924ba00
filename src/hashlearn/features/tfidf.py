"""Texts to vectors without a download: weighted words, by topics and one by one.

1. A text x has a number for each word: ``1 + log`` of how often the word occurs in the text, times the logarithm of how
   rare the word is in the collection. The vector is scaled to length 1 (scikit-learn's ``TfidfVectorizer``).
2. The largest singular vectors V of a sample of texts are topics (latent semantic analysis: S. Deerwester et al.,
   Indexing by latent semantic analysis, JASIS 1990). They tell what a text is about, and lose rare words.
3. The part of x that the topics do not represent is projected on random directions P. Every word has a few directions
(sparse Johnson-Lindenstrauss: D. Kane and J. Nelson, JACM 2014). They keep rare words apart::

       y = [TOPIC_WEIGHT V'x, P'(x - V V'x)],  scaled to length 1
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import sklearn  # loads its parts at their first use: every search imports this module, and few encode texts
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from hashlearn.checks import check_integer

MAX_TERMS = 200_000
N_TOPICS, N_DIRECTIONS = 64, 448
TOPIC_WEIGHT = np.float32(2)
_SAMPLE = 10_000
_DIRECTIONS_OF_A_WORD = 8
_AT_A_TIME = 4096


class TfidfEncoder:
    """TF-IDF of words, as topics and as random directions. A text without a known word is zero.

    Parameters
    ----------
    n_topics : int
        Topics at most; small collections have fewer.
    n_directions : int
        Random directions.

    Examples
    --------
    >>> encoder = TfidfEncoder().fit(["a red fox", "a red dog", "the blue sky"])
    >>> fox, sky = encoder.encode(["red fox", "blue sky"])
    >>> bool(fox @ sky < 0.1)
    True
    """

    kind = "text"
    name = "tfidf"
    metric = "cosine"
    weights = {"words": 10, "meaning": 1}  # noqa: RUF012
    """Weights of the lists of words and of these vectors when a search joins both. The vectors contain nothing that the
    words do not."""

    def __init__(self, n_topics: int = N_TOPICS, n_directions: int = N_DIRECTIONS):
        self.n_topics = check_integer("n_topics", n_topics, low=1)
        self.n_directions = check_integer("n_directions", n_directions, low=1)

    def fit(self, items: Sequence[str]) -> Self:
        vectorizer = _vectorizer(max_features=MAX_TERMS)
        try:
            vectorizer.fit(items)
        except ValueError:
            raise ValueError(f"texts must hold words to learn from, got {len(items)} without any") from None
        sample = vectorizer.transform(items[:: -(-len(items) // _SAMPLE)])
        n_topics = min(self.n_topics, sample.shape[1], max(1, sample.shape[0] - 1))
        # The exact solver depends on the texts alone; it needs one dimension more than it returns.
        exact = n_topics < min(sample.shape)
        solver = "arpack" if exact else "randomized"
        svd = sklearn.decomposition.TruncatedSVD(n_topics, algorithm=solver, random_state=0).fit(sample)
        self._set(vectorizer.get_feature_names_out().tolist(), vectorizer.idf_, svd.components_.T)
        return self

    def _set(self, terms: list[str], idf: NDArray, topics: NDArray) -> None:
        self.terms_ = terms
        self.idf_ = np.asarray(idf, np.float64)
        self.topics_ = np.asarray(topics, np.float32)
        self._vectorizer = _vectorizer(vocabulary=terms)
        self._vectorizer.idf_ = self.idf_
        self._directions = _random_directions(len(terms), self.n_directions)
        self._of_topics = np.asarray(self._directions.T @ self.topics_).T  # V'P

    def encode(self, items: Sequence[str]) -> NDArray[np.float32]:
        n_topics = self.topics_.shape[1]
        vectors = np.empty((len(items), n_topics + self.n_directions), np.float32)
        for start in range(0, len(items), _AT_A_TIME):
            weighted = self._vectorizer.transform(items[start : start + _AT_A_TIME])
            topics = weighted @ self.topics_
            left = (weighted @ self._directions).toarray() - topics @ self._of_topics
            both = np.hstack([TOPIC_WEIGHT * topics, left])
            vectors[start : start + _AT_A_TIME] = sklearn.preprocessing.normalize(both)
        return vectors

    def config(self) -> dict[str, Any]:
        return {"n_topics": self.n_topics, "n_directions": self.n_directions, "terms": self.terms_}

    def tensors(self) -> dict[str, NDArray]:
        return {"idf": self.idf_, "topics": self.topics_}

    @classmethod
    def restored(cls, parameters: dict[str, Any], tensors: dict[str, NDArray]) -> Self:
        encoder = cls(parameters["n_topics"], parameters["n_directions"])
        encoder._set(parameters["terms"], tensors["idf"], tensors["topics"])
        return encoder


def _vectorizer(**options: Any) -> Any:
    return sklearn.feature_extraction.text.TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **options)


def _random_directions(n_terms: int, n_directions: int) -> csr_matrix:
    """A few directions with signs for each word. They are the same in every process and are not saved."""
    rng = np.random.RandomState(0)  # its stream is the same in every version of numpy
    n = n_terms * _DIRECTIONS_OF_A_WORD
    columns = rng.randint(0, n_directions, n)
    signs = np.where(rng.randint(0, 2, n) == 1, 1, -1) / np.sqrt(_DIRECTIONS_OF_A_WORD)
    starts = np.arange(0, n + 1, _DIRECTIONS_OF_A_WORD)
    return csr_matrix((signs.astype(np.float32), columns, starts), shape=(n_terms, n_directions))
