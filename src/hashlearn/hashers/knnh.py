"""KNNH: k-nearest neighbors hashing (He, Wang and Cheng, CVPR 2019).

ITQ's rotation, learned from data whose neighbors have been drawn together: every row is replaced by the mean of its k
nearest neighbors ("KNN shrinkage"), so that the planes at zero cut through sparse regions::

    v_i <- 1/k  sum_{j in N(i)} v_j                       V = (X - mean) U, U the top b principal directions
    min_{B, R}  ||B - V R||_F^2                           B in {-1, +1}^{n x b},  R'R = I

The published program gives the rows of the database the codes B of their shrunk selves (:meth:`KNNH.fit_codes`);
queries are not shrunk (:meth:`KNNH.transform`). The program moves one row after the other, so later rows see neighbors
that were moved; this file moves all rows at once. So no test compares the bits of the program with ours.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import Range
from hashlearn.codes import pack
from hashlearn.hashers.base import LinearHasher, all_or_nothing, starting_matrix
from hashlearn.linalg.moments import Moments
from hashlearn.linalg.neighbors import nearest_others
from hashlearn.linalg.projections import principal_directions, projected
from hashlearn.linalg.rotations import quantizing_rotation, random_rotation


class KNNH(LinearHasher):
    """Codes from principal components whose neighbors are drawn together, rotated toward the hypercube.

    Parameters
    ----------
    n_bits : int (at least 1), default=64
        Length of a code; at most the number of features.
    n_neighbors : int (at least 1), default=20
        Neighbors whose mean takes the place of a row (k); all other rows if there are fewer.
    n_shrinks : int (at least 0), default=1
        How often rows are replaced by the mean of their neighbors; with 0 the method is ITQ.
    max_iter : int (at least 0), default=50
        Rounds of the rotation. The published program does 1,001; it settles well before 50.
    init : ndarray of shape (n_bits, n_bits) or None, default=None
        The rotation to start from; a random one if None.
    train_sample : int (at least 2) or None, default=None
        Number of rows, drawn at random, to learn the rotation from; None for all. With n rows the search for neighbors
        takes n^2 distances.
    random_state : int, RandomState instance or None, default=None
        Determines the sample and the rotation to start from.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    projection_ : ndarray of shape (n_features, n_bits)
        A bit is one where ``(x - mean_) @ projection_ > 0``.
    training_codes_ : ndarray of shape (n_training_rows, ceil(n_bits / 8))
        Codes of the shrunk training rows; not saved.
    quantization_error_ : list of float
        ``||B - V R||^2 / n`` after every round; it never rises.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> KNNH(n_bits=16, random_state=0).fit_transform(X).shape
    (1797, 2)
    """

    _ranges: ClassVar = {
        "n_neighbors": Range(int, 1),
        "n_shrinks": Range(int, 0),
        "max_iter": Range(int, 0),
        "train_sample": Range(int, 2, none=True),
    }
    _not_saved = ("training_codes_",)

    def __init__(
        self,
        n_bits=64,
        *,
        n_neighbors=20,
        n_shrinks=1,
        max_iter=50,
        init=None,
        train_sample=None,
        random_state=None,
    ):
        self.n_bits = n_bits
        self.n_neighbors = n_neighbors
        self.n_shrinks = n_shrinks
        self.max_iter = max_iter
        self.init = init
        self.train_sample = train_sample
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X, y=None):
        rows, b = self._rows_to_fit(X), self.n_bits
        moments = Moments.of(rows)
        directions = principal_directions(moments, b)
        self.mean_ = moments.mean

        rng = self._rng()
        V = projected(self._sampled(rows, rng).shifted(self.mean_), directions)
        if self.n_shrinks > 0:
            neighbors = nearest_others(V, self.n_neighbors)
            for _ in range(self.n_shrinks):
                V = shrunk(V, neighbors)
        rotation = starting_matrix("init", self.init, (b, b), lambda: random_rotation(b, rng))
        rotation, self.quantization_error_ = quantizing_rotation(V, rotation, self._rounds(self.max_iter))
        self.projection_ = directions @ rotation
        self.training_codes_ = pack(V @ rotation.astype(V.dtype) > 0)
        return self

    @all_or_nothing
    def fit_codes(self, X, y=None):
        # The codes of the shrunk rows; with train_sample only some rows are shrunk.
        self.fit(X, y)
        return self.training_codes_ if self.train_sample is None else self.transform(X)


def shrunk(V: NDArray, neighbors: NDArray[np.intp]) -> NDArray:
    """Every row replaced by the mean of its neighbors."""
    total = np.zeros_like(V)
    for column in neighbors.T:
        total += V[column]
    return total / V.dtype.type(neighbors.shape[1])
