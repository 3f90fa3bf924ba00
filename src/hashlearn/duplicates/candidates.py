"""Two ways to find pairs that may be near, by short descriptions of the rows. The rows themselves are compared
afterwards.

- :class:`SignCodes` are signs of random projections (M. Charikar, STOC 2002). Two rows differ in a bit with the
  probability angle / pi, where the angle is seen from the mean. The binomial distribution says how many near pairs are
  within a Hamming radius.
- :class:`Projection` keeps the leading principal components. An orthogonal projection makes no distance longer, so no
  near pair is missed. All pairs are compared, in few dimensions.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from hashlearn.codes import bytes_per_code, pack
from hashlearn.duplicates.kernels import near_in_products, settle_scores
from hashlearn.duplicates.vectors import MetricRows, Rows
from hashlearn.index import HammingIndex
from hashlearn.progress import track
from hashlearn.threads import one_blas_thread, run_all

_UNSURE = 1e-4
"""A score below this share of a row's length is computed again; rounding errors in float32 are a hundred times
smaller."""

_BLOCK = 2048
_QUERIES = 4096
_ROUNDING = 1e-5


class Candidates(NamedTuple):
    """Pairs of rows that may be near, and how many bits of their codes differ (0 without codes)."""

    first: Rows
    second: Rows
    code_distances: NDArray[np.int32]


class Described(NamedTuple):
    """A selection of rows: all rows, their descriptions from a finder's ``describe``, and the numbers of the selected
    rows."""

    vectors: MetricRows
    values: NDArray
    rows: Rows


class SignCodes(NamedTuple):
    """Codes of the signs of ``(x - mean) @ projection``, and the radius within which near pairs are looked for."""

    mean: NDArray
    projection: NDArray
    radius: int

    @classmethod
    def drawn(cls, mean: NDArray, n_bits: int, seed: int) -> "SignCodes":
        """Random projections. A shorter code has the first projections of a longer one."""
        drawn = np.random.RandomState(seed).standard_normal((n_bits, len(mean))).T
        return cls(mean, np.ascontiguousarray(drawn, mean.dtype), 0)

    @property
    def n_bits(self) -> int:
        return self.projection.shape[1]

    def codes(self, block: NDArray) -> NDArray[np.uint8]:
        """Packed codes of a block of rows; a row's code does not depend on the block."""
        centered = block - self.mean
        scores = centered @ self.projection
        tolerances = _UNSURE * np.sqrt(np.einsum("ij,ij->i", centered, centered))
        settle_scores(block, self.mean, self.projection, tolerances, scores)
        return pack(scores > 0)

    def describe(self, vectors: MetricRows) -> NDArray[np.uint8]:
        """Packed codes of all rows."""
        codes = np.empty((len(vectors), bytes_per_code(self.n_bits)), np.uint8)
        for part, block in vectors.map_blocks(self.codes, "encode"):
            codes[part] = block
        return codes

    def pairs(
        self, vectors: MetricRows, codes: NDArray[np.uint8], rows: Rows, square: float, n_jobs: int
    ) -> Iterator[Candidates]:
        """Pairs of the selected rows, in ascending order, the lower row first. Codes use their radius, not the
        square."""
        index = HammingIndex(self.n_bits).add(codes[rows], rows)
        return (Candidates(*found) for found in index.pairs_within(self.radius, n_jobs=n_jobs))

    def across(self, known: "Described", new: "Described", square: float, n_jobs: int) -> Iterator[Candidates]:
        """Pairs of a known row and a new one; the known rows ascend."""
        index = HammingIndex(self.n_bits).add(known.values[known.rows], known.rows)
        for start in track(range(0, len(new.rows), _QUERIES), "compare"):
            rows = new.rows[start : start + _QUERIES]
            found = index.within(new.values[rows], self.radius, n_jobs=n_jobs)
            queries = np.repeat(rows, np.diff(found.offsets))
            yield Candidates(found.ids, queries, found.distances.astype(np.int32, copy=False))

    def found_share(self, differing: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability that a pair is found, if each of its bits differs with the given probability."""
        return binom.cdf(self.radius, self.n_bits, differing)


class Projection(NamedTuple):
    """``(x - mean) @ directions`` with orthonormal directions: distances do not grow, so near pairs stay near."""

    mean: NDArray
    directions: NDArray

    @property
    def n_dimensions(self) -> int:
        return self.directions.shape[1]

    def reduced(self, block: NDArray) -> NDArray[np.float32]:
        """The rows of a block in the few dimensions."""
        return ((block - self.mean) @ self.directions).astype(np.float32, copy=False)

    def describe(self, vectors: MetricRows) -> NDArray[np.float32]:
        """All rows in the few dimensions."""
        reduced = np.empty((len(vectors), self.n_dimensions), np.float32)
        for part, block in vectors.map_blocks(self.reduced, "project"):
            reduced[part] = block
        return reduced

    def pairs(
        self, vectors: MetricRows, reduced: NDArray[np.float32], rows: Rows, square: float, n_jobs: int
    ) -> Iterator[Candidates]:
        """Pairs of the named rows, the lower row first.

        Rows are sorted by their first component. If two blocks differ in it by more than the wanted distance, these
        blocks and all later ones are skipped.
        """
        order = rows[np.argsort(reduced[rows, 0], kind="stable")]
        reduced = reduced[order]
        limit = _Limit.of(square, _largest_square(reduced))
        for start in track(range(0, len(reduced), _BLOCK), "compare"):
            left = reduced[start : start + _BLOCK]
            end = int(np.searchsorted(reduced[:, 0], left[-1, 0] + limit.distance, side="right"))
            tasks = [
                partial(_near, left, reduced[place : place + _BLOCK], limit.square, place == start)
                for place in range(start, end, _BLOCK)
            ]
            for first_task in range(0, len(tasks), n_jobs):
                with one_blas_thread():
                    found = run_all(tasks[first_task : first_task + n_jobs], n_jobs)
                for number, places in enumerate(found, start=first_task):
                    a, b = order[start + places[:, 0]], order[start + number * _BLOCK + places[:, 1]]
                    yield _exact(np.minimum(a, b), np.maximum(a, b))

    def across(self, known: "Described", new: "Described", square: float, n_jobs: int) -> Iterator[Candidates]:
        """Pairs of a known row and a new one."""
        limit = _Limit.of(square, max(_largest_square(known.values), _largest_square(new.values)))
        for start in track(range(0, len(known.rows), _BLOCK), "compare"):
            some = known.rows[start : start + _BLOCK]
            tasks = [
                partial(_near, known.values[some], new.values[new.rows[place : place + _BLOCK]], limit.square, False)
                for place in range(0, len(new.rows), _BLOCK)
            ]
            with one_blas_thread():
                found = run_all(tasks, n_jobs)
            for number, places in enumerate(found):
                yield _exact(some[places[:, 0]], new.rows[number * _BLOCK + places[:, 1]])


class _Limit(NamedTuple):
    """The distance up to which pairs are candidates, and its square, both increased for rounding in float32."""

    distance: float
    square: float

    @classmethod
    def of(cls, square: float, largest: float) -> "_Limit":
        """``largest`` is the largest squared length of a row."""
        distance = np.sqrt(square) + _ROUNDING * np.sqrt(largest)
        return cls(float(distance), float(distance**2 + _ROUNDING * largest))


def _largest_square(reduced: NDArray[np.float32]) -> float:
    return float(np.einsum("ij,ij->i", reduced, reduced).max()) if len(reduced) else 0.0


def _near(left: NDArray, right: NDArray, limit: float, is_same: bool) -> NDArray[np.int64]:
    """Places of the near pairs of two blocks; each pair once if they are the same block."""
    products = left @ right.T
    squares = [np.einsum("ij,ij->i", block, block) for block in (left, right)]
    pairs = np.empty((max(1 << 16, 2 * len(right)), 2), np.int64)
    found, row = [], 0
    while row < len(left):
        count, row = near_in_products(products, *squares, np.float32(limit), row, pairs)
        found.append(pairs[:count].copy())
    places = np.concatenate(found) if found else np.empty((0, 2), np.int64)
    return places[places[:, 0] < places[:, 1]] if is_same else places


def _exact(first: Rows, second: Rows) -> Candidates:
    return Candidates(first, second, np.zeros(len(first), np.int32))


class Finder(Protocol):
    """A named tuple that finds candidate pairs: :class:`SignCodes`, :class:`Projection`, or, for texts,
    :class:`hashlearn.duplicates.texts.RareWords`."""

    def describe(self, vectors: MetricRows) -> NDArray[Any]:
        """What is compared of each row."""

    def pairs(
        self, vectors: MetricRows, described: NDArray[Any], rows: Rows, square: float, n_jobs: int
    ) -> Iterator[Candidates]:
        """Pairs of some rows that may be near each other."""

    def across(self, known: Described, new: Described, square: float, n_jobs: int) -> Iterator[Candidates]:
        """Pairs of a known row and a new one that may be near each other."""

    def _asdict(self) -> dict[str, Any]: ...
