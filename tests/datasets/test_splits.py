"""Splits: what a rule promises, whatever the labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.datasets.splits import SplitRule, draw, stored_or_drawn


@settings(max_examples=40, deadline=None)
@given(n_classes=st.integers(1, 6), extra=st.integers(1, 30), count=st.integers(1, 5), seed=st.integers(0, 2**31 - 1))
def test_per_class_takes_that_many_of_every_class(n_classes, extra, count, seed):
    labels = np.random.default_rng(seed).permutation(np.arange(n_classes * count + extra) % n_classes)
    split = draw(len(labels), labels, SplitRule(per_class=count), seed)
    assert np.bincount(labels[split.query], minlength=n_classes).tolist() == [count] * n_classes
    assert sorted([*split.query, *split.database]) == list(range(len(labels)))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), database=st.integers(1, 100))
def test_several_labels_a_row(seed, database):
    """count x labels distinct queries, each label on at least count of them, and no query in the database."""
    labels = (np.random.default_rng(seed).random((300, 4)) < (0.1, 0.5, 0.9, 0.3)).astype(np.uint8)
    split = draw(300, labels, SplitRule(per_class=5, database=database), seed)
    assert len(split.query) == 20
    assert (labels[split.query].sum(axis=0) >= 5).all()
    assert len(split.database) == database
    assert not set(split.query) & set(split.database)


@pytest.mark.parametrize("seed", range(10))
def test_a_rare_label_gets_its_rows_before_a_frequent_one_uses_them_up(seed):
    labels = np.zeros((10, 2), np.uint8)
    labels[:, 0] = 1
    labels[:2, 1] = 1
    assert set(draw(10, labels, SplitRule(per_class=2), seed).query) >= {0, 1}


def test_seeds_differ_and_repeat():
    rule = SplitRule(total=10)
    assert np.array_equal(draw(100, None, rule, 1).query, draw(100, None, rule, 1).query)
    assert not np.array_equal(draw(100, None, rule, 1).query, draw(100, None, rule, 2).query)


def test_the_rows_of_a_seed_are_these():
    """A split that changes with a version would make results incomparable."""
    assert draw(20, np.arange(20) % 2, SplitRule(per_class=2), 0).query.tolist() == [4, 7, 11, 16]


def test_a_stored_split_is_used_again_but_not_for_other_rows(tmp_path):
    labels = np.arange(40) % 4
    rule = SplitRule(per_class=2)
    first = stored_or_drawn(tmp_path, "x", 40, labels, rule, 0)
    (path,) = tmp_path.iterdir()
    marked = np.array([0, 1, 2, 3])
    with path.open("wb") as file:
        np.savez(file, query=marked, database=np.arange(4, 40))
    np.testing.assert_array_equal(stored_or_drawn(tmp_path, "x", 40, labels, rule, 0).query, marked)
    assert len(stored_or_drawn(tmp_path, "x", 40, labels[::-1], rule, 0).query) == len(first.query)
    assert len(stored_or_drawn(tmp_path, "x", 40, labels, SplitRule(per_class=3), 0).query) == 12
    assert len(list(tmp_path.iterdir())) == 3


def test_a_damaged_split_is_drawn_again(tmp_path, caplog):
    first = stored_or_drawn(tmp_path, "x", 40, None, SplitRule(total=4), 0)
    (path,) = tmp_path.iterdir()
    good = path.read_bytes()
    path.write_bytes(good[:60] + b"\0\0\0" + good[63:])
    np.testing.assert_array_equal(stored_or_drawn(tmp_path, "x", 40, None, SplitRule(total=4), 0).query, first.query)
    assert "drawn again" in caplog.text
    assert path.read_bytes() == good


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path, caplog):
    (tmp_path / "taken").write_text("a file where the folder should be")
    assert len(stored_or_drawn(tmp_path / "taken", "x", 40, None, SplitRule(total=4), 0).query) == 4
    assert "could not be stored" in caplog.text


@pytest.mark.parametrize(
    ("rule", "labels", "message"),
    [
        ({"per_class": 1}, None, "need labels"),
        ({"per_class": 6}, np.arange(10) % 2, "got one with 5"),
        ({"per_class": 5}, np.arange(10) % 2, "leave no row"),
        ({"total": 10}, None, "fewer than the 10 rows"),
        ({"total": 1, "database": 10}, None, "at least 10 rows, got 9"),
    ],
)
def test_impossible_rules(rule, labels, message):
    with pytest.raises(ValueError, match=message):
        draw(10, labels, SplitRule(**rule), 0)


@pytest.mark.parametrize("rule", [{}, {"per_class": 1, "total": 1}, {"total": 0}])
def test_rules_that_say_nothing_or_too_much(rule):
    with pytest.raises(ValueError, match=r"per_class|total"):
        SplitRule(**rule)
