"""Killed at any moment of a change: the words in the catalog are those of its rows."""

import os

import pytest
from faults.text_kills import kill_writers

N_KILLS = 4

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


def test_rows_and_words_agree_after_a_kill(tmp_path):
    killed = kill_writers(tmp_path / "search", N_KILLS)
    assert (killed.kills, killed.lost, killed.differ) == (N_KILLS, 0, 0)
    assert killed.changes >= N_KILLS
