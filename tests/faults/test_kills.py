"""Kills at operations of every saving call, and disks that are full from one on; ``make faults`` takes them all."""

import os
import stat

import numpy as np
import pytest
from faults.kills import Expected, fill_disk, kill
from faults.savings import SAVINGS

MOST = 4
"""Operations of a call that are tried; the first and the last are among them."""
SYNCED_BY_SQLITE = ("rows of a search", "rows with vectors", "transaction")
WRONG = ("mixed", "lost", "leftovers", "not repeated", "unsaid", "unnamed", "not one line")


def moments(expected: Expected) -> list[int]:
    return np.unique(np.linspace(1, expected.n_operations, MOST).round().astype(int)).tolist()


@pytest.mark.skipif(os.name == "nt", reason="no fork and no SIGKILL there")
@pytest.mark.parametrize("name", SAVINGS)
def test_a_killed_save_leaves_the_old_state_or_the_new(name):
    expected = Expected(SAVINGS[name])
    outcomes = set()
    for moment in moments(expected):
        counts = kill(SAVINGS[name], expected, moment)
        assert counts["killed"] == 1
        assert {word: counts[word] for word in WRONG if counts[word]} == {}, f"killed at operation {moment}"
        outcomes |= {word for word in ("old", "new") if counts[word]}
    assert outcomes == {"old", "new"}


@pytest.mark.parametrize("name", SAVINGS)
def test_a_full_disk_is_said_and_costs_nothing(name):
    expected = Expected(SAVINGS[name])
    for moment in moments(expected):
        counts = fill_disk(SAVINGS[name], expected, moment)
        assert {word: counts[word] for word in WRONG if counts[word]} == {}, f"full at operation {moment}"


@pytest.mark.parametrize("name", SAVINGS)
def test_files_are_synced_by_descriptors_that_may_write(name, tmp_path, monkeypatch):
    """Windows syncs no others."""
    fcntl = pytest.importorskip("fcntl")
    may_write = []

    def watch(descriptor):
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            may_write.append(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY)

    SAVINGS[name].prepare(tmp_path)
    for call in ("fsync", "fdatasync"):
        if hasattr(os, call):
            monkeypatch.setattr(os, call, watch)
    SAVINGS[name].save(tmp_path)
    assert may_write or name in SYNCED_BY_SQLITE
    assert all(may_write)
