"""Many centers in groups: a row is compared with the centers of its nearest groups only.

With m centers in about sqrt(m) groups, k-means and the assignment of a row take about sqrt(m) comparisons instead of m.
The price: a few rows in a hundred get a center that is not their nearest one.
"""

import numpy as np
from numpy.typing import NDArray

from hashlearn.linalg.anchors.kmeans import kmeans
from hashlearn.linalg.anchors.search import AnchorSearch
from hashlearn.rows import RowBlocks

N_LOOKED_AT = 4
"""Groups whose centers a row is compared with."""


def grouped_kmeans(
    sample: NDArray[np.float32], n_centers: int, n_rounds: int, rows_per_center: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Centers by k-means inside of groups, which are by k-means themselves.

    Parameters
    ----------
    sample : array of shape (n, d)
        In random order; n is at least ``n_centers``.
    n_centers, n_rounds, rows_per_center : int
        ``rows_per_center`` rows at the most are used for each group's center.

    Returns
    -------
    centers : array of shape (n_centers, d)
        Those of a group one behind the other.
    sizes : array of shape (n_groups,), int64
        The number of centers of each group.
    """
    n_groups = round(n_centers**0.5)
    groups = kmeans(
        RowBlocks(sample[: rows_per_center * n_groups]), sample[:n_groups].copy(), n_rounds, "groups of lists"
    )
    labels = AnchorSearch(groups.centers).nearest(sample)[0][:, 0]
    counts = np.bincount(labels, minlength=n_groups)
    sizes = _shares(counts, n_centers)
    centers = []
    for group in np.flatnonzero(sizes):
        rows = sample[labels == group]
        centers.append(kmeans(RowBlocks(rows), rows[: sizes[group]].copy(), n_rounds, "lists").centers)
    return np.concatenate(centers), sizes[sizes > 0]


def _shares(counts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Whole numbers in proportion to the counts, and not above them, that sum up to n."""
    wanted = counts * (n / counts.sum())
    shares = np.floor(wanted).astype(np.int64)
    order = np.argsort(shares - wanted, kind="stable")  # those that lost most come first
    shares[order[: n - int(shares.sum())]] += 1
    return shares


class GroupedCenters:
    """Finds the nearest center of each row, among those of its nearest groups.

    Parameters
    ----------
    centers : array of shape (n_centers, d)
        Those of a group one behind the other.
    sizes : array of shape (n_groups,), int64
    """

    def __init__(self, centers: NDArray[np.float32], sizes: NDArray[np.int64]):
        ends = np.cumsum(sizes)
        if (sizes < 1).any() or ends[-1] != len(centers):
            raise ValueError("groups of lists are not as many as there are lists")
        self._firsts = ends - sizes
        parts = [centers[first:end] for first, end in zip(self._firsts, ends)]
        self._groups = AnchorSearch(np.array([part.mean(axis=0) for part in parts], centers.dtype))
        self._inside = [AnchorSearch(part) for part in parts]

    def __call__(self, X: NDArray[np.float32]) -> NDArray[np.int32]:
        """The number of a center for each row."""
        n_looked_at = min(N_LOOKED_AT, len(self._inside))
        groups = self._groups.nearest(X, n_looked_at)[0]
        nearest, least = np.zeros(len(X), np.int32), np.full(len(X), np.inf, np.float32)
        of_rows, of_groups = np.divmod(np.argsort(groups, axis=None, kind="stable"), n_looked_at)
        which = groups[of_rows, of_groups]
        starts = np.searchsorted(which, np.arange(len(self._inside) + 1))
        for group in np.unique(which).tolist():
            rows = of_rows[starts[group] : starts[group + 1]]
            found, squared = self._inside[group].nearest(X[rows])
            better = squared[:, 0] < least[rows]
            nearest[rows[better]] = found[better, 0] + self._firsts[group]
            least[rows[better]] = squared[better, 0]
        return nearest
