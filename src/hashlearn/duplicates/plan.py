"""How to search for near pairs: the cheapest way, by costs that are estimated from a sample.

The sample is the rows whose contents have the smallest hashes. So neither the sample nor the plan depends on the order
of the rows.
"""

from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from hashlearn.codes import hamming_distances
from hashlearn.duplicates.candidates import Finder, Projection, SignCodes
from hashlearn.duplicates.vectors import MetricRows, RowMetric, Rows, distance_of_square, square_of_distance
from hashlearn.linalg.anchors.search import squared_distances
from hashlearn.threads import one_blas_thread

SAMPLE = 2000
LENGTHS = (64, 128, 256, 512)
DIMENSIONS = (8, 16, 32, 64, 128, 256)

_PERTURBED = 500
_PRINCIPAL_ROWS = 768
_MOST_REDUCED = 1 << 25  # most numbers in the projected rows: 128 MB

# Seconds of one thread. Only their ratios matter, and these differ little between machines.
_MULTIPLY_ADD = 1 / 35e9
_LOOK_AT_PRODUCT = 0.4e-9
_COMPARE_BYTE = 0.015e-9
_NOT_WORTH_CHOOSING = 0.1
_FETCH_PAIR, _FETCH_ELEMENT = 0.3e-6, 0.3e-9


class Plan(NamedTuple):
    """How to search for near pairs.

    Attributes
    ----------
    finder : SignCodes or Projection
    recall : float
        Expected share of the near pairs that are found; 1 for a projection.
    candidates : float
        Expected number of pairs that are compared by their vectors.
    seconds : float
        Rough estimate of the time on one thread.
    """

    finder: Finder
    recall: float
    candidates: float
    seconds: float

    def __str__(self) -> str:
        finder = self.finder
        if isinstance(finder, SignCodes):
            how = f"codes of {finder.n_bits} bits within radius {finder.radius}, expected recall {self.recall:.4f}"
        elif not isinstance(finder, Projection):
            return str(finder)
        else:
            how = f"all pairs in {finder.n_dimensions} of {len(finder.mean)} dimensions, exact"
        return f"{how}; about {self.candidates:.3g} candidates and {self.seconds:.2g} s of one thread"


class OrderedSample(NamedTuple):
    """Some rows, in an order that depends only on their contents.

    Attributes
    ----------
    vectors : ndarray of shape (m, d), scaled
    mean : ndarray of shape (d,)
    squares : ndarray of shape (m (m - 1) / 2,)
        Squared distances of all pairs of these rows.
    n : int
        Number of rows that the sample stands for, each content once.
    """

    vectors: NDArray
    mean: NDArray
    squares: NDArray
    n: int

    @classmethod
    def of(cls, vectors: MetricRows, rows: Rows, seed: int) -> "OrderedSample":
        """A sample of the given rows, which are all different."""
        hashes = vectors.hashes[rows]
        mixed = (hashes[:, 0] ^ np.uint64(seed)) * np.uint64(0xD6E8FEB86659FD93)
        chosen = rows[np.lexsort((hashes[:, 1], hashes[:, 0], mixed))[:SAMPLE]]
        values = vectors.take(chosen)
        mean = values.mean(axis=0, dtype=np.float64).astype(values.dtype)
        centered = values - mean
        with one_blas_thread():
            squares = squared_distances(centered, centered)
        return cls(values, mean, squares[np.triu_indices(len(values), 1)], len(rows))

    @property
    def n_pairs(self) -> float:
        """Number of pairs of the rows that the sample stands for."""
        return self.n * (self.n - 1) / 2

    def matching(self, square: float) -> float:
        """Expected number of pairs of all rows within a squared distance."""
        return float(np.mean(self.squares <= square)) * self.n_pairs if len(self.squares) else 0.0

    def distance_of_pairs(self, n_pairs: float, metric: RowMetric) -> float:
        """The distance within which about this number of pairs is expected."""
        share = min(1.0, n_pairs / max(1.0, self.n_pairs))
        return float(distance_of_square(np.quantile(self.squares, share).astype(np.float64), metric))


def choose_plan(sample: OrderedSample, square: float, recall: float, seed: int) -> Plan:
    """The cheapest plan whose expected recall of the near pairs is high enough.

    Parameters
    ----------
    sample : OrderedSample
    square : float
        The squared distance within which a pair is near.
    recall : float
        Above 0; at 1 only exact plans are taken.
    seed : int
        Seed of the random projections.
    """
    with one_blas_thread():
        exact = min(_projections(sample, square), key=_seconds)
        if recall == 1 or exact.seconds < _NOT_WORTH_CHOOSING:
            return exact
        return min([exact, *_codes(sample, square, recall, seed)], key=_seconds)


def _seconds(plan: Plan) -> float:
    return plan.seconds


def radius_for(recall: float, n_bits: int, differing: NDArray[np.float64], weights: NDArray[np.float64]) -> int:
    """The least radius within which enough pairs are expected, given the probability that a bit of each pair differs.

    The expected share of missed pairs is half of what ``recall`` allows: similar pairs are missed together, so one draw
    of projections can be worse than the mean.
    """
    wanted = (1 - (1 - recall) / 2) * weights.sum()
    return bisect_left(range(n_bits), wanted, key=lambda radius: weights @ binom.cdf(radius, n_bits, differing))


def _codes(sample: OrderedSample, square: float, recall: float, seed: int) -> list[Plan]:
    """Codes of several lengths, each with the radius for pairs at exactly the largest distance."""
    differing = _differing_at(sample, square, seed)
    longest = SignCodes.drawn(sample.mean, LENGTHS[-1], seed)
    plans = []
    for n_bits in LENGTHS:
        codes = longest._replace(projection=np.ascontiguousarray(longest.projection[:, :n_bits]))
        codes = codes._replace(radius=radius_for(recall, n_bits, differing, np.ones(len(differing))))
        packed = codes.codes(sample.vectors)
        distances = hamming_distances(packed, packed, n_bits)
        share = (np.count_nonzero(distances <= codes.radius) - len(packed)) / max(1, distances.size - len(packed))
        candidates = share * sample.n_pairs
        comparing = sample.n_pairs * packed.shape[1] * _COMPARE_BYTE
        encoding = sample.n * len(sample.mean) * n_bits * _MULTIPLY_ADD
        seconds = encoding + comparing + _verifying(candidates, len(sample.mean))
        plans.append(Plan(codes, float(codes.found_share(differing).mean()), candidates, seconds))
    return plans


def _projections(sample: OrderedSample, square: float) -> list[Plan]:
    """Projections to fewer dimensions, and to all of them."""
    centered = sample.vectors - sample.mean
    d = len(sample.mean)
    _, _, directions = np.linalg.svd(centered[:_PRINCIPAL_ROWS], full_matrices=False)
    fewer = [k for k in DIMENSIONS if k < d and k <= len(directions) and k * sample.n <= _MOST_REDUCED]
    projections = [Projection(sample.mean, np.ascontiguousarray(directions[:k].T)) for k in fewer]
    if d * sample.n <= _MOST_REDUCED or not projections:
        projections.append(Projection(sample.mean, np.eye(d, dtype=sample.mean.dtype)))
    plans = []
    for projection in projections:
        reduced = projection.reduced(sample.vectors)
        squares = squared_distances(reduced, reduced)[np.triu_indices(len(reduced), 1)]
        candidates = float(np.mean(squares <= square)) * sample.n_pairs if len(squares) else 0.0
        k = projection.n_dimensions
        comparing = sample.n_pairs * (k * _MULTIPLY_ADD + _LOOK_AT_PRODUCT)
        seconds = sample.n * d * k * _MULTIPLY_ADD + comparing + _verifying(candidates, d)
        plans.append(Plan(projection, 1.0, candidates, seconds))
    return plans


def _verifying(candidates: float, width: int) -> float:
    return candidates * (_FETCH_PAIR + width * _FETCH_ELEMENT)


def _differing_at(sample: OrderedSample, square: float, seed: int) -> NDArray[np.float64]:
    """The probability that a bit differs, for pairs at exactly the largest distance: rows, and the same rows moved by
    this distance."""
    values = (sample.vectors[:_PERTURBED] - sample.mean).astype(np.float64)
    steps = np.random.RandomState(seed).standard_normal(values.shape)
    steps *= np.sqrt(square) / np.linalg.norm(steps, axis=1, keepdims=True)
    lengths, moved_lengths = (np.einsum("ij,ij->i", rows, rows) for rows in (values, values + steps))
    return bit_difference(lengths, moved_lengths, np.full(len(values), square))


def bit_difference(left: NDArray, right: NDArray, squares: NDArray) -> NDArray[np.float64]:
    """The probability that a random projection separates two rows: their angle, seen from the mean, divided by pi.

    Parameters
    ----------
    left, right : ndarray of shape (n,)
        Squared distances of the rows from the mean.
    squares : ndarray of shape (n,)
        Their squared distance from each other.
    """
    product = np.sqrt(np.maximum(left, 0) * np.maximum(right, 0))
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = np.where(product > 0, (left + right - squares) / (2 * product), 1.0)
    return np.arccos(np.clip(cosine, -1, 1)) / np.pi


def refuse_too_many(sample: OrderedSample, max_distance: float, metric: RowMetric, max_pairs: int) -> None:
    """Raise if the sample shows that far more pairs match than may be kept."""
    expected = sample.matching(square_of_distance(max_distance, metric))
    if expected > 1.5 * max_pairs:
        raise too_many(sample, max_distance, metric, max_pairs, f"about {expected:.3g}")


def too_many(sample: OrderedSample, max_distance: float, metric: RowMetric, max_pairs: int, count: str) -> ValueError:
    """The error that says how many pairs match, and which distance would leave fewer."""
    advised = sample.distance_of_pairs(sample.n / 10, metric)
    return ValueError(
        f"max_distance={max_distance:g} matches {count} of {sample.n_pairs:.3g} pairs, more than "
        f"max_pairs={max_pairs}; at max_distance={advised:.3g} about one row in five has a duplicate: pass less than "
        "that, or a larger max_pairs"
    )
