"""How many threads work is spread over, and who runs it."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from hashlearn.checks import check_integer

Result = TypeVar("Result")


def check_n_jobs(n_jobs: Any) -> int:
    """scikit-learn's rule: None is 1, -1 is all cores, -2 all but one."""
    if n_jobs is None:
        return 1
    n_jobs = check_integer("n_jobs", n_jobs)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; None or 1 is one thread, -1 is all cores")
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)


def run_all(tasks: Sequence[Callable[[], Result]], n_jobs: int) -> list[Result]:
    """The results of the tasks, in their order."""
    if n_jobs == 1 or len(tasks) < 2:
        return [task() for task in tasks]
    with ThreadPoolExecutor(min(n_jobs, len(tasks))) as pool:
        return list(pool.map(lambda task: task(), tasks))


def split(n: int, n_parts: int) -> list[tuple[int, int]]:
    """Cut ``range(n)`` into at most so many runs of nearly the same length."""
    n_parts = max(1, min(n, n_parts))
    return [(n * part // n_parts, n * (part + 1) // n_parts) for part in range(n_parts)]


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager:
    """Keep BLAS to one thread: its others spin for a while when they are done, at the cost of whoever comes next."""
    return _libraries().limit(limits=1, user_api="blas")


def n_threads() -> int:
    """Threads that work may be spread over: as many as BLAS may use, which is what users and clusters limit."""
    blas = _libraries().select(user_api="blas").info()
    return max((library["num_threads"] for library in blas), default=1)
