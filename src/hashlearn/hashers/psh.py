"""PSH: personalized sparse hashing, the half of JPSH that gives every cluster weights of its own (eq. 5)::

    min_{B, P, R}  sum_j ||b_j - R P_j'c_j||^2 + lambda1 sum_j ||P_j||_{2,1}^2 + lambda2 sum_ij S_ij ||P_i - P_j||_F

A sample gets the code of its nearest anchor, so there are at most as many codes as anchors. P_j has d b unknowns for
one target of b numbers, so every start leads to a nearly perfect fit. Only the smoothness over S makes neighboring
anchors agree. The paper shows PSH as an ablation (Table 1), without a formula for encoding. This code encodes by JPSH's
rule for new samples, without the projection.
"""

from typing import ClassVar

import numpy as np

from hashlearn.hashers.anchored import AnchoredHasher
from hashlearn.hashers.base import all_or_nothing
from hashlearn.hashers.jpsh import PERSONALIZED_RANGES, ROUND_RANGES, Solver, settled, solver_settings
from hashlearn.hashers.starts import SPECTRAL_NEIGHBORS, is_spectral, signs, starting_codes
from hashlearn.linalg.personalized import IdentityPenalty, PenaltyRule, anchor_similarity
from hashlearn.linalg.rotations import nearest_rotation


class PSH(AnchoredHasher):
    """Codes of clusters: personalized weights without the pairwise term.

    Parameters
    ----------
    n_bits : int (at least 1), default=64
        Length of a code.
    n_anchors : int (at least 1) or "auto", default="auto"
        Number of anchors; "auto" takes one for every ten rows and at most 800, but at least
        ``n_bits + 1`` (as far as there are rows).
    n_anchor_neighbors : int (at least 1), default=5
        Neighbors of an anchor in the graph S (psi in the paper).
    lambda1 : float (at least 0), default=1
        Weight of the exclusive group sparsity of P.
    lambda2 : float (at least 0), default=1
        Weight of the smoothness of P over the anchors' graph.
    max_iter : int (at least 1), default=10
        Rounds of the alternation.
    bias, rescale, anchors, kmeans_max_iter, kmeans_sample
        As in :class:`~hashlearn.hashers.jpsh.JPSH`.
    init : {"random", "itq", "spectral"} or ndarray of shape (n_bits, n_anchors), default="random"
        The anchors' codes to start from.
    solver, random_state
        As in :class:`~hashlearn.hashers.jpsh.JPSH`.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    anchors_ : ndarray of shape (n_anchors, n_features)
    offsets_ : ndarray of shape (n_anchors, n_bits)
        A bit of a sample is one where the offset of its nearest anchor is above zero.
    n_iter_ : int
        Rounds done.
    objective_ : list of float
        Eq. 5 after every round, without the norms of the bias row of P, which nothing minimizes.
    codes_per_round_ : ndarray of shape (n_rounds, n_bits, n_anchors)
        The anchors' codes after every round, as -1 and +1; not saved.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> PSH(n_bits=16, n_anchors=50, random_state=0).fit_transform(X).shape
    (1797, 2)
    """

    _ranges: ClassVar = {**AnchoredHasher._ranges, **ROUND_RANGES, **PERSONALIZED_RANGES}
    _not_saved = ("personalized_weights_", "codes_per_round_")
    solver_defaults: ClassVar = Solver()

    def __init__(
        self,
        n_bits=64,
        *,
        n_anchors="auto",
        n_anchor_neighbors=5,
        lambda1=1.0,
        lambda2=1.0,
        max_iter=10,
        bias=True,
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
        self.n_anchor_neighbors = n_anchor_neighbors
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.max_iter = max_iter
        self.bias = bias
        self.rescale = rescale
        self.anchors = anchors
        self.kmeans_max_iter = kmeans_max_iter
        self.kmeans_sample = kmeans_sample
        self.init = init
        self.solver = solver
        self.random_state = random_state

    def summary_needs(self):
        spectral = SPECTRAL_NEIGHBORS if is_spectral(self.init) else None
        return {"n_distances": 1, "spectral": spectral, "rescale": self.rescale}

    @all_or_nothing
    def fit_summary(self, summary):
        """The loop of JPSH's Algorithm 1 with P, R and B only.

        Parameters
        ----------
        summary : AnchorSummary
            What :meth:`summarize` of this method returned, also with another ``n_bits``.

        Returns
        -------
        PSH
            This object.
        """
        C = summary.anchors_with_bias() if self.bias else summary.anchors.astype(np.float64)
        S = anchor_similarity(summary.anchors, self.n_anchor_neighbors)  # eq. 6
        solver = solver_settings(self)
        rule = PenaltyRule(self.lambda1, self.lambda2, solver.epsilon, solver.graph_ridge, self.bias)

        B = starting_codes(self.init, summary, self.n_bits)
        R, penalty = np.eye(self.n_bits), IdentityPenalty(S)
        self.objective_, codes_per_round = [], []
        for _ in self._rounds(self.max_iter):
            P = penalty.solve(C, B.T @ R, solver.solver_tol)  # eq. 14
            R = nearest_rotation(B @ P.responses)  # eq. 19
            target = R @ P.responses.T
            B = signs(target)  # eq. 23
            penalty = rule.at(P, S)  # eqs. 11 and 13
            self.objective_.append(float(((B - target) ** 2).sum()) + rule.value(P, S))
            codes_per_round.append(B.astype(np.int8))
            if settled(self.objective_, solver.tol):
                break

        self._keep_anchors(summary, n_blended=1)
        self.offsets_, self.codes_per_round_ = target.T, np.stack(codes_per_round)
        if solver.keep_weights:
            self.personalized_weights_ = P.in_full()
        self.n_iter_ = len(codes_per_round)
        return self
