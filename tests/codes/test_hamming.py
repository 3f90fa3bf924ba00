"""The laws of Hamming distance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hashlearn.codes import hamming_distances, pack, paired_distances


@st.composite
def bits_of_one_length(draw, n_matrices=1, rows=None):
    n_bits = draw(st.integers(1, 200))
    sizes = [draw(st.integers(1, 6)) if rows is None else rows for _ in range(n_matrices)]
    return n_bits, *(draw(arrays(np.uint8, (size, n_bits), elements=st.integers(0, 1))) for size in sizes)


@given(bits_of_one_length(2))
@settings(deadline=None, max_examples=60)
def test_the_distance_is_the_number_of_bits_that_differ(case):
    n_bits, a, b = case
    differing = (a[:, None, :] != b[None, :, :]).sum(axis=2)
    np.testing.assert_array_equal(hamming_distances(pack(a), pack(b), n_bits), differing)


@given(bits_of_one_length(2), st.data())
@settings(deadline=None, max_examples=40)
def test_a_mask_on_every_code_changes_no_distance(case, data):
    n_bits, a, b = case
    mask = data.draw(arrays(np.uint8, n_bits, elements=st.integers(0, 1)))
    before = hamming_distances(pack(a), pack(b), n_bits)
    np.testing.assert_array_equal(hamming_distances(pack(a ^ mask), pack(b ^ mask), n_bits), before)


@given(bits_of_one_length(2), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=40)
def test_a_permutation_of_the_bits_changes_no_distance(case, random):
    n_bits, a, b = case
    order = list(range(n_bits))
    random.shuffle(order)
    before = hamming_distances(pack(a), pack(b), n_bits)
    np.testing.assert_array_equal(hamming_distances(pack(a[:, order]), pack(b[:, order]), n_bits), before)


@given(bits_of_one_length(1))
@settings(deadline=None, max_examples=40)
def test_it_is_a_metric(case):
    n_bits, a = case
    codes = pack(a)
    d = hamming_distances(codes, codes, n_bits)
    np.testing.assert_array_equal(d, d.T)
    np.testing.assert_array_equal(d == 0, (codes[:, None] == codes[None]).all(axis=2))
    assert np.all(d[:, None, :] <= d[:, :, None] + d[None, :, :]), "d(i, k) <= d(i, j) + d(j, k)"
    assert d.max() <= n_bits


@given(bits_of_one_length(2, rows=4))
@settings(deadline=None, max_examples=40)
def test_paired_distances_are_the_diagonal(case):
    n_bits, a, b = case
    np.testing.assert_array_equal(
        paired_distances(pack(a), pack(b), n_bits), np.diag(hamming_distances(pack(a), pack(b), n_bits))
    )


def test_a_complementary_byte_counts_eight():
    assert hamming_distances(pack([[0] * 8]), pack([[1] * 8]), 8).tolist() == [[8]]


def test_the_argument_at_fault_is_named():
    codes = np.zeros((2, 2), np.uint8)
    with pytest.raises(ValueError, match=r"queries must have shape \(n, 1\)"):
        hamming_distances(codes, codes[:, :1], 8)
    with pytest.raises(TypeError, match="codes must be packed codes of dtype uint8, got int64"):
        hamming_distances(codes, codes.astype(np.int64), 16)
    with pytest.raises(ValueError, match="as many codes as each other, got 2 and 1"):
        paired_distances(codes, codes[:1], 16)
