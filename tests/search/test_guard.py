"""Rows that are near others are skipped, flagged or refused when they are added."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn import ABH, ITQ, LSH, SimilaritySearch

X = np.random.default_rng(0).standard_normal((1200, 16)).astype(np.float32)
NEAR = {"euclidean": 0.05, "cosine": 1e-4}
HASHERS = {
    "ITQ": ITQ(n_bits=16, random_state=0),
    "ABH": ABH(n_bits=32, random_state=0),
    "ABH, cosine": ABH(n_bits=32, metric="cosine", random_state=0),
}


@cache
def fitted(name):
    return HASHERS[name].fit(X)


def made(hasher="ABH", **options):
    return SimilaritySearch(fitted(hasher), keep_vectors="float32", **options)


@pytest.mark.parametrize(
    ("hasher", "metric"),
    [("ITQ", "euclidean"), ("ITQ", "cosine"), ("ABH", "euclidean"), ("ABH, cosine", "cosine")],
)
def test_copies_of_known_rows_and_of_new_ones_are_skipped(hasher, metric):
    search = made(hasher, metric=metric).add(X[:600], [f"a{n}" for n in range(600)])
    copies = X[:50] + 1e-4
    new = np.concatenate([copies, X[600:], X[600:640] + 1e-4])
    ids = [f"b{n}" for n in range(len(new))]
    search.add(new, ids, duplicates="skip", max_distance=NEAR[metric])
    assert [(near.id, near.of) for near in search.near_rows] == [(f"b{n}", f"a{n}") for n in range(50)] + [
        (f"b{650 + n}", f"b{50 + n}") for n in range(40)
    ]
    assert len(search) == 1200
    assert all(near.distance <= NEAR[metric] for near in search.near_rows)


@pytest.mark.parametrize("keep", ["float32", "float16", "int8"])
@pytest.mark.parametrize("hasher", [LSH(n_bits=2, random_state=0), ABH(n_bits=8, random_state=0)], ids=repr)
@pytest.mark.parametrize("in_folder", [False, True])
def test_the_first_rows_of_a_search_are_compared_by_vectors_not_by_codes(tmp_path, keep, hasher, in_folder):
    folder = tmp_path / "s" if in_folder else None
    search = SimilaritySearch(hasher, keep_vectors=keep, folder=folder).fit(X)
    search.add(np.concatenate([X[:600], X[:3]]), duplicates="skip", max_distance=1e-3)
    assert [(near.id, near.of) for near in search.near_rows] == [(600, 0), (601, 1), (602, 2)]
    assert search.ids.tolist() == list(range(600))
    np.testing.assert_array_equal(search.search(X[:600], 1, recall=1.0).ids.ravel(), np.arange(600))


def test_a_refused_call_adds_nothing_in_memory_and_in_a_folder(tmp_path):
    search = made(folder=tmp_path / "s").add(X[:10])
    for held in (search, made().add(X[:10])):
        before = held.ids.tolist()
        with pytest.raises(ValueError, match="the row of id 11 is at distance 0 of that of id 3; nothing was added"):
            held.add(X[[20, 3]], duplicates="error", max_distance=0.01)
        assert held.ids.tolist() == before
        held.add(X[[20, 21]], duplicates="error", max_distance=0.01)
        assert len(held) == 12
    assert len(SimilaritySearch.open(tmp_path / "s")) == 12


def test_a_flagged_row_says_in_its_payload_which_row_it_is_near_to():
    search = made().add(X[:5], list("abcde"), [{"n": n} for n in range(5)])
    search.add(X[[1, 7]], ["x", "y"], [{"n": 8}, None], duplicates="flag", max_distance=0.01)
    assert search.payloads(["x", "y"]) == [{"n": 8, "duplicate_of": "b"}, {}]
    assert search.count({"duplicate_of": "b"}) == 1


def test_a_row_is_not_near_the_one_that_it_replaces():
    search = made().add(X[:5], list("abcde"))
    search.upsert(X[[1, 2]] + 1e-5, ["b", "new"], duplicates="skip", max_distance=0.01)
    assert [(near.id, near.of) for near in search.near_rows] == [("new", "c")]
    assert sorted(search) == list("abcde")


def test_rows_that_are_replaced_together_are_near_no_new_row():
    search = made().add(X[:5], list("abcde"))
    search.upsert(X[[1, 0, 2, 900]], ["a", "b", "new", "c"], duplicates="error", max_distance=0.01)
    assert search.search(X[[1, 0, 2, 900]], 1)[1].ravel().tolist() == ["a", "b", "new", "c"]


def test_new_rows_with_numbers_as_ids_are_flagged_too():
    search = made().add(X[:5])
    search.add(X[[7, 7]], duplicates="flag", max_distance=0.01)
    assert search.payloads([5, 6]) == [{}, {"duplicate_of": 5}]
    assert [type(near.id) for near in search.near_rows] == [int]


def test_under_the_cosine_equal_rows_are_within_any_distance():
    """Their distance is not always 0, because it is rounded."""
    search = made("ITQ", metric="cosine").add(X[:600])
    search.add(np.tile(X[:600], (2, 1)), duplicates="skip", max_distance=0)
    assert len(search) == 600


@pytest.mark.parametrize("keep_vectors", ["float32", "float16", "int8"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("n_bits", [2, 32])
def test_a_copy_of_a_kept_row_is_found_at_distance_0(keep_vectors, metric, n_bits):
    """However vectors are kept, and if hundreds of rows have its code."""
    hasher = LSH(n_bits=n_bits, random_state=0).fit(X)
    search = SimilaritySearch(hasher, metric=metric, keep_vectors=keep_vectors).add(X)
    search.add(X, duplicates="skip", max_distance=0)
    assert len(search) == len(X)
    assert len(search.near_rows) == len(X)


def test_equal_new_rows_are_found_at_distance_0():
    search = made("ITQ").add(X[:1] + 100)
    search.add(np.concatenate([X[:300], X[:300]]), duplicates="skip", max_distance=0)
    assert len(search) == 301


def test_without_vectors_codes_are_compared():
    search = SimilaritySearch(fitted("ITQ")).add(X[:5])
    search.add(X[[1, 900]], duplicates="skip", max_distance=0)
    assert [near.of for near in search.near_rows] == [1]
    with pytest.raises(ValueError, match="duplicates needs vectors"):
        SimilaritySearch(fitted("ABH")).add(X[:5], duplicates="skip", max_distance=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"duplicates": "drop", "max_distance": 1}, "duplicates must be one of"),
        ({"duplicates": "skip"}, "duplicates needs max_distance"),
        ({"max_distance": 1}, "max_distance must be None without duplicates"),
        ({"duplicates": "skip", "max_distance": "near"}, "max_distance must be a number"),
    ],
)
def test_bad_arguments_are_one_line(options, message):
    search = made().add(X[:5])
    with pytest.raises((ValueError, TypeError), match=message):
        search.add(X[5:7], **options)
    assert len(search) == 5


def test_a_store_has_no_guard(tmp_path):
    search = SimilaritySearch(fitted("ITQ"), store=f"sqlite://{tmp_path}/s.db")
    with pytest.raises(ValueError, match="duplicates must be None where there is a store"):
        search.add(X[:5], duplicates="skip", max_distance=1)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=40), st.sampled_from([0, 2.5]))
def test_what_is_kept_is_what_a_plain_loop_keeps(numbers, max_distance):
    """One by one, a row is added unless a row that was kept is within the distance."""
    line = np.zeros((len(numbers), 16), np.float32)
    line[:, 0] = numbers
    search = made("ITQ").add(line[:1], [1000]).add(line, duplicates="skip", max_distance=max_distance)
    kept = [numbers[0]]
    for number in numbers:
        if min(abs(number - other) for other in kept) > max_distance:
            kept.append(number)
    assert sorted(record.vector[0] for record in search.get(search.ids)) == sorted(kept)
