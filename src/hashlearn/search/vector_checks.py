"""Checksums of the records of a vector file, so cheap that every vector is checked whenever it is read.

The checksum of the 32-bit words w of a record with number p is::

    (m_0 + m_1 p + m_2 w_1 + m_3 w_2 + ...  mod 2^64) >> 32

with fixed odd multipliers m: damage goes unnoticed by a chance of about one in 2^32 (D. Lemire and O. Kaser, Strongly
universal string hashing is fast, The Computer Journal 2014). The multipliers are the outputs of SplitMix64 from state
0, with the lowest bit set.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled

_FIRST = 2
"""Multipliers before those of the words."""


@cache
def multipliers(n_words: int) -> NDArray[np.uint64]:
    """Those of a record of so many words."""
    with np.errstate(over="ignore"):
        z = np.arange(1, n_words + _FIRST + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)


def checksums(words: NDArray[np.uint32], first: int) -> NDArray[np.uint32]:
    """Of records of shape (n, n_words) whose numbers begin with ``first``."""
    found = np.empty(len(words), np.uint32)
    if len(words):
        _write_checksums(np.ascontiguousarray(words), first, multipliers(words.shape[1]), found)
    return found


def copy_checked(records: NDArray[np.uint32], places: NDArray[np.int64], words: NDArray[np.uint32]) -> int:
    """Copy records, and compare them with their checksums.

    Parameters
    ----------
    records : ndarray of shape (n_segments, records of a segment, n_words + 1)
        The last word of a record is its checksum.
    places : ndarray of shape (n,)
        Numbers of the wanted records.
    words : ndarray of shape (n, n_words)
        Gets the records.

    Returns
    -------
    int
        The number of the first that is damaged; -1 if none.
    """
    return int(_copy_checked(records, places, multipliers(words.shape[1]), words)) if len(places) else -1


@compiled
def _write_checksums(words, first, m, found):
    for i in range(len(words)):
        found[i] = _checksum(words[i], np.uint64(first + i), m)


@compiled
def _copy_checked(records, places, m, words):
    n_words, of_segment = words.shape[1], records.shape[1]
    for i in range(len(places)):
        record = records[places[i] // of_segment, places[i] % of_segment]
        copy = words[i]
        for j in range(n_words):
            copy[j] = record[j]
        if _checksum(copy, np.uint64(places[i]), m) != record[n_words]:
            return places[i]
    return -1


@compiled
def _checksum(words, number, m):
    total = m[0] + m[1] * number
    for j in range(len(words)):
        total += m[_FIRST + j] * np.uint64(words[j])
    return np.uint32(total >> np.uint64(32))
