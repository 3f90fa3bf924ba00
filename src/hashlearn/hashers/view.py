"""What a method with anchors asks of the data, and what it is given: the view that a few passes leave."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.linalg.anchor_sums import AnchorSums, RegressionSums
from hashlearn.linalg.anchors import AnchorGraph, Spacing, weight_matrix
from hashlearn.rows import RowBlocks


class Needs(NamedTuple):
    """What a method wants to know of the data; graphs by their number of neighbours, None for none.

    Attributes
    ----------
    blend : int or None
        Nearest anchors whose offsets are blended when encoding.
    regression : int or None
        The graph of the pairwise term's sums.
    gram : int or None
        The graph whose Z'Z is wanted, and a sample of the rows of Z.
    normalize, bias, rescale : bool
        As the parameters of :class:`~hashlearn.hashers.jpsh.JPSH`.
    """

    blend: int | None = None
    regression: int | None = None
    gram: int | None = None
    normalize: bool = False
    bias: bool = False
    rescale: bool = True


class AnchorView(NamedTuple):
    """All that training sees of the data, the same for any number of bits; nothing in it grows with the rows.

    Attributes
    ----------
    rows : RowBlocks, around their mean in units of their spread ``scale`` if the method rescales
    mean : ndarray of shape (d,)
    anchors : ndarray of shape (m, d), in the coordinates of the rows
    anchors_of_data : ndarray of shape (m, d), in those of the data
    spacing : Spacing
    sums : AnchorSums
    graph : AnchorGraph or None, that of ``sums.gram``
    sample : sparse array or None, rows of Z
    """

    rows: RowBlocks
    mean: NDArray[np.float64]
    scale: float
    anchors: NDArray
    anchors_of_data: NDArray
    spacing: Spacing
    sums: AnchorSums
    graph: AnchorGraph | None
    sample: Any

    def to_arrays(self) -> dict[str, NDArray]:
        """All but the rows, to be kept in a file."""
        parts: dict[str, Any] = {
            "mean": self.mean,
            "scale": self.scale,
            "anchors": self.anchors,
            "anchors_of_data": self.anchors_of_data,
            "spacing": self.spacing.mean,
            "shares": self.spacing.shares,
            "gram": self.sums.gram,
        }
        if self.sums.regression is not None:
            parts |= self.sums.regression._asdict()
        if self.graph is not None:
            parts |= {"graph": self.graph}
            parts |= {"weights": self.sample.data, "nearest": self.sample.indices.reshape(-1, self.graph.k)}
        return {name: np.asarray(part) for name, part in parts.items() if part is not None}

    @classmethod
    def from_arrays(cls, rows: RowBlocks, arrays: Mapping[str, NDArray]) -> "AnchorView":
        """The view that :meth:`to_arrays` was called on; ``rows`` are the data as they are."""
        mean, scale, anchors = arrays["mean"], float(arrays["scale"]), arrays["anchors"]
        regression = graph = sample = None
        if "XDX" in arrays:
            regression = RegressionSums(arrays["XDX"], arrays["XA"], float(arrays["total"]))
        if "graph" in arrays:
            k, sigma, normalize = arrays["graph"]
            graph = AnchorGraph(int(k), float(sigma), bool(normalize))
            nearest = arrays["nearest"]
            sample = weight_matrix(nearest, arrays["weights"].reshape(nearest.shape), len(anchors))
        return cls(
            rows.shifted(mean, scale) if mean.any() or scale != 1 else rows,
            mean,
            scale,
            anchors,
            arrays["anchors_of_data"],
            Spacing(arrays["spacing"], arrays["shares"]),
            AnchorSums(regression, arrays.get("gram")),
            graph,
            sample,
        )
