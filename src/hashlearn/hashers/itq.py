"""PCA-ITQ: iterative quantization (Gong and Lazebnik, CVPR 2011; Gong et al., TPAMI 2013).

Rotate the leading principal components so that they lie as close as possible to the corners of the hypercube::

    min_{B, R}  ||B - V R||_F^2     B in {-1, +1}^{n x b},  R'R = I,  V = (X - mean) U

where U holds the top b principal directions. B and R are optimal in turn: B = sgn(V R), and R is the orthogonal
Procrustes solution of B'V.
"""

import numpy as np

from hashlearn.checks import check_integer
from hashlearn.hashers.base import LinearHasher, all_or_nothing, starting_matrix
from hashlearn.linalg.moments import Moments
from hashlearn.linalg.projections import principal_directions, projected
from hashlearn.linalg.rotations import quantizing_rotation, random_rotation


class ITQ(LinearHasher):
    """Learn codes by rotating principal components toward the hypercube.

    Parameters
    ----------
    n_bits : int (at least 1), default=64
        Length of a code; at most the number of features.
    max_iter : int (at least 0), default=50
        Rounds of the alternation. It settles well before 50.
    center : bool, default=True
        Subtract the training mean before projecting. The published comparison code does not.
    init : ndarray of shape (n_bits, n_bits) or None, default=None
        The rotation to start from; a random one if None. With fewer ``directions`` than bits, only its first rows are
        used.
    directions : ndarray of shape (n_features, at most n_bits) or None, default=None
        The directions to rotate; the leading principal directions if None. If there are fewer than ``n_bits``, they
        must be orthonormal and are rotated into a space of ``n_bits`` dimensions. So a code can have more bits than
        features.
    train_sample : int (at least 2) or None, default=None
        Number of rows, drawn at random and held in memory, to learn the rotation from; None for all.
    random_state : int, RandomState instance or None, default=None
        Determines the rotation to start from.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    projection_ : ndarray of shape (n_features, n_bits)
        A bit is one where ``(x - mean_) @ projection_ >= 0``.
    quantization_error_ : list of float
        ``||B - V R||^2 / n`` after every round; it never rises.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> ITQ(n_bits=16, random_state=0).fit_transform(X).shape
    (1797, 2)
    """

    _zero_is_one = True

    def __init__(
        self, n_bits=64, *, max_iter=50, center=True, init=None, directions=None, train_sample=None, random_state=None
    ):
        self.n_bits = n_bits
        self.max_iter = max_iter
        self.center = center
        self.init = init
        self.directions = directions
        self.train_sample = train_sample
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X, y=None):
        rows = self._rows_to_fit(X)
        max_iter, b = check_integer("max_iter", self.max_iter, low=0), self.n_bits
        moments = Moments.of(rows)
        directions = starting_matrix(
            "directions", self.directions, (rows.shape[1], None), lambda: principal_directions(moments, b)
        )
        if directions.shape[1] > b:
            raise ValueError(f"directions must be at most n_bits={b}, got {directions.shape[1]}")
        self.mean_ = moments.mean if self.center else np.zeros(rows.shape[1])

        rng = self._rng()
        V = projected(self._sampled(rows, rng).shifted(self.mean_), directions)
        rotation = starting_matrix("init", self.init, (b, b), lambda: random_rotation(b, rng))
        rotation = rotation[: directions.shape[1]]
        rotation, self.quantization_error_ = quantizing_rotation(V, rotation, self._rounds(max_iter))
        self.projection_ = directions @ rotation
        return self
