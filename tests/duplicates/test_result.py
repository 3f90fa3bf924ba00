import numpy as np
import pytest
from duplicates.near_pairs import all_pairs, group_sets, with_planted

from hashlearn import find_duplicates
from hashlearn.duplicates import plan as plans

X = with_planted(1200, 24, 600, step=1.0)
X[1190:] = X[:10]


@pytest.fixture(params=["codes", "projection"])
def finder(request, monkeypatch):
    if request.param == "codes":
        monkeypatch.setattr(plans, "_LOOK_AT_PRODUCT", 1.0)
    return request.param


def test_a_smaller_distance_needs_no_new_search():
    found = find_duplicates(X, 0.08, recall=1.0)
    for distance in (0.05, 0.02, 0.0):
        again, fresh = found.at(distance), find_duplicates(X, distance, recall=1.0)
        assert all_pairs(again) == all_pairs(fresh)
        assert group_sets(again) == group_sets(fresh)
    assert group_sets(found.at(0.05, keep="first")) == group_sets(find_duplicates(X, 0.05, recall=1.0, keep="first"))
    with pytest.raises(ValueError, match=r"at most 0\.08, up to which pairs were searched, got 0\.1"):
        found.at(0.1)


@pytest.mark.usefixtures("finder")
def test_rows_that_are_added_are_as_if_they_had_been_there():
    whole = find_duplicates(X, 0.06, recall=0.999)
    parts = find_duplicates(X[:700], 0.06, recall=0.999)
    parts.add(X[700:1000]).add(X[1000:], n_jobs=2)
    assert len(parts) == len(X)
    assert len(all_pairs(whole) ^ all_pairs(parts)) <= 0.01 * len(all_pairs(whole))
    kept, members = parts.groups[0].kept, parts.groups[0].members
    assert kept in parts.kept
    assert np.isin(members, parts.dropped).all()


@pytest.mark.usefixtures("finder")
def test_new_rows_are_told_from_duplicates():
    known = find_duplicates(X[:600], 0.06, ids=np.arange(600) + 100)
    rng = np.random.RandomState(5)
    new = np.concatenate([X[:3], X[3:6] + 0.01, rng.standard_normal((4, 24))]).astype(np.float32)
    checked = known.check(new)
    assert checked.is_new.tolist() == 6 * [False] + 4 * [True]
    assert checked.duplicate_of.tolist() == [100, 101, 102, 103, 104, 105, -1, -1, -1, -1]
    assert checked.is_copy.tolist() == 3 * [True] + 7 * [False]
    assert (checked.distances[:3] == 0).all()
    assert np.isinf(checked.distances[6:]).all()
    assert (known.at(0.0).check(new).is_new == ~checked.is_copy).all()


def test_ids_and_scores_are_added_with_the_rows():
    found = find_duplicates(X[:100], 0.06, ids=[f"a{i}" for i in range(100)], scores=np.zeros(100))
    before = found.ids.tolist()
    for arguments, message in [
        ({}, "ids must be given"),
        ({"ids": ["b"], "scores": None}, "scores must be given"),
        ({"ids": ["a1"], "scores": [1]}, "got 'a1', which is known"),
        ({"ids": [7], "scores": [1]}, "of the kind of the known ones"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            found.add(X[:1], **arguments)
    with pytest.raises(ValueError, match="must have 24 columns"):
        found.add(X[:1, :3], ids=["b"], scores=[1])
    assert found.ids.tolist() == before
    found.add(X[:1], ids=["a-long-name"], scores=[5])
    assert found.groups[0].kept == "a-long-name"
    assert found.check(X[200:201]).duplicate_of.tolist() == [""]


def test_every_pair_of_copies_is_a_pair_of_rows():
    found = find_duplicates([[1.0], [1.0], [2.0], [2.0], [9.0]], 1.0, metric="euclidean")
    assert all_pairs(found) == {(0, 1), (2, 3), (0, 2), (0, 3), (1, 2), (1, 3)}
    assert len(found.pairs.first) == 3


def test_repr_and_plan_say_what_was_done():
    found = find_duplicates([[1.0, 0.0], [1.0, 0.0]], 0.1)
    assert repr(found) == "Duplicates(2 rows, cosine distance <= 0.1: 1 to drop, 1 groups)"
    assert "exact" in str(found.plan)
