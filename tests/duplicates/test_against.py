"""One set against another, and some rows of many."""

import numpy as np
import pytest
from duplicates.near_pairs import distances, with_planted
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn import find_duplicates
from hashlearn.duplicates import check_against, check_texts_against, most_varied, outliers, representatives
from hashlearn.duplicates import plan as plans
from hashlearn.rows import blocks


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("way", ["codes", "projection"])
def test_rows_near_a_row_of_the_other_set_are_found(monkeypatch, metric, way):
    if way == "codes":
        monkeypatch.setattr(plans, "_LOOK_AT_PRODUCT", 1.0)
    monkeypatch.setattr(blocks, "MAX_BLOCK_ROWS", 256)
    X = with_planted(1500, 16, 300, step=0.4)
    train, test = X[:1200], X[1200:]
    limit = 0.02 if metric == "cosine" else 0.6
    checked = check_against(train, test, limit, metric=metric, recall=1.0 if way == "projection" else 0.999)
    every = distances(X, metric)[:1200, 1200:]
    wanted = every.min(axis=1) <= limit
    assert wanted.sum() > 100
    assert np.mean(checked.is_new == ~wanted) > 0.999
    found = np.flatnonzero(~checked.is_new & wanted)
    np.testing.assert_allclose(checked.distances[found], every.min(axis=1)[found], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(
        every[found, checked.duplicate_of[found]], checked.distances[found], rtol=1e-3, atol=1e-5
    )


def test_rows_of_one_set_are_not_compared():
    assert check_against(np.ones((5, 2)), [[1.0, 0.0]]).is_new.all()
    checked = check_against([[1.0, 0.0]], np.ones((5, 2)), 0.5, ids=list("abcde"))
    assert checked.duplicate_of.tolist() == ["a"]


def test_texts_against_others():
    rng = np.random.RandomState(0)
    test = [" ".join(f"word{word}" for word in rng.randint(0, 500, 25)) for _ in range(50)]
    train = [test[7].upper().replace(" ", "  "), "something new", test[3] + " really"]
    checked = check_texts_against(train, test, ids=[f"t{i}" for i in range(50)])
    assert checked.duplicate_of.tolist() == ["t7", "", "t3"]
    assert checked.is_copy.tolist() == [True, False, False]


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 60), st.integers(0, 1000))
def test_no_row_is_further_from_the_chosen_ones_than_twice_the_best_possible(n, seed):
    X = np.random.RandomState(seed).standard_normal((n, 2))
    count = min(3, n)
    chosen = most_varied(X, count, metric="euclidean")
    every = distances(X, "euclidean")
    radius = every[:, chosen].min(axis=1).max()
    best = min(
        every[:, [a, b, c][:count]].min(axis=1).max()
        for a in range(n)
        for b in range(a, n)
        for c in range(b, min(n, b + 3))
    )
    assert len(set(chosen.tolist())) == count
    assert radius <= 2 * best + 1e-5


def test_the_first_of_more_are_the_choice_of_fewer():
    X = np.random.RandomState(0).standard_normal((500, 8))
    assert most_varied(X, 20)[:5].tolist() == most_varied(X, 5).tolist()


def test_equal_rows_are_chosen_last():
    X = np.repeat(np.eye(4), 5, axis=0)
    assert len({tuple(X[row]) for row in most_varied(X, 4)}) == 4
    assert sorted(most_varied(X, 20).tolist()) == list(range(20))


def test_representatives_are_in_the_middle_of_clusters():
    rng = np.random.RandomState(0)
    centers = 20 * rng.standard_normal((5, 6))
    sizes = [400, 300, 200, 100, 50]
    X = np.concatenate([center + rng.standard_normal((size, 6)) for center, size in zip(centers, sizes)])
    cluster = np.repeat(np.arange(5), sizes)
    found = [representatives(X, 5, metric="euclidean", random_state=seed) for seed in range(6)]
    best = min(found, key=lambda rows: distances(X, "euclidean")[:, rows].min(axis=1).sum())
    assert cluster[best].tolist() == [0, 1, 2, 3, 4]
    assert np.linalg.norm(X[best] - centers, axis=1).max() < 2


def test_outliers_are_furthest_from_their_nearest():
    X = np.random.RandomState(0).standard_normal((300, 5)).astype(np.float32)
    nearest = np.sort(distances(X, "cosine") + 9 * np.eye(300), axis=1)[:, 0]
    found = outliers(X, 10)
    assert found.rows.tolist() == np.argsort(-nearest, kind="stable")[:10].tolist()
    np.testing.assert_allclose(found.distances, np.sort(nearest)[::-1][:10], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("choose", [most_varied, representatives, outliers])
@pytest.mark.parametrize("n", [0, 4])
def test_no_more_rows_than_there_are(choose, n):
    with pytest.raises(ValueError, match="n must be"):
        choose(np.eye(3), n)


def test_one_row_alone():
    assert most_varied([[1.0]], 1).tolist() == [0]
    assert outliers([[1.0]], 1).distances.tolist() == [np.inf]
    assert find_duplicates([[1.0]], "auto").dropped.tolist() == []
