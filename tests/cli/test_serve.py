"""``hashlearn serve`` refuses what it cannot serve in one line; how it serves is in tests/server."""

import socket

import numpy as np
import pytest

from hashlearn import ITQ, SimilaritySearch


@pytest.fixture
def saved(folder):
    X = np.load("vectors.npy").astype(np.float32)
    SimilaritySearch(ITQ(n_bits=12, random_state=0)).fit(X).add(X).save("search")


@pytest.mark.usefixtures("saved")
def test_a_port_in_use_is_one_line(refused):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert str(port) in refused("serve", "search", "--port", port)


@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--host", "192.0.2.1"], "192.0.2.1"),
        (["--host", "no such host"], "no such host"),
        (["--api-key", "two words"], "api_key"),
        (["--max-k", "0"], "max-k"),
        (["--port", "70000"], "port"),
    ],
)
def test_bad_options_are_named(refused, arguments, named):
    assert named in refused("serve", "search", *arguments)


@pytest.mark.parametrize("place", ["nowhere", "model", "vectors.npy"])
def test_what_is_no_search_is_named(refused, place):
    assert place in refused("serve", place)
