"""Records of a vector file: their checksums, and the nearest of some records in one call.

A checksum is so cheap that every vector is checked whenever it is read. That of the 32-bit words w of a record with
number p is::

    (m_0 + m_1 p + m_2 w_1 + m_3 w_2 + ...  mod 2^64) >> 32

with odd multipliers m that every file has for itself: damage, and records of another file, go unnoticed by a chance of
about one in 2^32 (D. Lemire and O. Kaser, Strongly universal string hashing is fast, The Computer Journal 2014). The
multipliers are the outputs of SplitMix64 from the state that the header names, with the lowest bit set.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled, fast, lean
from hashlearn.index.kernels.rerank import (
    EUCLIDEAN,
    NOBODY,
    ask_for,
    distance_to,
    keep_nearest,
    prepare,
    put_in_order,
)

FIRST = 2
"""Multipliers before those of the words."""

_AHEAD = 12  # records that are asked for before they are needed
_INTACT = np.int64(-1)


class RecordArrays(NamedTuple):
    """The records of a vector file, one behind the other, each of ``n_words`` words and a checksum.

    Attributes
    ----------
    words : array, uint32
    values : array, float32, uint16 (the bits of float16) or int8
        The same memory.
    n_words : int
    offsets, scales : arrays of shape (n_features,), float32, or None
        What numbers of type int8 mean: ``offset + scale * number``.
    multipliers : array, uint64
        Those of the checksums.
    """

    words: NDArray[np.uint32]
    values: NDArray
    n_words: int
    offsets: NDArray[np.float32] | None
    scales: NDArray[np.float32] | None
    multipliers: NDArray[np.uint64]


@compiled
def nearest_records(records, queries, candidates, metric, distances, places):
    """The nearest candidates of each query, nearest first, ties by the lowest place.

    Parameters
    ----------
    records : RecordArrays
    queries : array of shape (n, n_features), float32
    candidates : array of shape (n, n_candidates), int64
        Places of records; those below zero are skipped.
    metric : int
        One of :data:`hashlearn.index.kernels.rerank.METRIC_NUMBERS`. Euclidean distances are not squared.
    distances, places : arrays of shape (n, k), float32 and int64
        Get the result; infinity and -1 where there are fewer candidates.

    Returns
    -------
    int
        The number of the first record that is damaged; -1 if none.
    """
    query = np.empty(queries.shape[1], np.float32)
    for q in range(len(queries)):
        constant = prepare(records.offsets, records.scales, queries[q], metric, query)
        damaged = _select(records, query, candidates[q], metric, constant, distances[q], places[q])
        if damaged != _INTACT:
            return damaged
    return _INTACT


@lean
def _select(records, query, candidates, metric, constant, distances, places):
    """The nearest candidates of one query, which is prepared."""
    words, step = records.words, records.n_words + 1
    numbers_of_record = np.uint64(4 * step // records.values.itemsize)
    distances[:] = np.inf
    places[:] = NOBODY
    ask_for(words, step, step, candidates, 0, _AHEAD)
    for i in range(candidates.size):
        ask_for(words, step, step, candidates, i + _AHEAD, i + _AHEAD + 1)
        place = candidates[i]
        if place >= 0:
            if not _is_intact(words, records.n_words, records.multipliers, place):
                return place
            first = np.uint64(place) * numbers_of_record
            distance = distance_to(records.values, first, records.offsets, records.scales, query, metric) + constant
            keep_nearest(np.sqrt(distance) if metric == EUCLIDEAN else distance, place, distances, places)
    put_in_order(distances, places)
    return _INTACT


@fast
def _is_intact(words, n_words, m, place):
    first = np.uint64(place) * np.uint64(n_words + 1)
    total = m[0] + m[1] * np.uint64(place)
    for j in range(n_words):
        total += m[FIRST + j] * np.uint64(words[first + np.uint64(j)])
    return np.uint32(total >> np.uint64(32)) == words[first + np.uint64(n_words)]


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
