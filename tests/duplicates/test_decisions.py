import numpy as np
import pytest
from duplicates.near_pairs import group_sets
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn import Duplicates, find_duplicates
from hashlearn.duplicates.decisions import DECISIONS, read_decisions, write_decisions

ROWS = [[0.0], [0.1], [0.2], [0.2], [5.0], [5.1]]


@pytest.fixture
def found():
    return find_duplicates(ROWS, 0.5, metric="euclidean", ids=list("abcdef"), keep="first")


def test_what_is_different_is_never_found_again(found, tmp_path):
    found.decide([("f", "different", "e"), ("b", "different", "a")])
    assert group_sets(found) == {frozenset("bcd")}  # c and d are nearer to b than to a
    found.save(tmp_path / "state")
    opened = Duplicates.open(tmp_path / "state")
    assert group_sets(opened) == group_sets(found)
    opened.add([[0.3], [5.2]], ["g", "h"])
    assert set(opened.kept) == set("abef")
    assert group_sets(opened.decide([("b", "", "a"), ("f", "", "e")])) == {frozenset("abcdg"), frozenset("efh")}


def test_a_dropped_kept_row_is_replaced_by_one_that_somebody_keeps(found):
    found.decide([("a", "drop", "a"), ("c", "keep", "a")])
    group = next(group for group in found.groups if group.kept == "c")
    assert sorted(group.members.tolist()) == ["a", "b", "d"]
    np.testing.assert_allclose(sorted(group.distances), [0, 0.1, 0.2], atol=1e-6)
    assert set(found.dropped) == set("abdf")


def test_exact_copies_can_be_kept_too(found):
    found.decide([("d", "different", "a"), ("c", "keep", "a")])
    assert {"c", "d"} <= set(found.kept)


def test_no_group_loses_all_its_rows(found):
    found.decide([(name, "drop", "a") for name in "abcd"])
    assert set(found.kept) == set("ae")


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(list(DECISIONS)), st.sampled_from("abcdef"))),
    st.sampled_from(["leader", "components"]),
)
def test_whatever_is_decided_kept_rows_are_kept_and_groups_have_one(decisions, grouping):
    found = find_duplicates(ROWS, 0.15, metric="euclidean", ids=list("abcdef"), grouping=grouping)
    found.decide(decisions)
    last = {name: decision for name, decision, _ in decisions}
    assert set(found.kept) | set(found.dropped) == set("abcdef")
    assert not set(found.kept) & set(found.dropped)
    assert {name for name, decision in last.items() if decision in ("keep", "different")} <= set(found.kept)
    for group in found.groups:
        assert group.kept in found.kept
        assert set(group.members) <= set(found.dropped)


def test_the_table_reads_as_it_was_written(tmp_path):
    decisions = [("a,b", "keep", 'c"'), ("d\ne", "different", "a,b"), ("f\rg", "", "a,b")]
    write_decisions(tmp_path / "d.csv", decisions)
    assert read_decisions(tmp_path / "d.csv", np.array(["x"])) == decisions
    write_decisions(tmp_path / "d.csv", [(3, "drop", 4)])
    assert read_decisions(tmp_path / "d.csv", np.arange(5)) == [(3, "drop", 4)]


@pytest.mark.parametrize("text", ["", "id,decision\n1,keep\n", "id,decision,duplicate_of\nx,keep,1\n"])
def test_another_table_is_refused(tmp_path, text):
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(ValueError, match="must be a table of decisions"):
        read_decisions(tmp_path / "d.csv", np.arange(3))


def test_bad_decisions_change_nothing(found):
    before = group_sets(found)
    for decision in [("q", "keep", "a"), ("a", "keep", "q"), ("a", "delete", "b")]:
        with pytest.raises(ValueError, match="decision"):
            found.decide([("b", "different", "a"), decision])
    assert group_sets(found) == before
