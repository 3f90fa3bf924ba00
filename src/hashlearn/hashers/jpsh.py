"""JPSH: jointly personalized sparse hashing (Wang et al., ACM TOMM 2022, doi 10.1145/3558769).

Two views of a sample decide its code together: where it lies among all samples (a projection W, shared), and which
cluster it belongs to (weights P_j, one set for each cluster). Eq. 7::

    min_{B, P, W, R, V}  sum_j ||b_j - R P_j'c_j||^2  +  sum_ij A_ij ||b_j - V W'x_i||^2
                         + lambda1 sum_j ||P_j||_{2,1}^2 + lambda2 sum_ij S_ij ||P_i - P_j||_F + lambda3 ||W||_{2,1}
                         B in {-1, +1}^{b x m},  R'R = V'V = I

with anchors c_j from k-means, the anchor graph A (eq. 2) and the graph S among the anchors (eq. 6).
:meth:`JPSH.fit_summary` is the paper's Algorithm 1. A sample with nearest anchor j gets the bits
``V W'x + R P_j'c_j > 0``; the second part is one offset for each cluster, so the model is a projection, the anchors and
their offsets. JSH is the same loop with the pairwise term alone, PSH with the personalized term alone.
"""

import warnings
from inspect import signature
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hashlearn.checks import Range, check_choice
from hashlearn.hashers.anchored import AnchoredHasher, JointScorer
from hashlearn.hashers.base import all_or_nothing
from hashlearn.hashers.starts import (
    AFTER_OTHERS,
    SPECTRAL_NEIGHBORS,
    Recipe,
    signs,
    starting_point,
)
from hashlearn.linalg.anchors.graph import PairwiseSums
from hashlearn.linalg.anchors.search import AnchorSearch
from hashlearn.linalg.personalized import IdentityPenalty, PenaltyRule, anchor_similarity
from hashlearn.linalg.rotations import nearest_rotation
from hashlearn.progress import track

NEEDS_TWO_ROUNDS = ("lambda1", "lambda2", "n_anchor_neighbors", "max_imbalance")
"""Parameters that have an effect only from the second round on: the first round uses the identity instead of the
penalties."""

SOLVER_NEEDS_TWO_ROUNDS = ("graph_ridge", "epsilon", "solver_tol", "tol")
"""Entries of ``solver`` that have an effect only from the second round on."""

TOLERANCES = {"tol": Range(float, 0, none=True), "epsilon": Range(float, 0)}
SOLVER_RANGES = {
    **TOLERANCES,
    "graph_ridge": Range(float, 0),
    "solver_tol": Range(float, 1e-14, 0.1),
    "keep_weights": Range(bool),
}
ROUND_RANGES = {"max_iter": Range(int, 1), "init": Range(words=("random", "itq", "spectral"), array=True)}
PAIRWISE_RANGES = {"n_neighbors": Range(int, 1), "lambda3": Range(float, 0)}
PERSONALIZED_RANGES = {
    "n_anchor_neighbors": Range(int, 1),
    "lambda1": Range(float, 0),
    "lambda2": Range(float, 0),
    "solver": Range(entries=SOLVER_RANGES, none=True),
}


class Solver(NamedTuple):
    """The entries of the parameter ``solver`` of JPSH and PSH, with their defaults.

    Attributes
    ----------
    tol : float (at least 0) or None
        Stop when the objective changes by less than this share of itself; None for exactly ``max_iter`` rounds.
    epsilon : float (at least 0)
        Keeps divisions by small norms safe. It is added to the norm in eqs. 11 and 13, and to the squared norm under
        the root in eq. 17. It is an absolute number: with ``rescale=False`` choose it for the scale of the data.
    graph_ridge : float (at least 0)
        Added to the diagonal of G (eq. 13), which is a Laplacian and singular without it.
    solver_tol : float (1e-14 to 0.1)
        Relative residual at which the solution for the personalized weights is accepted.
    keep_weights : bool
        Keep the personalized weights P, m x d x b numbers that encoding does not need.
    """

    tol: float | None = None
    epsilon: float = 1e-5
    graph_ridge: float = 1e-3
    solver_tol: float = 1e-5
    keep_weights: bool = False


def solver_settings(hasher: Any) -> Any:
    """The parameter ``solver`` of JPSH, JSH or PSH, with the defaults of the method for what it leaves out."""
    return hasher.solver_defaults._replace(**(hasher.solver or {}))


_PIXELS = {"lambda1": 1, "lambda2": 1, "lambda3": 10, "n_neighbors": 7, "n_anchor_neighbors": 5}
_DEEP_FEATURES = {"lambda1": 10, "lambda2": 10, "lambda3": 1e5, "n_neighbors": 5, "n_anchor_neighbors": 7}
PAPER_SETTINGS: dict[str, dict[str, Any]] = {
    "mnist": {**_PIXELS, "n_anchors": 800, "max_iter": 10},
    "cifar-10": {**_PIXELS, "n_anchors": 800, "max_iter": 4},
    "nus-wide": {**_DEEP_FEATURES, "n_anchors": 1000, "max_iter": 5},
    "flickr25k": {**_DEEP_FEATURES, "n_anchors": 500, "max_iter": 10},
}
"""The settings of the published implementation. In the paper's text n_anchor_neighbors (psi) of the two groups is
exchanged. The numbers in the paper were made by the published program, so its values are used here."""


class JPSH(AnchoredHasher):
    """Codes from a shared projection and personalized offsets of clusters.

    The defaults are those that measure best (docs: explanation/defaults), and they are not the paper's. The data choose
    the start, without labels (``init="auto"``):

    - Data that fill many dimensions, as embeddings of networks do, start from ITQ codes. Up to three rounds of the
      alternation follow, and all parameters act.
    - Other data (pixels, gradients, tags) get one round from a spectral start, the codes of
      :class:`~hashlearn.SAH`. In one round ``lambda1``, ``lambda2``, ``n_anchor_neighbors``, ``max_imbalance`` and
      ``solver`` change no bit; setting one of them then warns.

    "Many" means two things. The local dimension, which is that of the rows around one of them, is above 14.5, or above
    ``2 sqrt(n_features)`` if that is less. And it is not above the effective number of directions of all rows, ``(sum
    l_i)^2 / sum l_i^2`` with l_i the eigenvalues of the covariance. Both starts are compared for data that use many of
    their features alike: whitened data, and texts as weighted words in their singular directions. ``init_`` says which
    start was taken.

    ``JPSH.paper("mnist")`` is the paper's method, ``JPSH(anchors="random")`` its ablation JPSH0. ``bias``,
    ``normalize_graph`` and ``solver`` exist for comparisons with other programs; leave them at their defaults.

    Parameters
    ----------
    n_bits : int (at least 1), default=64
        Length of a code.
    n_anchors : int (at least 1) or "auto", default="auto"
        Number of anchors m, from 1 to the number of rows; "auto" takes one for every ten rows and at most 800, but at
        least ``n_bits + 1`` (as far as there are rows), because m anchors span at most m - 1 directions.
    n_neighbors : int (at least 1), default=7
        Nearest anchors a sample is tied to in the anchor graph (k).
    n_anchor_neighbors : int (at least 1), default=5
        Neighbors of an anchor in the graph among the anchors (psi).
    lambda1 : float (at least 0), default=1
        Weight of the exclusive group sparsity of P.
    lambda2 : float (at least 0), default=1
        Weight of the smoothness of P over the graph among the anchors.
    lambda3 : float (at least 0), default=10
        Weight of the l2,1 norm of W.
    max_iter : int (at least 1) or "auto", default="auto"
        Rounds of the alternation, at most; "auto" is one from a spectral start, which further rounds do not improve,
        and three from any other.
    max_imbalance : float (0 to 1) or None, default=0.2
        Stop when the bits lose their balance, which needs no labels. The balance is the mean over the bits of ``|share
        of ones - share of zeros|``. A round after which it exceeds this limit is undone, unless it is the first round.
        None, as in the paper, sets no limit.
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
    init : {"auto", "spectral", "itq", "random"} or ndarray of shape (n_bits, n_anchors), default="auto"
        The anchors' codes to start from: those of SAH, those of ITQ (with more bits than features, of ITQ's rotation
        into more dimensions), or random ones (the paper). "auto" takes one of the first two, as said above.
    soft_offsets : int (at least 1) or "auto", default="auto"
        Number of nearest anchors whose offsets are blended when encoding; 1 is the paper's. "auto" is 2.
    pairwise_weight : float (at least 0) or "auto", default="auto"
        Weight of the projection against the offsets when encoding; 1 is the paper's. "auto" is 0.1 from a spectral
        start and 4 from any other.
    bias : bool, default=True
        Append a one to every sample. ``lambda1`` does not penalize its row in P_j, so this row gets the weight that
        fits best, and ``objective_`` leaves it out.
    normalize_graph : bool, default=False
        Let the weights of a sample sum to one, as eq. 2 says; the published implementation does not.
    solver : dict or None, default=None
        Tolerances of the loop, for example ``{"solver_tol": 1e-9}``. An entry that is left out has its default:
        ``tol=None`` (stop when the objective changes by less than this share of itself), ``epsilon=1e-5`` (added to
        norms that are divided by), ``graph_ridge=1e-3`` (added to the diagonal of G in eq. 13), ``solver_tol=1e-5``
        (relative residual of P) and ``keep_weights=False`` (keep P, m x d x b numbers that encoding does not need).
    random_state : int, RandomState instance or None, default=None
        Determines the anchors and the codes to start from.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    projection_ : ndarray of shape (n_features, n_bits)
    intercept_ : ndarray of shape (n_bits,)
    anchors_ : ndarray of shape (n_anchors, n_features)
    offsets_ : ndarray of shape (n_anchors, n_bits)
        A bit is one where ``(x - mean_) @ projection_ + intercept_`` plus the blended offsets of the nearest anchors is
        above zero.
    sigma_ : float
        Width of the blend's weights ``exp(-d^2 / sigma_^2)``.
    n_blended_ : int
        Number of nearest anchors whose offsets are blended.
    init_ : {"spectral", "itq", "random", "array"}
        The start that was taken.
    n_iter_ : int
        Rounds done.
    objective_ : list of float
        Eq. 7 after every round, without the norms of the bias row of P, which nothing minimizes.
    codes_per_round_ : ndarray of shape (n_rounds, n_bits, n_anchors)
        The anchors' codes after every round, as -1 and +1; not saved.
    pairwise_weights_ : ndarray of shape (n_features + bias, n_bits)
        W, in units of the rescaled data; not saved.
    personalized_weights_ : ndarray of shape (n_anchors, n_features + bias, n_bits)
        P, with ``solver={"keep_weights": True}``; not saved.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> JPSH(n_bits=16, random_state=0).fit_transform(X).shape
    (1797, 2)
    """

    _ranges: ClassVar = {
        **AnchoredHasher._ranges,
        **ROUND_RANGES,
        **PAIRWISE_RANGES,
        **PERSONALIZED_RANGES,
        "init": Range(words=("auto", *ROUND_RANGES["init"].words), array=True),
        "max_iter": Range(int, 1, words=("auto",)),
        "max_imbalance": Range(float, 0, 1, none=True),
        "soft_offsets": Range(int, 1, words=("auto",)),
        "pairwise_weight": Range(float, 0, words=("auto",)),
    }
    _not_saved = ("pairwise_weights_", "personalized_weights_", "codes_per_round_")
    solver_defaults: ClassVar = Solver()

    def __init__(
        self,
        n_bits=64,
        *,
        n_anchors="auto",
        n_neighbors=7,
        n_anchor_neighbors=5,
        lambda1=1.0,
        lambda2=1.0,
        lambda3=10.0,
        max_iter="auto",
        max_imbalance=0.2,
        rescale=True,
        anchors="kmeans",
        kmeans_max_iter=10,
        kmeans_sample=None,
        init="auto",
        soft_offsets="auto",
        pairwise_weight="auto",
        bias=True,
        normalize_graph=False,
        solver=None,
        random_state=None,
    ):
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.n_neighbors = n_neighbors
        self.n_anchor_neighbors = n_anchor_neighbors
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.lambda3 = lambda3
        self.max_iter = max_iter
        self.max_imbalance = max_imbalance
        self.rescale = rescale
        self.anchors = anchors
        self.kmeans_max_iter = kmeans_max_iter
        self.kmeans_sample = kmeans_sample
        self.init = init
        self.soft_offsets = soft_offsets
        self.pairwise_weight = pairwise_weight
        self.bias = bias
        self.normalize_graph = normalize_graph
        self.solver = solver
        self.random_state = random_state

    @classmethod
    def paper(cls, dataset: str, n_bits: int = 64, **changes: Any) -> Self:
        """JPSH as published, with the settings for "mnist", "cifar-10", "nus-wide" or "flickr25k".

        The paper's data are features in their own unit (pixels in 0..1 for MNIST), neither centered nor scaled.

        Parameters
        ----------
        dataset : {"mnist", "cifar-10", "nus-wide", "flickr25k"}
            Whose settings to take.
        n_bits : int, default=64
            Length of a code.
        **changes : dict
            Parameters to set otherwise.

        Returns
        -------
        JPSH
            Not fitted.

        Examples
        --------
        >>> JPSH.paper("cifar-10", n_bits=16, random_state=0).max_iter
        4
        """
        check_choice("dataset", dataset, PAPER_SETTINGS)
        settings = {
            **PAPER_SETTINGS[dataset],
            "init": "random",
            "max_imbalance": None,
            "soft_offsets": 1,
            "pairwise_weight": 1.0,
            "rescale": False,
        }
        return cls(n_bits, **{**settings, **changes})

    def summary_needs(self):
        may_be_spectral = isinstance(self.init, str) and self.init in ("auto", "spectral")
        return {
            "n_distances": AFTER_OTHERS.soft_offsets if _is_auto(self.soft_offsets) else self.soft_offsets,
            "pairwise": (self.n_neighbors, self.normalize_graph),
            "spectral": SPECTRAL_NEIGHBORS if may_be_spectral else None,
            "rescale": self.rescale,
        }

    @all_or_nothing
    def fit_summary(self, summary):
        """Algorithm 1 of the paper, from the summary that :meth:`summarize` returned.

        The steps have the order of the paper's box. The box has no line for K and G of eq. 14 (eqs. 11 and 13): they
        are computed after B here and, like Q, used in the next round. The published program has another order with the
        same result. Eq. 16 has X X' where this code has X D X', with D the row sums of A. Both are the same if the rows
        of A sum to one (``normalize_graph``).

        Parameters
        ----------
        summary : AnchorSummary
            What :meth:`summarize` of this method returned, also with another ``n_bits``.

        Returns
        -------
        JPSH
            This object.
        """
        start = starting_point(self.init, summary, self.n_bits)
        max_iter, soft_offsets, pairwise_weight = self._asked(start.recipe)
        if max_iter == 1:
            self._warn_of_parameters_without_effect()
        C = summary.anchors_with_bias() if self.bias else summary.anchors.astype(np.float64)
        S = anchor_similarity(summary.anchors, self.n_anchor_neighbors)  # eq. 6
        sums = summary.sums["pairwise"].with_bias() if self.bias else summary.sums["pairwise"]  # eq. 2
        solver = solver_settings(self)
        rule = PenaltyRule(self.lambda1, self.lambda2, solver.epsilon, solver.graph_ridge, self.bias)

        B, R, V = start.codes, np.eye(self.n_bits), np.eye(self.n_bits)
        penalty, Q = IdentityPenalty(S), np.ones(len(sums.XDX))
        self.objective_, codes_per_round = [], []
        for _ in track(range(max_iter), "JPSH rounds"):
            P = penalty.solve(C, B.T @ R, solver.solver_tol)  # eq. 14
            W = pairwise_weights(sums, B.T @ V, self.lambda3 * Q)  # eq. 16
            Q = row_penalty(W, solver.epsilon)  # eq. 17
            R = nearest_rotation(B @ P.responses)  # eq. 19
            V = nearest_rotation(B @ (W.T @ sums.XA).T)  # eq. 21
            personalized, pairwise = R @ P.responses.T, V @ (W.T @ sums.XA)
            B = signs(personalized + pairwise)  # eq. 23
            penalty = rule.at(P, S)  # eqs. 11 and 13

            unbalanced = self.max_imbalance is not None and imbalance(B, summary.spacing.shares) > self.max_imbalance
            if unbalanced and self.objective_:
                break
            objective = float(((B - personalized) ** 2).sum()) + rule.value(P, S)
            objective += pairwise_loss(sums, B, pairwise, W, self.lambda3)
            self.objective_.append(objective)  # eq. 7
            codes_per_round.append(B.astype(np.int8))
            self.offsets_, self.pairwise_weights_, projection = personalized.T, W, W @ V.T
            if solver.keep_weights:
                self.personalized_weights_ = P.in_full()
            if unbalanced or settled(self.objective_, solver.tol):
                break

        self._keep_joint(summary, soft_offsets, pairwise_weight * projection)
        self.init_ = start.name
        self.codes_per_round_ = np.stack(codes_per_round)
        self.n_iter_ = len(codes_per_round)
        return self

    def _scorer(self, real):
        search = AnchorSearch.from_stored_rows(
            (self.anchors_ - self.mean_).astype(real), self.projection_.astype(real), self.mean_.astype(real)
        )
        # The weights of the offsets sum to one, so the intercept may be in each of them.
        return JointScorer(search, (self.offsets_ + self.intercept_).astype(real), self.n_blended_, self.sigma_)

    def _asked(self, best: Recipe) -> Recipe:
        """The given parameters; "auto" is replaced by the value that measured best."""
        asked = {name: getattr(self, name) for name in Recipe._fields}
        return best._replace(**{name: value for name, value in asked.items() if not _is_auto(value)})

    def _warn_of_parameters_without_effect(self) -> None:
        defaults = {name: parameter.default for name, parameter in signature(type(self)).parameters.items()}
        changed = [name for name in NEEDS_TWO_ROUNDS if getattr(self, name) != defaults[name]]
        solver = solver_settings(self)
        changed += [
            name for name in SOLVER_NEEDS_TWO_ROUNDS if getattr(solver, name) != getattr(self.solver_defaults, name)
        ]
        if changed:
            warnings.warn(
                f"{', '.join(changed)} change nothing in one round; set max_iter to 2 or more for them to act",
                UserWarning,
                stacklevel=4,
            )


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def pairwise_weights(sums: PairwiseSums, T: NDArray, penalty: NDArray) -> NDArray[np.float64]:
    """W = (lambda3 Q + X D X')^-1 X A T with T = B'V (eq. 16); ``penalty`` is the diagonal of lambda3 Q."""
    left, right = sums.XDX + np.diag(penalty), sums.XA @ T
    try:
        return scipy.linalg.solve(left, right, assume_a="pos", check_finite=False)
    except np.linalg.LinAlgError:
        # Without a penalty, a feature that is always zero makes the system singular.
        return scipy.linalg.lstsq(left, right, check_finite=False)[0]


def row_penalty(W: NDArray, epsilon: float) -> NDArray[np.float64]:
    """The diagonal of Q: 1 / (2 sqrt(||w_i||^2 + epsilon)) (eq. 17)."""
    return 0.5 / np.sqrt(np.einsum("ij,ij->i", W, W) + epsilon)


def pairwise_loss(sums: PairwiseSums, B: NDArray, target: NDArray, W: NDArray, lambda3: float) -> float:
    """The pairwise term of eq. 7, with ``target`` = V W'X A."""
    fit = B.shape[0] * float(sums.A1.sum()) - 2 * float((B * target).sum()) + float((W * (sums.XDX @ W)).sum())
    return fit + lambda3 * float(np.linalg.norm(W, axis=1).sum())


def settled(objective: list[float], tol: float | None) -> bool:
    """Whether the last round changed the objective by at most the share ``tol``."""
    if tol is None or len(objective) < 2:
        return False
    return abs(objective[-2] - objective[-1]) <= tol * abs(objective[-2])


def imbalance(B: NDArray, shares: NDArray) -> float:
    """How far the bits are from being one for half of the data: 0 for balanced bits, 1 for constant ones.

    ``shares`` is the part of the data in each cluster, shape (m,).
    """
    return float(np.abs(B @ shares).mean())
