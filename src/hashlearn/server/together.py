"""Work that waits at the same time is done in one go: a search with many queries, one save for many writes.

A queue that only the event loop touches, and a function that a thread runs on what was waiting. What arrives while the
threads work waits together. A thread is started when the event loop has read all that has arrived: it could not run
sooner, for one thread at a time has the interpreter. Nobody waits for what is still to arrive.
"""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

from prometheus_client import Histogram

Work = Callable[[Hashable, list[Any]], Sequence[Any]]
"""Gets a kind and the items of that kind; returns a result for each. A result that is an exception is raised."""

_MOST = 256  # items of one call: who waits behind them should not wait long
_QUIET_ROUNDS = 3
"""Rounds of the event loop without a new item, before a thread is started. It reads requests in one round and hands
them over in the next; the third is for clients that were answered in the first and ask again."""


class Waiting(NamedTuple):
    """Something to be done, and where its result goes."""

    item: Any
    done: asyncio.Future


class Together:
    """Items of one kind that wait at the same time are worked on together.

    Parameters
    ----------
    work : Work
        Runs on a thread.
    pool : Executor
    n_threads : int
        How many calls of ``work`` may run at one time.
    sizes : Histogram
        Is told how many items each call had.
    """

    def __init__(self, work: Work, pool: Executor, n_threads: int, sizes: Histogram):
        self.work = work
        self.pool = pool
        self.n_threads = n_threads
        self.sizes = sizes
        self.n_running = 0
        self.waiting: dict[Hashable, list[Waiting]] = {}
        self.n_arrived = 0
        self.listening = False

    async def do(self, kind: Hashable, item: Any) -> Any:
        """The result of an item, when its turn has come."""
        done = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(kind, []).append(Waiting(item, done))
        self.n_arrived += 1
        self._listen()
        return await done

    def _listen(self) -> None:
        """Start threads for what waits, as soon as nothing more arrives."""
        if self.waiting and self.n_running < self.n_threads and not self.listening:
            self.listening = True
            asyncio.get_running_loop().call_soon(self._heard, self.n_arrived, self.n_arrived, _QUIET_ROUNDS)

    def _heard(self, n_at_first: int, n_before: int, n_rounds: int) -> None:
        """Called every round of the event loop, until so many have been quiet, or enough items are there for a call."""
        n_rounds = n_rounds - 1 if self.n_arrived == n_before else _QUIET_ROUNDS
        if n_rounds and self.n_arrived - n_at_first < _MOST:
            asyncio.get_running_loop().call_soon(self._heard, n_at_first, self.n_arrived, n_rounds)
            return
        self.listening = False
        while self.waiting and self.n_running < self.n_threads:
            self._start()

    def _start(self) -> None:
        kind = next(iter(self.waiting))
        queue = self.waiting.pop(kind)
        share = -(-len(queue) // (self.n_threads - self.n_running))
        n_taken = min(share, _MOST)
        batch, rest = queue[:n_taken], queue[n_taken:]
        if rest:
            self.waiting[kind] = rest  # behind the other kinds, which have waited meanwhile
        self.n_running += 1
        self.sizes.observe(len(batch))
        self.pool.submit(self._run, asyncio.get_running_loop(), kind, batch)

    def _run(self, loop: asyncio.AbstractEventLoop, kind: Hashable, batch: list[Waiting]) -> None:
        """On a thread."""
        try:
            results = self.work(kind, [waiting.item for waiting in batch])
        except Exception as error:
            results = [error] * len(batch)
        loop.call_soon_threadsafe(self._deliver, batch, results)

    def _deliver(self, batch: list[Waiting], results: Sequence[Any]) -> None:
        self.n_running -= 1
        for waiting, result in zip(batch, results):
            if waiting.done.done():  # its request was given up
                continue
            if isinstance(result, Exception):
                waiting.done.set_exception(result)
            else:
                waiting.done.set_result(result)
        self._listen()
