"""The digits of scikit-learn as a saved search, and servers of it."""

import numpy as np
import pytest
from served import Server
from sklearn.datasets import load_digits

from hashlearn import ITQ, SimilaritySearch

N_ROWS = 1000


@pytest.fixture(scope="session")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32), y


@pytest.fixture(scope="session")
def make_search(digits):
    """Save a search of the first thousand digits, with their labels as payloads, to a folder."""
    X, y = digits
    fitted = SimilaritySearch(ITQ(n_bits=32, random_state=0), keep_vectors="float32").fit(X)

    def make(folder):
        search = SimilaritySearch(fitted.hasher, keep_vectors="float32")
        search.add(X[:N_ROWS], payloads=[{"label": int(label)} for label in y[:N_ROWS]])
        search.save(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def folder(make_search, tmp_path_factory):
    """A search that the tests read."""
    return make_search(tmp_path_factory.mktemp("served") / "search")


@pytest.fixture(scope="session")
def library(folder):
    """The same search, in this process: what the server should say."""
    return SimilaritySearch.open(folder)


@pytest.fixture(scope="session")
def server(folder):
    """A server with the limits of the command line, for tests that only read."""
    with Server(folder) as server:
        yield server.ready()
