"""From candidates to near pairs, by comparing vectors; and an estimate of the pairs that the codes missed."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.duplicates.candidates import Candidates, SignCodes
from hashlearn.duplicates.plan import bit_difference
from hashlearn.duplicates.vectors import MetricRows, Rows, square_of_distance

_CONFIDENCE = 1.96  # standard deviations: 95 %


class Curve(NamedTuple):
    """The pairs that each Hamming radius finds: arrays with one value for each radius, from 0 to the searched radius.

    Attributes
    ----------
    radius : int64
    candidates : int64
        Pairs of codes within the radius.
    pairs : int64
        Candidates that the vectors confirmed.
    precision : float64
        ``pairs / candidates``.
    recall, recall_low, recall_high : float64
        The estimated share of all near pairs, with a confidence interval of 95 %; see :func:`measured_curve`.
    """

    radius: NDArray[np.int64]
    candidates: NDArray[np.int64]
    pairs: NDArray[np.int64]
    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    recall_low: NDArray[np.float64]
    recall_high: NDArray[np.float64]


class Verified(NamedTuple):
    """The near pairs among candidates, and how many candidates there were at each code distance."""

    first: Rows
    second: Rows
    distances: NDArray[np.float64]
    code_distances: NDArray[np.int32]
    n_candidates: NDArray[np.int64]


class TooManyPairs(Exception):
    """More pairs match than may be kept."""


def verified(
    candidates: Iterable[Candidates],
    left: MetricRows,
    right: MetricRows,
    max_distance: float,
    max_pairs: int,
    n_jobs: int,
) -> Verified:
    """The candidates whose vectors are near; candidates come in pieces, and only the near ones are kept."""
    kept: list[tuple[NDArray, ...]] = []
    counts = np.zeros(1, np.int64)
    n_kept = 0
    for piece in candidates:
        distances = left.distances(piece.first, piece.second, n_jobs, right)
        is_near = distances <= max_distance
        kept.append((piece.first[is_near], piece.second[is_near], distances[is_near], piece.code_distances[is_near]))
        counts = _added(counts, np.bincount(piece.code_distances))
        n_kept += int(np.count_nonzero(is_near))
        if n_kept > max_pairs:
            raise TooManyPairs
    kept = kept or [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0, np.int32))]
    return Verified(*(np.concatenate(parts) for parts in zip(*kept)), counts)  # type: ignore[call-arg]


def differing_bits(found: Verified, vectors: MetricRows, codes: SignCodes) -> NDArray[np.float64]:
    """For each found pair, the probability that one bit of the codes differs."""
    rows, places = np.unique(np.concatenate([found.first, found.second]), return_inverse=True)
    squares = np.empty(len(rows))
    for start in range(0, len(rows), 4096):
        centered = vectors.take(rows[start : start + 4096]) - codes.mean
        squares[start : start + 4096] = np.einsum("ij,ij->i", centered, centered)
    first, second = np.split(squares[places], 2)
    return bit_difference(first, second, square_of_distance(found.distances, vectors.metric))


def measured_curve(found: Verified, codes: SignCodes, differing: NDArray[np.float64], expected: float) -> Curve:
    """The curve of a finished search.

    A pair whose bits differ with probability q is found with the known probability ``pi = P(Binomial(b, q) <= r)``,
    because the projections are random. A found pair therefore stands for ``1 / pi`` pairs (D. Horvitz and D. Thompson,
    JASA 1952): their sum estimates how many near pairs there are, and ``sum (1 - pi) / pi^2`` is the variance of that
    estimate. If nothing was found, the recall is the expected recall of pairs at the largest distance, and the interval
    is open.
    """
    radii = np.arange(codes.radius + 1)
    candidates = np.cumsum(_added(np.zeros(len(radii), np.int64), found.n_candidates))
    pairs = np.cumsum(np.bincount(found.code_distances, minlength=len(radii)))
    precision = np.divide(pairs, candidates, out=np.ones(len(radii)), where=candidates > 0)
    if not pairs[-1]:
        none = np.full(len(radii), np.nan)
        shares = np.where(radii == codes.radius, expected, np.nan)
        return Curve(radii, candidates, pairs, precision, shares, none, none)
    chances = np.maximum(codes.found_share(differing), 1e-9)
    total = np.sum(1 / chances)
    spread = _CONFIDENCE * np.sqrt(np.sum((1 - chances) / chances**2))
    fewest = np.maximum(total - spread, pairs[-1])
    return Curve(radii, candidates, pairs, precision, pairs / total, pairs / (total + spread), pairs / fewest)


def _added(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum of two lists of counts; one may be shorter."""
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total
