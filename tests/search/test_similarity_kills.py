"""Killed at any moment of a change or a save: what was reported as saved is there, and the folder can be read.

``python -m faults.soak`` kills as often as you like.
"""

import os

import pytest
from faults.soak import kill_savers

from hashlearn.search import search_folder

N_KILLS = 5

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


@pytest.mark.parametrize("keep_vectors", [None, "float32"])
def test_what_was_reported_as_saved_is_there_after_a_kill(tmp_path, keep_vectors, monkeypatch):
    monkeypatch.setattr(search_folder, "_LEAST_JOURNAL", 4000)  # so that generations are made often, too
    folder = tmp_path / "search"
    killed = kill_savers(folder, N_KILLS, keep_vectors)
    assert (killed.kills, killed.lost, killed.unreadable) == (N_KILLS, 0, 0)
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 2
    assert names[1] == "search.json"
