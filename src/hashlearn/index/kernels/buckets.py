"""Tables of substrings (M. Norouzi, A. Punjani, D. J. Fleet, Fast search in Hamming space with multi-index hashing,
CVPR 2012).

A code is cut into m substrings, and a table for each substring lists the codes by its value: a bucket for every value,
bucket after bucket. :mod:`hashlearn.index.kernels.probe` looks codes up in them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled, lean


class Tables(NamedTuple):
    """m tables over codes of 64-bit words; all arrays but the first two are flat, table after table.

    ``codes`` is one copy of the codes by position, or one copy for each table in the order of its buckets, where the
    codes of a bucket lie side by side.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    bucket_ends: NDArray[np.int32]
    occupied: NDArray[np.uint64]
    positions: NDArray[np.int32]
    codes: NDArray[np.uint64]
    codes_by_position: bool
    masks: NDArray[np.int32]
    mask_starts: NDArray[np.int64]
    n_codes: int
    n_words: int


@lean
def substring(words, offset, start, length):
    """Bits ``start : start + length`` of the code at ``words[offset:]``, as int64; at most 32 of them."""
    word = offset + (start >> 6)
    shift = start & 63
    value = words[word] >> np.uint64(shift)
    if shift + length > 64:
        value |= words[word + 1] << np.uint64(64 - shift)
    return np.int64(value & ((np.uint64(1) << np.uint64(length)) - np.uint64(1)))


class Table(NamedTuple):
    """One table while it is filled: its substring's place, and its part of the arrays of :class:`Tables`.

    Bucket v holds ``bucket_ends[v] : bucket_ends[v + 1]`` of ``positions``, which ascend in a bucket.
    """

    start: int
    length: int
    bucket_ends: NDArray[np.int32]
    occupied: NDArray[np.uint64]
    positions: NDArray[np.int32]


@compiled
def fill_table(words, n_words, table):
    """Sort codes into the buckets of a table; ``bucket_ends`` and ``occupied`` are zero before."""
    n_codes = words.size // n_words
    bucket_ends = table.bucket_ends
    for position in range(n_codes):
        bucket_ends[substring(words, position * n_words, table.start, table.length) + 1] += 1
    for value in range(1 << table.length):
        if bucket_ends[value + 1] > 0:
            table.occupied[value >> 6] |= np.uint64(1) << np.uint64(value & 63)
        bucket_ends[value + 1] += bucket_ends[value]
    heads = bucket_ends.copy()
    for position in range(n_codes):
        value = substring(words, position * n_words, table.start, table.length)
        table.positions[heads[value]] = position
        heads[value] += 1


@lean
def masks_of_weight(length, weight, out):
    """All words of ``length`` bits with ``weight`` ones, ascending (Gosper's rule)."""
    mask = (1 << weight) - 1
    for i in range(out.size):
        out[i] = mask
        if mask == 0:
            return
        lowest = mask & -mask
        ripple = mask + lowest
        mask = (((ripple ^ mask) >> 2) // lowest) | ripple
