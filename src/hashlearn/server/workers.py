"""The threads that work for requests, and the state that all searches of a server share."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

from hashlearn.deadline import Deadline, current_deadline, remaining_seconds
from hashlearn.server.errors import SOON, Problem
from hashlearn.server.once import AnsweredWrites
from hashlearn.server.settings import Settings
from hashlearn.server.telemetry import Metrics

Result = TypeVar("Result")

request_ends: ContextVar[list[Callable[[], None]] | None] = ContextVar("hashlearn_request_ends", default=None)
"""Functions to call after the answer to the request of this task was sent."""

_LARGE_ANSWERS = 4
_SECONDS_FOR_A_PLACE = 5.0
_WRITING_THREADS = 4
_REST = 40
"""After work of t seconds on the event loop, the next such work waits 40 t. So fewer than 1 of 100 requests wait for
such work, even if there are few other requests."""
_LONGEST_REST = 1.5
_LONG_WORK, _REST_AFTER_LONG_WORK = 0.002, 0.15
"""Longer work, in seconds, delays all waiting clients: many others are served before the next such work."""


class Turns:
    """Does work that blocks the event loop: one piece at a time, then a pause in which other requests are served.

    Attributes
    ----------
    n_others : int
        Number of requests without such work so far. If it has not grown, the next piece starts without a pause.
    """

    def __init__(self) -> None:
        self.n_others = 0
        self._turn = asyncio.Lock()

    async def take(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Wait for the turn of a piece of work, and do it on the event loop."""
        await self._turn.acquire()
        start, n_before = time.perf_counter(), self.n_others
        try:
            return work(*arguments)
        finally:
            taken = time.perf_counter() - start
            least = _REST_AFTER_LONG_WORK if taken > _LONG_WORK else 0.0
            rest = max(least, min((_REST - 1) * taken, _LONGEST_REST))
            asyncio.get_running_loop().call_later(taken, self._go_on, n_before, rest)

    def _go_on(self, n_before: int, rest: float) -> None:
        asyncio.get_running_loop().call_later(rest if self.n_others > n_before else 0, self._turn.release)


class Workers:
    """Threads, limits and counts of a server.

    Plain searches have threads of their own, which other work (filters, pages, long lists of queries) cannot take.
    Pictures are decoded one at a time.

    Attributes
    ----------
    settings : Settings
    metrics : Metrics
    ready : bool
        Whether the kernels are compiled and the tables are built.
    is_stopping : bool
        Whether the server is stopping.
    deadlines : set of Deadline
        The deadlines of the running requests.
    limits : dict
        The time limits of the running requests, also of those that wait for their bodies, and the event loop of each.
    turns : Turns
        The turns of bodies that take long to read.
    copying : asyncio.Lock
        Held while a snapshot is made: one at a time.
    answered : AnsweredWrites
        The latest writes with a key.
    """

    def __init__(self, settings: Settings):
        self.settings, self.metrics = settings, Metrics()
        self.ready = self.is_stopping = False
        self.deadlines: set[Deadline] = set()
        self.limits: dict[asyncio.Timeout, asyncio.AbstractEventLoop] = {}
        # One thread reads requests and writes answers. It needs its own core; waiting queries are searched together.
        self.n_searching = max(1, settings.n_threads - 1)
        self.searching = ThreadPoolExecutor(self.n_searching, thread_name_prefix="hashlearn-search")
        self.computing = ThreadPoolExecutor(max(1, settings.n_threads // 2), thread_name_prefix="hashlearn")
        self.decoding = ThreadPoolExecutor(1, thread_name_prefix="hashlearn-pictures")
        self.writing = ThreadPoolExecutor(_WRITING_THREADS, thread_name_prefix="hashlearn-writing")
        self.turns = Turns()
        self.copying = asyncio.Lock()
        self.answered = AnsweredWrites()
        self._large_answers = asyncio.Semaphore(_LARGE_ANSWERS)

    def check_ready(self) -> None:
        if not self.ready:
            raise Problem(503, "the server is warming up", headers=SOON)

    async def run(
        self, work: Callable[..., Result], *arguments: Any, pool: Executor | None = None, keeps_late: bool = False
    ) -> Result:
        """Call a function on one of the threads, beside other requests; see :func:`ended`."""
        return await ended((pool or self.computing).submit(copy_context().run, work, *arguments), keeps_late)

    async def place_for_large_answer(self) -> None:
        """Wait until a long answer may be made. The place is free again when the answer was sent."""
        try:
            async with asyncio.timeout(min(_SECONDS_FOR_A_PLACE, remaining_seconds())):
                await self._large_answers.acquire()
        except TimeoutError:
            message = f"{_LARGE_ANSWERS} long answers are being read; ask for fewer neighbors, or later"
            raise Problem(503, message, headers=SOON) from None
        ends = request_ends.get()
        if ends is None:
            self._large_answers.release()
        else:
            ends.append(self._large_answers.release)

    def give_up(self) -> None:
        """End the time of all running requests."""
        self.is_stopping = True
        for deadline in list(self.deadlines):
            deadline.expire()
        for limit, loop in list(self.limits.items()):
            loop.call_soon_threadsafe(_end, limit, loop)

    async def stop(self) -> None:
        """Let the threads finish their work."""
        self.ready = False
        for pool in (self.writing, self.searching, self.computing, self.decoding):
            await asyncio.to_thread(pool.shutdown, cancel_futures=pool is not self.writing)


def _end(limit: asyncio.Timeout, loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):  # its block has just ended
        limit.reschedule(loop.time())


async def ended(work: Future[Result], keeps_late: bool = False) -> Result:
    """The result of work on a thread. If the request is given up, its work is told, and the request ends with the work.

    With ``keeps_late``, a result after the deadline of the request is still its answer.
    """
    waiting = asyncio.wrap_future(work)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        if not work.cancel():
            expire_current()
            await asyncio.wait([waiting])
            if keeps_late:
                return waiting.result()
            if not waiting.cancelled():
                waiting.exception()  # nobody else asks for it
        raise


def expire_current() -> None:
    """End the time of this task's request."""
    deadline = current_deadline.get()
    if isinstance(deadline, Deadline):
        deadline.expire()
