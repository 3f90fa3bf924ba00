"""Work that waits at the same time is done in one go: a search with many queries, one save for many writes.

A queue that only the event loop touches, and a function that a thread runs on what was waiting. While the thread works,
what arrives waits together; nobody waits for others to arrive.
"""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

from prometheus_client import Histogram

Work = Callable[[Hashable, list[Any]], Sequence[Any]]
"""Gets a kind and the items of that kind; returns a result for each. A result that is an exception is raised."""

_MOST = 256  # items of one call: who waits behind them should not wait long


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

    async def do(self, kind: Hashable, item: Any) -> Any:
        """The result of an item, when its turn has come."""
        done = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(kind, []).append(Waiting(item, done))
        if self.n_running < self.n_threads:
            self._start()
        return await done

    def _start(self) -> None:
        kind = next(iter(self.waiting))
        queue = self.waiting.pop(kind)
        batch, rest = queue[:_MOST], queue[_MOST:]
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
        if self.waiting:
            self._start()
        for waiting, result in zip(batch, results):
            if waiting.done.done():  # its request was given up
                continue
            if isinstance(result, Exception):
                waiting.done.set_exception(result)
            else:
                waiting.done.set_result(result)
