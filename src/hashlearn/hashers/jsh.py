"""JSH: jointly sparse hashing (Lai et al., IEEE TIP 2018).

Predict the codes of anchors from the samples near them. The penalty sets whole rows of the projection to zero::

    min_{B, W, V}  sum_ij A_ij ||b_j - V W'x_i||^2 + lambda3 ||W||_{2,1}      B in {-1, +1}^{b x m},  V'V = I

A is the anchor graph (eq. 2 of the JPSH paper, whose names and equation numbers are used here). It is the loop of JPSH
with the pairwise term alone. JSH's own paper calls lambda3 alpha.
"""

from typing import ClassVar, NamedTuple

import numpy as np

from hashlearn.checks import Range
from hashlearn.hashers.anchored import AnchoredHasher
from hashlearn.hashers.base import LinearScorer, all_or_nothing
from hashlearn.hashers.jpsh import (
    PAIRWISE_RANGES,
    ROUND_RANGES,
    TOLERANCES,
    pairwise_loss,
    pairwise_weights,
    row_penalty,
    settled,
    solver_settings,
)
from hashlearn.hashers.starts import SPECTRAL_NEIGHBORS, is_spectral, signs, starting_codes
from hashlearn.linalg.rotations import nearest_rotation


class PairwiseSolver(NamedTuple):
    """The entries of the parameter ``solver`` of JSH, with their defaults.

    Attributes
    ----------
    tol : float (at least 0) or None
        Stop when the objective changes by less than this share; None for exactly ``max_iter`` rounds.
    epsilon : float (at least 0)
        Added to the squared norms of the rows of W, under the root (eq. 17).
    """

    tol: float | None = None
    epsilon: float = 2.220446049250313e-16


class JSH(AnchoredHasher):
    """Codes from a jointly sparse projection that follows the anchor graph.

    Parameters
    ----------
    n_bits : int (at least 1), default=64
        Length of a code.
    n_anchors : int (at least 1) or "auto", default="auto"
        Number of anchors; "auto" takes one for every ten rows and at most 800, but at least
        ``n_bits + 1`` (as far as there are rows). The published
        comparison takes 500.
    n_neighbors : int (at least 1), default=5
        Nearest anchors a sample is tied to.
    lambda3 : float (at least 0), default=10
        Weight of the l2,1 norm of W.
    max_iter : int (at least 1), default=10
        Rounds of the alternation.
    bias : bool, default=True
        Append a one to every sample. Its weight is penalized like any other.
    normalize_graph : bool, default=False
        Let the weights of a sample sum to one, as eq. 2 says; the published implementation does not.
    rescale : bool, default=True
        Center the data and divide them by their spread first, so that their unit does not matter.
    anchors : {"kmeans", "random"} or ndarray of shape (n_anchors, n_features), default="kmeans"
        Where the anchors come from.
    kmeans_max_iter : int (at least 1), default=10
        Rounds of k-means.
    kmeans_sample : int (at least 2) or None, default=None
        Number of rows, drawn at random, from which the anchors are found; None for all. All rows are read once in every
        round of k-means; a sample is held in memory. For ``n_anchors="auto"`` the sample has at least one row for each
        anchor.
    init : {"random", "itq", "spectral"} or ndarray of shape (n_bits, n_anchors), default="random"
        The anchors' codes to start from.
    solver : dict or None, default=None
        Tolerances of the loop. An entry that is left out has its default: ``tol=None`` (stop when the objective changes
        by less than this share) and ``epsilon=2.220446049250313e-16`` (added to the squared norms of the rows of W,
        under the root of eq. 17).
    random_state : int, RandomState instance or None, default=None
        Determines the anchors and the codes to start from.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    projection_ : ndarray of shape (n_features, n_bits)
    intercept_ : ndarray of shape (n_bits,)
        A bit is one where ``(x - mean_) @ projection_ + intercept_ > 0``.
    anchors_ : ndarray of shape (n_anchors, n_features)
    n_iter_ : int
        Rounds done.
    objective_ : list of float
        The objective after every round.
    codes_per_round_ : ndarray of shape (n_rounds, n_bits, n_anchors)
        The anchors' codes after every round, as -1 and +1; not saved.
    pairwise_weights_ : ndarray of shape (n_features + bias, n_bits)
        W, in units of the rescaled data; not saved.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> JSH(n_bits=16, random_state=0).fit_transform(X).shape
    (1797, 2)
    """

    _ranges: ClassVar = {
        **AnchoredHasher._ranges,
        **ROUND_RANGES,
        **PAIRWISE_RANGES,
        "solver": Range(entries=TOLERANCES, none=True),
    }
    _not_saved = ("pairwise_weights_", "codes_per_round_")
    solver_defaults: ClassVar = PairwiseSolver()

    def __init__(
        self,
        n_bits=64,
        *,
        n_anchors="auto",
        n_neighbors=5,
        lambda3=10.0,
        max_iter=10,
        bias=True,
        normalize_graph=False,
        rescale=True,
        anchors="kmeans",
        kmeans_max_iter=10,
        kmeans_sample=None,
        init="random",
        solver=None,
        random_state=None,
    ):
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.n_neighbors = n_neighbors
        self.lambda3 = lambda3
        self.max_iter = max_iter
        self.bias = bias
        self.normalize_graph = normalize_graph
        self.rescale = rescale
        self.anchors = anchors
        self.kmeans_max_iter = kmeans_max_iter
        self.kmeans_sample = kmeans_sample
        self.init = init
        self.solver = solver
        self.random_state = random_state

    def summary_needs(self):
        return {
            "n_distances": 1,
            "pairwise": (self.n_neighbors, self.normalize_graph),
            "spectral": SPECTRAL_NEIGHBORS if is_spectral(self.init) else None,
            "rescale": self.rescale,
        }

    @all_or_nothing
    def fit_summary(self, summary):
        """The loop of JPSH's Algorithm 1 with W, V and B only.

        Parameters
        ----------
        summary : AnchorSummary
            What :meth:`summarize` of this method returned, also with another ``n_bits``.

        Returns
        -------
        JSH
            This object.
        """
        sums = summary.sums["pairwise"].with_bias() if self.bias else summary.sums["pairwise"]
        B = starting_codes(self.init, summary, self.n_bits)
        solver = solver_settings(self)
        V, Q = np.eye(self.n_bits), np.ones(len(sums.XDX))
        self.objective_, codes_per_round = [], []
        for _ in self._rounds(self.max_iter):
            W = pairwise_weights(sums, B.T @ V, self.lambda3 * Q)  # eq. 16
            Q = row_penalty(W, solver.epsilon)  # eq. 17
            V = nearest_rotation(B @ (W.T @ sums.XA).T)  # eq. 21
            target = V @ (W.T @ sums.XA)
            B = signs(target)  # eq. 23
            self.objective_.append(pairwise_loss(sums, B, target, W, self.lambda3))
            codes_per_round.append(B.astype(np.int8))
            if settled(self.objective_, solver.tol):
                break

        self._keep_joint(summary, 1, W @ V.T)
        self.pairwise_weights_, self.codes_per_round_ = W, np.stack(codes_per_round)
        self.n_iter_ = len(codes_per_round)
        return self

    def _scorer(self, real):
        return LinearScorer(self.mean_.astype(real), self.projection_.astype(real), self.intercept_.astype(real))
