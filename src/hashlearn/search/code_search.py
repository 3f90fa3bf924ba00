"""Codes and the hasher that made them, searched by whatever the hasher has to compare a query with a code."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from hashlearn.codes.results import Neighbors
from hashlearn.search.asymmetric import AsymmetricIndex
from hashlearn.search.index import HammingIndex
from hashlearn.search.rerank import rerank_exact


@dataclass(frozen=True, eq=False)
class CodeSearch:
    """The codes of vectors that are at hand: row i of them has id i.

    A hasher with ``query_weights`` is searched by an :class:`AsymmetricIndex`, with its corrections; any other by
    Hamming distance. :class:`hashlearn.SimilaritySearch` is what you keep, change and save.

    Examples
    --------
    >>> from hashlearn import ITQ
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> search = CodeSearch.of(ITQ(n_bits=32, random_state=0).fit(X), X)
    >>> search.nearest(X[:3], k=1).distances.tolist()
    [[0], [0], [0]]
    """

    hasher: Any
    index: HammingIndex | AsymmetricIndex
    metric: str = "euclidean"

    @classmethod
    def of(cls, hasher: Any, X: Any, codes: NDArray[np.uint8] | None = None, metric: str = "euclidean") -> "CodeSearch":
        """Of vectors, by a fitted hasher or a pipeline that ends in one; ``codes`` saves encoding them again."""
        last, seen = _hasher_and_rows(hasher, X)
        packed = last.transform(seen) if codes is None else codes
        if hasattr(last, "query_weights"):
            index = AsymmetricIndex(last.n_bits).add(packed, corrections=last.corrections(seen, packed))
            return cls(hasher, index, metric)
        return cls(hasher, HammingIndex(last.n_bits).add(packed), metric)

    @property
    def ids(self) -> NDArray[np.int64]:
        return self.index.ids

    def nearest(self, queries: Any, k: int) -> Neighbors:
        """The k nearest codes of each query, nearest first, ties by the lowest id."""
        last, seen = _hasher_and_rows(self.hasher, queries)
        if isinstance(self.index, AsymmetricIndex):
            return self.index.search(last.query_weights(seen), k)
        return self.index.search(last.transform(seen), k)

    def search(self, X: Any, k: int, *, candidates: int, rerank: Any) -> Neighbors:
        """The k nearest by the vectors ``rerank`` among so many nearest codes."""
        found = self.nearest(X, max(k, min(candidates, len(self.index)))).ids
        return rerank_exact(rerank, X, found, k, self.metric)


def _hasher_and_rows(hasher: Any, X: Any) -> tuple[Any, Any]:
    """The hasher itself and the rows as it sees them."""
    if not isinstance(hasher, Pipeline):
        return hasher, X
    return hasher[-1], hasher[:-1].transform(X) if len(hasher) > 1 else X
