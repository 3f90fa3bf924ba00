"""Distances between packed codes, in plain numpy. The fast search is in :mod:`hashlearn.index`."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes.packing import as_words, check_codes


def hamming_distances(queries: ArrayLike, codes: ArrayLike, n_bits: int) -> NDArray[np.int32]:
    """All distances between two sets of packed codes.

    The result is dense: if both sets are large, pass blocks of queries.

    Parameters
    ----------
    queries, codes : arrays of shape (n_queries or n_codes, ceil(n_bits / 8)), uint8
        Packed codes.
    n_bits : int
        Length of a code, at least 1.

    Returns
    -------
    ndarray of shape (n_queries, n_codes), int32
        Numbers of different bits.

    Examples
    --------
    >>> a = np.array([[0b11110000], [0b10000000]], dtype=np.uint8)
    >>> hamming_distances(a, a, n_bits=8)
    array([[0, 3],
           [3, 0]], dtype=int32)
    """
    left = as_words(check_codes(queries, n_bits, "queries"))
    right = as_words(check_codes(codes, n_bits, "codes"))
    distances = np.zeros((len(left), len(right)), np.int32)
    for word in range(left.shape[1]):
        distances += np.bitwise_count(left[:, word, None] ^ right[None, :, word])
    return distances


def paired_distances(left: ArrayLike, right: ArrayLike, n_bits: int) -> NDArray[np.int32]:
    """Distance of row i of ``left`` to row i of ``right``, shape (n,)."""
    a = as_words(check_codes(left, n_bits, "left"))
    b = as_words(check_codes(right, n_bits, "right"))
    if a.shape != b.shape:
        raise ValueError(f"left and right must have as many codes as each other, got {len(a)} and {len(b)}")
    return np.bitwise_count(a ^ b).sum(axis=1, dtype=np.int32)
