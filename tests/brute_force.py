"""Codes with structure, and what a search among them has to find."""

import numpy as np

from hashlearn.codes import hamming_distances
from hashlearn.codes.results import NO_DISTANCE, NO_ID


def clustered(n, n_bits, seed, n_clusters=5, noise=0.05):
    rng = np.random.default_rng(seed)
    centers = rng.random((n_clusters, n_bits)) < 0.5
    return np.packbits(centers[rng.integers(0, n_clusters, n)] ^ (rng.random((n, n_bits)) < noise), axis=1)


def brute_force(queries, codes, ids, n_bits):
    """Distances and ids of all codes for each query, nearest first, ties by the lowest id."""
    distances = hamming_distances(queries, codes, n_bits)
    order = np.array([np.lexsort((ids, row)) for row in distances], np.int64).reshape(distances.shape)
    return np.take_along_axis(distances, order, axis=1), ids[order]


def check_search(index, queries, codes, ids, k, **options):
    distances, found = index.search(queries, k, **options)
    wanted_distances, wanted = brute_force(queries, codes, ids, index.n_bits)
    n = min(k, len(codes))
    assert distances.dtype == np.int32
    assert found.dtype == np.int64
    assert distances.shape == found.shape == (len(queries), k)
    np.testing.assert_array_equal(found[:, :n], wanted[:, :n])
    np.testing.assert_array_equal(distances[:, :n], wanted_distances[:, :n])
    assert np.all(found[:, n:] == NO_ID)
    assert np.all(distances[:, n:] == NO_DISTANCE)


def check_within(index, queries, codes, ids, radius, **options):
    result = index.within(queries, radius, **options)
    wanted_distances, wanted = brute_force(queries, codes, ids, index.n_bits)
    assert len(result) == len(queries)
    for hits, row_distances, row in zip(result, wanted_distances, wanted):
        np.testing.assert_array_equal(hits.ids, row[row_distances <= radius])
        np.testing.assert_array_equal(hits.distances, row_distances[row_distances <= radius])


def all_pairs(index, radius, **options):
    blocks = list(index.pairs_within(radius, **options))
    return {(int(i), int(j), int(d)) for block in blocks for i, j, d in zip(*block)}, sum(len(b.first) for b in blocks)


def brute_force_pairs(codes, ids, n_bits, radius):
    distances = hamming_distances(codes, codes, n_bits)
    i, j = np.nonzero((distances <= radius) & (ids[:, None] < ids[None, :]))
    return {(int(ids[a]), int(ids[b]), int(distances[a, b])) for a, b in zip(i, j)}
