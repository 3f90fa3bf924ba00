"""Which anchors are nearest to a row."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled
from hashlearn.rows import scratch

FEW_ROWS = 32
"""For up to this many rows, compiled loops are faster than calls of numpy."""

_TIE = 1e-10
"""Lower anchors win ties: each is put nearer than the next by this share of the mean squared norm. Equal distances are
common in data of small integers; without it rounding would decide, differently for the same data in another unit."""

_PIECE_ELEMENTS, _MIN_PIECE_ROWS, _MAX_PIECE_ROWS = 1 << 21, 32, 4096
"""Products that are computed at a time. With fewer, BLAS spends a tenth of its time on arranging the anchors, which it
does for every product."""

_SEARCH_ELEMENTS = 1 << 17
"""Distances that are compared at a time: the innermost caches hold them."""

_NEAR_ORIGIN = 100
"""Rows are shifted only if the squared norm of their mean is above 100 times that of the anchors. Below this limit
single precision is exact enough, and shifting a block takes memory and time."""

_MAX_SEARCHES = 16
"""Anchors to be found up to which a search for each is fastest."""


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
    return AnchorSearch(anchors).nearest(block, k)


class AnchorSearch:
    """Find the nearest anchors of many blocks, on any number of threads: what depends on the anchors only is computed
    once.

    A search made by the constructor takes rows in the anchors' coordinates. A search made by :meth:`from_stored_rows`
    takes rows as they are stored, and computes their projection as well.

    Parameters
    ----------
    anchors : ndarray of shape (m, d)
    """

    def __init__(self, anchors: NDArray):
        norms = np.einsum("ij,ij->i", anchors, anchors)
        self.handicap = _TIE * norms.mean() * np.arange(len(anchors), dtype=norms.dtype)
        self.constants = norms + self.handicap
        self.factors = -2 * anchors.T
        self.shift: NDArray | None = None
        self.projected_shift = np.zeros(0, norms.dtype)
        self.piece_rows = min(_MAX_PIECE_ROWS, max(_MIN_PIECE_ROWS, _PIECE_ELEMENTS // len(anchors)))
        self.search_rows = min(self.piece_rows, max(_MIN_PIECE_ROWS, _SEARCH_ELEMENTS // len(anchors)))

    @classmethod
    def from_stored_rows(
        cls, anchors: NDArray, projection: NDArray, shift: NDArray, scale: float = 1.0
    ) -> "AnchorSearch":
        """A search for rows x whose coordinates are ``(x - shift) / scale``, only for :meth:`with_projection`.

        Parameters
        ----------
        anchors : ndarray of shape (m, d), in the coordinates of the shifted and scaled rows
        projection : ndarray of shape (d, b), b from 0 on
            Part of the same product as the anchors: alone, a product so narrow takes twice the time.
        shift : ndarray of shape (d,)
            Near the origin it is moved into the constants, which costs nothing per row. Far from it single precision
            would lose too many digits, and each block is shifted instead. The results are the same.
        scale : float
        """
        search = cls(anchors)
        search.factors = np.hstack([search.factors, projection])
        search.factors /= search.factors.dtype.type(scale)
        search.projected_shift = np.zeros(projection.shape[1], search.constants.dtype)
        if shift @ shift > _NEAR_ORIGIN * scale**2 * float(np.mean(search.constants)):
            search.shift = shift
            return search
        moved = shift @ search.factors
        search.constants = search.constants - moved[: len(anchors)]
        search.projected_shift = moved[len(anchors) :]
        return search

    def nearest(self, block: NDArray, k: int = 1) -> tuple[NDArray[np.intp], NDArray]:
        """The k nearest anchors of every row, nearest first, and their squared distances; both of shape (rows, k)."""
        index, relative, _ = self.with_projection(block, k)
        relative += np.einsum("ij,ij->i", block, block)[:, None]
        return index, np.maximum(relative, 0, out=relative)

    def with_projection(self, block: NDArray, k: int = 1) -> tuple[NDArray[np.intp], NDArray, NDArray]:
        """The k nearest anchors, their squared distances less |x|^2, and the rows' projection, shape (rows, b)."""
        if len(block) <= FEW_ROWS and k <= _MAX_SEARCHES:
            return self._of_few(block, k)
        m, real, width = len(self.constants), self.constants.dtype, self.factors.shape[1]
        index, distances = np.empty((len(block), k), np.intp), np.empty((len(block), k), real)
        projected = np.empty((len(block), width - m), real)
        smallest = _fastest_selection(k, m)
        # All pieces have about one size, because a small last piece costs almost as much as a full one.
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
                # |x|^2 is the same for all anchors of a row, so the comparison leaves it out.
                sums = np.add(few, self.constants, out=all_sums[: len(few)])
                to = slice(start + first, start + first + len(few))
                index[to], distances[to] = smallest(sums, k)
        distances -= self.handicap[index]
        return index, distances, projected

    def _of_few(self, block: NDArray, k: int) -> tuple[NDArray[np.intp], NDArray, NDArray]:
        """As :meth:`with_projection`, but fast for a few rows."""
        products = (block if self.shift is None else block - self.shift) @ self.factors
        index, distances = np.empty((len(block), k), np.intp), np.empty((len(block), k), products.dtype)
        nearest_of_few(products, self.constants, self.handicap, index, distances)
        return index, distances, products[:, len(self.constants) :] - self.projected_shift


def _fastest_selection(k: int, m: int) -> Callable[[NDArray, int], tuple[NDArray[np.intp], NDArray]]:
    """The function that finds the k smallest of m values fastest."""
    if k <= _MAX_SEARCHES:
        return _by_repeated_search
    return _by_insertion if k * k <= m else _by_partition


def _by_repeated_search(partial: NDArray, k: int) -> tuple[NDArray[np.intp], NDArray]:
    """The k smallest values of every row, by a search for the smallest, k times.

    For small k this is many times faster than a partition.
    """
    rows = np.arange(len(partial))
    index, values = np.empty((len(partial), k), np.intp), np.empty((len(partial), k), partial.dtype)
    for place in range(k):
        found = partial.argmin(axis=1)
        index[:, place], values[:, place] = found, partial[rows, found]
        if place + 1 < k:
            partial[rows, found] = np.inf
    return index, values


def _by_insertion(partial: NDArray, k: int) -> tuple[NDArray[np.intp], NDArray]:
    """The k smallest values of every row, in one pass.

    Few of many values are below the k-th smallest so far, so the pass is fast.
    """
    index, values = np.empty((len(partial), k), np.intp), np.empty((len(partial), k), partial.dtype)
    nothing = np.zeros(partial.shape[1], partial.dtype)
    nearest_of_few(partial, nothing, nothing, index, values)
    return index, values


def _by_partition(partial: NDArray, k: int) -> tuple[NDArray[np.intp], NDArray]:
    m = partial.shape[1]
    index = np.argpartition(partial, k - 1, axis=1)[:, :k] if k < m else np.tile(np.arange(k), (len(partial), 1))
    order = np.take_along_axis(partial, index, axis=1).argsort(axis=1, kind="stable")
    index = np.take_along_axis(index, order, axis=1)
    return index, np.take_along_axis(partial, index, axis=1)


@compiled
def nearest_of_few(products, constants, handicap, index, distances) -> None:
    """For every row the anchors with the smallest ``products + constants``, nearest first, and these sums without the
    handicap.

    ``index`` and ``distances``, both of shape (rows, k), are filled. Equal sums are taken in the order of the anchors.
    """
    k = index.shape[1]
    for row in range(len(products)):
        n_found = 0
        for anchor in range(len(constants)):
            distance = products[row, anchor] + constants[anchor]
            if n_found == k and distance >= distances[row, k - 1]:
                continue
            place = min(n_found, k - 1)
            while place > 0 and distances[row, place - 1] > distance:
                distances[row, place] = distances[row, place - 1]
                index[row, place] = index[row, place - 1]
                place -= 1
            distances[row, place], index[row, place] = distance, anchor
            n_found = min(n_found + 1, k)
        for place in range(k):
            distances[row, place] -= handicap[index[row, place]]


@compiled
def blend_of_few(offsets, nearest, squared, sigma, blend) -> None:
    """Fill ``blend``, shape (rows, n_bits), with the offsets of the nearest anchors, weighted by their distances.

    The weights are ``exp(-(d^2 - d_nearest^2) / sigma^2)``, divided by their sum; with sigma = 0 only anchors as near
    as the nearest have a weight.
    """
    n_bits = offsets.shape[1]
    for row in range(len(nearest)):
        total = 0.0
        sums = np.zeros(n_bits)
        for place in range(nearest.shape[1]):
            farther = max(squared[row, place] - squared[row, 0], 0)
            weight = np.exp(-farther / (sigma * sigma)) if sigma > 0 else 1.0 * (farther == 0)
            total += weight
            for bit in range(n_bits):
                sums[bit] += weight * offsets[nearest[row, place], bit]
        for bit in range(n_bits):
            blend[row, bit] = sums[bit] / total
