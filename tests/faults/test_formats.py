"""Damaged files of every format are refused in one line, and never pass silently where there is a checksum."""

import numpy as np
import pytest
from faults.corruption import FORMATS, OWN_FORMATS, corrupt_many, damaged

N = 60
"""Damaged files a format; ``corrupt_many`` takes as many as you like."""
MADE_ANEW = ("codes, interrupted",)
"""Work that was interrupted begins anew where what is left of it is damaged: the result is right all the same."""


@pytest.mark.filterwarnings("ignore")  # numpy warns of strange headers
@pytest.mark.parametrize("name", [*FORMATS, *OWN_FORMATS])
def test_damaged_files(name):
    kind = (FORMATS | OWN_FORMATS)[name]
    counts = corrupt_many(kind, N, seed=0)
    assert counts.faults == []
    assert counts.refused + counts.same + counts.different == N
    if name not in MADE_ANEW:
        assert counts.refused > 0
    if kind.protected is not None:
        assert counts.different == 0


def test_the_damage_is_the_same_for_a_seed_and_within_its_bounds():
    good = bytes(range(256))
    for seed in range(100):
        first, again = (damaged(good, 50, 60, np.random.default_rng(seed)) for _ in range(2))
        assert first == again != good
        assert first[:50] == good[:50]
        assert len(first) < 60 or first.endswith(good[60:])
