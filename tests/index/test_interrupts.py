"""Ctrl-C at any moment of a change: the index is the old one or the new one, and can be changed again."""

import numpy as np
import pytest
from faults.interrupts import Interrupt

from hashlearn.index import HammingIndex

N_BITS = 72


def random_codes(n, seed):
    return np.packbits(np.random.default_rng(seed).random((n, N_BITS)) < 0.5, axis=1)


def fresh():
    """An index with room behind its codes, so that appending may share it."""
    return HammingIndex(N_BITS).add(random_codes(100, 0), 2 * np.arange(100)).add(random_codes(1, 1))


CHANGES = {
    "append": lambda index: index.add(random_codes(3, 2)),
    "append beyond the room": lambda index: index.add(random_codes(200, 2)),
    "insert": lambda index: index.add(random_codes(3, 2), [7, 151, 3]),
    "upsert": lambda index: index.upsert(random_codes(3, 2), [4, 5, 1000]),
    "remove": lambda index: index.remove([0, 50, 52]),
}


def content(index):
    return dict(zip(index.ids.tolist(), index.codes().tolist()))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_an_interrupted_change_has_happened_or_not(change):
    before, after = content(fresh()), content(change(fresh()))
    index = fresh()
    with Interrupt() as counting:
        change(index)
    moments = np.random.default_rng(0).choice(np.arange(1, counting.count + 1), min(counting.count, 150), replace=False)
    outcomes = set()
    for moment in moments.tolist():
        index = fresh()
        with pytest.raises(KeyboardInterrupt), Interrupt(moment):
            change(index)
        outcomes.add(content(index) == after)
        assert content(index) in (before, after)
        if content(index) == before:
            assert content(change(index)) == after
        np.testing.assert_array_equal(index.search(index.codes(), 1).distances, 0)
    assert False in outcomes
