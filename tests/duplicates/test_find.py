import numpy as np
import pytest
import scipy.sparse
from duplicates.near_pairs import all_pairs, brute_force_pairs, distances, group_sets, with_planted
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from threadpoolctl import threadpool_limits

from hashlearn import find_duplicates
from hashlearn.duplicates import plan as plans
from hashlearn.duplicates.candidates import Projection, SignCodes

METRICS = ["cosine", "euclidean"]


@pytest.fixture
def only_codes(monkeypatch):
    """Small data are cheapest to scan; have them searched by codes all the same."""
    monkeypatch.setattr(plans, "_LOOK_AT_PRODUCT", 1.0)


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=60, deadline=None)
@given(
    X=arrays(np.float32, st.tuples(st.integers(1, 40), st.integers(1, 5)), elements=st.integers(-4, 4).map(float)),
    max_distance=st.floats(0, 2),
)
def test_exact_search_finds_what_brute_force_finds(metric, X, max_distance):
    X[:, 0] += 5  # no zero rows
    near = distances(X, metric)
    if np.any(np.abs(near - max_distance) < 1e-5):  # a matter of rounding
        return
    duplicates = find_duplicates(X, max_distance, metric=metric, recall=1.0)
    assert all_pairs(duplicates) == brute_force_pairs(X, max_distance, metric)


@pytest.mark.parametrize("metric", METRICS)
def test_exact_search_in_few_dimensions_misses_nothing(metric):
    rng = np.random.RandomState(0)
    X = (rng.standard_normal((1500, 8)) @ rng.standard_normal((8, 96))).astype(np.float32)
    X[1000:] = X[:500] + 0.5 * rng.standard_normal((500, 96))
    max_distance = float(np.median([distances(X[[i, i + 1000]], metric)[0, 1] for i in range(500)]))
    duplicates = find_duplicates(X, max_distance, metric=metric, recall=1.0)
    assert isinstance(duplicates.plan.finder, Projection)
    assert duplicates.plan.finder.n_dimensions < 96
    assert all_pairs(duplicates) == brute_force_pairs(X, max_distance, metric)


@pytest.mark.usefixtures("only_codes")
@pytest.mark.parametrize("metric", METRICS)
def test_codes_find_the_share_that_was_asked_for_and_nothing_false(metric):
    X = with_planted(4000, 64, 1500, step=2.0)
    max_distance = 0.035 if metric == "cosine" else 2.0001
    duplicates = find_duplicates(X, max_distance, metric=metric, recall=0.95)
    true = brute_force_pairs_of_large(X, max_distance, metric)
    found = all_pairs(duplicates)
    assert isinstance(duplicates.plan.finder, SignCodes)
    assert len(true) > 700
    assert found <= true
    assert len(found) >= 0.94 * len(true)
    curve = duplicates.curve
    assert curve.recall_low[-1] <= len(found) / len(true) <= curve.recall_high[-1]
    assert curve.pairs[-1] == len(duplicates.pairs.first)
    assert (np.diff(curve.recall) >= 0).all()
    assert (curve.precision <= 1).all()


@pytest.mark.usefixtures("only_codes")
def test_a_radius_that_the_sample_made_too_small_is_widened():
    """Rows with duplicates lie near the mean, where angles are large; the sample lies far from it."""
    rng = np.random.RandomState(0)
    far = 20 * rng.standard_normal((4000, 32))
    near = rng.standard_normal((300, 32))
    moved = near + 2 * rng.standard_normal((300, 32)) / np.sqrt(32)
    X = np.concatenate([far, near, moved]).astype(np.float32)
    duplicates = find_duplicates(X, 2.1, metric="euclidean", recall=0.97)
    true = brute_force_pairs_of_large(X, 2.1, "euclidean")
    assert len(all_pairs(duplicates)) >= 0.95 * len(true)


def brute_force_pairs_of_large(X, max_distance, metric):
    exact = find_duplicates(X, max_distance, metric=metric, recall=1.0)  # itself compared with brute force above
    return all_pairs(exact)


def test_distances_are_those_of_the_vectors():
    X = with_planted(300, 16, 100, step=0.1)
    pairs = find_duplicates(X, 0.2, metric="euclidean").pairs
    assert len(pairs.first) >= 100
    expected = np.linalg.norm(X[pairs.first].astype(float) - X[pairs.second], axis=1)
    np.testing.assert_allclose(pairs.distances, expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.uint8, np.int32])
def test_types_of_numbers(dtype):
    X = (10 * np.abs(with_planted(200, 16, 50, step=0.001))).astype(dtype)
    X[:, 0] = 1
    assert all_pairs(find_duplicates(X, 1.5, metric="euclidean")) == brute_force_pairs(X, 1.5, "euclidean")


def test_sources_of_rows_give_the_same(tmp_path):
    X = with_planted(500, 16, 100, step=0.1)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "a.npy", X[:200])
    np.save(tmp_path / "b.npy", X[200:])
    wanted = all_pairs(find_duplicates(X, 0.2, metric="euclidean"))
    sources = [
        tmp_path / "X.npy",
        [tmp_path / "a.npy", tmp_path / "b.npy"],
        np.load(tmp_path / "X.npy", mmap_mode="r"),
        lambda: iter([X[:123], X[123:]]),
        scipy.sparse.csr_array(X),
        X.tolist(),
    ]
    for source in sources:
        assert all_pairs(find_duplicates(source, 0.2, metric="euclidean")) == wanted


@pytest.mark.usefixtures("only_codes")
@pytest.mark.parametrize("grouping", ["leader", "components"])
def test_order_of_rows_and_threads_change_nothing(grouping):
    X = with_planted(3000, 24, 1500, step=1.0)
    X[2990:] = X[:10]
    wanted = find_duplicates(X, 0.06, grouping=grouping)
    order = np.random.RandomState(1).permutation(len(X))
    with threadpool_limits(1):
        shuffled = find_duplicates(X[order], 0.06, grouping=grouping, n_jobs=2)
    assert len(wanted.groups) > 100
    assert {frozenset(order[list(group)].tolist()) for group in group_sets(shuffled)} == group_sets(wanted)
    named = find_duplicates(X[order], 0.06, grouping=grouping, ids=order, keep="first")
    assert group_sets(named) == group_sets(find_duplicates(X, 0.06, grouping=grouping, keep="first"))


def test_rows_that_are_all_equal_are_copies():
    duplicates = find_duplicates(np.ones((5000, 4)), 0.1)
    (group,) = duplicates.groups
    assert group.kept == 0
    assert group.is_copy.all()
    assert len(duplicates.dropped) == 4999
    assert len(duplicates.pairs.first) == 4999


def test_no_duplicates_at_all():
    duplicates = find_duplicates(np.eye(50), 0.5)
    assert duplicates.groups == []
    assert len(duplicates.kept) == 50
    assert len(duplicates.pairs.first) == 0


def test_one_row():
    assert find_duplicates([[1.0, 2.0]], 0.5).kept.tolist() == [0]


def test_minus_zero_is_zero():
    assert find_duplicates([[1.0, 0.0], [1.0, -0.0]], 0).groups[0].is_copy.all()


def test_scaled_rows_are_near_but_no_copies_under_the_cosine():
    (group,) = find_duplicates([[1.0, 2.0], [3.0, 6.0]], 1e-6).groups
    assert not group.is_copy.any()
    assert find_duplicates([[1.0, 2.0], [3.0, 6.0]], 1e-6, metric="euclidean").groups == []


def test_labeled_pairs_choose_the_distance():
    X = np.array([[0.0], [1.0], [10.0], [11.5], [20.0], [24.0]])
    labels = [(0, 1, True), (2, 3, True), (4, 5, False)]
    duplicates = find_duplicates(X, metric="euclidean", labeled_pairs=labels)
    assert 1.5 <= duplicates.max_distance < 4
    assert find_duplicates(X, metric="euclidean", labeled_pairs=labels[:1]).max_distance == 1
    named = find_duplicates(X, metric="euclidean", ids=list("abcdef"), labeled_pairs=[("a", "b", 1)])
    assert named.max_distance == 1


@pytest.mark.parametrize("recall", [0.9, 1.0])
def test_a_distance_that_nearly_all_pairs_match_stops_with_a_count_and_advice(recall):
    X = with_planted(4000, 8, 400, step=0.1)
    with pytest.raises(
        ValueError, match=r"max_distance=5 matches about [5-7].*e\+06 of 8e\+06 pairs.* at max_distance="
    ):
        find_duplicates(X, 5.0, metric="euclidean", recall=recall, max_pairs=100_000)


def test_the_search_stops_where_the_sample_saw_too_little():
    X = with_planted(4000, 8, 3900, step=0.1)
    with pytest.raises(ValueError, match="more than 11000 of"):
        find_duplicates(X, 0.11, metric="euclidean", max_pairs=11_000)


BAD = [
    ({"vectors": [[1.0, np.nan]]}, "vectors must not contain NaN or infinity: row 0 has NaN"),
    ({"vectors": [[1.0, 1.0], [0.0, 0.0]]}, "1 row of zeros, the first is row 1"),
    ({"vectors": np.zeros((0, 3))}, "vectors must have rows"),
    ({"max_distance": -1}, "max_distance must be at least 0"),
    ({"max_distance": np.nan}, "max_distance must be finite"),
    ({"max_distance": None}, "either max_distance or labeled_pairs"),
    ({"metric": "dot"}, "metric must be one of"),
    ({"recall": 0}, "recall must be above 0"),
    ({"recall": 1.5}, "recall must be at most 1"),
    ({"grouping": "none"}, "grouping must be one of"),
    ({"keep": "any"}, "keep must be one of"),
    ({"keep": "best"}, "keep='best' needs scores"),
    ({"scores": [1.0]}, "scores must have one entry a row"),
    ({"scores": [1.0, np.nan]}, "scores must be finite"),
    ({"ids": [1, 1]}, "ids must be unique, got 1 2 times"),
    ({"ids": [1]}, "ids must have one entry a row"),
    ({"ids": [1.5, 2.5]}, "ids must be integers or strings"),
    ({"max_distance": None, "labeled_pairs": [(0, 1, False)]}, "at least one pair"),
    ({"max_distance": None, "labeled_pairs": [(0, 7, True)]}, "known ids, got 7"),
    ({"max_distance": None, "labeled_pairs": [(0, 1)]}, "list of"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_line(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        find_duplicates(**{"vectors": [[1.0, 2.0], [2.0, 1.0]], "max_distance": 0.1, **arguments})
