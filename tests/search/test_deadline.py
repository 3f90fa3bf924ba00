"""Work that nobody waits for any more ends."""

import numpy as np
import pytest

from hashlearn import LSH, SimilaritySearch
from hashlearn.deadline import Deadline, DeadlineExceeded, until


@pytest.fixture(scope="module")
def search():
    X = np.random.default_rng(0).standard_normal((3000, 8)).astype(np.float32)
    fitted = SimilaritySearch(LSH(n_bits=16, random_state=0), keep_vectors="float32").fit(X)
    return fitted.add(X, payloads=[{"name": f"row {row}"} for row in range(len(X))])


def test_a_filter_looks_at_the_deadline(search):
    filter = {"$or": [{"name": {"$gt": f"{number}"}} for number in range(500)]}
    with until(Deadline(0)), pytest.raises(DeadlineExceeded):
        search.search(np.zeros((1, 8), np.float32), filter=filter)
    with until(Deadline(60)):
        assert search.count(filter) == 3000
