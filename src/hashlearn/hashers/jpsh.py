"""JPSH: jointly personalized sparse hashing (Wang et al., ACM TOMM 2022, doi 10.1145/3558769).

Two views of a sample decide its code together: where it lies among all samples (a projection W, shared), and which
cluster it belongs to (weights P_j, one set a cluster). Eq. 7::

    min_{B, P, W, R, V}  sum_j ||b_j - R P_j'c_j||^2  +  sum_ij A_ij ||b_j - V W'x_i||^2
                         + lambda1 sum_j ||P_j||_{2,1}^2 + lambda2 sum_ij S_ij ||P_i - P_j||_F + lambda3 ||W||_{2,1}
                         B in {-1, +1}^{b x m},  R'R = V'V = I

with anchors c_j from k-means, the anchor graph A (eq. 2) and the graph S among the anchors (eq. 6). Each unknown is
found in turn, in the order W (eq. 16), P (eq. 14), V (eq. 19), R (eq. 21), B. A sample with nearest anchor j gets the
bits ``V W'x + R P_j'c_j > 0``; the second part is one offset a cluster, so the model is a projection, the anchors and
their offsets.

The steps are in :mod:`hashlearn.hashers.terms`, the system of eq. 14 in :mod:`hashlearn.linalg.personalized`.
"""

from typing import Any, Self

from hashlearn.checks import check_choice
from hashlearn.hashers.alternating import AlternatingHasher

_PIXELS = {"lambda1": 1, "lambda2": 1, "lambda3": 10, "n_neighbors": 7, "n_anchor_neighbors": 5}
_DEEP_FEATURES = {"lambda1": 10, "lambda2": 10, "lambda3": 1e5, "n_neighbors": 5, "n_anchor_neighbors": 7}
PAPER_SETTINGS: dict[str, dict[str, Any]] = {
    "mnist": {**_PIXELS, "n_anchors": 800, "max_iter": 10},
    "cifar-10": {**_PIXELS, "n_anchors": 800, "max_iter": 4},
    "nus-wide": {**_DEEP_FEATURES, "n_anchors": 1000, "max_iter": 5},
    "flickr25k": {**_DEEP_FEATURES, "n_anchors": 500, "max_iter": 10},
}
"""The settings of the published implementation. It has n_anchor_neighbors (psi) of the two groups the other way round
than the paper's text; the numbers of the paper were made by the program."""


class JPSH(AlternatingHasher):
    """Codes from a shared projection and personalized offsets of clusters.

    The defaults are those that measure best (docs: explanation/defaults). ``JPSH.paper("mnist")`` is the paper's
    method, and ``JPSH(anchors="random")`` its ablation JPSH0.

    Parameters
    ----------
    n_bits : int, default=64
        Length of a code.
    n_anchors : int or "auto", default="auto"
        Number of anchors m; "auto" takes one for every ten rows, at least ``n_bits + 1`` and at most 800.
    n_neighbors : int, default=7
        Nearest anchors a sample is tied to in the anchor graph (k).
    n_anchor_neighbors : int, default=5
        Neighbours of an anchor in the graph among the anchors (psi).
    lambda1 : float, default=1
        Weight of the exclusive group sparsity of P.
    lambda2 : float, default=1
        Weight of the smoothness of P over the graph among the anchors.
    lambda3 : float, default=10
        Weight of the l2,1 norm of W.
    max_iter : int or "auto", default="auto"
        Rounds of the alternation, at most; "auto" is one from a spectral start, which further rounds do not improve,
        and four from any other.
    tol : float or None, default=None
        Stop when the objective changes by less than this share of itself.
    max_imbalance : float or None, default=0.2
        Stop, without labels, when the bits lose their balance: a round after which the mean over the bits of
        ``|share of ones - share of zeros|`` exceeds this is taken back, unless it is the first. None is the paper's.
    epsilon : float, default=1e-5
        Added to the norms that penalties are divided by (eqs. 11, 13, 17). It is absolute: compare it with the data's
        scale where ``rescale`` is off.
    graph_ridge : float, default=1e-3
        Added to the diagonal of G (eq. 13), which is a Laplacian and singular without it.
    bias : bool, default=True
        Append a one to every sample. Its personalized weights are not penalised by lambda1.
    normalize_graph : bool, default=False
        Let the weights of a sample sum to one, as eq. 2 says; the published implementation does not.
    rescale : bool, default=True
        Centre the data and divide them by their spread first, so that their unit does not matter.
    anchors : {"kmeans", "random"} or ndarray of shape (n_anchors, n_features), default="kmeans"
        Where the anchors come from.
    anchor_iter : int, default=10
        Rounds of k-means.
    anchor_sample : int or None, default=None
        Number of rows, drawn at random, that anchors are found among; None for all. With n rows k-means reads n rows
        a round, a sample is held in memory.
    init : {"spectral", "itq", "random"} or ndarray of shape (n_bits, n_anchors), default="spectral"
        The anchors' codes to start from: those of SAH, those of ITQ, or random ones (the paper).
    soft_offsets : int, default=2
        Number of nearest anchors whose offsets are blended when encoding; 1 is the paper's.
    pairwise_weight : float, default=0.1
        Weight of the projection against the offsets when encoding; 1 is the paper's.
    solver_tol : float, default=1e-5
        Relative residual to which the personalized weights are solved for.
    keep_weights : bool, default=False
        Keep the personalized weights P, m x d x b numbers that encoding does not need.
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
    n_iter_ : int
        Rounds done.
    objective_ : list of float
        Eq. 7 after every round.
    codes_per_round_ : ndarray of shape (n_rounds, n_bits, n_anchors)
        The anchors' codes after every round, as -1 and +1; not saved.
    pairwise_weights_ : ndarray of shape (n_features + bias, n_bits)
        W, in units of the rescaled data; not saved.
    personalized_weights_ : ndarray of shape (n_anchors, n_features + bias, n_bits)
        P, if ``keep_weights``; not saved.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> JPSH(n_bits=16, random_state=0).fit_transform(X).shape
    (1797, 2)
    """

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
        tol=None,
        max_imbalance=0.2,
        epsilon=1e-5,
        graph_ridge=1e-3,
        bias=True,
        normalize_graph=False,
        rescale=True,
        anchors="kmeans",
        anchor_iter=10,
        anchor_sample=None,
        init="spectral",
        soft_offsets=2,
        pairwise_weight=0.1,
        solver_tol=1e-5,
        keep_weights=False,
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
        self.tol = tol
        self.max_imbalance = max_imbalance
        self.epsilon = epsilon
        self.graph_ridge = graph_ridge
        self.bias = bias
        self.normalize_graph = normalize_graph
        self.rescale = rescale
        self.anchors = anchors
        self.anchor_iter = anchor_iter
        self.anchor_sample = anchor_sample
        self.init = init
        self.soft_offsets = soft_offsets
        self.pairwise_weight = pairwise_weight
        self.solver_tol = solver_tol
        self.keep_weights = keep_weights
        self.random_state = random_state

    @classmethod
    def paper(cls, dataset: str, n_bits: int = 64, **changes: Any) -> Self:
        """JPSH as published, with the settings for "mnist", "cifar-10", "nus-wide" or "flickr25k".

        The paper's data are features in their own unit (pixels in 0..1 for MNIST), neither centred nor scaled.

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
