"""SH: spectral hashing (Weiss, Torralba and Fergus, NIPS 2008).

Balanced, uncorrelated bits that change as little as possible between similar points::

    min_B  sum_ij S_ij ||b_i - b_j||^2     B in {-1, +1}^{n x b},  B'1 = 0,  B'B = n I

Without the constraint to be binary the bits are eigenvectors of the graph Laplacian of S. For points spread evenly over
a box these converge to functions known in closed form: along an axis of length R they are the cosines of k = 1, 2, ...
half waves, with eigenvalues that grow with (k pi / R)^2. The box is laid along the principal axes of the data, and the
b slowest waves over all axes, cut at zero, are the bits.
"""

import numpy as np

from hashlearn.hashers.base import Hasher, all_or_nothing
from hashlearn.linalg.moments import Moments
from hashlearn.linalg.projections import principal_directions


class SH(Hasher):
    """Codes from standing waves along the principal axes.

    Parameters
    ----------
    n_bits : int (at least 1), default=64
        Length of a code. It may exceed the number of features: long axes carry several waves.
    random_state : int, RandomState instance or None, default=None
        Not used, because SH draws nothing at random. It exists so that all methods have the same parameter.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    directions_ : ndarray of shape (n_features, min(n_bits, n_features))
        Principal directions of the data.
    lower_, upper_ : ndarray of shape (min(n_bits, n_features),)
        The box: the least and the greatest training value of ``(x - mean_) @ directions_``.
    mode_axis_, mode_number_ : ndarray of shape (n_bits,)
        The axis of every bit, and the number of half waves between the ends of the box.

    Notes
    -----
    The scores are cosines. A query outside the box continues the wave.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> SH(n_bits=16).fit_transform(X).shape
    (1797, 2)
    """

    def __init__(self, n_bits=64, *, random_state=None):
        self.n_bits = n_bits
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X, y=None):
        rows = self._rows_to_fit(X)
        moments = Moments.of(rows)
        self.mean_ = moments.mean
        self.directions_ = principal_directions(moments, min(self.n_bits, rows.shape[1]))
        self.lower_, self.upper_ = self._box(rows)
        self.mode_axis_, self.mode_number_ = slowest_modes(self.upper_ - self.lower_, self.n_bits)
        return self

    def _box(self, rows):
        lower = np.full(self.directions_.shape[1], np.inf)
        upper = -lower
        for _, block in rows:
            values = self._along_axes(block)
            np.minimum(lower, values.min(axis=0), out=lower)
            np.maximum(upper, values.max(axis=0), out=upper)
        return lower, upper

    def _along_axes(self, block):
        return (block - self.mean_.astype(block.dtype)) @ self.directions_.astype(block.dtype)

    def _scores(self, block):
        lengths = self.upper_ - self.lower_
        axis = self.mode_axis_
        omega = np.pi * self.mode_number_ / np.where(lengths > 0, lengths, 1.0)[axis]
        waves = (self._along_axes(block)[:, axis] - self.lower_[axis].astype(block.dtype)) * omega.astype(block.dtype)
        return np.cos(waves, out=waves)


def slowest_modes(lengths, n_modes):
    """The axes and the numbers of half waves of the slowest standing waves in a box.

    An axis of no length carries no wave, unless all are such. Equally slow waves come in the order of their axes.
    The published code tries at most ceil((b + 1) R / max R) half waves for an axis. The b slowest are always among
    these.

    Parameters
    ----------
    lengths : ndarray of shape (p,)
    n_modes : int

    Returns
    -------
    axis, number : ndarray of shape (n_modes,)
    """
    number = np.arange(1, n_modes + 1)
    longest = lengths.max()
    relative = lengths / longest if longest > 0 else np.ones_like(lengths)
    # A length that is only rounding (rank below p) must not overflow: the floor puts it after every real axis.
    slowness = number / np.maximum(relative, 1e-12)[:, None]
    chosen = np.argsort(slowness, axis=None, kind="stable")[:n_modes]
    axis, position = np.unravel_index(chosen, slowness.shape)
    return axis, number[position]
