"""Anchors: a few hundred centres that stand for the data, and the sparse graph between the two (eq. 2)."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numba import njit
from numpy.typing import NDArray

from hashlearn.rows import RowBlocks, added, fold, fold_here, scratch, zeros_again

_TIE = 1e-10
"""Lower anchors win ties: each is put nearer than the next by this share of the mean squared norm. Equal distances are
common in data of small integers; without it rounding would decide, differently for the same data in another unit."""

_PIECE_ELEMENTS, _MIN_PIECE_ROWS, _MAX_PIECE_ROWS = 1 << 21, 32, 4096
"""Products are computed so many at a time; with fewer, BLAS spends a tenth of its time on arranging the anchors anew
for every product."""

_SEARCH_ELEMENTS = 1 << 17
"""Distances are compared so many at a time, which the innermost caches hold."""

_NEAR_ORIGIN = 100
"""Rows whose mean has at most so many times the anchors' squared norm are not shifted themselves: single
precision bears the difference, and shifting a block takes memory and time."""

_MAX_SEARCHES = 16
"""Anchors to be found up to which a search for each is faster than a partition."""


def squared_distances(block: NDArray, anchors: NDArray) -> NDArray:
    """Squared Euclidean distances of a block of rows to the anchors, shape (rows, m), never negative."""
    distances = block @ anchors.T
    distances *= -2
    distances += np.einsum("ij,ij->i", block, block)[:, None]
    distances += np.einsum("ij,ij->i", anchors, anchors)
    return np.maximum(distances, 0, out=distances)


def nearest_anchors(block: NDArray, anchors: NDArray, k: int = 1) -> tuple[NDArray[np.intp], NDArray]:
    """The k nearest anchors of every row, nearest first, and their squared distances; both of shape (rows, k).

    Equally near anchors are taken in the order of their numbers.
    """
    return AnchorSearch(anchors)(block, k)


class AnchorSearch:
    """:func:`nearest_anchors` for many blocks, on any number of threads: what depends on the anchors only is computed
    once.

    Parameters
    ----------
    anchors : ndarray of shape (m, d)
    projection : ndarray of shape (d, b) or None
        Taken along in the product of the rows with the anchors: alone, a product so narrow takes twice the time.
    shift : ndarray of shape (d,) or None
        Subtracted from the rows, not from the anchors.
    scale : float
        The rows are divided by it, after the shift.
    """

    def __init__(
        self, anchors: NDArray, projection: NDArray | None = None, shift: NDArray | None = None, scale: float = 1.0
    ):
        norms = np.einsum("ij,ij->i", anchors, anchors)
        self.handicap = _TIE * norms.mean() * np.arange(len(anchors), dtype=norms.dtype)
        self.constants = norms + self.handicap
        minus_two_anchors = -2 * anchors.T
        self.factors = np.hstack([minus_two_anchors] if projection is None else [minus_two_anchors, projection])
        self.factors /= self.factors.dtype.type(scale)
        self.piece_rows = min(_MAX_PIECE_ROWS, max(_MIN_PIECE_ROWS, _PIECE_ELEMENTS // len(anchors)))
        self.search_rows = min(self.piece_rows, max(_MIN_PIECE_ROWS, _SEARCH_ELEMENTS // len(anchors)))
        self.of_rows_as_given = shift is None and scale == 1.0
        self.shift, moved = shift, np.zeros(self.factors.shape[1], norms.dtype)
        if shift is not None and shift @ shift <= _NEAR_ORIGIN * scale**2 * norms.mean():
            self.shift, moved = None, shift @ self.factors
        self.constants -= moved[: len(anchors)]
        self.projected_shift = moved[len(anchors) :]

    def __call__(self, block: NDArray, k: int = 1) -> tuple[NDArray[np.intp], NDArray]:
        assert self.of_rows_as_given
        index, relative, _ = self.with_projection(block, k)
        relative += np.einsum("ij,ij->i", block, block)[:, None]
        return index, np.maximum(relative, 0, out=relative)

    def with_projection(self, block: NDArray, k: int = 1) -> tuple[NDArray[np.intp], NDArray, NDArray]:
        """The k nearest anchors, their squared distances less |x|^2, and the rows' projection, shape (rows, b)."""
        m, real, width = len(self.constants), self.constants.dtype, self.factors.shape[1]
        index, distances = np.empty((len(block), k), np.intp), np.empty((len(block), k), real)
        projected = np.empty((len(block), width - m), real)
        smallest = _by_repeated_search if k <= _MAX_SEARCHES else _by_partition
        # Pieces of one size, for a small last one costs almost as much as a whole.
        n_rows = -(-len(block) // max(1, round(len(block) / self.piece_rows)))
        all_products = scratch("products", (n_rows, width), real)
        all_sums = scratch("sums", (self.search_rows, m), real)
        all_shifted = None if self.shift is None else scratch("shifted", (n_rows, block.shape[1]), real)
        for start in range(0, len(block), max(1, n_rows)):
            piece = slice(start, min(start + n_rows, len(block)))
            here, rows = slice(piece.stop - start), block[piece]
            if all_shifted is not None and self.shift is not None:
                rows = np.subtract(rows, self.shift, out=all_shifted[here])
            products = np.matmul(rows, self.factors, out=all_products[here])
            np.subtract(products[:, m:], self.projected_shift, out=projected[piece])
            for first in range(0, len(products), self.search_rows):
                few = products[first : first + self.search_rows, :m]
                # |x|^2 is the same for all anchors of a row: the comparison does without it.
                sums = np.add(few, self.constants, out=all_sums[: len(few)])
                to = slice(start + first, start + first + len(few))
                index[to], distances[to] = smallest(sums, k)
        distances -= self.handicap[index]
        return index, distances, projected


def _by_repeated_search(partial: NDArray, k: int) -> tuple[NDArray[np.intp], NDArray]:
    """The k smallest values of every row: a search for the smallest is many times faster than a partition."""
    rows = np.arange(len(partial))
    index, values = np.empty((len(partial), k), np.intp), np.empty((len(partial), k), partial.dtype)
    for place in range(k):
        found = partial.argmin(axis=1)
        index[:, place], values[:, place] = found, partial[rows, found]
        if place + 1 < k:
            partial[rows, found] = np.inf
    return index, values


def _by_partition(partial: NDArray, k: int) -> tuple[NDArray[np.intp], NDArray]:
    m = partial.shape[1]
    index = np.argpartition(partial, k - 1, axis=1)[:, :k] if k < m else np.tile(np.arange(k), (len(partial), 1))
    order = np.take_along_axis(partial, index, axis=1).argsort(axis=1, kind="stable")
    index = np.take_along_axis(index, order, axis=1)
    return index, np.take_along_axis(partial, index, axis=1)


def kmeans(
    rows: RowBlocks, centres: NDArray, rounds: Iterable[int], labels: NDArray[np.int32] | None = None
) -> NDArray:
    """Lloyd's algorithm from the given centres, one pass over the data a round, until no centre moves.

    A cluster that runs empty takes the point farthest from its own centre, each a different one. The centres returned
    are the means of the last assignment, which is left in ``labels`` (of shape (n,)) where it is given.
    """
    for _ in rounds:
        previous, centres = centres, centres.astype(rows.dtype, copy=False)
        # The rows as they are stored: moving a block takes memory and time, moving its sums next to nothing.
        run, search = fold if labels is None else fold_here, AnchorSearch(centres, None, rows.shift, rows.scale)
        sums, counts = run(rows.shifted(None), _sums_by_nearest, added, search, labels)
        sums = (sums - (0 if rows.shift is None else counts[:, None] * rows.shift)) / rows.scale
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            _fill_empty(rows, centres, empty, labels, sums, counts)
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
        if np.array_equal(centres, previous):
            break
    return centres.astype(rows.dtype, copy=False)


def _sums_by_nearest(
    block: NDArray, first: int, search: AnchorSearch, labels: NDArray[np.int32] | None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The sum of the rows nearest to each centre, shape (m, d), and their number, shape (m,)."""
    nearest, m = search.with_projection(block)[0][:, 0], len(search.constants)
    if labels is not None:
        labels[first : first + len(block)] = nearest
    sums, counts = zeros_again((m, block.shape[1])), np.zeros(m, np.int64)
    _add_rows(block, nearest, sums, counts)
    return sums, counts


@njit(nogil=True, cache=True)
def _add_rows(block, nearest, sums, counts) -> None:
    for row in range(len(block)):
        anchor = nearest[row]
        counts[anchor] += 1
        for feature in range(block.shape[1]):
            sums[anchor, feature] += block[row, feature]


class _Far(NamedTuple):
    """Rows far from their centres, the farthest first: squared distances, row numbers and labels."""

    squared: NDArray
    rows: NDArray[np.intp]
    labels: NDArray[np.intp]

    def first(self, count: int) -> "_Far":
        return _Far(*(values[np.lexsort((self.rows, -self.squared))[:count]] for values in self))

    def merge(self, other: "_Far") -> "_Far":
        return _Far(*(np.concatenate(pair) for pair in zip(self, other)))


def _farthest(block: NDArray, first: int, centres: NDArray, count: int) -> _Far:
    nearest, squared = nearest_anchors(block, centres)
    return _Far(squared[:, 0], np.arange(first, first + len(block)), nearest[:, 0]).first(count)


def _fill_empty(rows, centres, empty, labels, sums, counts) -> None:
    far = fold(rows, _farthest, _Far.merge, centres, len(empty)).first(len(empty))
    empty, points = empty[: len(far.rows)], rows.take(far.rows)
    np.subtract.at(sums, far.labels, points)
    np.subtract.at(counts, far.labels, 1)
    sums[empty], counts[empty] = points, 1
    if labels is not None:
        labels[far.rows] = empty


class Spacing(NamedTuple):
    """How far the rows lie from their nearest anchors.

    Attributes
    ----------
    mean : ndarray of shape (k,)
        Mean distance to the nearest anchor, to the second nearest, and so on.
    shares : ndarray of shape (m,)
        The part of the rows that each anchor is the nearest of.
    """

    mean: NDArray[np.float64]
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, rows: RowBlocks, anchors: NDArray, k: int) -> "Spacing":
        """The spacing of all the rows, in one pass."""
        sums, counts = fold(rows, _distances_to_nearest, added, AnchorSearch(anchors.astype(rows.dtype)), k)
        return cls(sums / len(rows), counts / len(rows))


def _distances_to_nearest(block: NDArray, first: int, search: AnchorSearch, k: int):
    nearest, squared = search(block, k)
    shares = np.bincount(nearest[:, 0], minlength=len(search.constants))
    return np.sqrt(squared).sum(axis=0, dtype=np.float64), shares


class AnchorGraph(NamedTuple):
    """The rule of eq. 2: a row is tied to its k nearest anchors with weights exp(-d^2 / sigma^2).

    Attributes
    ----------
    k : int
    sigma : float
        Mean distance of the rows to their k-th nearest anchor; sigma^2 is the paper's theta.
    normalize : bool
        Whether the weights of a row sum to one.
    """

    k: int
    sigma: float
    normalize: bool = False

    def weights(self, nearest: NDArray[np.integer], squared: NDArray, n_anchors: int) -> scipy.sparse.csr_array:
        """The weights of rows, from (at least) their k nearest anchors; sparse, shape (rows, m)."""
        weight = anchor_weights(squared[:, : self.k], self.sigma)
        weight = normalized(weight) if self.normalize else weight
        return weight_matrix(nearest[:, : self.k], weight, n_anchors)

    def of(self, block: NDArray, anchors: NDArray) -> scipy.sparse.csr_array:
        """The weights of a block of rows to the anchors, sparse, shape (rows, m)."""
        anchors = anchors.astype(block.dtype, copy=False)
        return self.weights(*nearest_anchors(block, anchors, self.k), len(anchors))


def anchor_weights(squared: NDArray, sigma: float) -> NDArray:
    """exp(-d^2 / sigma^2); with sigma = 0 (every row is an anchor) the anchor itself has weight one."""
    if sigma == 0:
        return (squared == 0).astype(squared.dtype)
    return np.exp(squared / -(sigma**2))


def normalized(weight: NDArray) -> NDArray:
    """Rows that sum to one. A row too far from every anchor for any weight goes wholly to the nearest."""
    total = weight.sum(axis=1, keepdims=True)
    fallback = np.zeros_like(weight)
    fallback[:, 0] = 1
    return np.where(total > 0, weight / np.where(total > 0, total, 1), fallback)


def weight_matrix(index: NDArray, weight: NDArray, n_anchors: int) -> scipy.sparse.csr_array:
    """The graph's rows as a sparse (n, m) matrix."""
    n, k = index.shape
    return scipy.sparse.csr_array((weight.ravel(), index.ravel(), np.arange(0, n * k + 1, k)), (n, n_anchors))
