"""Anchors: a few hundred centres that stand for the data, and the sparse graph between the two (eq. 2)."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hashlearn.compute import RowBlocks

_TIE = 1e-10
"""Lower anchors win ties: each is put nearer than the next by this share of the mean squared norm. Equal distances are
common in data of small integers; without it rounding would decide, differently for the same data in another unit."""


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
    norms = np.einsum("ij,ij->i", anchors, anchors)
    handicap = _TIE * norms.mean() * np.arange(len(anchors), dtype=norms.dtype)
    # |x|^2 is the same for all anchors of a row: the comparison does without it.
    partial = block @ (-2 * anchors.T)
    partial += norms + handicap
    if k == 1:
        index = partial.argmin(axis=1)[:, None]
    else:
        index = (
            np.argpartition(partial, k - 1, axis=1)[:, :k]
            if k < len(anchors)
            else np.tile(np.arange(k), (len(block), 1))
        )
        order = np.take_along_axis(partial, index, axis=1).argsort(axis=1, kind="stable")
        index = np.take_along_axis(index, order, axis=1)
    distances = np.take_along_axis(partial, index, axis=1) - handicap[index]
    distances += np.einsum("ij,ij->i", block, block)[:, None]
    return index, np.maximum(distances, 0, out=distances)


def kmeans(rows: RowBlocks, centres: NDArray, rounds: Iterable[int]) -> tuple[NDArray, NDArray[np.int32]]:
    """Lloyd's algorithm from the given centres, one pass over the data a round, until no label changes.

    A cluster that runs empty takes the point farthest from its own centre, each a different one. The centres returned
    are the means of the last assignment, which is returned with them.
    """
    labels = np.full(len(rows), -1, np.int32)
    distances = np.empty(len(rows), rows.dtype)
    for _ in rounds:
        previous, centres = labels.copy(), centres.astype(rows.dtype, copy=False)
        sums, counts = np.zeros(centres.shape), np.zeros(len(centres), np.int64)
        for part, block in rows:
            index, squared = nearest_anchors(block, centres)
            labels[part], distances[part] = index[:, 0], squared[:, 0]
            sums += _sums_by_label(block, index[:, 0], len(centres))
            counts += np.bincount(index[:, 0], minlength=len(centres))
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            _fill_empty(rows, empty, labels, distances, sums, counts)
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
        if np.array_equal(labels, previous):
            break
    return centres.astype(rows.dtype, copy=False), labels


def _sums_by_label(block: NDArray, labels: NDArray, n_labels: int) -> NDArray:
    members = scipy.sparse.csr_array(
        (np.ones(len(block), block.dtype), (labels, np.arange(len(block)))), (n_labels, len(block))
    )
    return members @ block


def _fill_empty(rows, empty, labels, distances, sums, counts) -> None:
    farthest = np.argsort(-distances, kind="stable")[: len(empty)]
    points = rows.take(farthest)
    np.subtract.at(sums, labels[farthest], points)
    np.subtract.at(counts, labels[farthest], 1)
    sums[empty[: len(farthest)]], counts[empty[: len(farthest)]] = points, 1
    labels[farthest] = empty[: len(farthest)]


class AnchorGraph(NamedTuple):
    """The k nearest anchors of every row with their weights exp(-d^2 / sigma^2).

    Attributes
    ----------
    nearest : ndarray of shape (n, k), nearest anchor first
    weight : ndarray of shape (n, k), not normalised
    sigma : float
        Mean distance of the rows to their k-th nearest anchor; sigma^2 is the paper's theta.
    """

    nearest: NDArray[np.int32]
    weight: NDArray
    sigma: float


def anchor_graph(rows: RowBlocks, anchors: NDArray, k: int) -> AnchorGraph:
    """The anchor graph of all the rows, with sigma taken from them (eq. 2)."""
    return weighted_graph(*nearest_of_rows(rows, anchors, k))


def nearest_of_rows(rows: RowBlocks, anchors: NDArray, k: int) -> tuple[NDArray[np.int32], NDArray]:
    """:func:`nearest_anchors` of all the rows, in one pass; both of shape (n, k)."""
    nearest = np.empty((len(rows), k), np.int32)
    squared = np.empty((len(rows), k), rows.dtype)
    anchors = anchors.astype(rows.dtype, copy=False)
    for part, block in rows:
        nearest[part], squared[part] = nearest_anchors(block, anchors, k)
    return nearest, squared


def weighted_graph(nearest: NDArray[np.int32], squared: NDArray) -> AnchorGraph:
    """The anchor graph from the nearest anchors and their squared distances."""
    sigma = float(np.sqrt(squared[:, -1]).mean(dtype=np.float64))
    return AnchorGraph(nearest, anchor_weights(squared, sigma), sigma)


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
