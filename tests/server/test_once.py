"""A write that is sent again with its key is made once, and its answer is that of the first."""

import asyncio

import pytest

from hashlearn.server import once
from hashlearn.server.errors import Problem
from hashlearn.server.once import AnsweredWrites


def made_by(writes, *requests, results):
    """The answers to requests at the same time, or their exceptions; and how many writes were made."""
    n_made = 0

    async def make():
        nonlocal n_made
        n_made += 1
        result = results[n_made - 1]
        await asyncio.sleep(0.01)
        if isinstance(result, BaseException):
            raise result
        return result

    async def ask():
        asked = (writes.once(*request, make) for request in requests)
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(ask()), n_made


def test_the_second_waits_for_the_answer_of_the_first():
    writes = AnsweredWrites()
    assert made_by(writes, (b"a", 1), (b"a", 1), (b"b", 1), results=[b"one", b"two"]) == ([b"one", b"one", b"two"], 2)


@pytest.mark.parametrize("error", [Problem(503, "full"), TimeoutError(), asyncio.CancelledError()], ids=repr)
def test_a_write_that_was_not_made_is_made_when_it_is_sent_again(error):
    writes = AnsweredWrites()
    (first, second), n_made = made_by(writes, (b"a", 1), (b"a", 1), results=[error])
    assert type(first) is type(error)
    assert (second.status_code, n_made) == (503, 1)
    assert made_by(writes, (b"a", 1), results=[b"one"]) == ([b"one"], 1)


def test_the_oldest_are_forgotten(monkeypatch):
    monkeypatch.setattr(once, "_MOST_BYTES", 10_000)
    writes = AnsweredWrites()
    for number in range(100):
        assert made_by(writes, (b"%d" % number, 1), results=[b"x"]) == ([b"x"], 1)
    assert made_by(writes, (b"99", 1), results=[b"again"]) == ([b"x"], 0)
    assert made_by(writes, (b"0", 1), results=[b"again"]) == ([b"again"], 1)
