"""Anchors found by k-means, one pass over the data a round."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled
from hashlearn.linalg.anchors.search import AnchorSearch
from hashlearn.progress import track
from hashlearn.rows import RowBlocks, fold, map_blocks, sum_blocks


class Clusters(NamedTuple):
    """What k-means leaves behind.

    Attributes
    ----------
    centers : ndarray of shape (m, d)
        The means of the last assignment.
    assigned_by : ndarray of shape (m, d)
        The centers to which the last assignment gave the rows.
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

    An empty cluster takes the point that is farthest from its own center; several empty clusters take different points.
    ``task`` is what reports of progress call it.
    """
    centers = centers.astype(rows.dtype, copy=False)
    nobody = np.empty(0, np.intp)
    clusters = Clusters(centers, centers, nobody, nobody)
    shift = np.zeros(rows.shape[1], rows.dtype) if rows.shift is None else rows.shift
    for _ in track(range(max_iter), task):
        centers = clusters.centers
        # The rows as they are stored: to shift a block takes memory and time, to shift its sums takes almost none.
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
