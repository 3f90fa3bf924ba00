"""Readers beside two savers, and the log of what they saw."""

import os

import pytest
from faults.concurrency import PLACES, Event, read_beside_savers, replayed

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no fork there")
WRONG = ("lost", "mixed", "of no save", "stale", "leftovers", "failed_saves")


@pytest.mark.parametrize("name", PLACES)
def test_a_read_beside_savers_is_whole_and_was_there(name):
    counts, problems = read_beside_savers(name, 100)
    assert problems == ()
    assert {word: counts[word] for word in WRONG if counts[word]} == {}
    assert counts["reads"] == 100
    assert counts["saves"] > 2


def test_the_replayed_log_tells_what_cannot_be():
    saves = [Event(True, 1, 0, 10), Event(True, 2, 20, 30)]
    assert replayed([*saves, Event(False, 1, 15, 25), Event(False, 2, 22, 23)])["stale"] == 0
    assert replayed([*saves, Event(False, 1, 31, 32)])["stale"] == 1
    assert replayed([*saves, Event(False, 2, 5, 15)])["of no save"] == 1
    assert replayed([*saves, Event(False, -1, 5, 15, "mixed: two")])["mixed"] == 1
