"""The nearest codes of vectors, by whatever a hasher has to compare them with."""

from typing import Any

from hashlearn.codes.results import Neighbors
from hashlearn.hashers.saving import n_bits_of
from hashlearn.search.asymmetric import AsymmetricIndex
from hashlearn.search.index import HammingIndex


def nearest_codes(hasher: Any, X: Any, queries: Any, k: int) -> Neighbors:
    """The k rows of X whose codes are nearest to each query, nearest first, ties by the lowest row.

    A hasher with ``query_weights`` is searched by an :class:`AsymmetricIndex`, with its corrections; any other by
    Hamming distance.

    Parameters
    ----------
    hasher : Hasher, or a pipeline of scikit-learn that ends in one
        Fitted.
    X : array of shape (n, n_features)
    queries : array of shape (n_queries, n_features)
    k : int

    Examples
    --------
    >>> from hashlearn import ITQ
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> nearest_codes(ITQ(n_bits=32, random_state=0).fit(X), X, X[:3], k=1).distances.tolist()
    [[0], [0], [0]]
    """
    codes, n_bits = hasher.transform(X), n_bits_of(hasher)
    if not hasattr(hasher, "query_weights"):
        return HammingIndex(n_bits).add(codes).search(hasher.transform(queries), k)
    index = AsymmetricIndex(n_bits).add(codes, corrections=hasher.corrections(X, codes))
    return index.search(hasher.query_weights(queries), k)
