"""The constant that corrects the error of a code for the queries near its row.

A row x is kept as R = s D. With x and q centered, its distance to a query q is, without a constant of the query::

    square |x|^2 - cross (q + origin).x   =   square |x|^2 - cross (q + origin).(x - R) - cross (q + origin).R

The last product is computed at search time from code and query. In the other terms the query is replaced by its
expectation near x. They then depend on the row alone and are one constant c for each code. The expectation is learned
from a sample as E[q | x] = A x, with one factor for each of the leading principal directions. Near rows are similar in
the first of these directions, and hardly similar in the last.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.linalg.moments import Moments
from hashlearn.linalg.projections import principal_directions
from hashlearn.rows import RowBlocks

N_DIRECTIONS = 128
"""Principal directions with a factor of their own; the others share one."""

STEPS = (0.25, 0.1)
PASSES = 2
"""The search of the weights: lengths of its steps, and how often each step is tried for every weight."""


class MetricGeometry(NamedTuple):
    """The distance of a query to a row: ``square |x|^2 - cross (q + origin).x``, both seen from the mean.

    A constant of the query is left out.
    """

    square: float
    cross: float
    origin: NDArray

    @classmethod
    def named(cls, metric: str, mean: NDArray) -> "MetricGeometry":
        """Of the Euclidean distance (cosine: the same on rows of length one) or of the negative inner product."""
        return cls(0.0, 1.0, mean) if metric == "dot" else cls(1.0, 2.0, np.zeros_like(mean))

    def products(self, Q: NDArray, rows: NDArray) -> NDArray:
        """-cross (q + origin).x of all queries and rows."""
        return (-self.cross * (Q + self.origin).astype(Q.dtype)) @ rows.T

    @property
    def starts(self) -> list[tuple[float, ...]]:
        """Weights of |x|^2, |R|^2, E[q + origin | x].(x - R) and R.(x - R) to begin with.

        The last two follow the module's formula: with E alone, and with a quarter of E replaced by R. The others are
        for sparse data with many equal distances. There the queries near a row say little about the queries that rank
        this row.
        """
        formula = [(self.square, 0.0, -(1 - share) * self.cross, -share * self.cross) for share in (0.0, 0.25)]
        if self.square:
            return [(0.5, 0.5, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0), *formula]
        return [(0.0, 0.0, 0.0, 0.0), *formula]


class NearQueries(NamedTuple):
    """The expected query near a row: ``origin + rest x + U (factors - rest) U'x``.

    Attributes
    ----------
    origin : ndarray of shape (d,)
    directions : ndarray of shape (d, r)
        U, the leading principal directions.
    factors : ndarray of shape (r,)
    rest : float
        The factor of all other directions.
    """

    origin: NDArray
    directions: NDArray
    factors: NDArray
    rest: float

    @classmethod
    def of(cls, X: NDArray, queries: NDArray[np.intp], nearest: NDArray[np.intp], origin: NDArray) -> "NearQueries":
        """Learn the expectation from some rows of X and their nearest other rows."""
        return cls.of_pairs(X, nearest.ravel(), np.repeat(X[queries], nearest.shape[1], axis=0), origin)

    @classmethod
    def of_pairs(cls, X: NDArray, rows: NDArray[np.intp], queries: NDArray, origin: NDArray) -> "NearQueries":
        """The factors of least squares over pairs of a row of X and a query near it, within [0, 1]."""
        moments = Moments.of(RowBlocks(X))
        directions = principal_directions(moments, min(N_DIRECTIONS, X.shape[1])).astype(X.dtype)
        near = X[rows]
        along = near @ directions
        together, square = ((queries @ directions) * along).sum(axis=0), (along**2).sum(axis=0)
        rest_together = np.einsum("ij,ij->", queries, near) - together.sum()
        rest_square = np.einsum("ij,ij->", near, near) - square.sum()
        return cls(origin, directions, _share(together, square), float(_share(rest_together, rest_square)))

    def terms(self, X: NDArray, coefficients: NDArray, words: NDArray) -> NDArray:
        """|x|^2, |R|^2, E[q + origin | x].(x - R) and R.(x - R) of every row, R = coefficients @ words; shape (n, 4).

        The last is for queries that are nearer to R than the linear expectation.
        """
        real = X.dtype
        directions, factors = self.directions.astype(real, copy=False), self.factors.astype(real)
        R = coefficients @ words
        error, along = X - R, X @ directions
        missed = along - coefficients @ (words @ directions)
        expected = real.type(self.rest) * np.einsum("ij,ij->i", X, error) + error @ self.origin.astype(real)
        expected += np.einsum("ij,ij,j->i", along, missed, factors - real.type(self.rest))
        squares = [np.einsum("ij,ij->i", part, part) for part in (X, R)]
        return np.stack([*squares, expected, np.einsum("ij,ij->i", R, error)], axis=1)


def _share(together: NDArray, square: NDArray) -> NDArray:
    """together / square, limited to [0, 1]; 0 where square is 0."""
    return np.clip(np.where(square > 0, together / np.where(square > 0, square, 1), 0), 0, 1)


def recall(estimates: NDArray, truth: NDArray[np.intp], places: Sequence[int]) -> float:
    """The mean recall of the true neighbors among the first 10, 100, ... (``places``) rows by the estimates.

    A row does not count if its estimate equals that of the first row behind the place.
    """
    least, found = estimates, []
    for place in sorted(places, reverse=True):  # one place at a time: numpy selects it with vector instructions
        least = np.partition(least, place, axis=1)[:, : place + 1]
        found.append(least[:, place])
    limits = np.stack(found, axis=1)
    return float((np.take_along_axis(estimates, truth, axis=1)[:, :, None] < limits[:, None, :]).mean())


def best_weights(
    products: NDArray,
    features: NDArray,
    truth: NDArray[np.intp],
    starts: Sequence[tuple[float, ...]],
    places: Sequence[int],
) -> NDArray[np.float64]:
    """The weights of the features for which ``products + features @ weights`` has the best recall.

    Parameters
    ----------
    products : ndarray of shape (n_queries, n)
    features : ndarray of shape (n, n_features)
    truth : ndarray of int, shape (n_queries, k)
        Rows of the true neighbors.
    starts : weights to begin with
        The best of them is then changed step by step.
    places : list of int
        See :func:`recall`.
    """

    def score(weights: NDArray) -> float:
        return recall(products + (features @ weights).astype(products.dtype), truth, places)

    candidates = [np.array(start) for start in starts]
    scores = [score(weights) for weights in candidates]
    best, weights = max(scores), candidates[int(np.argmax(scores))]
    for step in STEPS:
        for move in PASSES * [*np.eye(len(weights)), *-np.eye(len(weights))]:
            moved = weights + step * move
            found = score(moved)
            if found > best:
                best, weights = found, moved
    return weights
