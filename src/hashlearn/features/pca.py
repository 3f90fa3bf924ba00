"""Principal components: long vectors made shorter, as the paper does with CNN features (4,096 -> 1,000 dimensions)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_integer
from hashlearn.linalg.moments import Moments
from hashlearn.linalg.projections import principal_directions, projected
from hashlearn.rows import as_rows


@dataclass(frozen=True, eq=False)
class PCA:
    """The map ``x -> (x - mean) @ directions`` onto the directions of largest variance.

    Learned in one pass over blocks of rows: memory is a block and one n_features x n_features matrix.

    Attributes
    ----------
    mean : ndarray of shape (n_features,), float64
    directions : ndarray of shape (n_features, n_components), float64
        Orthonormal columns, largest variance first; the entry of largest magnitude in each is positive.
    explained : float
        The part of the variance that the components keep, 0 to 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> pca = PCA.of(X, 10)
    >>> pca.transform(X).shape
    (1797, 10)
    """

    mean: NDArray[np.float64]
    directions: NDArray[np.float64]
    explained: float

    @classmethod
    def of(cls, X: Any, n_components: int) -> "PCA":
        """Learn from the rows of ``X``, shape (n, n_features), in a form for :func:`hashlearn.rows.as_rows`."""
        rows = as_rows(X)
        check_integer("n_components", n_components, low=1, high=rows.shape[1])
        moments = Moments.of(rows)
        directions = principal_directions(moments, n_components)
        kept = float(np.einsum("ij,ij->", directions, moments.scatter @ directions))
        total = float(np.trace(moments.scatter))
        return cls(moments.mean, directions, kept / total if total > 0 else 1.0)

    def transform(self, X: Any) -> NDArray:
        """The components of the rows, shape (n, n_components); float64 where the rows have that precision."""
        rows = as_rows(X)
        if rows.shape[1] != len(self.mean):
            raise ValueError(f"X must have n_features={len(self.mean)} columns as in PCA.of, got {rows.shape[1]}")
        return projected(rows.shifted(self.mean), self.directions)
