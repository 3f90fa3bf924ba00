"""JSH: jointly sparse hashing (Lai et al., IEEE TIP 2018).

Regress the codes of anchors on the samples near them, with a projection whose rows are switched off together::

    min_{B, W, V}  sum_ij A_ij ||b_j - V W'x_i||^2 + alpha ||W||_{2,1}      B in {-1, +1}^{b x m},  V'V = I

A is the anchor graph (eq. 2). It is the pairwise term of JPSH, alone; :mod:`hashlearn.hashers.terms` has its steps.
"""

from hashlearn.hashers.alternating import AlternatingHasher


class JSH(AlternatingHasher):
    """Codes from a jointly sparse projection that follows the anchor graph.

    Parameters
    ----------
    n_bits : int, default=64
        Length of a code.
    n_anchors : int or "auto", default="auto"
        Number of anchors; "auto" takes one for every ten rows, at least ``n_bits + 1`` and at most 800. The published
        comparison takes 500.
    n_neighbors : int, default=5
        Nearest anchors a sample is tied to.
    alpha : float, default=10
        Weight of the l2,1 norm of W.
    max_iter : int, default=10
        Rounds of the alternation.
    tol : float or None, default=None
        Stop when the objective changes by less than this share; None for exactly ``max_iter`` rounds.
    epsilon : float, default=2.220446049250313e-16
        Added under the root of the row norms of W.
    bias : bool, default=True
        Append a one to every sample. Its weight is penalised like any other.
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
    init : {"random", "itq", "spectral"} or ndarray of shape (n_bits, n_anchors), default="random"
        The anchors' codes to start from.
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

    _has_personalized = False

    def __init__(
        self,
        n_bits=64,
        *,
        n_anchors="auto",
        n_neighbors=5,
        alpha=10.0,
        max_iter=10,
        tol=None,
        epsilon=2.220446049250313e-16,
        bias=True,
        normalize_graph=False,
        rescale=True,
        anchors="kmeans",
        anchor_iter=10,
        anchor_sample=None,
        init="random",
        random_state=None,
    ):
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol
        self.epsilon = epsilon
        self.bias = bias
        self.normalize_graph = normalize_graph
        self.rescale = rescale
        self.anchors = anchors
        self.anchor_iter = anchor_iter
        self.anchor_sample = anchor_sample
        self.init = init
        self.random_state = random_state

    @property
    def lambda3(self):
        """JSH's alpha is the lambda3 of eq. 7."""
        return self.alpha
