"""Packing loses nothing, and what is not a packed code is refused with the argument's name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hashlearn.codes import as_words, bytes_per_code, check_codes, check_n_bits, pack, reverse_bit_order, unpack


@st.composite
def bit_matrices(draw, max_rows=6):
    n_bits = draw(st.integers(1, 200))
    return draw(arrays(np.uint8, (draw(st.integers(0, max_rows)), n_bits), elements=st.integers(0, 1)))


@given(bit_matrices(), st.sampled_from(["big", "little"]))
@settings(deadline=None, max_examples=60)
def test_unpack_gives_back_what_was_packed(bits, bit_order):
    codes = pack(bits, bit_order)
    assert codes.dtype == np.uint8
    assert codes.shape == (len(bits), bytes_per_code(bits.shape[1]))
    np.testing.assert_array_equal(unpack(codes, bits.shape[1], bit_order), bits)


@given(bit_matrices())
@settings(deadline=None, max_examples=40)
def test_the_two_orders_are_each_others_reverse_byte_by_byte(bits):
    np.testing.assert_array_equal(reverse_bit_order(pack(bits, "big")), pack(bits, "little"))
    np.testing.assert_array_equal(reverse_bit_order(pack(bits, "little")), pack(bits, "big"))


@given(bit_matrices())
@settings(deadline=None, max_examples=40)
def test_padding_is_zero_and_words_keep_every_bit(bits):
    codes = pack(bits)
    assert check_codes(codes, bits.shape[1]).flags.c_contiguous
    np.testing.assert_array_equal(np.bitwise_count(as_words(codes)).sum(axis=1), bits.sum(axis=1))


def test_the_first_bit_is_the_most_significant_or_the_least():
    first = np.zeros((1, 9), np.uint8)
    first[0, 0] = 1
    assert pack(first).tolist() == [[128, 0]]
    assert pack(first, "little").tolist() == [[1, 0]]


@pytest.mark.parametrize("values", [np.array([[True, False]]), np.array([[1.0, 0.0]]), [[1, 0]]])
def test_booleans_floats_and_lists_of_zeros_and_ones_pack_alike(values):
    assert pack(values).tolist() == [[128]]


@pytest.mark.parametrize(
    ("bits", "error", "words"),
    [
        ([1, 0, 1], ValueError, r"bits must be a matrix .* got shape \(3,\)"),
        ([[1, -1]], ValueError, "bits must be 0 or 1"),
        ([[0.5, 1.0]], ValueError, "bits must be 0 or 1"),
        ([["1", "0"]], TypeError, "bits must be boolean or 0/1, got dtype"),
    ],
)
def test_what_is_no_bit_matrix_is_not_packed(bits, error, words):
    with pytest.raises(error, match=words):
        pack(bits)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.bool_, np.uint64])
def test_codes_of_another_dtype_are_refused(dtype):
    with pytest.raises(TypeError, match="codes must be packed codes of dtype uint8, got"):
        check_codes(np.zeros((3, 2), dtype), 16)


def test_masked_codes_are_refused():
    with pytest.raises(TypeError, match="queries must not be masked"):
        check_codes(np.ma.array(np.zeros((2, 1), np.uint8), mask=True), 8, "queries")


@pytest.mark.parametrize("shape", [(3, 1), (3, 3), (2,), (3, 2, 1)])
def test_codes_of_another_width_are_refused(shape):
    with pytest.raises(ValueError, match=r"queries must have shape \(n, 2\) for n_bits=12"):
        check_codes(np.zeros(shape, np.uint8), 12, "queries")


@given(st.integers(1, 200).filter(lambda n_bits: n_bits % 8), st.data())
@settings(deadline=None, max_examples=40)
def test_a_bit_beyond_the_last_is_refused(n_bits, data):
    codes = np.zeros((2, bytes_per_code(n_bits)), np.uint8)
    codes[1, -1] = 1 << data.draw(st.integers(0, 7 - n_bits % 8))
    with pytest.raises(ValueError, match=f"bits set beyond n_bits={n_bits}"):
        check_codes(codes, n_bits)
    with pytest.raises(ValueError, match="bits set beyond"):
        unpack(codes, n_bits)


@pytest.mark.parametrize(("n_bits", "error"), [(0, ValueError), (-8, ValueError), (8.0, TypeError), (True, TypeError)])
def test_n_bits_is_a_positive_integer(n_bits, error):
    with pytest.raises(error, match="n_bits must be"):
        check_n_bits(n_bits)


def test_an_unknown_bit_order_is_refused():
    with pytest.raises(ValueError, match=r"bit_order must be 'big' .* got 'middle'"):
        pack([[1]], "middle")
