"""Plans from recalls that were measured."""

import numpy as np
import pytest

from hashlearn.index.frontier import RATIOS, Frontier


def frontier(recalls, shares=(0.5, 0.9, 0.999), codes=(10.0, 100.0, 1000.0)):
    """One number of neighbors, and the same recalls for each number of candidates."""
    shape = 1, len(shares), len(RATIOS)
    arrays = {
        "neighbors": np.array([1.0]),
        "shares": np.array(shares),
        "codes": np.array(codes),
        "margins": np.zeros(0),
        "recalls": np.broadcast_to(np.array(recalls)[None, :, None], shape).copy(),
        "counts": np.broadcast_to(RATIOS, shape).copy(),
        "sharpness": np.array([1.0]),
    }
    return Frontier(arrays, 100, 16)


def test_a_plan_looks_at_no_more_than_where_recall_is_highest():
    """In more lists, bad candidates may be in the place of good ones."""
    plan = frontier([0.7, 0.89, 0.8]).plan(1, 0.99, 1_000_000, 1_000_000)
    assert plan.recall == pytest.approx(0.89)
    assert plan.probes.share == pytest.approx(0.9)


def test_a_plan_is_between_two_measures():
    plan = frontier([0.7, 0.8, 0.9]).plan(1, 0.75, 1_000_000, 1_000_000)
    assert plan.recall == 0.75
    assert 0.5 < plan.probes.share < 0.9
    assert frontier([0.7, 0.8, 0.9]).plan(1, 0.8, 1_000_000, 1_000_000).probes.share == pytest.approx(0.9)


def test_a_plan_for_few_rows_compares_all_of_them():
    assert frontier([0.7, 0.8, 0.9]).plan(1, 0.75, 1_000_000, 50).is_flat
