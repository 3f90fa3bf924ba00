"""Histograms of distances, against numpy's bincount."""

import numpy as np
import pytest

from hashlearn.codes import as_words, hamming_distances
from hashlearn.index.code_table import CodeTable
from hashlearn.index.kernels.histograms import (
    Labels,
    buffer_for,
    count_distances,
    count_distances_in,
    count_distances_sharing,
)

LENGTHS = (8, 16, 24, 64, 65, 96, 128, 256, 300)


def make(n_bits, n=5000, n_queries=6, seed=0):
    rng = np.random.default_rng(seed)
    codes, queries = (np.packbits(rng.random((rows, n_bits)) < 0.4, axis=1) for rows in (n, n_queries))
    store = CodeTable.empty(n_bits).added(codes).segments[0]
    return store, queries, hamming_distances(queries, codes, n_bits)


def histograms_of(distances, chosen, n_bits):
    return np.array([np.bincount(row[mask], minlength=n_bits + 1) for row, mask in zip(distances, chosen)])


@pytest.mark.parametrize("n_bits", LENGTHS)
def test_every_code_is_counted_once_at_its_distance(n_bits):
    store, queries, distances = make(n_bits)
    counts = np.zeros((len(queries), n_bits + 1), np.int64)
    count_distances(store.tiles, store.words_of(queries), buffer_for(n_bits), counts)
    np.testing.assert_array_equal(counts, histograms_of(distances, distances >= 0, n_bits))


@pytest.mark.parametrize("n_bits", LENGTHS)
def test_a_range_of_positions_counts_only_its_own(n_bits):
    store, queries, distances = make(n_bits)
    first, last = np.array([0, 1, 63, 64, 4095, 70]), np.array([5000, 1, 65, 128, 4999, 4500])
    counts = np.zeros((len(queries), n_bits + 1), np.int64)
    count_distances_in(store.tiles, store.words_of(queries), first, last, buffer_for(n_bits), counts)
    position = np.arange(len(store))
    chosen = (position >= first[:, None]) & (position < last[:, None])
    np.testing.assert_array_equal(counts, histograms_of(distances, chosen, n_bits))


@pytest.mark.parametrize("n_labels", [3, 64, 90])
def test_sharing_a_label_is_relevance(n_labels):
    store, queries, distances = make(64)
    rng = np.random.default_rng(1)
    of_queries, of_codes = rng.random((len(queries), n_labels)) < 0.1, rng.random((len(store), n_labels)) < 0.1
    counts = np.zeros((len(queries), 65), np.int64)
    count_distances_sharing(
        store.tiles,
        store.words_of(queries),
        Labels(as_words(np.packbits(of_queries, axis=1)), as_words(np.packbits(of_codes, axis=1))),
        buffer_for(64),
        counts,
    )
    relevant = of_queries.astype(int) @ of_codes.T.astype(int) > 0
    np.testing.assert_array_equal(counts, histograms_of(distances, relevant, 64))


def test_counters_of_sixteen_bits_do_not_run_over_on_equal_codes():
    n = 600_000
    store = CodeTable.empty(64).added(np.zeros((n, 8), np.uint8)).segments[0]
    counts = np.zeros((1, 65), np.int64)
    count_distances(store.tiles, np.zeros((1, 1), np.uint64), buffer_for(64), counts)
    assert counts[0, 0] == n
    assert counts.sum() == n
