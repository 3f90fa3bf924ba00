import numpy as np
import pytest
from duplicates.near_pairs import distances, group_sets
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn import find_duplicates

points = st.lists(st.integers(0, 30).map(float), min_size=1, max_size=25)
rules = st.sampled_from(["center", "first", "last", "best"])
groupings = st.sampled_from(["leader", "components"])


@settings(max_examples=150, deadline=None)
@given(points=points, keep=rules)
def test_every_member_is_near_the_kept_row_and_kept_rows_are_apart(points, keep):
    X = np.array(points)[:, None]
    duplicates = find_duplicates(X, 2.5, metric="euclidean", keep=keep, scores=np.arange(len(X))[::-1])
    near = distances(X, "euclidean") <= 2.5
    for group in duplicates.groups:
        assert near[group.kept, group.members].all()
        np.testing.assert_allclose(group.distances, np.abs(X[group.kept] - X[group.members]).ravel())
        np.testing.assert_array_equal(group.is_copy, (X[group.members] == X[group.kept]).ravel())
    kept = duplicates.kept
    assert not np.triu(near[np.ix_(kept, kept)], 1).any()
    assert sorted([*kept, *duplicates.dropped]) == list(range(len(X)))
    assert sorted(duplicates.dropped) == sorted(member for group in duplicates.groups for member in group.members)


@settings(max_examples=200, deadline=None)
@given(points=points, keep=rules, grouping=groupings, named=st.booleans(), seed=st.integers(0, 99))
def test_with_ids_groups_depend_neither_on_the_order_of_the_rows_nor_on_threads(points, keep, grouping, named, seed):
    """Integers on a line have many ties: equal rows, equal distances, equal numbers of duplicates, equal scores."""
    X, n = np.array(points)[:, None], len(points)
    ids = np.array([f"{i % 7}-{i}" for i in range(n)]) if named else np.arange(n)
    scores = np.array(points) % 3

    def groups(rows, n_jobs):
        rules = {"metric": "euclidean", "keep": keep, "grouping": grouping, "n_jobs": n_jobs}
        found = find_duplicates(X[rows], 2.5, ids=ids[rows], scores=scores[rows], **rules)
        return [
            (group.kept, group.members.tolist(), group.distances.tolist(), group.is_copy.tolist())
            for group in found.groups
        ]

    order = np.random.RandomState(seed).permutation(n)
    assert repr(groups(order, 2)) == repr(groups(np.arange(n), 1))  # NaN is not equal to itself


@settings(max_examples=100, deadline=None)
@given(points=points, scored=st.booleans(), grouping=groupings, seed=st.integers(0, 99))
def test_without_ids_neither_unless_asked_for(points, scored, grouping, seed):
    """Groups as sets of values: of equal rows, any may be the one that is kept."""
    X = np.array(points)[:, None]
    order = np.random.RandomState(seed).permutation(len(X))

    def groups(rows):
        scores = points_to_scores(X[rows]) if scored else None
        found = find_duplicates(X[rows], 2.5, metric="euclidean", scores=scores, grouping=grouping)
        return sorted(sorted(X[rows][[group.kept, *group.members], 0].tolist()) for group in found.groups)

    assert groups(order) == groups(np.arange(len(X)))


def points_to_scores(X):
    return X[:, 0] % 3


CHAIN = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])


def test_a_chain_is_one_component_and_several_leaders_groups():
    chained = find_duplicates(CHAIN, 1.0, metric="euclidean", grouping="components", keep="first")
    assert group_sets(chained) == {frozenset(range(5))}
    assert chained.kept.tolist() == [0]
    np.testing.assert_array_equal(chained.groups[0].distances, [1, np.nan, np.nan, np.nan])
    led = find_duplicates(CHAIN, 1.0, metric="euclidean", keep="first")
    assert led.kept.tolist() == [0, 2, 4]


@pytest.mark.parametrize(("keep", "kept"), [("first", [0, 2, 4]), ("last", [0, 2, 4]), ("best", [1, 3])])
def test_which_row_is_kept(keep, kept):
    found = find_duplicates(CHAIN, 1.0, metric="euclidean", keep=keep, scores=[0, 1, 0, 1, 0])
    assert found.kept.tolist() == kept


def test_first_is_the_lowest_id():
    found = find_duplicates([[0.0], [0.5]], 1.0, metric="euclidean", ids=["b", "a"], keep="first")
    assert found.kept.tolist() == ["a"]
    assert found.dropped.tolist() == ["b"]


def test_of_equal_rows_the_best_is_kept():
    found = find_duplicates([[1.0], [1.0], [1.0]], 0, metric="euclidean", scores=[1, 3, 2])
    assert found.kept.tolist() == [1]


def test_the_center_has_the_most_duplicates():
    X = [[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]
    (group,) = find_duplicates(X, 1.0, metric="euclidean").groups
    assert group.kept == 0
    assert group.members.tolist() == [1, 2, 3]


def test_a_member_joins_the_nearest_leader():
    X = [[0.0], [1.0], [1.9]]
    found = find_duplicates(X, 1.0, metric="euclidean", scores=[2, 0, 1])
    assert [(group.kept, group.members.tolist()) for group in found.groups] == [(2, [1])]


def test_groups_come_largest_first():
    X = [[0.0], [0.1], [5.0], [5.1], [5.2]]
    found = find_duplicates(X, 0.5, metric="euclidean", keep="first")
    assert [group.kept for group in found.groups] == [2, 0]


@pytest.mark.parametrize("keep", ["center", "best", "first"])
def test_among_equals_the_name_that_people_expect_is_kept(keep):
    names = ["7-copy.png", "7 (1).png", "7.png", "70.png"]
    found = find_duplicates(np.ones((4, 2)) + np.eye(4, 2) / 100, 1.0, ids=names, keep=keep, scores=np.zeros(4))
    assert found.kept.tolist() == ["7.png"]
