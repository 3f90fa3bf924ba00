"""Command lines that are wrong in a hundred ways: one line each, and no file is changed."""

import os

import pytest
from faults.command_lines import LINES, World, attack_many

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no fork there")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))


def test_hostile_command_lines():
    counts, faults = attack_many(40, seed=0)
    assert faults == []
    assert counts["refused"] > 20


def test_the_lines_that_are_changed_are_good_ones(world):
    for line in LINES:
        if line.startswith(("index info", "near-duplicates", "evaluate", "data", "experiment show")):
            assert world.attack(line.split()) == ("done", []), line


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
        "fit vectors.npy -o odd/round.npy",
        "experiment show odd/deep.toml",
        "experiment report trial.toml --results results --out odd/link.npy",
    ],
)
def test_places_that_are_traps(line, world):
    """Pipes that nobody writes to, links in a circle, users that are not there, files of others."""
    assert world.attack(line.split()) == ("refused", [])
