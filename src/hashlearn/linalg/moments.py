"""Sums over the rows of the data. Sums of several blocks can be merged, so blocks can be processed anywhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.rows import RowBlocks, fold, scratch
from hashlearn.rows.blocks import ArrayRows

_PIECE_ROWS = 1024


@dataclass
class KnownMoments:
    """The moments of one array, found once and used by every fit on it; see :func:`knowing_moments`.

    Attributes
    ----------
    values : the array; it must not be changed after this object is made seconds : what it took to find them n_uses :
    how often they were asked for
    """

    values: NDArray
    moments: "Moments | None" = None
    seconds: float = 0.0
    n_uses: int = 0

    def are_of(self, rows: RowBlocks) -> bool:
        """Whether the rows are all those of the array, neither shifted nor scaled."""
        whole = rows.shift is None and rows.scale == 1.0 and rows.first == 0 and rows.workers is None
        return whole and isinstance(rows.source, ArrayRows) and _is_same(rows.source.values, self.values)


def _is_same(values: Any, others: NDArray) -> bool:
    """Whether two arrays are the same memory. A view of a whole array is."""
    return isinstance(values, np.ndarray) and values.__array_interface__ == others.__array_interface__


_known: ContextVar[KnownMoments | None] = ContextVar("known moments", default=None)


@contextmanager
def knowing_moments(known: KnownMoments) -> Iterator[None]:
    """In this context the moments of an array are computed once, at their first use, and then kept."""
    token = _known.set(known)
    try:
        yield
    finally:
        _known.reset(token)


@dataclass(frozen=True)
class Moments:
    """Count, mean and scatter ``sum (x - mean)(x - mean)'`` of rows of data.

    Attributes
    ----------
    count : int
    mean : ndarray of shape (d,), float64
    scatter : ndarray of shape (d, d), float64
    """

    count: int
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]

    @classmethod
    def of(cls, rows: RowBlocks) -> "Moments":
        """Moments of all the rows, in one pass.

        Each block is centered by its own mean before its product is computed. Sums of squares of raw values would lose
        the variance of a feature far from zero.
        """
        if len(rows) == 0:
            return cls(0, np.zeros(rows.shape[1]), np.zeros((rows.shape[1], rows.shape[1])))
        known = _known.get()
        if known is None or not known.are_of(rows):
            return fold(rows, _moments_of_block, Moments.merge)
        if known.moments is None:
            start = time.perf_counter()
            known.moments = fold(rows, _moments_of_block, Moments.merge)
            known.seconds = time.perf_counter() - start
        known.n_uses += 1
        return known.moments

    def merge(self, other: "Moments") -> "Moments":
        """Moments of the two sets of rows together (Chan, Golub and LeVeque 1979)."""
        count = self.count + other.count
        if count == 0:
            return self
        gap = other.mean - self.mean
        return Moments(
            count,
            self.mean + gap * (other.count / count),
            self.scatter + other.scatter + np.outer(gap, gap) * (self.count * other.count / count),
        )

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Scatter divided by count - 1."""
        return self.scatter / max(1, self.count - 1)

    @property
    def spread(self) -> float:
        """Root mean square distance of the rows from their mean."""
        return float(np.sqrt(np.trace(self.scatter) / max(1, self.count)))

    def about(self, point: NDArray) -> NDArray[np.float64]:
        """Sum of ``(x - point)(x - point)'``; X'X for a point of zeros."""
        gap = self.mean - point
        return self.scatter + self.count * np.outer(gap, gap)


def _moments_of_block(block: NDArray, first: int) -> Moments:
    mean = block.mean(axis=0, dtype=np.float64)
    center, scatter = mean.astype(block.dtype), np.zeros((block.shape[1],) * 2, block.dtype)
    centered = scratch("centered", (min(len(block), _PIECE_ROWS), block.shape[1]), block.dtype)
    for start in range(0, len(block), _PIECE_ROWS):
        piece = block[start : start + _PIECE_ROWS]
        rows = np.subtract(piece, center, out=centered[: len(piece)])
        scatter += rows.T @ rows
    return Moments(len(block), mean, scatter.astype(np.float64))


class _Spread(NamedTuple):
    """Number of rows, mean, and sum of squared distances from the mean."""

    n: int
    mean: NDArray[np.float64]
    squares: float

    @classmethod
    def of(cls, block: NDArray, first: int) -> "_Spread":
        mean = block.mean(axis=0, dtype=np.float64)
        centered = np.subtract(block, mean.astype(block.dtype), out=scratch("centered", block.shape, block.dtype))
        return cls(len(block), mean, float(np.einsum("ij,ij->", centered, centered, dtype=np.float64)))

    def merge(self, other: "_Spread") -> "_Spread":
        gap, n = other.mean - self.mean, self.n + other.n
        between = float(gap @ gap) * self.n * other.n / n
        return _Spread(n, self.mean + gap * (other.n / n), self.squares + other.squares + between)


def mean_and_spread(rows: RowBlocks) -> tuple[NDArray[np.float64], float]:
    """The mean row, and the root mean square distance of the rows from it, in one pass."""
    n, mean, squares = fold(rows, _Spread.of, _Spread.merge)
    return mean, float(np.sqrt(squares / n))
