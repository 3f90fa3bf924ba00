"""Long work of a search looks at the deadline between its blocks."""

import numpy as np
import pytest

from hashlearn import LSH, SimilaritySearch
from hashlearn.deadline import Deadline, DeadlineExceeded, until
from hashlearn.search import nearest

N = 600


@pytest.fixture(scope="module")
def search():
    X = np.random.default_rng(0).standard_normal((N, 8)).astype(np.float32)
    made = SimilaritySearch(LSH(n_bits=16, random_state=0), keep_vectors="float32", index="lists").fit(X)
    return made.add(X, payloads=[{"name": f"row {row}"} for row in range(N)])


class Counting:
    """A deadline that counts how often it is looked at, and is over after some looks."""

    def __init__(self, looks):
        self.left, self.looks = looks, 0

    @property
    def at(self):
        self.looks += 1
        return float("inf") if self.looks <= self.left else 0.0


@pytest.mark.parametrize(
    "options",
    [{"recall": 1.0}, {"rerank": "vectors", "candidates": N}, {"rerank": "codes"}, {"rerank": "asymmetric"}],
    ids=str,
)
def test_a_search_ends_when_its_time_is_over(search, options):
    Q = np.zeros((4, 8), np.float32)
    search.search(Q, 5, **options)
    with until(Deadline(seconds=0)), pytest.raises(DeadlineExceeded):
        search.search(Q, 5, **options)
    with until(Deadline(seconds=0)), pytest.raises(DeadlineExceeded):
        search.within(Q, 3, rerank="codes")


def test_candidates_are_compared_in_parts(search, monkeypatch):
    """The more pairs, the more often the deadline is looked at; the result is the same."""
    Q = np.ones((4, 8), np.float32)
    expected = search.search(Q, 5, rerank="vectors", candidates=N)
    monkeypatch.setattr(nearest, "_PAIRS_AT_A_TIME", 100)
    deadline = Counting(looks=10**9)
    with until(deadline):
        found = search.search(Q, 5, rerank="vectors", candidates=N)
    assert deadline.looks >= len(Q)
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.distances.tolist() == expected.distances.tolist()
    with until(Counting(looks=3)), pytest.raises(DeadlineExceeded):
        search.search(Q, 5, rerank="vectors", candidates=N)
