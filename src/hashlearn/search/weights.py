"""Real queries as small integers.

The distance of a query with weights w from a code b in {-1, 1}^n with correction c is estimated as ``c + sum(w * b)``.
The search computes with integers:

- weights are multiples of a step, one step for each query: ``w ~ step * values``, as fine as tables of 8 bits allow
  (see :mod:`hashlearn.search.kernels.look_up`): ``abs(values)`` of the 8 bits of a byte add up to at most 255. So the
  largest weight is at least 31 steps, 6 bits with its sign, and 60 or more where weights differ much;
- ``sum(values * b)`` is ``2 * agreed - sum(abs(values))``, where ``agreed`` is the sum of ``abs(values)`` over the bits
  with the sign of their weight: no negative numbers;
- a correction, which is ``offset + scale * byte``, adds ``byte * factor >> 8`` to ``agreed``.

The **sum** of both is what codes are ordered by, exactly. An estimate is ``base + 2 * step * sum``. It differs from the
one with real weights by at most ``step * (n_bits / 2 + 2)``, and as a rule by about ``step * sqrt(n_bits / 12)``,
because the errors of single weights do not depend on each other.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import bytes_per_code
from hashlearn.search.kernels.asymmetric import SUM_BITS, Queries, fill_tables, round_weights
from hashlearn.search.kernels.look_up import TABLE

BITS_WITH_SHORT_SUMS = 1024
"""Sums of codes of up to so many bits stay within 16 bits."""

_LARGEST_BYTE = 251.0  # of 255: rounding adds a half for each of 8 weights
_LARGEST_SUM = 64000.0  # of 65534: rounding adds a half for each weight


class QuantizedWeights(NamedTuple):
    """Queries as integers.

    Attributes
    ----------
    values : ndarray of shape (n_queries, n_bits), int16
    factors : ndarray of shape (n_queries,), uint16
    steps, bases : ndarray of shape (n_queries,), float64
    """

    values: NDArray[np.int16]
    factors: NDArray[np.uint16]
    steps: NDArray[np.float64]
    bases: NDArray[np.float64]

    def estimates(self, queries: NDArray[np.int64], sums: NDArray[np.int64]) -> NDArray[np.float32]:
        """The distances that sums stand for, for the queries of these numbers."""
        with np.errstate(over="ignore"):  # beyond single precision it is infinite
            return (self.bases[queries] + 2 * self.steps[queries] * sums).astype(np.float32)

    def limits(self, distance: float) -> NDArray[np.int64]:
        """For each query the smallest sum that stands for more than a distance, by bisection."""
        queries = np.arange(len(self.steps))
        low, high = np.zeros_like(queries), np.full_like(queries, 1 << SUM_BITS)
        for _ in range(SUM_BITS + 1):
            middle = (low + high) // 2
            above = self.estimates(queries, middle) > distance
            low, high = np.where(above, low, np.minimum(middle + 1, high)), np.where(above, middle, high)
        return high

    def tables(self) -> Queries:
        """The queries as the kernels want them."""
        n_queries, n_bits = self.values.shape
        n_bytes = bytes_per_code(n_bits)
        padded = np.zeros((n_queries, 8 * n_bytes), np.int16)
        padded[:, :n_bits] = self.values
        tables = np.empty(n_queries * n_bytes * 2 * TABLE, np.uint8)
        fill_tables(padded, tables)
        return Queries(tables, self.factors)

    def rows(self, first: int, last: int) -> "QuantizedWeights":
        """Some of the queries."""
        part = slice(first, last)
        return QuantizedWeights(self.values[part], self.factors[part], self.steps[part], self.bases[part])


def sum_type(n_bits: int) -> np.dtype:
    """The type of the sums of codes of so many bits."""
    return np.dtype(np.uint16 if n_bits <= BITS_WITH_SHORT_SUMS else np.uint32)


def quantize(weights: NDArray[np.float32], scale: float = 0.0, offset: float = 0.0) -> QuantizedWeights:
    """Real weights, of shape (n_queries, n_bits), as integers, for codes whose corrections have this scale and offset.

    >>> quantized = quantize(np.array([[-1.0, 0.5]], np.float32))
    >>> (quantized.values * quantized.steps).round(3)
    array([[-1.   ,  0.503]])
    """
    n_queries, n_bits = weights.shape
    rounded = QuantizedWeights(
        np.empty((n_queries, n_bits), np.int16),
        np.empty(n_queries, np.uint16),
        np.empty(n_queries),
        np.empty(n_queries),
    )
    largest_sum = _LARGEST_SUM if n_bits <= BITS_WITH_SHORT_SUMS else np.inf
    round_weights(np.ascontiguousarray(weights), float(scale), float(offset), _LARGEST_BYTE, largest_sum, rounded)
    return rounded
