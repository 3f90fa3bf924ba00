"""SAH: spectral anchor hashing.

The leading eigenvectors of the anchor graph are the directions that vary slowest over the data. They are taken
directly, weighted by how much of the data they explain, and rotated toward the hypercube::

    Z      n x m, the two nearest anchors of every row with weights exp(-d^2 / sigma^2), rows sum to one;  L = diag(Z'1)
    M    = L^-1/2 Z'Z L^-1/2 = V diag(s) V',   the first, constant eigenvector left out
    e_i  = ||v_i' L^1/2 (C - c)||,             the energy of eigenvector i in the data
    E    = L^-1/2 V diag(s_i e_i)              the n_bits columns of largest weight s_i e_i
    O    = E r,   r the rotation of iterative quantization for Z E
    bits   z(x) O > 0

A code tells in which clusters of the data a row lies, and not where in its cluster: these are codes by meaning. After
k-means the fit needs only Z'Z (m x m) and a sample of the rows.
"""

from typing import ClassVar

from hashlearn.checks import Range
from hashlearn.hashers.anchored import AnchoredHasher
from hashlearn.hashers.base import all_or_nothing
from hashlearn.linalg.anchors.graph import spectral_offsets


class SAH(AnchoredHasher):
    """Codes from the slow directions of the anchor graph.

    Parameters
    ----------
    n_bits : int (at least 1), default=64
        Length of a code.
    n_anchors : int (at least 1) or "auto", default="auto"
        Number of anchors; "auto" takes one for every ten rows and at most 800, but at least
        ``n_bits + 1`` (as far as there are rows).
    n_neighbors : int (at least 1), default=2
        Nearest anchors a row is described by.
    max_iter : int (at least 0), default=30
        Rounds of the rotation.
    anchors : {"kmeans", "random"} or ndarray of shape (n_anchors, n_features), default="kmeans"
        Where the anchors come from.
    kmeans_max_iter : int (at least 1), default=10
        Rounds of k-means.
    kmeans_sample : int (at least 2) or None, default=None
        Number of rows, drawn at random, from which the anchors are found; None for all. All rows are read once in every
        round of k-means; a sample is held in memory. For ``n_anchors="auto"`` the sample has at least one row for each
        anchor.
    random_state : int, RandomState instance or None, default=None
        Determines the anchors and the rotation to start from.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    anchors_ : ndarray of shape (n_anchors, n_features)
    sigma_ : float
        Width of the weights: mean distance to the last of the ``n_neighbors`` anchors.
    n_blended_ : int
        Number of nearest anchors whose offsets are blended.
    offsets_ : ndarray of shape (n_anchors, n_bits)
        A bit is one where the weights of a row times the offsets of its nearest anchors are above zero.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> SAH(n_bits=16, random_state=0).fit_transform(X).shape
    (1797, 2)
    """

    _ranges: ClassVar = {**AnchoredHasher._ranges, "n_neighbors": Range(int, 1), "max_iter": Range(int, 0)}

    def __init__(
        self,
        n_bits=64,
        *,
        n_anchors="auto",
        n_neighbors=2,
        max_iter=30,
        anchors="kmeans",
        kmeans_max_iter=10,
        kmeans_sample=None,
        random_state=None,
    ):
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter
        self.anchors = anchors
        self.kmeans_max_iter = kmeans_max_iter
        self.kmeans_sample = kmeans_sample
        self.random_state = random_state

    def summary_needs(self):
        return {"n_distances": self.n_neighbors, "spectral": self.n_neighbors}

    @all_or_nothing
    def fit_summary(self, summary):
        graph, gram, sample = summary.sums["spectral"]
        self._keep_anchors(summary, graph.k)
        rounds = self._rounds(self.max_iter)
        self.offsets_ = spectral_offsets(gram, sample, summary.anchors, self.n_bits, rounds, summary.rng())
        return self
