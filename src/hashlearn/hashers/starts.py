"""The codes of the anchors that JPSH, JSH and PSH start from, and which start JPSH takes for which data.

The choice needs no labels. Two numbers decide, both by-products of the passes that every fit makes:

- the *effective number of directions* of the data, ``(sum l_i)^2 / sum l_i^2`` with l_i the eigenvalues of the
  covariance: it is d if the data spread alike in all directions and 1 if they lie on a line;
- the *effective number of clusters*, ``1 / sum s_j^2`` with s_j the share of the rows whose nearest anchor is j.

Embeddings of networks spread over many directions, and a projection separates their classes: JPSH starts from ITQ
codes there and does its rounds. Pixels, gradients and other measured features lie along few, bent directions, which
the anchor graph follows and a projection does not: JPSH takes the spectral start. If a few clusters hold most rows
(sparse counts, tags), the bits of the rounds lose their balance, so the start is spectral as well.

Whitened data spread alike in all directions, whatever they are: with fewer bits than features, ITQ's choice of
directions is arbitrary. There both starts are made, and the spectral one is taken if the codes of neighboring anchors
agree much better in it.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_matrix
from hashlearn.hashers.anchored import AnchorSummary
from hashlearn.hashers.itq import ITQ
from hashlearn.linalg.anchors import AnchorSearch, PairwiseSums
from hashlearn.linalg.spectral import ROTATION_ROWS, spectral_offsets

SPECTRAL_NEIGHBORS = 2
SPECTRAL_ROUNDS = 30

MANY_DIRECTIONS = 50
"""Data with more effective directions than this start from ITQ codes..."""

DIRECTIONS_PER_ROOT = 3
"""... and those of few features with more than this times the root of their number."""

EVEN_CLUSTERS = 0.25
"""Clusters are of like size if the effective number of them is at least this share of their number."""


WHITE = 0.9
"""Data with more effective directions than this share of their features are white."""

MUCH_ROUGHER = 1.5
"""White data take the spectral start if the ITQ codes of neighboring anchors differ so many times more often."""

ROUGHNESS_NEIGHBORS = 7


class Recipe(NamedTuple):
    """The rounds after a start, and the encoding, that measured best (docs: explanation/defaults)."""

    max_iter: int
    soft_offsets: int
    pairwise_weight: float


AFTER_SPECTRAL = Recipe(max_iter=1, soft_offsets=2, pairwise_weight=0.1)
AFTER_OTHERS = Recipe(max_iter=4, soft_offsets=4, pairwise_weight=3.0)


def is_spectral(init: str | NDArray) -> bool:
    """Whether the parameter ``init`` asks for the spectral start."""
    return isinstance(init, str) and init == "spectral"


def chosen_start(summary: AnchorSummary, n_bits: int) -> str:
    """The start that ``init="auto"`` stands for: "itq" or "spectral".

    Parameters
    ----------
    summary : AnchorSummary
        With pairwise sums.
    n_bits : int
        Length of a code.
    """
    d, m = summary.rows.shape[1], len(summary.anchors)
    directions = effective_directions(summary.sums["pairwise"])
    many = directions > min(MANY_DIRECTIONS, DIRECTIONS_PER_ROOT * sqrt(d))
    even = effective_clusters(summary.spacing.shares) >= EVEN_CLUSTERS * m
    if not many or not even:
        return "spectral"
    if directions > WHITE * d and 2 * n_bits <= d:
        rough, smooth = (roughness(starting_codes(start, summary, n_bits), summary) for start in ("itq", "spectral"))
        return "spectral" if rough > MUCH_ROUGHER * smooth else "itq"
    return "itq"


def effective_directions(sums: PairwiseSums) -> float:
    """In how many directions the rows spread, which count by their degrees in the anchor graph."""
    total = float(sums.A1.sum())
    mean = sums.XD1 / total
    covariance = sums.XDX / total - np.outer(mean, mean)
    squares = float((covariance**2).sum())
    return float(np.trace(covariance)) ** 2 / squares if squares > 0 else 0.0


def effective_clusters(shares: NDArray) -> float:
    """How many clusters of one size would be as uneven as those with these shares of the rows."""
    return 1 / float(shares @ shares)


def roughness(codes: NDArray, summary: AnchorSummary) -> float:
    """How often a bit differs between neighboring anchors, over how often it differs between any two rows.

    ``codes`` has shape (n_bits, m); an anchor counts as often as it has rows.
    """
    shares = summary.spacing.shares
    k = min(ROUGHNESS_NEIGHBORS + 1, len(summary.anchors))
    neighbors = AnchorSearch(summary.anchors).nearest(summary.anchors, k)[0][:, 1:]
    near = (codes[:, :, None] != codes[:, neighbors]).mean(axis=(0, 2)) @ shares
    return float(near / max(0.5 * (1 - (codes @ shares) ** 2).mean(), 1e-12))


class Start(NamedTuple):
    """What a fit begins with.

    Attributes
    ----------
    name : {"spectral", "itq", "random", "array"}
    codes : ndarray of shape (n_bits, m)
        B of round zero.
    recipe : Recipe
        What measured best from there.
    """

    name: str
    codes: NDArray[np.float64]
    recipe: Recipe


def starting_point(init: str | NDArray, summary: AnchorSummary, n_bits: int) -> Start:
    """The start that JPSH's parameter ``init`` stands for; "auto" is chosen from the data."""
    if isinstance(init, str) and init == "auto":
        init = chosen_start(summary, n_bits)
    recipe = AFTER_SPECTRAL if is_spectral(init) else AFTER_OTHERS
    return Start(init if isinstance(init, str) else "array", starting_codes(init, summary, n_bits), recipe)


def starting_codes(init: str | NDArray, summary: AnchorSummary, n_bits: int) -> NDArray[np.float64]:
    """B of round zero, shape (n_bits, m), as the parameter ``init`` says."""
    if not isinstance(init, str):
        return signs(check_matrix("init", init, (n_bits, len(summary.anchors))))
    rng = summary.rng()
    if init == "random":
        return signs(rng.standard_normal((n_bits, len(summary.anchors))))
    if init == "itq":
        d = summary.rows.shape[1]
        all_directions = np.eye(d) if n_bits > d else None
        itq = ITQ(n_bits, directions=all_directions, train_sample=ROTATION_ROWS, random_state=rng)
        itq.fit(summary.rows.shifted(None))
        return signs(itq.decision_function(summary.anchors_of_data).T)
    _, gram, sample = summary.sums["spectral"]
    return signs(spectral_offsets(gram, sample, summary.anchors, n_bits, range(SPECTRAL_ROUNDS), rng).T)


def signs(scores: NDArray) -> NDArray[np.float64]:
    """+1 above zero, -1 elsewhere."""
    return np.where(scores > 0, 1.0, -1.0)
