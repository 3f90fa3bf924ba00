"""What the methods with anchors share: finding them, alternating over their codes, encoding by the nearest."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_choice, check_integer, check_matrix
from hashlearn.compute import RowBlocks
from hashlearn.hashers.base import Hasher
from hashlearn.hashers.terms import Term
from hashlearn.linalg.anchors import anchor_weights, kmeans, nearest_anchors, normalized
from hashlearn.linalg.moments import mean_and_spread
from hashlearn.progress import track

AUTO_ANCHORS = 800
AUTO_ROWS_PER_ANCHOR = 10


class AnchoredHasher(Hasher):
    """A hasher that sees the data through anchors.

    The scores of a row are ``(x - mean_) @ projection_ + intercept_`` where the method has a projection, plus the
    offsets of its nearest anchors where it has offsets, weighted by ``exp(-d^2 / sigma_^2)`` if they are several.
    """

    n_anchors: int | str
    anchors: str | NDArray
    anchor_iter: int

    mean_: NDArray[np.float64]
    anchors_: NDArray[np.float64]
    projection_: NDArray[np.float64] | None = None
    intercept_: NDArray[np.float64]
    offsets_: NDArray[np.float64] | None = None
    sigma_: float
    n_blended_: int

    def _scores(self, block):
        real = block.dtype
        X = block - self.mean_.astype(real)
        scores = np.zeros((len(X), self.n_bits), real)
        if self.projection_ is not None:
            scores += X @ self.projection_.astype(real) + self.intercept_.astype(real)
        if self.offsets_ is not None:
            scores += self._blended_offsets(X)
        return scores

    def _blended_offsets(self, X: NDArray) -> NDArray:
        """Offsets of the nearest anchors of the centred rows, shape (rows, n_bits)."""
        assert self.offsets_ is not None
        anchors = (self.anchors_ - self.mean_).astype(X.dtype)
        offsets = self.offsets_.astype(X.dtype)
        nearest, squared = nearest_anchors(X, anchors, self.n_blended_)
        if self.n_blended_ == 1:
            return offsets[nearest[:, 0]]
        weights = normalized(anchor_weights(squared, self.sigma_))
        return sum(weights[:, [i]] * offsets[nearest[:, i]] for i in range(self.n_blended_))

    def _see(self, X, *, rescale: bool) -> tuple[RowBlocks, float]:
        """The rows around their mean in units of their spread (as they are without ``rescale``), and the unit."""
        rows = self._rows_to_fit(X)
        if not rescale:
            self.mean_ = np.zeros(rows.shape[1])
            return rows, 1.0
        self.mean_, spread = mean_and_spread(rows)
        scale = spread if spread > 0 else 1.0
        return rows.shifted(self.mean_, scale), scale

    def _find_anchors(self, rows: RowBlocks, scale: float, rng: np.random.RandomState) -> NDArray:
        """The anchors in the rows' coordinates; ``anchors_`` keeps them in those of the data."""
        if not isinstance(self.anchors, str):
            self.anchors_ = check_matrix("anchors", self.anchors, (None, rows.shape[1]))
            return ((self.anchors_ - self.mean_) / scale).astype(rows.dtype)
        check_choice("anchors", self.anchors, ("kmeans", "random"))
        anchor_iter = check_integer("anchor_iter", self.anchor_iter, low=1)
        chosen = np.sort(rng.choice(len(rows), self._n_anchors(len(rows)), replace=False))
        anchors = rows.take(chosen)
        if self.anchors == "kmeans":
            anchors, _ = kmeans(rows, anchors, track(range(anchor_iter), f"{type(self).__name__} anchors"))
        self.anchors_ = anchors * scale + self.mean_
        return anchors

    def _n_anchors(self, n: int) -> int:
        if isinstance(self.n_anchors, str):
            check_choice("n_anchors", self.n_anchors, ("auto",))
            return min(n, AUTO_ANCHORS, max(self.n_bits + 1, n // AUTO_ROWS_PER_ANCHOR))
        n_anchors = check_integer("n_anchors", self.n_anchors, low=1)
        if n_anchors > n:
            raise ValueError(f"n_anchors={n_anchors} is more than the data has rows: n_samples={n}")
        return n_anchors


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
