"""Pipelines of scikit-learn that end in a hasher, wherever a hasher is wanted."""

from typing import Any, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from hashlearn.hashers.base import Hasher, all_or_nothing
from hashlearn.hashers.saving import n_bits_of, save_hasher


def check_hasher(name: str, value: Any) -> Any:
    """``value`` if it is a hasher or a pipeline that ends in one."""
    last = value[-1] if isinstance(value, Pipeline) and len(value) else value
    if not isinstance(last, Hasher):
        wanted = "a hasher such as hashlearn.JPSH(), or a pipeline that ends in one"
        raise TypeError(f"{name} must be {wanted}, got {value!r:.80}")
    return value


def as_hasher(hasher: Any) -> Hasher:
    """A hasher as it is; a pipeline as a hasher that also reads files and blocks of rows."""
    return PipelineHasher(hasher) if isinstance(check_hasher("hasher", hasher), Pipeline) else hasher


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
