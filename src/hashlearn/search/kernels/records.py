"""Distances of queries to records of a vector file, in one call, each record compared with its checksum."""

import numpy as np

from hashlearn.compiled import fast
from hashlearn.index.kernels.simd import prefetch
from hashlearn.search.kernels.checksums import FIRST

SQUARED_DIFFERENCE, NEGATIVE_PRODUCT, NEGATIVE_COSINE = range(3)
_AHEAD = 4
_LINE = 16  # words of a cache line


@fast
def record_distances(words, values, n_words, meaning, places, of_query, queries, kind, m, found):
    """Numbers that order pairs of a record and a query as their distances do.

    Parameters
    ----------
    words : array of uint32
        The records, one behind the other, each of ``n_words`` words and a checksum.
    values : array of float32 or int8
        The same memory.
    n_words : int
    meaning : (offset, scale), arrays of float32
        A value of feature j is ``offset[j] + scale[j] * byte``. Empty arrays where values are what they are.
    places, of_query : arrays of int64
        Record and query of each pair.
    queries : array of shape (n_queries, n_features)
        Of length one where the kind is ``NEGATIVE_COSINE``.
    kind : int
    m : array of uint64
        The multipliers of the checksums.
    found : array
        Gets the numbers.

    Returns
    -------
    int
        The number of the first record that is damaged; -1 if none.
    """
    offset, scale = meaning
    n_features = queries.shape[1]
    row_words = n_words + 1
    row_values = row_words * 4 // values.itemsize
    zero = queries.dtype.type(0)
    for i in range(len(places)):
        if i + _AHEAD < len(places):
            ahead = places[i + _AHEAD] * row_words
            for line in range(0, row_words + _LINE - 1, _LINE):
                prefetch(words, ahead + line)
        first = places[i] * row_words
        total = m[0] + m[1] * np.uint64(places[i])
        for j in range(n_words):
            total += m[FIRST + j] * np.uint64(words[first + j])
        if np.uint32(total >> np.uint64(32)) != words[first + n_words]:
            return places[i]
        q = queries[of_query[i]]
        first = places[i] * row_values
        near, length = zero, zero
        if len(scale) > 0:
            for j in range(n_features):
                x = offset[j] + scale[j] * np.float32(values[first + j])
                if kind == SQUARED_DIFFERENCE:
                    near += (x - q[j]) * (x - q[j])
                else:
                    near -= x * q[j]
                    length += x * x
        else:
            for j in range(n_features):
                x = values[first + j]
                if kind == SQUARED_DIFFERENCE:
                    near += (x - q[j]) * (x - q[j])
                else:
                    near -= x * q[j]
                    length += x * x
        if kind == NEGATIVE_COSINE:
            near = near / np.sqrt(length) if length > zero else zero
        found[i] = near
    return -1
