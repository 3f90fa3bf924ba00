"""Shared code of the methods with anchors: a summary of the data, and encoding by the nearest anchors.

A method with anchors learns in two steps. :meth:`AnchoredHasher.summarize` reads the data a few times and returns an
:class:`AnchorSummary` of anchors, distances and sums. Its size depends neither on the number of rows nor on the number
of bits. :meth:`AnchoredHasher.fit_summary` learns from the summary alone.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from hashlearn.checks import Range, check_matrix
from hashlearn.hashers.base import Hasher, all_or_nothing
from hashlearn.linalg.anchors.graph import (
    ROTATION_ROWS,
    AnchorGraph,
    GraphSums,
    PairwiseSums,
    Spacing,
    anchor_weights,
    normalized,
    weight_matrix,
)
from hashlearn.linalg.anchors.kmeans import kmeans
from hashlearn.linalg.anchors.search import FEW_ROWS, AnchorSearch, blend_of_few
from hashlearn.linalg.moments import mean_and_spread
from hashlearn.rows import RowBlocks

AUTO_ANCHORS = 800
AUTO_ROWS_PER_ANCHOR = 10


class SpectralSums(NamedTuple):
    """The sums that give the spectrum of an anchor graph Z whose rows sum to one.

    Attributes
    ----------
    graph : AnchorGraph
    gram : ndarray of shape (m, m)
        Z'Z of all rows.
    sample : sparse array of shape (at most 20000, m)
        Rows of Z.
    """

    graph: AnchorGraph
    gram: NDArray[np.float64]
    sample: scipy.sparse.csr_array


class AnchorSummary(NamedTuple):
    """Everything that training needs from the data.

    Attributes
    ----------
    rows : RowBlocks
        The data, around their mean and in units of their spread ``scale`` if the method rescales.
    mean : ndarray of shape (d,)
    scale : float
    anchors : ndarray of shape (m, d)
        In the coordinates of ``rows``.
    anchors_of_data : ndarray of shape (m, d)
        In the coordinates of the data.
    spacing : Spacing
    sums : dict
        ``"pairwise"``: :class:`~hashlearn.linalg.anchors.graph.PairwiseSums`, and ``"spectral"``:
        :class:`SpectralSums`, as far as the method asked for them.
    random_state : state of a RandomState
        The state of the random numbers after the passes over the data. Learning continues from this state.
    """

    rows: RowBlocks
    mean: NDArray[np.float64]
    scale: float
    anchors: NDArray
    anchors_of_data: NDArray
    spacing: Spacing
    sums: dict[str, Any]
    random_state: Any

    def rng(self) -> np.random.RandomState:
        """The random generator in its state after the passes over the data."""
        rng = np.random.RandomState()
        rng.set_state(self.random_state)
        return rng

    def anchors_with_bias(self) -> NDArray[np.float64]:
        """The anchors with a one behind each, shape (m, d + 1)."""
        return np.hstack([self.anchors, np.ones((len(self.anchors), 1))])

    def to_arrays(self) -> dict[str, NDArray]:
        """Everything except the rows, as arrays for a file."""
        _, keys, place, *_ = self.random_state
        parts: dict[str, Any] = {
            "mean": self.mean,
            "scale": self.scale,
            "anchors": self.anchors,
            "anchors_of_data": self.anchors_of_data,
            "spacing": self.spacing.mean,
            "shares": self.spacing.shares,
            "random_state": np.append(keys, np.uint32(place)),
        }
        if "pairwise" in self.sums:
            parts |= self.sums["pairwise"]._asdict()
        if "spectral" in self.sums:
            graph, gram, sample = self.sums["spectral"]
            parts |= {"graph": graph, "gram": gram}
            parts |= {"weights": sample.data, "nearest": sample.indices.reshape(-1, graph.k)}
        return {name: np.asarray(part) for name, part in parts.items()}

    @classmethod
    def from_arrays(cls, rows: RowBlocks, arrays: Mapping[str, NDArray]) -> "AnchorSummary":
        """The summary that :meth:`to_arrays` was called on; ``rows`` are the data as they are."""
        mean, scale, anchors = arrays["mean"], float(arrays["scale"]), arrays["anchors"]
        sums: dict[str, Any] = {}
        if "XDX" in arrays:
            sums["pairwise"] = PairwiseSums(*(arrays[name] for name in PairwiseSums._fields))
        if "graph" in arrays:
            k, sigma, normalize = arrays["graph"]
            nearest = arrays["nearest"]
            sample = weight_matrix(nearest, arrays["weights"].reshape(nearest.shape), len(anchors))
            sums["spectral"] = SpectralSums(AnchorGraph(int(k), float(sigma), bool(normalize)), arrays["gram"], sample)
        moved = rows.shifted(mean, scale) if mean.any() or scale != 1 else rows
        spacing = Spacing(arrays["spacing"], arrays["shares"])
        keys, place = arrays["random_state"][:-1], int(arrays["random_state"][-1])
        state = ("MT19937", keys, place, 0, 0.0)
        return cls(moved, mean, scale, anchors, arrays["anchors_of_data"], spacing, sums, state)


def summarize(
    rows: RowBlocks,
    find_anchors: Callable[..., tuple[NDArray, NDArray]],
    rng: np.random.RandomState,
    *,
    n_distances: int,
    pairwise: tuple[int, bool] | None = None,
    spectral: int | None = None,
    rescale: bool = True,
) -> AnchorSummary:
    """The summary of some rows, with the sums that the arguments ask for.

    Parameters
    ----------
    rows : RowBlocks
    find_anchors : function
        Gives the anchors of ``(rows, mean, scale, rng)`` in the rows' coordinates and in those of the data.
    rng : RandomState
    n_distances : int
        Number of nearest anchors whose mean distance is wanted.
    pairwise : (int, bool) or None
        Neighbors of a row in the graph of the pairwise sums, and whether its weights sum to one.
    spectral : int or None
        Neighbors of a row in the graph of the spectral sums.
    rescale : bool
        Whether to center the rows and divide them by their spread.
    """
    mean, scale = np.zeros(rows.shape[1]), 1.0
    if rescale:
        mean, spread = mean_and_spread(rows)
        scale = spread if spread > 0 else 1.0
        rows = rows.shifted(mean, scale)
    anchors, anchors_of_data = find_anchors(rows, mean, scale, rng)
    neighbors = [n_distances, *(pairwise[:1] if pairwise else ()), *([spectral] if spectral else ())]
    spacing = Spacing.of(rows, anchors, min(len(anchors), max(neighbors)))

    sums: dict[str, Any] = {}
    pairwise_graph = spacing.graph(*pairwise) if pairwise else None
    spectral_graph = spacing.graph(spectral, normalize=True) if spectral else None
    found = GraphSums.of(rows, anchors, pairwise_graph, spectral_graph)
    if found.pairwise is not None:
        sums["pairwise"] = found.pairwise
    if spectral_graph is not None and found.gram is not None:
        sample = spectral_graph.of(rows.draw(ROTATION_ROWS, rng), anchors)
        sums["spectral"] = SpectralSums(spectral_graph, found.gram, sample)
    return AnchorSummary(rows, mean, scale, anchors, anchors_of_data, spacing, sums, rng.get_state(legacy=True))


class AnchoredHasher(Hasher):
    """A hasher that sees the data through anchors.

    The scores of a row are the offsets of its nearest anchors. If there are several, they are weighted by ``exp(-d^2 /
    sigma_^2)``. A method with a projection adds ``(x - mean_) @ projection_ + intercept_``.
    """

    _ranges: ClassVar = {
        "n_anchors": Range(int, 1, words=("auto",)),
        "anchors": Range(words=("kmeans", "random"), array=True),
        "kmeans_max_iter": Range(int, 1),
        "kmeans_sample": Range(int, 2, none=True),
    }

    n_anchors: int | str
    anchors: str | NDArray
    kmeans_max_iter: int
    kmeans_sample: int | None

    mean_: NDArray[np.float64]
    anchors_: NDArray[np.float64]
    offsets_: NDArray[np.float64]
    sigma_: float
    n_blended_: int
    projection_: NDArray[np.float64]
    intercept_: NDArray[np.float64]

    @all_or_nothing
    def fit(self, X, y=None):
        return self.fit_summary(self.summarize(X))

    def summarize(self, X: Any) -> AnchorSummary:
        """Go over the data and return what the method learns from; it is the same for any ``n_bits``.

        The passes: one for the mean, one for each round of k-means, one for distances and one for sums.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows as for ``fit``
            At least two rows.

        Returns
        -------
        AnchorSummary
            Anchors, distances and sums; its size does not depend on the number of rows.
        """
        rows, rng = self._rows_to_fit(X), check_random_state(self.random_state)
        return summarize(rows, self._find_anchors, rng, **self.summary_needs())

    def summary_needs(self) -> dict[str, Any]:
        """What this method needs of the data.

        Returns
        -------
        dict
            Keyword arguments of :func:`summarize`.
        """
        raise AssertionError(f"{type(self).__name__} does not say what it needs of the data")

    def fit_summary(self, summary: AnchorSummary) -> Self:
        """Learn from a summary of the data.

        Parameters
        ----------
        summary : AnchorSummary
            What :meth:`summarize` of this method returned, also with another ``n_bits``.

        Returns
        -------
        AnchoredHasher
            This object.
        """
        raise AssertionError(f"{type(self).__name__} does not say how it learns")

    def n_anchors_for(self, n: int) -> int:
        """The number of anchors for n rows: ``n_anchors``, or what "auto" stands for.

        Parameters
        ----------
        n : int
            Number of rows.

        Returns
        -------
        int
            At most ``n``.
        """
        if isinstance(self.n_anchors, str):
            return min(n, max(self.n_bits + 1, min(AUTO_ANCHORS, n // AUTO_ROWS_PER_ANCHOR)))
        if self.n_anchors > n:
            raise ValueError(f"n_anchors={self.n_anchors} is more than the data has rows: n_samples={n}")
        if self.kmeans_sample is not None and self.n_anchors > self.kmeans_sample:
            raise ValueError(
                f"n_anchors={self.n_anchors} is more than kmeans_sample={self.kmeans_sample}, the number of rows that "
                "anchors are found among"
            )
        return self.n_anchors

    def n_kmeans_rows_for(self, n: int) -> int:
        """The number of rows, out of n, that anchors are found among: ``kmeans_sample``, or one for each "auto" anchor.

        Parameters
        ----------
        n : int
            Number of rows.

        Returns
        -------
        int
            At most ``n``, which stands for all rows.
        """
        return n if self.kmeans_sample is None else min(n, max(self.kmeans_sample, self.n_anchors_for(n)))

    def _find_anchors(
        self, rows: RowBlocks, mean: NDArray, scale: float, rng: np.random.RandomState
    ) -> tuple[NDArray, NDArray]:
        """The anchors in the rows' coordinates, and in those of the data."""
        if not isinstance(self.anchors, str):
            anchors_of_data = check_matrix("anchors", self.anchors, (None, rows.shape[1]))
            return ((anchors_of_data - mean) / scale).astype(rows.dtype), anchors_of_data
        n = rows.shape[0]
        n_anchors, n_sampled = self.n_anchors_for(n), self.n_kmeans_rows_for(n)
        if n_sampled < n:
            rows = RowBlocks(rows.draw(n_sampled, rng))
        anchors = rows.draw(n_anchors, rng)
        if self.anchors == "kmeans":
            anchors = kmeans(rows, anchors, self.kmeans_max_iter, f"{type(self).__name__} anchors").centers
        return anchors, anchors * scale + mean

    def _keep_anchors(self, summary: AnchorSummary, n_blended: int) -> None:
        """Keep of the summary what encoding by the nearest anchors needs."""
        self.mean_, self.anchors_ = summary.mean, summary.anchors_of_data
        self.n_blended_ = min(n_blended, len(summary.anchors))
        self.sigma_ = summary.scale * float(summary.spacing.mean[self.n_blended_ - 1])

    def _keep_joint(self, summary: AnchorSummary, n_blended: int, projection: NDArray) -> None:
        """Keep the anchors, and the projection of the rescaled rows (and of their bias, if it has a row more)."""
        self._keep_anchors(summary, n_blended)
        d, (height, n_bits) = summary.rows.shape[1], projection.shape
        self.projection_ = projection[:d] / summary.scale
        self.intercept_ = projection[d] if height > d else np.zeros(n_bits)

    def _scorer(self, real):
        search = AnchorSearch.from_stored_rows(
            (self.anchors_ - self.mean_).astype(real), np.empty((len(self.mean_), 0), real), self.mean_.astype(real)
        )
        return OffsetScorer(search, self.offsets_.astype(real), self.n_blended_, self.sigma_)


class OffsetScorer(NamedTuple):
    """Scores of rows as they are stored: the blended offsets of their nearest anchors."""

    search: AnchorSearch
    offsets: NDArray
    n_blended: int
    sigma: float

    def __call__(self, block: NDArray) -> NDArray:
        nearest, relative, _ = self.search.with_projection(block, self.n_blended)
        return blended(self.offsets, nearest, relative, self.sigma)


class JointScorer(NamedTuple):
    """Scores of rows as they are stored: their projection plus the blended offsets of their nearest anchors."""

    search: AnchorSearch
    offsets: NDArray
    n_blended: int
    sigma: float

    def __call__(self, block: NDArray) -> NDArray:
        nearest, relative, scores = self.search.with_projection(block, self.n_blended)
        scores += blended(self.offsets, nearest, relative, self.sigma)
        return scores


def blended(offsets: NDArray, nearest: NDArray[np.integer], squared: NDArray, sigma: float) -> NDArray:
    """Offsets of the nearest anchors of rows, weighted by their distances; shape (rows, n_bits).

    The weights of a row sum to one. They depend on the differences of its squared distances alone, so ``squared`` may
    leave out a term that is the same for all anchors of a row.
    """
    if nearest.shape[1] == 1:
        return offsets[nearest[:, 0]]
    if len(nearest) <= FEW_ROWS:
        blend = np.empty((len(nearest), offsets.shape[1]), offsets.dtype)
        blend_of_few(offsets, nearest, squared, sigma, blend)
        return blend
    weights = normalized(anchor_weights(np.maximum(squared - squared[:, :1], 0), sigma))
    return weight_matrix(nearest, weights, len(offsets)) @ offsets
