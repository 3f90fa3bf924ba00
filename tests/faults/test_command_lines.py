"""Command lines that are wrong in a hundred ways: one line each, and no file is changed."""

import os

import pytest
from faults.command_lines import LINES, World, attack_many, run_line

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no fork there")


def test_hostile_command_lines():
    counts, faults = attack_many(60, seed=0)
    assert faults == []
    assert counts["refused"] > 20


def test_the_lines_that_are_changed_are_good_ones(tmp_path):
    place = World(tmp_path).place
    for line in LINES:
        if line.startswith(("index add", "near-duplicates", "evaluate", "data", "experiment show")):
            assert run_line(place, line.split()).code == 0, line


@pytest.mark.parametrize(
    "line",
    [
        "fit odd/pipe.npy -o new",
        "encode model odd/pipe.npy -o new.npy",
        "index info odd/pipe.npy",
        "near-duplicates odd/pipe.npy",
        "search model odd/pipe.npy queries.npy",
        "data info odd/pipe.npy",
        "data info ~nobody-of-that-name/x.npy",
        "data info mnist --folder ~nobody-of-that-name",
        "encode model vectors.npy -o odd/deep.npy",
        "encode model vectors.npy -o odd/dangling.npy/x.npy",
        "encode model vectors.npy -o odd/round.npy",
        "fit vectors.npy -o odd/round.npy",
        "experiment show odd/deep.toml",
    ],
)
def test_places_that_are_traps(line, tmp_path):
    """Pipes that nobody writes to, links in a circle, users that are not there, files of others."""
    ended, faults = World(tmp_path).attack(line.split())
    assert (ended, faults) == ("refused", [])
