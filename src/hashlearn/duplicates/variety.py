"""Selections of rows: the most varied rows, rows that represent the others, and outliers."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer
from hashlearn.duplicates.vectors import Metric, MetricRows, Rows, distance_of_square
from hashlearn.linalg.anchors.kmeans import kmeans
from hashlearn.linalg.anchors.search import squared_distances
from hashlearn.progress import track
from hashlearn.rows import RowBlocks
from hashlearn.rows.source import Pieces

_BLOCK = 4096
_ROUNDS = 20


class FarRows(NamedTuple):
    """Rows and their distances from the nearest of the others, the furthest first."""

    rows: Rows
    distances: NDArray[np.float64]


def most_varied(vectors: Any, n: int, *, metric: Metric = "cosine", among: ArrayLike | None = None) -> Rows:
    """Choose n rows of greatest variety: each is the furthest from those that were chosen before.

    No row is further from the chosen ones than twice the least distance possible with n rows (T. Gonzalez, Clustering
    to minimize the maximum intercluster distance, 1985). The first row is the furthest from the mean. Every choice is
    a pass over the rows.

    Parameters
    ----------
    vectors : array of shape (m, n_features), or another source as for :func:`hashlearn.find_duplicates`
        The rows.
    n : int
        How many to choose, at most m.
    metric : {"cosine", "euclidean"}
        As for :func:`hashlearn.find_duplicates`.
    among : array of int, optional
        Numbers of the rows to choose from; None is all.

    Returns
    -------
    ndarray of shape (n,), int64
        Numbers of rows, in the order of choice: the first k of them are the choice of k rows.

    Examples
    --------
    >>> most_varied([[0.0], [0.1], [9.0], [9.1], [5.0]], 3, metric="euclidean")
    array([0, 3, 4])
    """
    rows = _Among(vectors, metric, among)
    count = check_integer("n", n, low=1, high=len(rows))
    nearest = np.full(len(rows), np.inf)
    chosen: list[int] = []
    point = rows.mean()
    for _ in track(range(count), "choose"):
        from_point = np.empty(len(rows))
        for part, block in rows.blocks():
            from_point[part] = squared_distances(block, point[None])[:, 0]
        nearest = np.minimum(nearest, from_point) if chosen else from_point
        nearest[chosen] = -1
        chosen.append(int(nearest.argmax()))
        if len(chosen) == 1:
            nearest = np.full(len(rows), np.inf)
        point = rows[np.array(chosen[-1:])][0]
    return rows.numbers[chosen]


def representatives(
    vectors: Any, n: int, *, metric: Metric = "cosine", among: ArrayLike | None = None, random_state: int = 0
) -> Rows:
    """Choose n rows that stand for the others: the rows nearest to the centers of k-means.

    Parameters
    ----------
    vectors : array of shape (m, n_features), or another source as for :func:`hashlearn.find_duplicates`
        The rows.
    n : int
        How many to choose, at most m. If two centers have the same nearest row, there are fewer.
    metric : {"cosine", "euclidean"}
        As for :func:`hashlearn.find_duplicates`.
    among : array of int, optional
        Numbers of the rows to choose from; None is all.
    random_state : int
        Determines the rows that the centers begin with.

    Returns
    -------
    ndarray of int64
        Numbers of rows; the first stands for the most rows.

    Examples
    --------
    >>> representatives([[0.0], [0.1], [0.2], [9.0], [9.1]], 2, metric="euclidean").tolist() in ([1, 3], [1, 4])
    True
    """
    rows = _Among(vectors, metric, among)
    count = check_integer("n", n, low=1, high=len(rows))
    seed = check_integer("random_state", random_state, low=0, high=2**32 - 1)
    start = np.random.RandomState(seed).choice(len(rows), count, replace=False)
    found = kmeans(RowBlocks(Pieces([rows], ["the rows"])), rows[np.sort(start)], _ROUNDS)
    best, place = np.full(count, np.inf), np.full(count, -1, np.int64)
    sizes = np.zeros(count, np.int64)
    for part, block in rows.blocks():
        squares = squared_distances(block, found.centers)
        nearest = squares.argmin(axis=1)
        sizes += np.bincount(nearest, minlength=count)
        rows_of_centers = squares.argmin(axis=0)
        least = squares[rows_of_centers, np.arange(count)]
        is_nearer = least < best
        best[is_nearer], place[is_nearer] = least[is_nearer], part.start + rows_of_centers[is_nearer]
    by_size = place[np.argsort(-sizes, kind="stable")]
    return rows.numbers[by_size[np.sort(np.unique(by_size, return_index=True)[1])]]


def outliers(vectors: Any, n: int, *, metric: Metric = "cosine", among: ArrayLike | None = None) -> FarRows:
    """Find the n rows that are like no other: those whose nearest other row is furthest.

    All pairs are compared, a block of rows at a time.

    Parameters
    ----------
    vectors : array of shape (m, n_features), or another source as for :func:`hashlearn.find_duplicates`
        The rows.
    n : int
        How many to find, at most m.
    metric : {"cosine", "euclidean"}
        As for :func:`hashlearn.find_duplicates`.
    among : array of int, optional
        Numbers of the rows to choose from; None is all.

    Returns
    -------
    FarRows
        Rows and distances, the furthest first; ties by row.

    Examples
    --------
    >>> outliers([[0.0], [0.1], [9.0], [0.3]], 2, metric="euclidean").rows
    array([2, 3])
    """
    rows = _Among(vectors, metric, among)
    count = check_integer("n", n, low=1, high=len(rows))
    nearest = np.full(len(rows), np.inf)
    blocks = [slice(start, min(start + _BLOCK, len(rows))) for start in range(0, len(rows), _BLOCK)]
    for number, part in enumerate(track(blocks, "compare")):
        left = rows[part]
        for other in blocks[number:]:
            right = left if other == part else rows[other]
            squares = squared_distances(left, right)
            if other == part:
                np.fill_diagonal(squares, np.inf)
            nearest[part] = np.minimum(nearest[part], squares.min(axis=1))
            nearest[other] = np.minimum(nearest[other], squares.min(axis=0))
    furthest = np.argsort(-nearest, kind="stable")[:count]
    # Vectors of texts have length one.
    of_vectors: Metric = "euclidean" if rows.vectors.metric == "euclidean" else "cosine"
    return FarRows(rows.numbers[furthest], distance_of_square(nearest[furthest], of_vectors))


class _Among:
    """The scaled rows to choose from, by their places in the selection; also a source of blocks."""

    def __init__(self, vectors: Any, metric: Metric, among: ArrayLike | None):
        self.vectors = vectors if isinstance(vectors, MetricRows) else MetricRows(vectors, metric)
        self.numbers = np.arange(len(self.vectors)) if among is None else np.asarray(among, np.int64)
        self.shape, self.dtype = (len(self.numbers), self.vectors.width), self.vectors.scales.dtype

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, places: slice | NDArray[np.integer]) -> NDArray:
        return self.vectors.take(self.numbers[places])

    def blocks(self) -> Iterator[tuple[slice, NDArray]]:
        for start in range(0, len(self), _BLOCK):
            part = slice(start, min(start + _BLOCK, len(self)))
            yield part, self[part]

    def mean(self) -> NDArray:
        total = sum(block.sum(axis=0, dtype=np.float64) for _, block in self.blocks())
        return (total / len(self)).astype(self.dtype)
