"""What the bits of codes say about themselves and about labels."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score

from hashlearn import pack
from hashlearn.metrics import explain_codes


def random_bits(seed, n=200, n_bits=13):
    rng = np.random.default_rng(seed)
    return rng.random((n, n_bits)) < rng.random(n_bits)


@given(st.integers(0, 1000))
@settings(deadline=None, max_examples=30)
def test_information_is_that_of_scikit_learn_and_bounded_by_both_entropies(seed):
    bits, y = random_bits(seed), np.random.default_rng(seed + 1).integers(0, 5, 200)
    found = explain_codes(pack(bits), 13, y)
    wanted = [mutual_info_score(y, bit) / np.log(2) for bit in bits.T]
    np.testing.assert_allclose(found.label_information, wanted, atol=1e-6)
    assert (found.label_information <= np.minimum(found.entropy, found.label_entropy) + 1e-9).all()


@given(st.integers(0, 1000))
@settings(deadline=None, max_examples=30)
def test_correlation_is_that_of_numpy_and_complements_change_only_its_sign(seed):
    bits = random_bits(seed)
    found = explain_codes(pack(bits), 13)
    varies = bits.std(axis=0) > 0
    np.testing.assert_allclose(
        found.correlation[np.ix_(varies, varies)], np.corrcoef(bits[:, varies].T.astype(float)), atol=1e-6
    )
    mirrored = explain_codes(pack(~bits), 13)
    np.testing.assert_allclose(mirrored.correlation, found.correlation, atol=1e-6)
    np.testing.assert_allclose(mirrored.entropy, found.entropy, atol=1e-9)
    assert mirrored.code_entropy == pytest.approx(found.code_entropy)


def test_several_labels_count_as_the_mean_of_each_alone():
    bits, Y = random_bits(3), random_bits(4, n_bits=3)
    together = explain_codes(pack(bits), 13, Y)
    alone = [explain_codes(pack(bits), 13, column) for column in Y.T]
    np.testing.assert_allclose(together.label_information, np.mean([each.label_information for each in alone], axis=0))
    assert together.label_entropy == pytest.approx(np.mean([each.label_entropy for each in alone]))


def test_a_constant_bit_says_nothing():
    bits = random_bits(5)
    bits[:, 4] = True
    found = explain_codes(pack(bits), 13, np.arange(200) % 2)
    assert found.entropy[4] == 0
    assert found.label_information[4] == 0
    assert not found.correlation[4, :4].any()
    assert 4 not in found.most_informative(12)


def test_the_bit_that_is_the_label_comes_first_and_the_rest_can_be_written_down():
    bits, y = random_bits(6), np.array(["cat", "dog"])[np.arange(200) % 2]
    bits[:, 7] = y == "cat"
    found = explain_codes(pack(bits), 13, y)
    assert found.most_informative(3)[0] == 7
    assert found.label_information[7] == pytest.approx(1)
    assert json.loads(found.to_json())["n_bits"] == 13
    assert "information about the labels" in found.table()


def test_all_different_codes_have_all_the_entropy_there_is():
    codes = np.arange(256, dtype=np.uint8)[:, None]
    found = explain_codes(codes, 8)
    assert (found.n_distinct, found.code_entropy, found.mean_imbalance) == (256, 8, 0)
    assert found.mean_correlation == pytest.approx(0)


@pytest.mark.parametrize(
    ("codes", "labels", "message"),
    [
        (np.zeros((0, 1), np.uint8), None, "at least one code"),
        (np.zeros((3, 1), np.uint8), [1, 2], "labels must be as many as the codes, got 2 for 3"),
    ],
)
def test_what_cannot_be_explained_is_refused(codes, labels, message):
    with pytest.raises(ValueError, match=message):
        explain_codes(codes, 8, labels)
