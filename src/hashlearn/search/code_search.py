"""Codes and the hasher that made them. Real queries are used where the hasher has weights, codes otherwise."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes.results import Neighbors
from hashlearn.hashers.pipelines import PipelineHasher
from hashlearn.hashers.saving import is_pipeline
from hashlearn.index.asymmetric import AsymmetricIndex
from hashlearn.index.hamming import HammingIndex
from hashlearn.rows import RowBlocks
from hashlearn.rows.blocks import Source
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
        last, seen = hasher_and_rows(hasher, X)
        packed = last.transform(seen) if codes is None else codes
        if hasattr(last, "query_weights"):
            index = AsymmetricIndex(last.n_bits).add(packed, corrections=last.corrections(seen, packed))
            return cls(hasher, index, metric)
        return cls(hasher, HammingIndex(last.n_bits).add(packed), metric)

    @classmethod
    def of_codes(cls, hasher: Any, codes: NDArray[np.uint8]) -> "CodeSearch":
        """Of codes alone. Corrections are those of the vectors that the codes stand for, which is less exact."""
        last, _ = hasher_and_rows(hasher)
        if not hasattr(last, "query_weights"):
            return cls(hasher, HammingIndex(last.n_bits).add(codes))
        corrections = last.corrections(RowBlocks(_Decoded(last, codes)), codes)
        return cls(hasher, AsymmetricIndex(last.n_bits).add(codes, corrections=corrections))

    @property
    def ids(self) -> NDArray[np.int64]:
        return self.index.ids

    def nearest(self, queries: Any, k: int) -> Neighbors:
        """The k nearest codes of each query, nearest first, ties by the lowest id."""
        last, seen = hasher_and_rows(self.hasher, queries)
        if isinstance(self.index, AsymmetricIndex):
            return self.index.search(last.query_weights(seen), k)
        return self.index.search(last.transform(seen), k)

    def nearest_to_codes(self, codes: NDArray[np.uint8], k: int) -> Neighbors:
        """As :meth:`nearest`, for queries that are codes."""
        last, _ = hasher_and_rows(self.hasher)
        if isinstance(self.index, AsymmetricIndex):
            return self.index.search(last.query_weights(last.decode(codes)), k)
        return self.index.search(codes, k)

    def search(self, X: Any, k: int, *, candidates: int, rerank: Any) -> Neighbors:
        """The k nearest by the vectors ``rerank`` among the nearest ``candidates`` codes."""
        found = self.nearest(X, max(k, min(candidates, len(self.index)))).ids
        return rerank_exact(rerank, X, found, k, self.metric)


class _Decoded(Source):
    """The vectors that codes stand for, made when they are asked for."""

    def __init__(self, hasher: Any, codes: NDArray[np.uint8]):
        self.hasher, self.codes = hasher, codes
        self.shape, self.dtype = (len(codes), hasher.n_features_in_), np.dtype(np.float32)

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        return self.hasher.decode(self.codes[rows])


def hasher_and_rows(hasher: Any, X: Any = None) -> tuple[Any, Any]:
    """The hasher itself and the rows as it sees them."""
    pipeline = hasher.pipeline if isinstance(hasher, PipelineHasher) else hasher
    if not is_pipeline(pipeline):
        return hasher, X
    return pipeline[-1], X if X is None or len(pipeline) == 1 else pipeline[:-1].transform(X)
