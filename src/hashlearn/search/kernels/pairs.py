"""Distances of pairs of vectors that are named by their rows in two matrices."""

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import fast


@fast
def squared_differences(
    X: NDArray, of_row: NDArray[np.int64], Q: NDArray, of_query: NDArray[np.int64], out: NDArray
) -> None:
    """``out[i] = |x - q|^2`` of row ``of_row[i]`` of X and row ``of_query[i]`` of Q."""
    for i in range(len(out)):
        x, q = X[of_row[i]], Q[of_query[i]]
        total = x.dtype.type(0)
        for j in range(len(x)):
            difference = x[j] - q[j]
            total += difference * difference
        out[i] = total


@fast
def negative_products(
    X: NDArray, of_row: NDArray[np.int64], Q: NDArray, of_query: NDArray[np.int64], out: NDArray
) -> None:
    """``out[i] = -x.q`` of row ``of_row[i]`` of X and row ``of_query[i]`` of Q."""
    for i in range(len(out)):
        x, q = X[of_row[i]], Q[of_query[i]]
        total = x.dtype.type(0)
        for j in range(len(x)):
            total += x[j] * q[j]
        out[i] = -total
