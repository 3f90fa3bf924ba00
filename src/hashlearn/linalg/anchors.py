"""Anchors: a few hundred centers that stand for the data.

How to find them (k-means), which are nearest to a row, the graph that ties rows to them (eq. 2), and the sums over that
graph which are all that the methods with anchors need of the data.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hashlearn.compiled import compiled
from hashlearn.linalg.few_rows import FEW_ROWS, nearest_of_few
from hashlearn.progress import track
from hashlearn.rows import RowBlocks, added, fold, map_blocks, scratch, sum_blocks

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

    A search made by the constructor takes rows in the anchors' coordinates. One made by :meth:`from_stored_rows` takes
    rows as they are stored, and a projection along.

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

    def _of_few(self, block: NDArray, k: int) -> tuple[NDArray[np.intp], NDArray, NDArray]:
        """As :meth:`with_projection`, without what pays for many rows only."""
        products = (block if self.shift is None else block - self.shift) @ self.factors
        index, distances = np.empty((len(block), k), np.intp), np.empty((len(block), k), products.dtype)
        nearest_of_few(products, self.constants, self.handicap, index, distances)
        return index, distances, products[:, len(self.constants) :] - self.projected_shift


def _fastest_selection(k: int, m: int) -> Callable[[NDArray, int], tuple[NDArray[np.intp], NDArray]]:
    """What finds the k smallest of m values."""
    if k <= _MAX_SEARCHES:
        return _by_repeated_search
    return _by_insertion if k * k <= m else _by_partition


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


def _by_insertion(partial: NDArray, k: int) -> tuple[NDArray[np.intp], NDArray]:
    """The k smallest values of every row, in one pass: hardly any of many values is among the few smallest so far."""
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


class Clusters(NamedTuple):
    """What k-means leaves behind.

    Attributes
    ----------
    centers : ndarray of shape (m, d)
        The means of the last assignment.
    assigned_by : ndarray of shape (m, d)
        The centers that the last assignment was made by.
    moved_rows, moved_to : ndarrays
        Rows that were taken to fill clusters without any, and the clusters they went to.
    """

    centers: NDArray
    assigned_by: NDArray
    moved_rows: NDArray[np.intp]
    moved_to: NDArray[np.intp]

    def labels(self, rows: RowBlocks) -> NDArray[np.int32]:
        """The cluster of every row in the last assignment, in one pass."""
        labels = np.empty(len(rows), np.int32)
        for part, nearest in map_blocks(rows, _labels_of_block, AnchorSearch(self.assigned_by)):
            labels[part] = nearest
        labels[self.moved_rows] = self.moved_to
        return labels


def kmeans(rows: RowBlocks, centers: NDArray, max_iter: int, task: str = "k-means") -> Clusters:
    """Lloyd's algorithm from the given centers, one pass over the data a round, until no center moves.

    A cluster that runs empty takes the point farthest from its own center, each a different one. ``task`` is what
    reports of progress call it.
    """
    centers = centers.astype(rows.dtype, copy=False)
    nobody = np.empty(0, np.intp)
    clusters = Clusters(centers, centers, nobody, nobody)
    shift = np.zeros(rows.shape[1], rows.dtype) if rows.shift is None else rows.shift
    for _ in track(range(max_iter), task):
        centers = clusters.centers
        # The rows as they are stored: moving a block takes memory and time, moving its sums next to nothing.
        search = AnchorSearch.from_stored_rows(centers, np.empty((rows.shape[1], 0), rows.dtype), shift, rows.scale)
        sums, counts = sum_blocks(rows.shifted(None), _add_to_nearest, (centers.shape, centers.shape[:1]), search)
        sums = (sums - counts[:, None] * shift) / rows.scale
        moved_rows, moved_to = _fill_empty(rows, centers, sums, counts)
        means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centers)
        clusters = Clusters(means.astype(rows.dtype), centers, moved_rows, moved_to)
        if np.array_equal(means, centers):
            break
    return clusters


def _labels_of_block(block: NDArray, first: int, search: AnchorSearch) -> NDArray[np.intp]:
    return search.nearest(block)[0][:, 0]


def _add_to_nearest(block: NDArray, sums: tuple[NDArray, NDArray], search: AnchorSearch) -> None:
    """Add every row to the sum of its nearest center, shape (m, d), and one to the number of its rows, shape (m,)."""
    _add_rows(block, search.with_projection(block)[0][:, 0], *sums)


@compiled
def _add_rows(block, nearest, sums, counts) -> None:
    for row in range(len(block)):
        anchor = nearest[row]
        counts[anchor] += 1
        for feature in range(block.shape[1]):
            sums[anchor, feature] += block[row, feature]


class _FarRows(NamedTuple):
    """Rows far from their centers, the farthest first: squared distances, row numbers and labels."""

    squared: NDArray
    rows: NDArray[np.intp]
    labels: NDArray[np.intp]

    def first(self, count: int) -> "_FarRows":
        return _FarRows(*(values[np.lexsort((self.rows, -self.squared))[:count]] for values in self))

    def merge(self, other: "_FarRows") -> "_FarRows":
        return _FarRows(*(np.concatenate(pair) for pair in zip(self, other)))


def _farthest_rows(block: NDArray, first: int, search: AnchorSearch, count: int) -> _FarRows:
    nearest, squared = search.nearest(block)
    return _FarRows(squared[:, 0], np.arange(first, first + len(block)), nearest[:, 0]).first(count)


def _fill_empty(rows: RowBlocks, centers: NDArray, sums: NDArray, counts: NDArray) -> tuple[NDArray, NDArray]:
    """Move the farthest rows to the clusters without any, in the sums and counts; the rows and their new clusters."""
    empty = np.flatnonzero(counts == 0)
    if len(empty) == 0:
        return empty, empty
    far = fold(rows, _farthest_rows, _FarRows.merge, AnchorSearch(centers), len(empty)).first(len(empty))
    empty, points = empty[: len(far.rows)], rows.take(far.rows)
    np.subtract.at(sums, far.labels, points)
    np.subtract.at(counts, far.labels, 1)
    sums[empty], counts[empty] = points, 1
    return far.rows, empty


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
        return cls(sums / rows.shape[0], counts / rows.shape[0])

    def graph(self, k: int, normalize: bool) -> "AnchorGraph":
        """The graph that ties a row to its k nearest anchors, or to all if there are fewer."""
        k = min(k, len(self.shares))
        return AnchorGraph(k, float(self.mean[k - 1]), normalize)


def _distances_to_nearest(block: NDArray, first: int, search: AnchorSearch, k: int):
    nearest, squared = search.nearest(block, k)
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


class PairwiseSums(NamedTuple):
    """The sums over rows x_i and their weights a_ij that the pairwise term is made of.

    Attributes
    ----------
    XDX : ndarray of shape (d, d)
        sum_i d_i x_i x_i', with d_i = sum_j a_ij the degree of a row
    XA : ndarray of shape (d, m)
        sum_i x_i a_i'
    XD1 : ndarray of shape (d,)
        sum_i d_i x_i
    A1 : ndarray of shape (m,)
        sum_i a_i
    """

    XDX: NDArray[np.float64]
    XA: NDArray[np.float64]
    XD1: NDArray[np.float64]
    A1: NDArray[np.float64]

    def with_bias(self) -> "PairwiseSums":
        """The sums of the rows with a one behind each."""
        XD1 = np.append(self.XD1, self.A1.sum())
        XDX = np.block([[self.XDX, self.XD1[:, None]], [XD1[None, :]]])
        return PairwiseSums(XDX, np.vstack([self.XA, self.A1]), XD1, self.A1)


class GraphSums(NamedTuple):
    """What is summed over graphs that tie rows to anchors; None where a graph is not wanted.

    Attributes
    ----------
    pairwise : PairwiseSums or None
    gram : ndarray of shape (m, m) or None
        Z'Z, Z the weights of the rows.
    """

    pairwise: PairwiseSums | None
    gram: NDArray[np.float64] | None

    @classmethod
    def of(
        cls, rows: RowBlocks, anchors: NDArray, pairwise: AnchorGraph | None, spectral: AnchorGraph | None
    ) -> "GraphSums":
        """The sums of all rows, in one pass that finds the nearest anchors of a row once for both graphs."""
        (m, d), search = anchors.shape, AnchorSearch(anchors.astype(rows.dtype, copy=False))
        shapes = [(d, d), (m, d), (d,), (m,)] if pairwise else []
        shapes += [(m, m)] if spectral else []
        if not shapes:
            return cls(None, None)
        sums = sum_blocks(rows, _add_over_graphs, shapes, search, pairwise, spectral)
        gram = sums[-1] if spectral else None
        if pairwise is None:
            return cls(None, gram)
        XDX, AX, XD1, A1 = sums[:4]
        return cls(PairwiseSums(XDX, AX.T, XD1, A1), gram)


def _add_over_graphs(
    block: NDArray, sums: tuple, search: AnchorSearch, pairwise: AnchorGraph | None, spectral: AnchorGraph | None
) -> None:
    nearest, squared = search.nearest(block, max(graph.k for graph in (pairwise, spectral) if graph))
    m = len(search.constants)
    if pairwise is not None:
        XDX, AX, XD1, A1 = sums[:4]
        A = pairwise.weights(nearest, squared, m)
        degree = np.asarray(A.sum(axis=1)).ravel()
        scaled = np.multiply(block, np.sqrt(degree)[:, None], out=scratch("scaled", block.shape, block.dtype))
        XDX += scaled.T @ scaled
        AX += A.T @ block
        XD1 += degree @ block
        A1 += np.asarray(A.sum(axis=0, dtype=np.float64)).ravel()
    if spectral is not None:
        Z = spectral.weights(nearest, squared.astype(np.float64), m)
        (Z.T @ Z).toarray(out=sums[-1])
