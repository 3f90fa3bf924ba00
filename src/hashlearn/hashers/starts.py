"""The codes of the anchors that JPSH, JSH and PSH start from, and which start JPSH takes for which data.

The choice needs no labels. Two numbers decide most of it:

- the *local dimension*: the number of dimensions in which rows spread around a row, estimated from a sample
  (:func:`local_dimension`);
- the *effective number of directions* of all rows, ``(sum l_i)^2 / sum l_i^2`` with l_i the eigenvalues of the
  covariance: it is d if the data spread alike in all directions and 1 if they lie on a line.

Embeddings of networks fill many dimensions, also around a row, and a projection separates their classes. For them JPSH
starts from ITQ codes and runs its rounds. Pixels lie on bent surfaces of few dimensions. The anchor graph follows such
a surface, a projection does not. For them JPSH takes the spectral start. If the local dimension is above the number of
directions (as for gradients), most local dimensions are noise, and the start is spectral as well.

For two kinds of data these numbers do not decide. For them both starts are made with a few bits. JPSH takes the
spectral one if its codes of neighboring anchors agree much better:

- Whitened data spread equally in all directions. With fewer bits than features, ITQ's choice of directions is then
  arbitrary.
- Weighted words spread in many of their singular directions, but texts may have near copies. So a low local dimension
  is no sign of a bent surface.

Why not one quantity and one limit: on the 63 datasets of ``benchmarks/results/starts.jsonl`` this rule loses more than
1 % of the better start's mAP on 7. A single limit was tried on the local dimension, the directions, their ratio, their
product, and the share of variance that anchors explain. The best of them loses more than 1 % on 12 datasets or more,
and three times as much in all (``python benchmarks/starts.py --rules``). No single number separates whitened pixels
from whitened embeddings, or tags from weighted words. For such data the two starts must be compared. The comparison
alone is not enough either: for a bent surface of two dimensions in a hundred features it chooses ITQ.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_matrix
from hashlearn.hashers.anchored import AnchorSummary
from hashlearn.hashers.itq import ITQ
from hashlearn.linalg.anchors.graph import ROTATION_ROWS, PairwiseSums, spectral_offsets
from hashlearn.linalg.anchors.search import nearest_anchors

SPECTRAL_NEIGHBORS = 2
SPECTRAL_ROUNDS = 30

LOCAL_ROWS, LOCAL_QUERIES, LOCAL_NEIGHBORS = 5_000, 1_000, 20
"""Sample size, number of queries and number of neighbors used to estimate the local dimension. The estimate depends on
the sample size: more rows look closer."""

EQUALLY_FAR = 1e-3
"""Squared distances whose mean relative difference is below this number differ only by rounding."""

HIGH_DIMENSION = 14.5
"""Data with a larger local dimension start from ITQ codes..."""

DIMENSION_PER_ROOT = 2
"""... and those of few features with one larger than this times the root of their number."""

WHITE = 0.9
"""Data with more effective directions than this share of their features are white."""

SPREAD = 0.4
"""A low local dimension is in doubt if there are more effective directions than this share of the features..."""

SCATTERED = 4
"""... and than this many times the local dimension..."""

BENT = 5
"""... unless it is this low: then the rows lie on a bent surface."""

DOUBT_BITS = 16
"""The starts are compared by codes of this length, whatever is asked for."""

MUCH_ROUGHER = 1.75
"""In doubt, the start is spectral if the ITQ codes of neighboring anchors differ more than 1.75 times as often."""

ROUGHNESS_NEIGHBORS = 7


class Recipe(NamedTuple):
    """The rounds after a start, and the settings of the encoding, that measured best (docs: explanation/defaults)."""

    max_iter: int
    soft_offsets: int
    pairwise_weight: float


AFTER_SPECTRAL = Recipe(max_iter=1, soft_offsets=2, pairwise_weight=0.1)
AFTER_OTHERS = Recipe(max_iter=3, soft_offsets=2, pairwise_weight=4.0)


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
    d = summary.rows.shape[1]
    local, directions = data_local_dimension(summary), effective_directions(summary.sums["pairwise"])
    fills_many = min(HIGH_DIMENSION, DIMENSION_PER_ROOT * sqrt(d)) < local <= directions
    if fills_many:
        doubt = directions > WHITE * d and 2 * n_bits <= d
    else:
        doubt = local > BENT and directions > max(SPREAD * d, SCATTERED * local)
    if doubt:
        rough, smooth = (roughness(starting_codes(name, summary, DOUBT_BITS), summary) for name in ("itq", "spectral"))
        return "spectral" if rough > MUCH_ROUGHER * smooth else "itq"
    return "itq" if fills_many else "spectral"


def data_local_dimension(summary: AnchorSummary) -> float:
    """In how many dimensions the rows spread around one of them."""
    return local_dimension(summary.rows.draw(LOCAL_ROWS, summary.rng()), LOCAL_QUERIES, LOCAL_NEIGHBORS)


def local_dimension(X: NDArray, n_queries: int, k: int) -> float:
    """In how many dimensions the rows spread around one of them (Levina and Bickel, NIPS 2004).

    For one row it is ``1 / mean_j log(r_k / r_j)``, j < k, with r_j the distance of the j-th nearest other row: in D
    dimensions the number of rows within r grows as r^D. The median over some rows is returned. Rows with many copies
    count as zero. Rows whose neighbors are all equally far are left out, for example texts that share no word.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    n_queries : int
        Rows, evenly spaced among all, whose neighbors are looked at, at most.
    k : int
        Neighbors; all others if there are fewer.
    """
    k = min(k, len(X) - 1)
    if k < 2:
        return 0.0
    centered = X - X.mean(axis=0)  # products of rows far from the origin would lose their distances
    queries = centered[:: -(-len(X) // n_queries)]
    squared = nearest_anchors(queries, centered, k + 1)[1][:, 1:].astype(np.float64)  # the first is the row itself
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = np.log(squared[:, -1:] / squared[:, :-1]).mean(axis=1)
    known = growth[~(growth < EQUALLY_FAR)]
    return float(np.median(np.nan_to_num(2 / known, nan=0.0))) if len(known) else np.inf


def effective_directions(sums: PairwiseSums) -> float:
    """The effective number of directions of the rows; a row counts by its degree in the anchor graph."""
    total = float(sums.A1.sum())
    mean = sums.XD1 / total
    covariance = sums.XDX / total - np.outer(mean, mean)
    squares = float((covariance**2).sum())
    return float(np.trace(covariance)) ** 2 / squares if squares > 0 else 0.0


def roughness(codes: NDArray, summary: AnchorSummary) -> float:
    """The share of bits that differ between neighboring anchors, divided by the share that differs between any two
    rows.

    ``codes`` has shape (n_bits, m); an anchor counts as often as it has rows.
    """
    shares = summary.spacing.shares
    k = min(ROUGHNESS_NEIGHBORS + 1, len(summary.anchors))
    neighbors = nearest_anchors(summary.anchors, summary.anchors, k)[0][:, 1:]
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
        The settings that measured best from this start.
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
