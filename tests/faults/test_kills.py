"""Kills at every operation of every saving call, and disks that are full from every operation on."""

import os

import pytest
from faults.kills import Expected, fill_disk, kill
from faults.savings import SAVINGS

WRONG = ("mixed", "lost", "leftovers", "not repeated", "unsaid", "unnamed", "not one line")


@pytest.mark.skipif(os.name == "nt", reason="no fork and no SIGKILL there")
@pytest.mark.parametrize("name", SAVINGS)
def test_a_killed_save_leaves_the_old_state_or_the_new(name):
    expected = Expected(SAVINGS[name])
    outcomes = set()
    for moment in range(1, expected.n_operations + 1):
        counts = kill(SAVINGS[name], expected, moment)
        assert counts["killed"] == 1
        assert {word: counts[word] for word in WRONG if counts[word]} == {}, f"killed at operation {moment}"
        outcomes |= {word for word in ("old", "new") if counts[word]}
    assert outcomes == {"old", "new"}


@pytest.mark.parametrize("name", SAVINGS)
def test_a_full_disk_is_said_and_costs_nothing(name):
    expected = Expected(SAVINGS[name])
    for moment in range(1, expected.n_operations + 1):
        counts = fill_disk(SAVINGS[name], expected, moment)
        assert {word: counts[word] for word in WRONG if counts[word]} == {}, f"full at operation {moment}"
