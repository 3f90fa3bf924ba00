"""What a pass over rows and their anchors leaves behind: all that the methods with anchors need of the data."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.linalg.anchors import AnchorGraph, AnchorSearch
from hashlearn.rows import RowBlocks, added, fold, scratch, zeros_again


class RegressionSums(NamedTuple):
    """What the pairwise term needs: sums over the rows x_i and their weights a_ij to the anchors.

    Attributes
    ----------
    XDX : ndarray of shape (d, d), sum_i (sum_j a_ij) x_i x_i'
    XA : ndarray of shape (d, m), sum_i x_i a_i'
    total : float, sum of all the weights
    """

    XDX: NDArray[np.float64]
    XA: NDArray[np.float64]
    total: float


class AnchorSums(NamedTuple):
    """Sums over all rows; those that were not asked for are None.

    Attributes
    ----------
    regression : RegressionSums or None
    gram : ndarray of shape (m, m) or None, Z'Z
    """

    regression: RegressionSums | None
    gram: NDArray[np.float64] | None

    @classmethod
    def of(
        cls, rows: RowBlocks, anchors: NDArray, *, regression: AnchorGraph | None, gram: AnchorGraph | None, bias: bool
    ) -> "AnchorSums":
        """The sums of all the rows in one pass, which finds the nearest anchors of a row once for both graphs.

        ``regression`` and ``gram`` are the graphs the weights A and Z are taken from. With ``bias`` every row of the
        regression ends with a one.
        """
        if regression is None and gram is None:
            return cls(None, None)
        search = AnchorSearch(anchors.astype(rows.dtype, copy=False))
        XDX, AX, total, ZZ = fold(rows, _sums_of_block, added, search, regression, gram, bias)
        return cls(
            None if regression is None else RegressionSums(XDX, AX.T, float(total)),
            None if gram is None else ZZ,
        )


def _sums_of_block(
    block: NDArray,
    first: int,
    search: AnchorSearch,
    regression: AnchorGraph | None,
    gram: AnchorGraph | None,
    bias: bool,
) -> tuple[NDArray[np.float64], ...]:
    m, nothing = len(search.constants), np.zeros(())
    XDX, AX, total, ZZ = nothing, nothing, nothing, nothing
    nearest, squared = search(block, max(graph.k for graph in (regression, gram) if graph is not None))
    if regression is not None:
        A = regression.weights(nearest, squared, m)
        X = with_bias(block, in_scratch=True) if bias else block
        degree = np.asarray(A.sum(axis=1)).ravel()
        scaled = np.multiply(X, np.sqrt(degree)[:, None], out=scratch("scaled", X.shape, X.dtype))
        XDX, AX = zeros_again((X.shape[1],) * 2), zeros_again((m, X.shape[1]))
        XDX += scaled.T @ scaled
        AX += A.T @ X
        total = np.array(degree.sum(dtype=np.float64))
    if gram is not None:
        Z = gram.weights(nearest, squared.astype(np.float64), m)
        ZZ = (Z.T @ Z).toarray(out=zeros_again((m, m)))
    return XDX, AX, total, ZZ


def with_bias(X: NDArray, *, in_scratch: bool = False) -> NDArray:
    """The rows with a one behind each."""
    shape = (len(X), X.shape[1] + 1)
    out = scratch("with bias", shape, X.dtype) if in_scratch else np.empty(shape, X.dtype)
    out[:, :-1], out[:, -1] = X, 1
    return out
