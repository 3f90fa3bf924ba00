"""AGH: anchor graph hashing (Liu, Wang, Kumar and Chang, ICML 2011).

Spectral hashing on a real graph of the data, made affordable by anchors. A row z(x) holds the weights of the s nearest
anchors, which sum to one. Two points are similar if they share anchors::

    min_Y  tr(Y'(I - S) Y)     Y'Y = n I,  Y'1 = 0,     S = Z L^-1 Z',  L = diag(Z'1)

The n x n graph S has the eigenvalues of the m x m matrix M = L^-1/2 Z'Z L^-1/2, and from its eigenvectors v_k with
eigenvalues s_k the solution is Y = Z W, which also serves new points::

    W = sqrt(n) L^-1/2 [v_1 / sqrt(s_1), v_2 / sqrt(s_2), ...]

Eigenvalues of one belong to constant vectors, one for every connected component, and are left out. One layer takes b
eigenvectors and cuts each at zero. Two layers take the b/2 smoothest eigenvectors. They cut each half once more where
the cut of the graph is least: at theta+ above zero and at theta- below.
"""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import Range
from hashlearn.hashers.anchored import AnchoredHasher, OffsetScorer
from hashlearn.hashers.base import all_or_nothing
from hashlearn.linalg.anchors.graph import anchor_spectrum
from hashlearn.linalg.rotations import with_positive_peaks
from hashlearn.rows import added, fold

AUTO_ANCHORS = 500
RANK_LIMIT = 1e-10


class AGH(AnchoredHasher):
    """Codes from the eigenvectors of the anchor graph.

    Parameters
    ----------
    n_bits : int (at least 1), default=64
        Length of a code; even with two layers.
    n_layers : {1, 2}, default=1
        Bits taken from an eigenvector: its sign, or its sign and a second cut on either side.
    n_anchors : int (at least 1) or "auto", default="auto"
        Number of anchors m; "auto" takes 500, or all the rows if they are fewer.
    n_neighbors : int (at least 1), default=5
        Number of nearest anchors that describe a row (s).
    max_eigenvalue : float (0 to 1), default=0.999
        Eigenvectors with at least this eigenvalue only separate connected components of the graph, and are left out.
    anchors : {"kmeans", "random"} or ndarray of shape (n_anchors, n_features), default="kmeans"
        Where the anchors come from.
    kmeans_max_iter : int (at least 1), default=10
        Rounds of k-means.
    kmeans_sample : int (at least 2) or None, default=None
        Number of rows, drawn at random, from which the anchors are found; None for all. All rows are read once in every
        round of k-means; a sample is held in memory. For ``n_anchors="auto"`` the sample has at least one row for each
        anchor.
    random_state : int, RandomState instance or None, default=None
        Determines the anchors.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    anchors_ : ndarray of shape (n_anchors, n_features)
        The distinct anchors that are near to at least one row.
    sigma_ : float
        Width of the weights ``exp(-d^2 / sigma_^2)``: mean distance to the last of the ``n_neighbors`` anchors.
    n_blended_ : int
        Number of nearest anchors whose offsets are blended.
    eigenvalues_ : ndarray of shape (n_bits / n_layers,)
        Those of the eigenvectors used, largest first.
    offsets_ : ndarray of shape (n_anchors, n_bits / n_layers)
        W. A bit is one where the weights of a row times the offsets of its nearest anchors are above zero.
    thresholds_ : ndarray of shape (2, n_bits / 2)
        theta+ and theta-, with two layers.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> AGH(n_bits=16, n_layers=2, random_state=0).fit_transform(X).shape
    (1797, 2)
    """

    _ranges: ClassVar = {
        **AnchoredHasher._ranges,
        "n_layers": Range(int, 1, 2),
        "n_neighbors": Range(int, 1),
        "max_eigenvalue": Range(float, 0, 1),
    }

    def __init__(
        self,
        n_bits=64,
        *,
        n_layers=1,
        n_anchors="auto",
        n_neighbors=5,
        max_eigenvalue=0.999,
        anchors="kmeans",
        kmeans_max_iter=10,
        kmeans_sample=None,
        random_state=None,
    ):
        self.n_bits = n_bits
        self.n_layers = n_layers
        self.n_anchors = n_anchors
        self.n_neighbors = n_neighbors
        self.max_eigenvalue = max_eigenvalue
        self.anchors = anchors
        self.kmeans_max_iter = kmeans_max_iter
        self.kmeans_sample = kmeans_sample
        self.random_state = random_state

    def summary_needs(self):
        if self.n_layers == 2 and self.n_bits % 2:
            raise ValueError(f"n_bits must be even with n_layers=2, got {self.n_bits}")
        return {"n_distances": self.n_neighbors, "spectral": self.n_neighbors}

    @all_or_nothing
    def fit_summary(self, summary):
        graph, gram, _ = summary.sums["spectral"]
        # An anchor that is near to no row has no place in the graph.
        used = np.flatnonzero(gram.any(axis=0))
        anchors, graph = summary.anchors[used], graph._replace(k=min(graph.k, len(used)))
        self.mean_, self.anchors_ = summary.mean, summary.anchors_of_data[used]
        self.n_blended_, self.sigma_ = graph.k, graph.sigma * summary.scale

        spectrum = anchor_spectrum(gram[np.ix_(used, used)])
        chosen = self._admissible(spectrum.eigenvalues, self.n_bits // self.n_layers)
        self.eigenvalues_ = spectrum.eigenvalues[chosen]
        directions = spectrum.vectors[:, chosen] / np.sqrt(self.eigenvalues_ / len(summary.rows))
        self.offsets_ = with_positive_peaks(directions * spectrum.scale[:, None])
        if self.n_layers == 2:
            self.thresholds_ = second_cuts(summary.rows, anchors, graph, spectrum.scale, self.offsets_)
        return self

    def n_anchors_for(self, n):
        return min(n, AUTO_ANCHORS) if self.n_anchors == "auto" else super().n_anchors_for(n)

    def _find_anchors(self, rows, mean, scale, rng):
        """The anchors without copies, because copies could be all of a row's nearest anchors."""
        anchors, anchors_of_data = super()._find_anchors(rows, mean, scale, rng)
        _, first = np.unique(anchors, axis=0, return_index=True)
        first.sort()
        return anchors[first], anchors_of_data[first]

    def _admissible(self, eigenvalues, n_wanted):
        """Numbers of the eigenvectors to use: the smoothest that are not constant on the graph's components."""
        limit = self.max_eigenvalue
        admissible = np.flatnonzero((eigenvalues > RANK_LIMIT) & (eigenvalues < limit))
        if len(admissible) < n_wanted:
            raise ValueError(
                f"n_bits={self.n_bits} takes {n_wanted} eigenvectors, but of the anchor graph's {len(eigenvalues)} "
                f"only {len(admissible)} have eigenvalues between 0 and max_eigenvalue={limit}; "
                "take fewer bits, more anchors, a larger n_neighbors or max_eigenvalue, or n_layers=2"
            )
        return admissible[:n_wanted]

    def _scorer(self, real):
        eigenfunctions = super()._scorer(real)
        if self.n_layers == 1:
            return eigenfunctions
        return TwoLayerScorer(eigenfunctions, *self.thresholds_.astype(real))


class TwoLayerScorer(NamedTuple):
    """The bits of the first cut, which are the signs of the eigenfunctions, then those of the second cut."""

    eigenfunctions: OffsetScorer
    above: NDArray
    below: NDArray

    def __call__(self, block: NDArray) -> NDArray:
        Y = self.eigenfunctions(block)
        return np.hstack([Y, np.where(Y > 0, Y - self.above, self.below - Y)])


def second_cuts(rows, anchors, graph, scale, W):
    """The thresholds of the second layer for every eigenvector, shape (2, eigenvectors): theta+, then theta-.

    With the points cut in two by the sign of y = Z w, let u be y - theta+ above zero and theta- - y below. Of all
    thresholds for which u sums to zero, those with the least u'(I - S)u have a closed form over the m anchors.
    ``scale`` is the diagonal of L^-1/2.
    """
    n, inverse_mass = len(rows), scale[:, None] ** 2
    n_above, sum_above, share_above, magnitude = fold(rows, _sums_above, added, anchors, graph, W)
    kept = (share_above * magnitude * inverse_mass).sum(axis=0)
    across = n_above - (share_above**2 * inverse_mass).sum(axis=0)
    # No row has anchors on both sides of the cut: a shift between the sides costs nothing, so there is none.
    ratio = np.where(across > RANK_LIMIT * n, (sum_above - kept) / np.maximum(across, RANK_LIMIT * n), 0)
    return np.array([2 * sum_above + (n - n_above) * ratio, n_above * ratio - 2 * sum_above]) / n


def _sums_above(block, first, anchors, graph, W):
    """Of the rows with y = z'W > 0: their number, the sums of y and of z; and Z'|Y| of all rows."""
    Z = graph.of(block, anchors).astype(np.float64)
    Y = Z @ W
    above = (Y > 0).astype(np.float64)
    return above.sum(axis=0), (Y * above).sum(axis=0), Z.T @ above, Z.T @ np.abs(Y)
