"""Real queries as small integers.

The distance of a query with weights w from a code b in {-1, 1}^n with correction c is estimated as ``c + sum(w * b)``.
The search computes with integers:

- weights are multiples of a step, one step for each query: ``w ~ step * values``, as fine as tables of 8 bits allow
  (see :mod:`hashlearn.index.kernels.look_up`): ``abs(values)`` of the 8 bits of a byte add up to at most 255. So the
  largest weight is at least 31 steps, 6 bits with its sign, and 60 or more where weights differ much;
- ``sum(values * b)`` is ``2 * agreed - sum(abs(values))``, where ``agreed`` is the sum of ``abs(values)`` over the bits
  with the sign of their weight: no negative numbers;
- a query with 16 weights for each four bits, of which they choose one, has them as multiples of two steps above the
  least of the 16. The two tables of a byte have spreads of at most 255 together;
- a correction, which is ``offset + scale * byte``, adds ``byte * factor >> 8`` to that.

The **sum** of both is what codes are ordered by, exactly. An estimate is ``base + 2 * step * sum``. It differs from the
one with real weights by at most ``step * (n_bits / 2 + 2)``, and as a rule by about ``step * sqrt(n_bits / 12)``,
because the errors of single weights do not depend on each other. Tables differ less: they have fewer entries to add.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.index.kernels.asymmetric import SUM_BITS, Queries
from hashlearn.index.kernels.look_up import TABLE
from hashlearn.index.kernels.rounding import estimate, quantize_weights, read_keys, round_tables

BITS_WITH_SHORT_SUMS = 1024
"""Sums of codes of up to 1024 bits fit into 16 bits."""

_LARGEST_BYTE = 251.0  # of 255: rounding adds a half for each of 8 weights
_LARGEST_BYTE_OF_TABLES = 254.0  # of 255: rounding adds a half for each of 2 entries
_LARGEST_SUM = 64000.0  # of 65534: rounding adds a half for each weight


class QuantizedQueries(NamedTuple):
    """Queries as tables of integers.

    Attributes
    ----------
    entries : ndarray of shape (n_queries, 32 * n_bytes), uint8
        The tables of the first four bits of a code, of the next four, and so on.
    factors : ndarray of shape (n_queries,), uint16
    steps, bases : ndarray of shape (n_queries,), float64
    """

    entries: NDArray[np.uint8]
    factors: NDArray[np.uint16]
    steps: NDArray[np.float64]
    bases: NDArray[np.float64]

    def estimates(self, queries: NDArray[np.int64], sums: NDArray[np.int64]) -> NDArray[np.float32]:
        """The distances that sums stand for, for the queries of these numbers."""
        distances = np.empty(len(sums), np.float32)
        estimate(self.bases, self.steps, queries, sums, distances)
        return distances

    def read_keys(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The distances and positions that keys ``sum << 36 | position`` stand for, in row q those of query q."""
        distances, positions = np.empty(keys.shape, np.float32), np.empty(keys.shape, np.int64)
        read_keys(keys, self.bases, self.steps, distances, positions)
        return distances, positions

    def limits(self, distance: float) -> NDArray[np.int64]:
        """For each query the smallest sum that stands for more than a distance, by bisection."""
        queries = np.arange(len(self.steps))
        low, high = np.zeros_like(queries), np.full_like(queries, 1 << SUM_BITS)
        for _ in range(SUM_BITS + 1):
            middle = (low + high) // 2
            above = self.estimates(queries, middle) > distance
            low, high = np.where(above, low, np.minimum(middle + 1, high)), np.where(above, middle, high)
        return high

    def tables(self, first: int, last: int) -> Queries:
        """Some of the queries as the kernels want them."""
        return Queries(self.entries[first:last].reshape(-1), self.factors[first:last])


def sum_type(n_bits: int) -> np.dtype:
    """The type of the sums of codes of ``n_bits`` bits."""
    return np.dtype(np.uint16 if n_bits <= BITS_WITH_SHORT_SUMS else np.uint32)


def n_table_entries(n_bits: int) -> int:
    """Entries of the tables of a query for codes of ``n_bits`` bits: 16 for each four bits."""
    return -(-n_bits // 4) * TABLE


def quantize(weights: NDArray[np.float32], n_bits: int, scale: float = 0.0, offset: float = 0.0) -> QuantizedQueries:
    """Real queries as integers, for codes of ``n_bits`` bits whose corrections have this scale and offset.

    ``weights`` has a column for each bit, or one for each entry of the tables.
    """
    n_queries, n_bytes = len(weights), -(-n_bits // 8)
    queries = QuantizedQueries(
        np.empty((n_queries, n_bytes * 2 * TABLE), np.uint8),
        np.empty(n_queries, np.uint16),
        np.empty(n_queries),
        np.empty(n_queries),
    )
    weights, affine = np.ascontiguousarray(weights), (float(scale), float(offset))
    if weights.shape[1] == n_bits:
        values = np.zeros((n_queries, 8 * n_bytes), np.int16)
        tables = queries.entries.reshape(-1)
        quantize_weights(weights, *affine, _LARGEST_BYTE, _largest_sum(n_bits), values, tables, queries)
    else:
        round_tables(weights, *affine, _LARGEST_BYTE_OF_TABLES, _largest_sum(n_bits), queries)
    return queries


def _largest_sum(n_bits: int) -> float:
    return _LARGEST_SUM if n_bits <= BITS_WITH_SHORT_SUMS else np.inf
