"""Jobs done by several processes, each on one thread, that end when the one that started them ends."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import active_children, get_context, parent_process
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

Result = TypeVar("Result")
Do = Callable[[list[Callable[[], Result]]], Iterator[Result]]
"""Does jobs and yields their results as they come."""


@contextmanager
def processes(workers: int) -> Iterator[Do]:
    """A function that does jobs in so many processes; with one worker, in this process and in order."""
    if workers == 1:
        with threadpool_limits(limits=1):
            yield lambda jobs: (job() for job in jobs)
        return
    others = set(active_children())
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker)
    try:
        yield partial(_in_pool, pool)
    except BaseException:
        # Nobody waits for what is under way: it is done again by the next run.
        for child in set(active_children()) - others:
            child.terminate()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def _in_pool(pool: ProcessPoolExecutor, jobs: list[Callable[[], Result]]) -> Iterator[Result]:
    try:
        futures: list[Future] = [pool.submit(job) for job in jobs]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise ChildProcessError(
            "a worker process died, perhaps for lack of memory; what is done is stored: run again, or with --workers 1"
        ) from None


def _start_worker() -> None:
    """One thread for the matrices, and an end when the parent ends, however that happens."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    globals()["_limits"] = threadpool_limits(limits=1)
    parent: Any = parent_process()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)
