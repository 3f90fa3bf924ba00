"""Pipelines of scikit-learn that end in a hasher, for code that wants a hasher."""

from typing import Any, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from hashlearn.hashers.base import Hasher, all_or_nothing, check_hasher
from hashlearn.hashers.saving import is_pipeline, n_bits_of, save_hasher


def as_hasher(hasher: Any) -> Hasher:
    """A hasher is returned unchanged, a pipeline as a hasher that also reads files and blocks of rows."""
    return PipelineHasher(hasher) if is_pipeline(check_hasher("hasher", hasher)) else hasher


class PipelineHasher(Hasher):
    """A pipeline that ends in a hasher, with what a hasher can do and a pipeline cannot: encode files block by block.

    Parameters
    ----------
    pipeline : sklearn.pipeline.Pipeline
        Its transformers work on each row alone, as those of :data:`hashlearn.hashers.saving.OTHER_CLASSES` do.
    """

    def __init__(self, pipeline):
        self.pipeline = pipeline

    @property
    def n_bits(self) -> int:  # type: ignore[override]
        return n_bits_of(self.pipeline)

    @property
    def n_features_in_(self) -> int:  # type: ignore[override, unused-ignore]
        return self.pipeline.n_features_in_

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        self.pipeline = clone(self.pipeline).fit(X, y)
        return self

    def save(self, folder):
        save_hasher(self.pipeline, folder)

    def __sklearn_is_fitted__(self) -> bool:
        return self.pipeline.__sklearn_is_fitted__()

    def _scores(self, block: NDArray) -> NDArray:
        *transformers, hasher = [step for _, step in self.pipeline.steps if step != "passthrough"]
        for transformer in transformers:
            block = transformer.transform(block)
        return hasher.scorer(block.dtype)(block)
