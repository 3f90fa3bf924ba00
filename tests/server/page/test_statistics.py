"""What the page says of codes, against the plain definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hashlearn.codes import hamming_distances, pack, unpack
from hashlearn.server.page.statistics import distance_counts, largest_buckets, recall_curve, sides_of_bit

N_BITS = 20


@st.composite
def codes(draw):
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    return pack(rng.random((draw(st.integers(2, 60)), N_BITS)) < draw(st.sampled_from([0.05, 0.5, 1.0])))


@given(codes())
def test_counts_are_those_of_all_distances(codes):
    counts = distance_counts(codes, codes[0], N_BITS)
    distances = hamming_distances(codes[:1], codes, N_BITS)[0]
    assert counts.tolist() == np.bincount(distances, minlength=N_BITS + 1).tolist()


@given(codes())
def test_buckets_are_the_largest_groups_of_equal_codes(codes):
    buckets = largest_buckets(codes, n_buckets=3, n_examples=4)
    sizes = sorted((np.unique(codes, axis=0, return_counts=True)[1]).tolist(), reverse=True)
    assert [bucket.size for bucket in buckets] == [size for size in sizes[:3] if size > 1]
    for bucket in buckets:
        assert len(np.unique(codes[bucket.rows], axis=0)) == 1


def test_both_sides_of_a_bit_have_that_bit():
    codes = pack(np.random.default_rng(0).random((50, N_BITS)) < 0.5)
    zeros, ones = sides_of_bit(codes, N_BITS, bit=7, n_examples=5)
    assert not unpack(codes[zeros], N_BITS)[:, 7].any()
    assert unpack(codes[ones], N_BITS)[:, 7].all()


def test_recall_rises_to_one_and_leaves_the_query_out():
    rng = np.random.default_rng(0)
    codes = pack(rng.random((40, N_BITS)) < 0.5)
    queries = np.array([3, 11])
    distances = hamming_distances(codes[queries], codes, N_BITS)
    distances[[0, 1], queries] = 99
    neighbors = np.argsort(distances, axis=1, kind="stable")[:, :4]
    curve = recall_curve(codes, N_BITS, queries, neighbors, [1, 2, 4, 39])
    assert curve.recall == pytest.approx([0.25, 0.5, 1.0, 1.0])
