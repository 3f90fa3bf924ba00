"""Rotations of codes: random ones, the nearest one (Procrustes), the loop of iterative quantization, and signs."""

from collections.abc import Iterable

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hashlearn.rows import RowBlocks, fold, scratch

_PIECE_ROWS = 2048


def random_rotation(n: int, rng: np.random.RandomState) -> NDArray[np.float64]:
    """An orthogonal n x n matrix, uniform over all of them."""
    q, r = np.linalg.qr(rng.standard_normal((n, n)))
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)


def nearest_rotation(M: NDArray) -> NDArray[np.float64]:
    """The orthogonal R that maximizes tr(R'M): the polar factor of M (eqs. 19 and 21).

    M' is decomposed, as in the published implementations. If M is singular (two bits constant over the data), R is not
    unique, and the decompositions of M and M' give different results.
    """
    left, _, right = scipy.linalg.svd(M.T, full_matrices=False, check_finite=False)
    return (left @ right).T


def procrustes(V: NDArray, B: NDArray) -> NDArray[np.float64]:
    """The orthogonal R that minimizes ||B - V R||_F."""
    return nearest_rotation((V.T @ B).astype(np.float64))


def quantizing_rotation(
    V: NDArray, rotation: NDArray, rounds: Iterable[int]
) -> tuple[NDArray[np.float64], list[float]]:
    """ITQ's alternation: min ||B - V R||_F^2 over B = sgn(V R) and over the orthogonal R in turn.

    Parameters
    ----------
    V : ndarray of shape (n, r)
    rotation : ndarray of shape (r, b), r <= b
        The rotation to start from; its rows are orthonormal.
    rounds : iterable
        One round for every item.

    Returns
    -------
    rotation : ndarray of shape (r, b)
    errors : list of float
        ||B - V R||^2 / n after every round, with the B the round started with; it never rises.
    """
    errors = []
    norm = float(np.einsum("ij,ij->", V, V, dtype=np.float64))
    rows = RowBlocks(V)
    for _ in rounds:
        correlation = fold(rows, _correlation, np.add, rotation.astype(V.dtype)) if len(V) else np.zeros(rotation.shape)
        rotation = nearest_rotation(correlation)
        # ||B||^2 = n b and ||V R|| = ||V||, so only the inner product <B, V R> = <V'B, R> is needed.
        errors.append((len(V) * rotation.shape[1] + norm - 2 * float((correlation * rotation).sum())) / max(1, len(V)))
    return rotation, errors


def _correlation(block: NDArray, first: int, rotation: NDArray) -> NDArray[np.float64]:
    """V' sgn(V R) of a block of V, a piece at a time that stays in the cache; zero counts as +1."""
    total = np.zeros(rotation.shape)
    all_scores = scratch("scores", (min(len(block), _PIECE_ROWS), rotation.shape[1]), block.dtype)
    of_piece = scratch("correlation", rotation.shape, block.dtype)
    for start in range(0, len(block), _PIECE_ROWS):
        piece = block[start : start + _PIECE_ROWS]
        scores = np.matmul(piece, rotation, out=all_scores[: len(piece)])
        # several times faster than np.where with -1 and +1
        np.greater_equal(scores, 0, out=scores)
        scores *= 2
        scores -= 1
        total += np.matmul(piece.T, scores, out=of_piece)
    return total


def with_positive_peaks(vectors: NDArray) -> NDArray:
    """Each column times the sign that makes its entry of largest magnitude positive.

    If several entries are equally large up to rounding, the first decides. Symmetric data have such columns.
    """
    magnitude = np.abs(vectors)
    first = (magnitude >= (1 - 1e-6) * magnitude.max(axis=0)).argmax(axis=0)
    peaks = np.take_along_axis(vectors, first[None], axis=0)
    return vectors * np.where(peaks < 0, -1.0, 1.0)
