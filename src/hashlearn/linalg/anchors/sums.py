"""The sums over the anchor graph: all that the methods with anchors need of the data."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.linalg.anchors.graph import AnchorGraph
from hashlearn.linalg.anchors.search import AnchorSearch
from hashlearn.rows import RowBlocks, scratch, sum_blocks


class PairwiseSums(NamedTuple):
    """The sums over rows x_i and their weights a_ij that the pairwise term is made of.

    Attributes
    ----------
    XDX : ndarray of shape (d, d)
        sum_i d_i x_i x_i', with d_i = sum_j a_ij the degree of a row
    XA : ndarray of shape (d, m)
        sum_i x_i a_i'
    XD1 : ndarray of shape (d,)
        sum_i d_i x_i
    A1 : ndarray of shape (m,)
        sum_i a_i
    """

    XDX: NDArray[np.float64]
    XA: NDArray[np.float64]
    XD1: NDArray[np.float64]
    A1: NDArray[np.float64]

    def with_bias(self) -> "PairwiseSums":
        """The sums of the rows with a one behind each."""
        XD1 = np.append(self.XD1, self.A1.sum())
        XDX = np.block([[self.XDX, self.XD1[:, None]], [XD1[None, :]]])
        return PairwiseSums(XDX, np.vstack([self.XA, self.A1]), XD1, self.A1)


class GraphSums(NamedTuple):
    """What is summed over graphs that tie rows to anchors; None where a graph is not wanted.

    Attributes
    ----------
    pairwise : PairwiseSums or None
    gram : ndarray of shape (m, m) or None
        Z'Z, Z the weights of the rows.
    """

    pairwise: PairwiseSums | None
    gram: NDArray[np.float64] | None

    @classmethod
    def of(
        cls, rows: RowBlocks, anchors: NDArray, pairwise: AnchorGraph | None, spectral: AnchorGraph | None
    ) -> "GraphSums":
        """The sums of all rows, in one pass that finds the nearest anchors of a row once for both graphs."""
        (m, d), search = anchors.shape, AnchorSearch(anchors.astype(rows.dtype, copy=False))
        shapes = [(d, d), (m, d), (d,), (m,)] if pairwise else []
        shapes += [(m, m)] if spectral else []
        if not shapes:
            return cls(None, None)
        sums = sum_blocks(rows, _add_over_graphs, shapes, search, pairwise, spectral)
        gram = sums[-1] if spectral else None
        if pairwise is None:
            return cls(None, gram)
        XDX, AX, XD1, A1 = sums[:4]
        return cls(PairwiseSums(XDX, AX.T, XD1, A1), gram)


def _add_over_graphs(
    block: NDArray, sums: tuple, search: AnchorSearch, pairwise: AnchorGraph | None, spectral: AnchorGraph | None
) -> None:
    nearest, squared = search.nearest(block, max(graph.k for graph in (pairwise, spectral) if graph))
    m = len(search.constants)
    if pairwise is not None:
        XDX, AX, XD1, A1 = sums[:4]
        A = pairwise.weights(nearest, squared, m)
        degree = np.asarray(A.sum(axis=1)).ravel()
        scaled = np.multiply(block, np.sqrt(degree)[:, None], out=scratch("scaled", block.shape, block.dtype))
        XDX += scaled.T @ scaled
        AX += A.T @ block
        XD1 += degree @ block
        A1 += np.asarray(A.sum(axis=0, dtype=np.float64)).ravel()
    if spectral is not None:
        Z = spectral.weights(nearest, squared.astype(np.float64), m)
        (Z.T @ Z).toarray(out=sums[-1])
