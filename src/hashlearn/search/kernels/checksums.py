"""Checksums of the records of a vector file, so cheap that every vector is checked whenever it is read.

The checksum of the 32-bit words w of a record with number p is::

    (m_0 + m_1 p + m_2 w_1 + m_3 w_2 + ...  mod 2^64) >> 32

with odd multipliers m that every file has for itself: damage, and records of another file, go unnoticed by a chance of
about one in 2^32 (D. Lemire and O. Kaser, Strongly universal string hashing is fast, The Computer Journal 2014). The
multipliers are the outputs of SplitMix64 from the state that the header names, with the lowest bit set.
"""

import numpy as np

from hashlearn.compiled import compiled

FIRST = 2
"""Multipliers before those of the words."""


@compiled
def write_checksums(words, first, m, found):
    """Checksums of records of shape (n, n_words) whose numbers begin with ``first``."""
    for i in range(len(words)):
        found[i] = _checksum(words[i], np.uint64(first + i), m)


@compiled
def copy_checked(records, places, m, words):
    """Copy records, whose last word is their checksum; returns the number of the first that is damaged, or -1."""
    n_words = words.shape[1]
    for i in range(len(places)):
        record, copy = records[places[i]], words[i]
        for j in range(n_words):
            copy[j] = record[j]
        if _checksum(copy, np.uint64(places[i]), m) != record[n_words]:
            return places[i]
    return -1


@compiled
def _checksum(words, number, m):
    total = m[0] + m[1] * number
    for j in range(len(words)):
        total += m[FIRST + j] * np.uint64(words[j])
    return np.uint32(total >> np.uint64(32))
