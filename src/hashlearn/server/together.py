"""Work that waits at the same time is done in one go: a search with many queries, one save for many writes.

A queue that only the event loop touches, and a function that a thread runs on what was waiting. While the thread works,
what arrives waits together; nobody waits for others to arrive.

Work that takes less time than the way to a thread and back, which is a fight for the interpreter under load, is done by
the event loop itself, in pieces of about two milliseconds at most: other requests go on between the pieces.
"""

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

from prometheus_client import Histogram

Work = Callable[[Hashable, list[Any]], Sequence[Any]]
"""Gets a kind and the items of that kind; returns a result for each. A result that is an exception is raised."""

_MOST = 256  # items of one call: who waits behind them should not wait long
_MOST_KNOWN = 256  # kinds and sizes of calls whose seconds are remembered: clients choose them
_FORGOTTEN = 0.25  # of a slow call, with each one that is quicker


class Waiting(NamedTuple):
    """Something to be done, how much it is, and where its result goes."""

    item: Any
    size: int
    done: asyncio.Future


class Together:
    """Items of one kind that wait at the same time are worked on together.

    Parameters
    ----------
    work : Work
        Runs on a thread, or on the event loop where it is quick.
    pool : Executor
    n_threads : int
        How many calls of ``work`` may run at one time.
    sizes : Histogram
        Is told how many items each call had.
    in_memory : callable or None
        Tells whether work of a kind waits for no disk and no network. Such work is done by the event loop where it has
        taken less than ``quick_seconds``. None: no work is such.
    quick_seconds : float
    """

    def __init__(
        self,
        work: Work,
        pool: Executor,
        n_threads: int,
        sizes: Histogram,
        in_memory: Callable[[Any], bool] | None = None,
        quick_seconds: float = 0.002,
    ):
        self.work = work
        self.pool = pool
        self.n_threads = n_threads
        self.sizes = sizes
        self.in_memory = in_memory
        self.costs = Costs(quick_seconds)
        self.n_running = 0
        self.is_called = False
        self.waiting: dict[Hashable, list[Waiting]] = {}

    async def do(self, kind: Hashable, item: Any, size: int = 1) -> Any:
        """The result of an item, when its turn has come."""
        done = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(kind, []).append(Waiting(item, size, done))
        self._call()
        return await done

    def _call(self) -> None:
        """Begin when the requests that have arrived by now have been read."""
        if self.waiting and not self.is_called and self.n_running < self.n_threads:
            self.is_called = True
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        self.is_called = False
        kind = next(iter(self.waiting))
        queue = self.waiting.pop(kind)
        n_quick = self.costs.n_quick(kind, queue) if self.in_memory is not None and self.in_memory(kind) else 0
        n_taken = n_quick or _MOST
        batch, rest = queue[:n_taken], queue[n_taken:]
        if rest:
            self.waiting[kind] = rest  # behind the other kinds, which have waited meanwhile
        self.n_running += 1
        self.sizes.observe(len(batch))
        if n_quick:
            self._deliver(kind, batch, *self._results(kind, batch, time.perf_counter))
        else:
            self.pool.submit(self._run, asyncio.get_running_loop(), kind, batch)
        self._call()

    def _run(self, loop: asyncio.AbstractEventLoop, kind: Hashable, batch: list[Waiting]) -> None:
        """On a thread."""
        done = self._results(kind, batch, time.thread_time)  # without the time that it waits for the interpreter
        loop.call_soon_threadsafe(self._deliver, kind, batch, *done)

    def _results(self, kind: Hashable, batch: list[Waiting], clock: Callable[[], float]) -> tuple[Sequence[Any], float]:
        """A result for each item, and the seconds it took."""
        start = clock()
        try:
            results = self.work(kind, [waiting.item for waiting in batch])
        except Exception as error:
            results = [error] * len(batch)
        return results, clock() - start

    def _deliver(self, kind: Hashable, batch: list[Waiting], results: Sequence[Any], seconds: float) -> None:
        self.costs.record(kind, sum(waiting.size for waiting in batch), seconds)
        self.n_running -= 1
        self._call()
        for waiting, result in zip(batch, results):
            if waiting.done.done():  # its request was given up
                continue
            if isinstance(result, Exception):
                waiting.done.set_exception(result)
            else:
                waiting.done.set_result(result)


class Costs:
    """How long calls of each kind have taken, to tell which are quick.

    A call that took long counts at once, and is forgotten slowly.

    Parameters
    ----------
    quick_seconds : float
        What a quick call may take.
    """

    def __init__(self, quick_seconds: float):
        self.quick_seconds = quick_seconds
        self.of_calls: dict[tuple[Hashable, int], float] = {}
        """Seconds of a call, by its kind and the bits of its size: many queries of one call share a scan."""

    def n_quick(self, kind: Hashable, queue: Sequence[Waiting]) -> int:
        """How many from the front of the queue make a call that is quick; 0 if none does, or if it is not known."""
        n_items = size = 0
        for waiting in queue:
            size += waiting.size
            if not self._seconds(kind, size) <= self.quick_seconds:
                break
            n_items += 1
        return n_items

    def _seconds(self, kind: Hashable, size: int) -> float:
        """What a call of this size will take: as others of about its size, or in proportion to smaller ones."""
        bits = size.bit_length()
        for smaller in range(bits, 0, -1):
            known = self.of_calls.get((kind, smaller))
            if known is not None:
                return known * 2 ** (bits - smaller)
        return float("inf")

    def record(self, kind: Hashable, size: int, seconds: float) -> None:
        """A call has taken so long."""
        key = kind, size.bit_length()
        before = self.of_calls.pop(key, seconds)
        self.of_calls[key] = max(seconds, before + _FORGOTTEN * (seconds - before))
        if len(self.of_calls) > _MOST_KNOWN:
            self.of_calls.pop(next(iter(self.of_calls)))
