import numpy as np
import pytest
from duplicates.near_pairs import with_planted

from hashlearn import find_duplicates
from hashlearn.duplicates.threshold import distance_by_chance, distance_from_labels, emptiest_distance


@pytest.mark.parametrize("n", [500, 2000, 8000])
def test_unrelated_rows_have_hardly_a_pair_within_it(n):
    X = np.random.RandomState(n).standard_normal((n, 6))
    distance = distance_by_chance(X, 0.0, 0.8, metric="euclidean")
    assert 0 < distance < 0.8
    assert len(find_duplicates(X, 0.8, metric="euclidean").pairs.first) > 10
    assert len(find_duplicates(X, distance, metric="euclidean").pairs.first) <= 3


def test_duplicates_do_not_change_it():
    """Only pairs further apart than any duplicate are counted."""
    X = np.random.RandomState(0).standard_normal((1000, 6))
    copies = X + 1e-3 * np.random.RandomState(1).standard_normal(X.shape)
    alone = distance_by_chance(X, 0.0, 0.8, metric="euclidean")
    doubled = distance_by_chance(np.concatenate([X, copies]), 0.0, 0.8, metric="euclidean")
    assert doubled == pytest.approx(alone, rel=0.15)


def test_rows_far_from_each_other_get_the_largest():
    assert distance_by_chance(with_planted(500, 40, 100, step=0.1), 0.01, 0.5, metric="euclidean") == 0.5
    assert distance_by_chance([[1.0, 2.0]], 0.01, 0.5) == 0.5


def test_it_is_never_below_the_least():
    crowd = np.random.RandomState(0).uniform(0, 1, (2000, 1))
    assert distance_by_chance(crowd, 0.05, 0.2, metric="euclidean") == 0.05


def test_the_order_of_the_rows_plays_no_part():
    X = np.random.RandomState(0).standard_normal((3000, 6))
    shuffled = X[np.random.RandomState(1).permutation(len(X))]
    wanted = distance_by_chance(X, 0.0, 0.8, metric="euclidean")
    assert distance_by_chance(shuffled, 0.0, 0.8, metric="euclidean") == pytest.approx(wanted, rel=1e-6)


def test_bad_ranges():
    with pytest.raises(ValueError, match="high must be at least"):
        distance_by_chance([[1.0]], 0.5, 0.1)


def embedded(n, n_copies, noise, seed=0):
    """Rows near a curved surface of 12 dimensions in 64, and noisy copies of some."""
    rng = np.random.RandomState(seed)
    X = np.tanh(rng.standard_normal((n, 12)) @ rng.standard_normal((12, 64)))
    copies = X[:n_copies] + noise * rng.uniform(0.3, 1, (n_copies, 1)) * rng.standard_normal((n_copies, 64))
    return np.concatenate([X, copies])


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("noise", [0.001, 0.01, 0.05])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_auto_is_between_copies_and_others(metric, noise, scale):
    X = scale * embedded(3000, 150, noise)
    found = find_duplicates(X, "auto", metric=metric)
    true = {(i, 3000 + i) for i in range(150)}
    pairs = set(zip(found.pairs.first.tolist(), found.pairs.second.tolist()))
    assert len(pairs & true) >= 0.98 * len(true)
    assert len(pairs & true) >= 0.98 * len(pairs)
    assert found.reason.startswith(f"{len(pairs)} pairs are within")


def unrelated_distances(n, dimension):
    """Distances of unrelated rows up to 1: the number within x grows like x^dimension."""
    return np.random.RandomState(0).uniform(size=n) ** (1 / dimension)


def test_without_a_gap_the_distance_is_where_copies_end():
    copies = np.random.RandomState(1).uniform(0.02, 0.3, 400)
    chosen = emptiest_distance(np.concatenate([copies, unrelated_distances(1000, 1.5)]), 1.0, 0.9, "euclidean")
    assert 0.29 < chosen.distance < 0.33
    assert "where their number falls most" in chosen.reason


def test_a_few_copies_much_nearer_than_the_others_make_no_gap():
    """Between the nearest copies there are gaps, too."""
    copies = np.abs(np.random.RandomState(3).normal(0, 0.05, 300))
    chosen = emptiest_distance(np.concatenate([copies, unrelated_distances(1000, 12)]), 1.0, 0.9, "euclidean")
    assert copies.max() < chosen.distance < 0.5


def test_pairs_that_are_near_by_nature_are_left_out_behind_the_last_copy():
    """They are in the gap, too, on both sides of its middle."""
    behind = []
    for seed in range(20):
        rng = np.random.RandomState(seed)
        copies = rng.uniform(0.02, 0.15, 300)
        natural = 0.1 * 6 ** np.sqrt(rng.uniform(size=40))
        pairs = np.concatenate([copies, natural, unrelated_distances(2000, 12)])
        chosen = emptiest_distance(pairs, 1.0, 0.9, "euclidean")
        behind.append(np.count_nonzero((natural > copies.max()) & (natural <= chosen.distance)))
        assert np.count_nonzero(copies > chosen.distance) <= 3
    assert np.median(behind) <= 1


def test_copies_whose_number_falls_slowly_are_not_cut_off():
    copies = 0.05 * np.exp(0.5 * np.random.RandomState(0).standard_normal(300))
    chosen = emptiest_distance(np.concatenate([copies, unrelated_distances(2000, 12)]), 1.0, 0.9, "euclidean")
    assert np.count_nonzero(copies > chosen.distance) <= 3


@pytest.mark.parametrize("dimension", [1.5, 4, 12])
def test_without_copies_there_is_neither_gap_nor_edge(dimension):
    assert emptiest_distance(unrelated_distances(1000, dimension), 1.0, 0.2, "euclidean").distance == 0.2


def test_auto_without_copies_finds_hardly_a_pair():
    found = find_duplicates(embedded(3000, 0, 0), "auto")
    assert len(found.dropped) <= 5
    assert "by chance" in found.reason


def test_auto_with_many_copies_of_each():
    """Copies in the sample do not make chance look nearer than it is."""
    X = embedded(300, 0, 0)
    copies = np.concatenate([X + 0.001 * np.random.RandomState(i).standard_normal(X.shape) for i in range(10)])
    found = find_duplicates(copies, "auto")
    assert len(found.groups) == 300
    assert len(found.kept) == 300


@pytest.mark.parametrize("rows", [[[1.0, 2.0]], [[1.0, 2.0], [1.0, 2.0]], np.eye(3), np.ones((50, 2))])
def test_auto_with_few_rows(rows):
    found = find_duplicates(rows, "auto")
    assert len(found.groups) == (len(rows) > 1 and np.all(np.asarray(rows) == rows[0]))


def test_auto_does_not_depend_on_the_order_of_the_rows():
    X = embedded(2500, 100, 0.01)
    shuffled = X[np.random.RandomState(1).permutation(len(X))]
    assert find_duplicates(shuffled, "auto").max_distance == pytest.approx(find_duplicates(X, "auto").max_distance)


def test_what_judged_pairs_promise_is_what_others_keep():
    """The expected precision and recall, from pairs that the distance was not chosen with."""
    rng = np.random.RandomState(0)

    def judged(n):
        labels = rng.uniform(size=n) < 0.5
        return np.where(labels, rng.gamma(4, 1, n), rng.gamma(12, 1, n)), labels

    choices = [distance_from_labels(*judged(60)) for _ in range(200)]
    distances, labels = judged(200_000)
    kept = [distances <= choice.distance for choice in choices]
    recall = np.mean([labels[each].sum() / labels.sum() for each in kept])
    precision = np.mean([labels[each].mean() for each in kept])
    assert np.mean([choice.recall for choice in choices]) == pytest.approx(recall, abs=0.02)
    assert np.mean([choice.precision for choice in choices]) == pytest.approx(precision, abs=0.02)
    assert "expected precision" in choices[0].reason


def test_judged_duplicates_alone_promise_no_precision():
    choice = distance_from_labels(np.array([0.1, 0.3]), np.array([True, True]))
    assert (choice.distance, choice.precision) == (0.3, None)


def test_many_judged_pairs_are_left_out_in_groups():
    rng = np.random.RandomState(0)
    labels = np.arange(5000) % 2 == 0
    choice = distance_from_labels(rng.uniform(size=5000) + ~labels, labels)
    assert choice.recall > 0.99
    assert choice.precision > 0.99
