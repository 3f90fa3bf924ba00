"""Several hashers side by side behave as one."""

import gc
import weakref

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import hashlearn
from hashlearn import ITQ, LSH, RSSH, HasherUnion, unpack

X = load_digits().data[:300] / 16


def union():
    return HasherUnion([ITQ(11, random_state=0), LSH(6, random_state=1)])


def test_the_code_is_the_parts_side_by_side():
    bits = unpack(union().fit_transform(X), 17)
    np.testing.assert_array_equal(bits[:, :11], unpack(ITQ(11, random_state=0).fit_transform(X), 11))
    np.testing.assert_array_equal(bits[:, 11:], unpack(LSH(6, random_state=1).fit_transform(X), 6))


def test_the_scores_are_too():
    scores = union().fit(X).decision_function(X)
    np.testing.assert_array_equal(scores[:, 11:], LSH(6, random_state=1).fit(X).decision_function(X))


def test_learned_codes_of_a_part_are_kept():
    parts = [ITQ(8, random_state=0), RSSH(8, rank=20, n_anchors=50, random_state=0)]
    hasher = HasherUnion(parts)
    codes = hasher.fit_codes(X)
    np.testing.assert_array_equal(codes[:, 1:], hasher.hashers_[1].training_codes_)
    assert not np.array_equal(codes, hasher.transform(X))


def test_the_given_hashers_stay_unfitted():
    hasher = union().fit(X)
    assert not hasattr(hasher.hashers[0], "projection_")


def test_parameters_of_the_parts_have_names():
    hasher = union().set_params(itq__n_bits=3, lsh__center=False)
    assert hasher.n_bits == 9
    assert hasher.get_params()["lsh__center"] is False
    assert hasher.set_params(lsh=LSH(10)).n_bits == 13
    with pytest.raises(ValueError, match="sah"):
        hasher.set_params(sah__n_bits=3)


def test_the_same_class_twice_is_numbered():
    hasher = HasherUnion([LSH(4), ITQ(4), LSH(4)]).set_params(**{"lsh-2__n_bits": 9})
    assert [part.n_bits for part in hasher.hashers] == [4, 4, 9]


def test_a_clone_has_its_own_parts():
    original = union()
    copy = clone(original).set_params(itq__n_bits=2)
    assert (copy.n_bits, original.n_bits) == (8, 17)


def test_unions_nest_and_come_back_from_disk(tmp_path):
    hasher = HasherUnion([union(), LSH(3, random_state=5)]).fit(X)
    assert hasher.n_bits == 20
    hasher.save(tmp_path / "model")
    loaded = hashlearn.load(tmp_path / "model")
    assert isinstance(loaded, HasherUnion)
    np.testing.assert_array_equal(loaded.transform(X), hasher.transform(X))
    assert loaded.set_params(hasherunion__itq__n_bits=1).n_bits == 10


def test_it_is_a_step_of_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), union()).set_params(hasherunion__itq__n_bits=10)
    assert pipeline.fit_transform(X).shape == (300, 2)


@pytest.mark.parametrize(
    ("hashers", "message"),
    [([], "at least one"), (ITQ(4), "at least one"), ([ITQ(4), StandardScaler()], "hashers only")],
)
def test_only_hashers_make_a_union(hashers, message):
    with pytest.raises(TypeError, match=message):
        HasherUnion(hashers).fit(X)


@parametrize_with_checks([HasherUnion([ITQ(1, random_state=0), LSH(3, random_state=0)])])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", [hashlearn.SH, ITQ])
def test_what_is_prepared_for_encoding_does_not_keep_a_hasher(method):
    hasher = method(8).fit(X)
    hasher.transform(X[:1])
    there = weakref.ref(hasher)
    del hasher
    gc.collect()
    assert there() is None
