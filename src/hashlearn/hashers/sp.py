"""SP: sparse projections (Xia, He, Kohli and Sun, CVPR 2015).

A quantizing rotation as in ITQ, tied to a projection most of whose entries are zero::

    min  ||X R - B||_F^2 + beta ||X R - X S||_F^2     B in {-1, +1}^{n x b},  R (d x b) orthonormal,
                                                      S (d x b) with at most (1 - sparsity) b d entries

One after the other B = sgn(X R), then R is the orthonormal matrix nearest to the mean Y = (B + beta X S) / (1 + beta),
and S is R without its smallest entries. Codes come from S alone: a tenth of the memory and of the multiplications of a
full projection. It was made for codes as long as the vectors themselves.
"""

import math

import numpy as np

from hashlearn.checks import check_integer, check_number
from hashlearn.hashers.base import LinearHasher, all_or_nothing, starting_matrix
from hashlearn.linalg.moments import Moments
from hashlearn.linalg.projections import principal_directions, projected
from hashlearn.linalg.rotations import nearest_rotation


class SP(LinearHasher):
    """Learn codes by a rotation toward the hypercube that is pruned to a sparse projection.

    Parameters
    ----------
    n_bits : int (at least 1), default=64
        Length of a code. Below the number of features R is found among the leading principal components; from there on
        it has orthonormal rows instead of columns.
    beta : float (at least 0), default=1.0
        Weight of the bond between the orthonormal and the sparse projection.
    sparsity : float (0 to 1), default=0.9
        Share of the projection's entries that are zero, over all bits together.
    max_iter : int (at least 1), default=51
        Rounds of the alternation; the published implementation counts from 0 to 50.
    center : bool, default=True
        Subtract the training mean before projecting. The published comparison code does not.
    rescale : bool, default=True
        Divide the data by their spread while learning, so that their unit does not matter. Without it, large values in
        the data outweigh the codes in Y, and the projection hardly learns from the codes. The published code does not
        rescale.
    init : ndarray of shape (n_features, n_bits) or None, default=None
        The projection to start from; Gaussian if None.
    train_sample : int (at least 2) or None, default=None
        Number of rows, drawn at random and held in memory, to learn from; None for all.
    random_state : int, RandomState instance or None, default=None
        Determines the projection to start from.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    projection_ : ndarray of shape (n_features, n_bits)
        S in units of the data, stored in full. A bit is one where ``(x - mean_) @ projection_ >= 0``; a bit whose
        column lost all its entries is one everywhere.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> hasher = SP(n_bits=16, random_state=0).fit(X)
    >>> hasher.transform(X).shape
    (1797, 2)
    >>> (hasher.projection_ != 0).mean().round(1)
    np.float64(0.1)
    """

    _zero_is_one = True

    def __init__(
        self,
        n_bits=64,
        *,
        beta=1.0,
        sparsity=0.9,
        max_iter=51,
        center=True,
        rescale=True,
        init=None,
        train_sample=None,
        random_state=None,
    ):
        self.n_bits = n_bits
        self.beta = beta
        self.sparsity = sparsity
        self.max_iter = max_iter
        self.center = center
        self.rescale = rescale
        self.init = init
        self.train_sample = train_sample
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X, y=None):
        rng = self._rng()
        rows = self._sampled(self._rows_to_fit(X), rng)
        max_iter, beta = check_integer("max_iter", self.max_iter, low=1), check_number("beta", self.beta, low=0)
        n_kept = self._n_kept(rows.shape[1])
        shape = (rows.shape[1], self.n_bits)
        S = starting_matrix("init", self.init, shape, lambda: rng.standard_normal(shape))

        moments = Moments.of(rows)
        self.mean_ = moments.mean if self.center else np.zeros(rows.shape[1])
        scale = moments.spread if self.rescale and moments.spread > 0 else 1.0
        rows = rows.shifted(self.mean_, scale)
        directions = self._directions(moments)
        V = projected(rows, directions)
        # The rounds need V'Y = (V'B + beta V'X S) / (1 + beta), and V'X does not change: no round reads the data.
        VX = directions.T @ moments.about(self.mean_) / scale**2
        VB = sum(V[part].T @ _codes(block @ S.astype(block.dtype)) for part, block in rows)
        for _ in self._rounds(max_iter):
            rotation = nearest_rotation(((VB + beta * VX @ S) / (1 + beta)).T).T
            S = _largest_entries(directions @ rotation, n_kept)
            VB = _correlation(V, rotation)
        self.projection_ = S / scale
        return self

    def _n_kept(self, n_features):
        sparsity = check_number("sparsity", self.sparsity, low=0, high=1)
        return max(1, math.ceil((1 - sparsity) * self.n_bits * n_features))

    def _directions(self, moments):
        d = len(moments.mean)
        return principal_directions(moments, self.n_bits) if self.n_bits < d else np.eye(d)


def _correlation(V, rotation):
    """V' sgn(V R) without the codes of all rows at once."""
    rotation = rotation.astype(V.dtype)
    blocks = np.array_split(V, max(1, len(V) // 16384))
    return sum((block.T @ _codes(block @ rotation)).astype(np.float64) for block in blocks)


def _codes(values):
    """-1 or +1; zero counts as -1 in training, unlike in ITQ and unlike in the codes given out."""
    return np.where(values > 0, values.dtype.type(1), values.dtype.type(-1))


def _largest_entries(matrix, n_kept):
    """The matrix with all but its entries of largest magnitude set to zero; ties at the limit are kept."""
    magnitude = np.abs(matrix)
    limit = np.partition(magnitude, -n_kept, axis=None)[-n_kept]
    return np.where(magnitude >= limit, matrix, 0.0)
