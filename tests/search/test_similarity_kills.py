"""Killed at any moment of a change or a save: what was reported as saved is there, and the folder can be read.

``python -m faults.soak`` kills as often as you like.
"""

import os

import pytest
from faults.soak import kill_savers

from hashlearn.search import rows

N_KILLS = 5

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


@pytest.mark.parametrize("keep_vectors", [None, "float32"])
def test_what_was_reported_as_saved_is_there_after_a_kill(tmp_path, keep_vectors, monkeypatch):
    monkeypatch.setattr(rows, "_LEAST_FRESH", 20)  # so that code files are written often, too
    monkeypatch.setattr(rows, "_LEAST_BURIED", 100)
    folder = tmp_path / "search"
    killed = kill_savers(folder, N_KILLS, keep_vectors)
    assert (killed.kills, killed.lost, killed.unreadable) == (N_KILLS, 0, 0)
    parts = sorted(path.name.partition("-")[0] for path in folder.iterdir() if not path.name.startswith("catalog.db-"))
    assert parts == ["acknowledged", "catalog.db", "codes", "hasher", "vectors"][: 4 + bool(keep_vectors)]
