"""From vectors to what an index wants: a hasher and the metric it serves."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from hashlearn.checks import check_choice
from hashlearn.codes import Corrections, pack
from hashlearn.hashers.base import SMALL_ROWS, Hasher, check_hasher, has_learned, lock_learned
from hashlearn.hashers.pipelines import PipelineHasher
from hashlearn.hashers.saving import last_step
from hashlearn.index import AsymmetricIndex, HammingIndex
from hashlearn.linalg.projections import unit_rows
from hashlearn.rows import RowBlocks, as_rows, check_holds_rows
from hashlearn.rows.blocks import Source, dense
from hashlearn.search.rerank import METRICS

Index = HammingIndex | AsymmetricIndex
QUERIES = ("code", "real")
_SAMPLE = 1000
_UNIT = 1e-2
"""Lengths of rows that differ less than this are equal."""


class Lengths(NamedTuple):
    """The smallest and the largest Euclidean length of the rows that a hasher was fitted to, in a sample."""

    low: float
    high: float

    @classmethod
    def of(cls, X: Any) -> "Lengths":
        rows = as_rows(X)
        chosen = np.unique(np.linspace(0, len(rows) - 1, min(_SAMPLE, len(rows))).astype(np.int64))
        lengths = np.linalg.norm(rows.take(chosen), axis=1)
        return cls(float(lengths.min()), float(lengths.max()))

    @property
    def are_one(self) -> bool:
        return abs(self.low - 1) < _UNIT and abs(self.high - 1) < _UNIT

    @property
    def differ(self) -> bool:
        return self.high > (1 + _UNIT) * self.low


class Encoded(NamedTuple):
    """Packed codes and, where the hasher has them, their corrections."""

    codes: NDArray[np.uint8]
    corrections: Corrections | None

    def added_to(self, index: Index, places: NDArray[np.int64]) -> Index:
        """An index, which gets the codes, under these numbers."""
        if isinstance(index, AsymmetricIndex):
            return index.add(self.codes, places, self.corrections)
        return index.add(self.codes, places)

    @property
    def packed(self) -> NDArray[np.uint8]:
        """Codes with their corrections behind them, as files keep them; see :meth:`MetricHasher.unpacked`."""
        return self.codes if self.corrections is None else np.hstack([self.codes, self.corrections.values[:, None]])


@dataclass(frozen=True, eq=False)
class MetricHasher:
    """A hasher with a metric, as they were checked by :meth:`of`. It does not change.

    Attributes
    ----------
    hasher : Hasher, or a pipeline that ends in one
    metric : {"euclidean", "cosine", "dot"}
        For "cosine" the hasher sees rows of length one.
    query : {"code", "real"}
        Whether a query is compared by its code or by its scores.
    lengths : Lengths or None
        Of the rows that the hasher was fitted to, if they are known.
    """

    hasher: Any
    metric: str
    query: str
    lengths: Lengths | None = None

    @classmethod
    def of(cls, hasher: Any, metric: str | None, query: str | None) -> "MetricHasher":
        """With the metric of the hasher, if it has one, or "euclidean"; and "real" for one with ``query_weights``."""
        last = last_step(check_hasher("hasher", hasher))
        own, has_weights = getattr(last, "metric", None), hasattr(last, "query_weights")
        metric = check_choice("metric", (own or "euclidean") if metric is None else metric, METRICS)
        query = check_choice("query", ("real" if has_weights else "code") if query is None else query, QUERIES)
        if has_weights and query == "code":
            raise ValueError(
                f"query must be 'real' for {type(last).__name__}: its codes are not compared by their bits"
            )
        return cls(hasher if own in (None, metric) else _with_metric(hasher, last, metric), metric, query)

    @cached_property
    def last(self) -> Any:
        """The hasher itself, or the last step of a pipeline; its learned arrays are read-only."""
        last = self.hasher if isinstance(self.hasher, Hasher) else self.hasher[-1]
        lock_learned(last)
        return last

    @property
    def _is_pipeline(self) -> bool:
        return self.last is not self.hasher

    @property
    def reader(self) -> Hasher:
        return PipelineHasher(self.hasher) if self._is_pipeline else self.hasher

    @property
    def has_weights(self) -> bool:
        return hasattr(self.last, "query_weights")

    @property
    def n_bits(self) -> int:
        return int(self.last.n_bits)

    @property
    def n_features(self) -> int:
        return int(self.hasher.n_features_in_)

    @property
    def is_fitted(self) -> bool:
        return has_learned(self.last)

    @property
    def affine(self) -> tuple[float, float] | None:
        """Scale and offset of the corrections of its codes; None where they have none."""
        if not self.has_weights:
            return None
        return float(self.last.correction_scale_), float(self.last.correction_offset_)

    def empty_index(self) -> Index:
        """An index without codes, of the kind that queries are compared by."""
        return HammingIndex(self.n_bits) if self.query == "code" else AsymmetricIndex(self.n_bits)

    def fitted(self, X: Any) -> "MetricHasher":
        """An encoder with a copy of the hasher that has learned from these rows."""
        lengths = Lengths.of(_checked(X))
        if self.metric == "dot" and lengths.differ and not self.has_weights:
            _warn(
                f"metric='dot' with rows of length {lengths.low:.3g} to {lengths.high:.3g}: codes tell little of the "
                "length; keep vectors to order candidates by, or take ABH(metric='dot')",
                depth=2,
            )
        rows = self._seen(X)
        if self._is_pipeline and isinstance(rows, RowBlocks):
            rows = rows.take(np.arange(len(rows)))
        return MetricHasher(clone(self.hasher).fit(rows), self.metric, self.query, lengths)

    def encode(self, X: Any) -> Encoded:
        """What is kept of rows."""
        rows = self._seen(X)
        if not self.has_weights:
            return Encoded(self.reader.transform(rows), None)
        return Encoded(*self.last.codes_and_corrections(self._before_last(rows)))

    @property
    def n_packed(self) -> int:
        """Bytes of a row of :attr:`Encoded.packed`."""
        return -(-self.n_bits // 8) + self.has_weights

    def unpacked(self, packed: NDArray[np.uint8]) -> Encoded:
        """What was packed."""
        codes = np.ascontiguousarray(packed[:, : -(-self.n_bits // 8)])
        affine = self.affine
        return Encoded(codes, None if affine is None else Corrections(packed[:, -1].copy(), *affine))

    def codes(self, X: Any) -> NDArray[np.uint8]:
        """Packed codes of queries."""
        rows = self._seen(X)
        if type(rows) is np.ndarray and len(rows) <= SMALL_ROWS:  # without what scikit-learn puts around transform
            return pack(self.reader.decision_function(rows) > 0)
        return self.reader.transform(rows)

    def weights(self, X: Any) -> NDArray[np.float32]:
        """Weights of queries for the bits of codes: a code is near where weights times bits, +1 or -1, is small."""
        rows = self._seen(X)
        if not self.has_weights:
            return -self.reader.decision_function(rows)
        return self.last.query_weights(self._before_last(rows))

    def check_lengths(self, X: Any, n_left: int) -> int:
        """Warn where rows contradict the metric; returns in how many more calls, of ``n_left``, it is to be checked."""
        if self.metric != "euclidean" or self.lengths is None or not self.lengths.are_one:
            return 0
        rows = as_rows(_checked(X))
        if not len(rows):
            return n_left
        found = Lengths.of(rows)
        if found.are_one:
            return n_left - 1
        _warn(
            f"the hasher was fitted to rows of length 1, and here are rows of length {found.low:.3g} to "
            f"{found.high:.3g}; if you mean the angle between vectors, say metric='cosine'",
            depth=2,
        )
        return 0

    def _seen(self, X: Any) -> Any:
        """The rows as the hasher sees them: one that knows the metric scales them itself, a pipeline does not."""
        if self.metric != "cosine" or (hasattr(self.last, "metric") and not self._is_pipeline):
            return X
        if type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind == "f":
            return unit_rows(X)
        return RowBlocks(_UnitRows(as_rows(_checked(X))))

    def _before_last(self, rows: Any) -> Any:
        """The rows as the hasher that a pipeline ends in sees them."""
        if not self._is_pipeline:
            return rows
        array = as_rows(rows)
        return self.hasher[:-1].transform(array.take(np.arange(len(array))))


class _UnitRows(Source):
    """Rows of a source, each scaled to length one."""

    def __init__(self, rows: RowBlocks):
        self._rows = rows
        self.shape, self.dtype = rows.shape, rows.dtype

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray:
        return unit_rows(dense(self._rows.source[rows]).astype(self.dtype, copy=False))

    def in_order(self, slices: Any) -> Any:
        for rows, block in self._rows.source.in_order(slices):
            yield rows, unit_rows(dense(block).astype(self.dtype, copy=False))

    def place_of(self, row: int) -> str:
        return self._rows.source.place_of(row)


def _with_metric(hasher: Any, last: Any, metric: str) -> Any:
    """A copy of a hasher that has not learned yet, or of a pipeline that ends in it, for another metric."""
    if has_learned(last):
        raise ValueError(f"metric must be that of the fitted hasher, {last.metric!r}, got {metric!r}")
    other = clone(hasher)
    last_step(other).set_params(metric=metric)
    return other


def _checked(X: Any) -> Any:
    check_holds_rows(X)
    return X


def _warn(text: str, depth: int) -> None:
    """Warn at the line that called the search, which is ``depth`` calls above the caller of this function."""
    warnings.warn(text, UserWarning, stacklevel=2 + depth)
