"""Ctrl-C at random instructions of every change and every save."""

import pytest
from faults.interrupts import CHANGES, interrupt_change, interrupt_save
from faults.savings import SAVINGS

N, N_OF_SAVES = 4, 2  # ``make faults`` interrupts each many times
WRONG = ("mixed", "lost", "leftovers", "not repeated")


@pytest.mark.parametrize("name", CHANGES)
def test_an_interrupted_change_has_happened_or_not(name):
    counts = interrupt_change(name, N, seed=0)
    assert {word: counts[word] for word in WRONG if counts[word]} == {}
    assert counts["interrupted"] > 0


@pytest.mark.parametrize("name", SAVINGS)
def test_an_interrupted_save_leaves_the_old_state_or_the_new(name):
    counts = interrupt_save(name, N_OF_SAVES, seed=0)
    assert {word: counts[word] for word in WRONG if counts[word]} == {}
    assert counts["interrupted"] > 0
