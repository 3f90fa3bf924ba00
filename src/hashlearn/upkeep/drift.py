"""Drift: whether the codes of new rows are like those of earlier rows.

New rows are compared with a reference, some earlier rows, by three numbers. **Shares**: how often each bit is one.
**Novelty**: the distance of a code to the nearest code of the reference; codes of another kind of rows are farther
away. **Error**, if vectors are kept: the distance of a vector from its reconstruction, by the linear map from bits to
vectors that fits half of the reference best. All three measure the size of a difference. They are no statistical tests:
a report means a large difference, for any number of rows.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

from hashlearn.codes import hamming_distances, unpack

REFERENCE_ROWS = 4000
BLOCK_ROWS = 500
MOST_SHARES, MOST_NOVELTY, MOST_ERROR = 0.1, 0.14, 1.25
"""From these values on, rows are of another kind. Blocks of 500 similar rows have at most 0.03, 0.05 and 1.05."""


class DriftReport(NamedTuple):
    """How new rows differ from the reference.

    Attributes
    ----------
    shares : float
        Root of the mean square difference of the shares of ones, over the bits.
    novelty : float
        The probability that a new row is farther from the reference than a row of the reference is, minus 1/2.
    n_rows : int
        The number of new rows.
    error : float or None
        The squared reconstruction error of new rows, divided by that of the reference; None without vectors.
    """

    shares: float
    novelty: float
    n_rows: int
    error: float | None = None

    @property
    def is_large(self) -> bool:
        """Whether the new rows are of another kind."""
        is_far = self.error is not None and self.error > MOST_ERROR
        return is_far or self.shares > MOST_SHARES or abs(self.novelty) > MOST_NOVELTY


class DriftReference:
    """Codes that new rows are compared with.

    Parameters
    ----------
    codes : packed codes of shape (n, n_bytes)
        At least two; at most 4,000 are used.
    n_bits : int
    vectors : array of shape (n, n_features), or None
        The rows that have these codes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> same, other = rng.integers(0, 256, (2000, 4), np.uint8), np.zeros((500, 4), np.uint8)
    >>> reference = DriftReference(same[:1500], 32)
    >>> reference.compare(same[1500:]).is_large, reference.compare(other).is_large
    (False, True)
    """

    def __init__(self, codes: NDArray[np.uint8], n_bits: int, vectors: NDArray | None = None):
        step = -(-len(codes) // REFERENCE_ROWS)
        self.codes, self.n_bits = codes[::step], n_bits
        self._told: ToldByBits | None = None
        if vectors is not None:
            self._told = ToldByBits(unpack(self.codes, n_bits), vectors[::step].astype(np.float32))
        self._shares = unpack(self.codes, n_bits).mean(axis=0)
        chosen = np.linspace(0, len(self.codes) - 1, min(len(self.codes), 2 * BLOCK_ROWS)).astype(int)
        distances = hamming_distances(self.codes[chosen], self.codes, n_bits)
        distances[np.arange(len(chosen)), chosen] = n_bits + 1  # not itself
        self._nearest = distances.min(axis=1)

    def compare(self, codes: NDArray[np.uint8], vectors: NDArray | None = None) -> DriftReport:
        """The differences of new rows from the reference."""
        shares = unpack(codes, self.n_bits).mean(axis=0) - self._shares
        nearest = hamming_distances(codes, self.codes, self.n_bits).min(axis=1)
        above = mannwhitneyu(nearest, self._nearest).statistic / (len(nearest) * len(self._nearest))
        error = None
        if self._told is not None and vectors is not None:
            error = self._told.error(unpack(codes, self.n_bits), vectors)
        return DriftReport(float(np.sqrt(np.mean(shares**2))), float(above - 0.5), len(codes), error)


class ToldByBits:
    """A linear map from bits to vectors. It is learned from every other row; the rows between are for comparison."""

    def __init__(self, bits: NDArray[np.uint8], vectors: NDArray[np.float32]):
        learned, seen = _with_one(bits[::2]), vectors[::2]
        penalty = np.float32(1e-3 * len(learned)) * np.eye(learned.shape[1], dtype=np.float32)
        self._map = np.linalg.solve(learned.T @ learned + penalty, learned.T @ seen)
        self._usual = self._squared_error(bits[1::2], vectors[1::2])

    def error(self, bits: NDArray[np.uint8], vectors: NDArray) -> float | None:
        """The squared error of rows, divided by that of the rows for comparison."""
        return self._squared_error(bits, vectors) / self._usual if self._usual > 0 else None

    def _squared_error(self, bits: NDArray[np.uint8], vectors: NDArray) -> float:
        return float(((vectors - _with_one(bits) @ self._map) ** 2).sum(axis=1).mean())


def _with_one(bits: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bits, and a column of ones."""
    return np.column_stack([bits, np.ones(len(bits))]).astype(np.float32)


class DriftWatch:
    """Compares new rows with a reference, a block at a time."""

    def __init__(self, reference: DriftReference):
        self.reference = reference
        self.latest: DriftReport | None = None
        self._waiting: list[tuple[NDArray[np.uint8], NDArray | None]] = []
        self._n_waiting = 0

    def add(self, codes: NDArray[np.uint8], vectors: NDArray | None = None) -> DriftReport | None:
        """Take new rows, always or never with their vectors; returns a report if they fill a block."""
        self._waiting.append((codes, vectors))
        self._n_waiting += len(codes)
        if self._n_waiting < BLOCK_ROWS:
            return None
        together = [each for _, each in self._waiting if each is not None]
        X = np.concatenate(together) if len(together) == len(self._waiting) else None
        self.latest = self.reference.compare(np.concatenate([each for each, _ in self._waiting]), X)
        self._waiting, self._n_waiting = [], 0
        return self.latest
