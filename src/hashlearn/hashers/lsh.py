"""LSH: signs of random projections (Charikar, STOC 2002).

The chance that two points differ in a bit is their angle seen from the mean, divided by pi. LSH learns only the mean.
Compare learned methods with LSH: a method that is not better is not worth its training. The literature cites Datar et
al. (SoCG 2004) for LSH. Their p-stable scheme has buckets instead of signs, but every published comparison computes
signs.
"""

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_choice
from hashlearn.hashers.base import LinearHasher, all_or_nothing, starting_matrix
from hashlearn.linalg.moments import mean_and_spread


class LSH(LinearHasher):
    """Codes from the signs of random projections.

    Parameters
    ----------
    n_bits : int (at least 1), default=64
        Length of a code.
    center : bool, default=True
        Subtract the training mean first. Without it non-negative features give nearly constant bits.
    init : ndarray of shape (n_features, n_bits), "identity" or None, default=None
        The projection; Gaussian if None. "identity" takes the first ``n_bits`` features themselves: with
        ``center=False`` these are the sign bits of embeddings that sentence-transformers calls "ubinary".
    random_state : int, RandomState instance or None, default=None
        Determines the projection.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    projection_ : ndarray of shape (n_features, n_bits)
        A bit is one where ``(x - mean_) @ projection_ > 0``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> LSH(n_bits=16, random_state=0).fit_transform(X).shape
    (1797, 2)
    """

    def __init__(self, n_bits=64, *, center=True, init=None, random_state=None):
        self.n_bits = n_bits
        self.center = center
        self.init = init
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X, y=None):
        rows = self._rows_to_fit(X)
        d, rng = rows.shape[1], self._rng()
        self.mean_ = mean_and_spread(rows)[0] if self.center else np.zeros(d)
        shape = (d, self.n_bits)
        if isinstance(self.init, str):
            check_choice("init", self.init, ["identity"])
            self.projection_ = first_features(*shape)
        else:
            self.projection_ = starting_matrix("init", self.init, shape, lambda: rng.standard_normal(shape))
        return self


def first_features(d: int, n_bits: int) -> NDArray[np.float64]:
    """The projection onto the first ``n_bits`` of d features."""
    if n_bits > d:
        raise ValueError(f"init='identity' needs a feature for each bit: n_bits={n_bits}, n_features={d}")
    return np.eye(d, n_bits)
