"""Statistics of codes: distances, buckets, sides of a bit, recall. For single bits see ``metrics.explain_codes``.

All are functions of arrays. Their memory is bounded by these arrays, so a large collection is passed as a sample.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import as_words, hamming_distances, unpack

CODES_AT_A_TIME = 1 << 16


class Bucket(NamedTuple):
    """Items with the same code: their number, and the rows of the first few."""

    size: int
    rows: NDArray[np.int64]


class RecallCurve(NamedTuple):
    """The share of the true neighbors that are among the nearest codes.

    Attributes
    ----------
    candidates : list of int
        The number of nearest codes.
    recall : list of float
        The mean share over the queries.
    """

    candidates: list[int]
    recall: list[float]


def distance_counts(codes: NDArray[np.uint8], code: NDArray[np.uint8], n_bits: int) -> NDArray[np.int64]:
    """The number of codes at each distance from one code, shape (n_bits + 1,).

    >>> distance_counts(np.array([[0b11000000], [0b10000000]], np.uint8), np.array([0b10000000], np.uint8), 2)
    array([1, 1, 0])
    """
    counts = np.zeros(n_bits + 1, np.int64)
    query = as_words(code[None])
    for start in range(0, len(codes), CODES_AT_A_TIME):
        words = as_words(codes[start : start + CODES_AT_A_TIME])
        distances = np.bitwise_count(words ^ query).sum(axis=1, dtype=np.int64)
        counts += np.bincount(distances, minlength=n_bits + 1)
    return counts


def largest_buckets(codes: NDArray[np.uint8], n_buckets: int, n_examples: int) -> list[Bucket]:
    """The codes of most items, the largest bucket first. A code of a single item is no bucket.

    >>> largest_buckets(np.array([[7], [3], [7], [9], [7]], np.uint8), n_buckets=3, n_examples=2)
    [Bucket(size=3, rows=array([0, 2]))]
    """
    keys = np.ascontiguousarray(codes).view(np.dtype((np.void, codes.shape[1]))).ravel()
    _, first, inverse, sizes = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    largest = np.lexsort((first, -sizes))[:n_buckets]
    return [
        Bucket(int(sizes[bucket]), np.flatnonzero(inverse == bucket)[:n_examples])
        for bucket in largest
        if sizes[bucket] > 1
    ]


def sides_of_bit(codes: NDArray[np.uint8], n_bits: int, bit: int, n_examples: int) -> tuple[NDArray, NDArray]:
    """Rows of the first few codes in which a bit is 0, and in which it is 1."""
    column = unpack(codes, n_bits)[:, bit]
    return np.flatnonzero(column == 0)[:n_examples], np.flatnonzero(column == 1)[:n_examples]


def recall_curve(
    codes: NDArray[np.uint8],
    n_bits: int,
    query_rows: NDArray[np.int64],
    neighbors: NDArray[np.int64],
    candidates: Sequence[int],
) -> RecallCurve:
    """Recall of the true neighbors of some rows, for different numbers of candidates.

    Parameters
    ----------
    codes : packed codes
    n_bits : int
    query_rows : array of shape (n_queries,)
        Rows that are queries; a query does not count as its own neighbor.
    neighbors : array of shape (n_queries, k)
        The rows of their true neighbors.
    candidates : list of int, ascending
        Ties are broken by the lowest row, as a search does.
    """
    distances = hamming_distances(codes[query_rows], codes, n_bits)
    distances[np.arange(len(query_rows)), query_rows] = n_bits + 1
    order = np.argsort(distances, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(order.shape[1])[None], axis=1)
    found = np.take_along_axis(ranks, neighbors, axis=1)
    return RecallCurve(list(candidates), [float((found < most).mean()) for most in candidates])
