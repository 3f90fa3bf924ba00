"""Are new rows of the kind that the search was made for? What their codes tell.

Two things are compared with codes of earlier rows, the reference. **Shares**: how often each bit is one. **Novelty**:
the distance of a code to the nearest code of the reference; rows of another kind lie between the earlier ones, and
their codes far from theirs. Both are sizes of effects, not tests: what is reported is large, whatever the number of
rows.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

from hashlearn.codes import hamming_distances, unpack

REFERENCE_ROWS = 4000
BLOCK_ROWS = 500
MOST_SHARES, MOST_NOVELTY = 0.1, 0.14
"""From here on rows are of another kind. Blocks of 500 rows of the same kind have 0.02 and 0.03."""


class DriftReport(NamedTuple):
    """How new rows differ from the reference.

    Attributes
    ----------
    shares : float
        Root of the mean square difference of the shares of ones, over the bits.
    novelty : float
        The chance that a new row is further from the reference than a row of the reference, less one half.
    n_rows : int
        New rows that this is of.
    """

    shares: float
    novelty: float
    n_rows: int

    @property
    def is_large(self) -> bool:
        """Whether the new rows are of another kind."""
        return self.shares > MOST_SHARES or abs(self.novelty) > MOST_NOVELTY


class DriftReference:
    """Codes of rows that new ones are compared with.

    Parameters
    ----------
    codes : packed codes of shape (n, n_bytes)
        At least two; at most 4,000 are looked at.
    n_bits : int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> same, other = rng.integers(0, 256, (2000, 4), np.uint8), np.zeros((500, 4), np.uint8)
    >>> reference = DriftReference(same[:1500], 32)
    >>> reference.compare(same[1500:]).is_large, reference.compare(other).is_large
    (False, True)
    """

    def __init__(self, codes: NDArray[np.uint8], n_bits: int):
        step = -(-len(codes) // REFERENCE_ROWS)
        self.codes, self.n_bits = codes[::step], n_bits
        self._shares = unpack(self.codes, n_bits).mean(axis=0)
        chosen = np.linspace(0, len(self.codes) - 1, min(len(self.codes), 2 * BLOCK_ROWS)).astype(int)
        distances = hamming_distances(self.codes[chosen], self.codes, n_bits)
        distances[np.arange(len(chosen)), chosen] = n_bits + 1  # not itself
        self._nearest = distances.min(axis=1)

    def compare(self, codes: NDArray[np.uint8]) -> DriftReport:
        """How codes of new rows differ."""
        shares = unpack(codes, self.n_bits).mean(axis=0) - self._shares
        nearest = hamming_distances(codes, self.codes, self.n_bits).min(axis=1)
        above = mannwhitneyu(nearest, self._nearest).statistic / (len(nearest) * len(self._nearest))
        return DriftReport(float(np.sqrt(np.mean(shares**2))), float(above - 0.5), len(codes))


class DriftWatch:
    """New rows, a block at a time, against a reference."""

    def __init__(self, reference: DriftReference):
        self.reference = reference
        self.latest: DriftReport | None = None
        self._waiting: list[NDArray[np.uint8]] = []
        self._n_waiting = 0

    def add(self, codes: NDArray[np.uint8]) -> DriftReport | None:
        """Take new rows; a report where they fill a block."""
        self._waiting.append(codes)
        self._n_waiting += len(codes)
        if self._n_waiting < BLOCK_ROWS:
            return None
        self.latest = self.reference.compare(np.concatenate(self._waiting))
        self._waiting, self._n_waiting = [], 0
        return self.latest
