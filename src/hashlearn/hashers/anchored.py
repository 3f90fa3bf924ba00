"""What the methods with anchors share: finding them, alternating over their codes, encoding by the nearest."""

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_choice, check_integer, check_matrix
from hashlearn.hashers.base import Hasher
from hashlearn.hashers.terms import Term
from hashlearn.hashers.view import AnchorView, Needs
from hashlearn.linalg.anchor_sums import AnchorSums
from hashlearn.linalg.anchors import (
    AnchorGraph,
    AnchorSearch,
    Spacing,
    anchor_weights,
    kmeans,
    normalized,
    weight_matrix,
)
from hashlearn.linalg.moments import mean_and_spread
from hashlearn.linalg.spectral import rotation_sample
from hashlearn.progress import track
from hashlearn.rows import RowBlocks

AUTO_ANCHORS = 800
AUTO_ROWS_PER_ANCHOR = 10


class AnchoredHasher(Hasher):
    """A hasher that sees the data through anchors.

    The scores of a row are ``(x - mean_) @ projection_ + intercept_`` where the method has a projection, plus the
    offsets of its nearest anchors where it has offsets, weighted by ``exp(-d^2 / sigma_^2)`` if they are several.

    A method says what it needs of the data (``_needs``) and learns from the view that a few passes leave (``_learn``).
    """

    n_anchors: int | str
    anchors: str | NDArray
    anchor_iter: int
    anchor_sample: int | None

    mean_: NDArray[np.float64]
    anchors_: NDArray[np.float64]
    projection_: NDArray[np.float64] | None = None
    intercept_: NDArray[np.float64]
    offsets_: NDArray[np.float64] | None = None
    sigma_: float
    n_blended_: int
    _encoder: "_Encoder | None" = None

    def fit(self, X, y=None):
        """Learn from the rows of X; labels are never used."""
        self._check_parameters()
        rng = self._rng()
        return self._learn(self._look(X, rng), rng)

    def _check_parameters(self) -> None:
        """Refuse parameters of the wrong type or range before any data are read."""

    def _needs(self) -> Needs:
        raise AssertionError(f"{type(self).__name__} does not say what it needs of the data")

    def _learn(self, view: AnchorView, rng: np.random.RandomState) -> Self:
        raise AssertionError(f"{type(self).__name__} does not say how it learns")

    def _ready(self, real):
        # A copy with the arrays of encoding in the blocks' precision: they are made once for all blocks.
        ready = copy(self)
        ready._encoder = self._encoder_in(real)
        return ready

    def _encoder_in(self, real: np.dtype) -> "_Encoder":
        mean, projection = self.mean_.astype(real), None if self.projection_ is None else self.projection_.astype(real)
        intercept = None if projection is None else self.intercept_.astype(real)
        if self.offsets_ is None:
            return _Encoder(mean, projection, intercept, None, None)
        # The weights of offsets sum to one: the intercept may as well be in each of them.
        offsets = (self.offsets_ if projection is None else self.offsets_ + self.intercept_).astype(real)
        search = AnchorSearch((self.anchors_ - self.mean_).astype(real), projection, mean)
        return _Encoder(mean, projection, intercept, offsets, search)

    def _scores(self, block):
        mean, projection, intercept, offsets, search = self._encoder or self._encoder_in(block.dtype)
        if search is None:
            return (block - mean) @ projection + intercept
        nearest, relative, scores = search.with_projection(block, self.n_blended_)
        blended = self._blended(offsets, nearest, relative)
        if projection is None:
            return blended
        scores += blended
        return scores

    def _blended(self, offsets: NDArray, nearest: NDArray[np.integer], squared: NDArray) -> NDArray:
        """Offsets of the nearest anchors of rows, weighted by their distances; shape (rows, n_bits).

        Weights that sum to one depend on how much farther than the nearest an anchor is, so whatever is the same for
        all anchors of a row may be missing in the squared distances.
        """
        if self.n_blended_ == 1:
            return offsets[nearest[:, 0]]
        weights = normalized(anchor_weights(np.maximum(squared - squared[:, :1], 0), self.sigma_))
        return weight_matrix(nearest, weights, len(offsets)) @ offsets

    def _look(self, X: Any, rng: np.random.RandomState) -> AnchorView:
        """The view of the data: a pass for the mean, one a round of k-means, one for distances and one for sums."""
        needs, rows = self._needs(), self._rows_to_fit(X)
        mean, scale = np.zeros(rows.shape[1]), 1.0
        if needs.rescale:
            mean, spread = mean_and_spread(rows)
            scale = spread if spread > 0 else 1.0
            rows = rows.shifted(mean, scale)
        anchors, anchors_of_data = self._find_anchors(rows, mean, scale, rng)

        m = len(anchors)
        spacing = Spacing.of(rows, anchors, min(m, max(k for k in (needs.blend, needs.regression, needs.gram, 1) if k)))

        def graph(k: int | None, normalize: bool) -> AnchorGraph | None:
            return None if k is None else AnchorGraph(min(k, m), float(spacing.mean[min(k, m) - 1]), normalize)

        gram = graph(needs.gram, True)
        sums = AnchorSums.of(
            rows, anchors, regression=graph(needs.regression, needs.normalize), gram=gram, bias=needs.bias
        )
        sample = None if gram is None else rotation_sample(rows, anchors, gram, rng)
        return AnchorView(rows, mean, scale, anchors, anchors_of_data, spacing, sums, gram, sample)

    def _find_anchors(
        self, rows: RowBlocks, mean: NDArray, scale: float, rng: np.random.RandomState
    ) -> tuple[NDArray, NDArray]:
        """The anchors in the rows' coordinates, and in those of the data."""
        if not isinstance(self.anchors, str):
            anchors_of_data = check_matrix("anchors", self.anchors, (None, rows.shape[1]))
            return ((anchors_of_data - mean) / scale).astype(rows.dtype), anchors_of_data
        check_choice("anchors", self.anchors, ("kmeans", "random"))
        anchor_iter = check_integer("anchor_iter", self.anchor_iter, low=1)
        rows = self._anchor_rows(rows, rng)
        chosen = np.sort(rng.choice(len(rows), self._n_anchors(len(rows)), replace=False))
        anchors = rows.take(chosen)
        if self.anchors == "kmeans":
            anchors = kmeans(rows, anchors, track(range(anchor_iter), f"{type(self).__name__} anchors"))
        return anchors, anchors * scale + mean

    def _anchor_rows(self, rows: RowBlocks, rng: np.random.RandomState) -> RowBlocks:
        """The rows that anchors are found among: a sample, held in memory, where ``anchor_sample`` says so."""
        if self.anchor_sample is None:
            return rows
        count = check_integer("anchor_sample", self.anchor_sample, low=2)
        if count >= len(rows):
            return rows
        return RowBlocks(rows.take(np.sort(rng.choice(len(rows), count, replace=False))))

    def _n_anchors(self, n: int) -> int:
        if isinstance(self.n_anchors, str):
            check_choice("n_anchors", self.n_anchors, ("auto",))
            return min(n, AUTO_ANCHORS, max(self.n_bits + 1, n // AUTO_ROWS_PER_ANCHOR))
        n_anchors = check_integer("n_anchors", self.n_anchors, low=1)
        if n_anchors > n:
            raise ValueError(f"n_anchors={n_anchors} is more than the data has rows: n_samples={n}")
        return n_anchors


class _Encoder(NamedTuple):
    """What encoding takes, in the precision of the blocks; what a method does not have is None."""

    mean: NDArray
    projection: NDArray | None
    intercept: NDArray | None
    offsets: NDArray | None
    search: AnchorSearch | None


class Learned(NamedTuple):
    """What the alternation leaves behind."""

    parts: dict[str, NDArray]
    codes_per_round: NDArray[np.int8]
    objective: list[float]


def alternate(
    terms: Sequence[Term],
    B: NDArray,
    rounds: Iterable[int],
    *,
    shares: NDArray,
    tol: float | None = None,
    max_imbalance: float | None = None,
) -> Learned:
    """Algorithm 1: weights, rotations and codes in turn, starting from the codes B (b x m).

    It ends early when the objective changes by less than ``tol`` (relative), or when the codes lose their balance: with
    share_j the part of the data in cluster j, it stops at a round after which the mean over the bits of
    ``|sum_j share_j B_rj|`` exceeds ``max_imbalance``, and takes that round back unless it was the first.
    """
    learned = Learned({}, np.empty((0, *B.shape), np.int8), [])
    for _ in rounds:
        for term in terms:
            term.solve(B)
        for term in terms:
            term.rotate(B)
        B = np.where(sum(term.target() for term in terms) > 0, 1.0, -1.0)
        objective = sum(term.loss(B) for term in terms)
        unbalanced = max_imbalance is not None and imbalance(B, shares) > max_imbalance
        if unbalanced and learned.objective:
            break
        learned = Learned(
            {name: part for term in terms for name, part in term.learned().items()},
            np.concatenate([learned.codes_per_round, B[None].astype(np.int8)]),
            [*learned.objective, objective],
        )
        if unbalanced or (tol is not None and _settled(learned.objective, tol)):
            break
    return learned


def _settled(objective: list[float], tol: float) -> bool:
    return len(objective) > 1 and abs(objective[-2] - objective[-1]) <= tol * abs(objective[-2])


def imbalance(B: NDArray, shares: NDArray) -> float:
    """How far the bits are from being one for half of the data: 0 for balanced bits, 1 for constant ones."""
    return float(np.abs(B @ shares).mean())
