"""How many threads work is spread over, and who runs it."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import joblib
from threadpoolctl import LibController, ThreadpoolController

from hashlearn.checks import check_integer

Result = TypeVar("Result")


def n_threads() -> int:
    """Threads that work may be spread over.

    One for each core that the process may use: its affinity and its container's quota count, as joblib counts them.
    ``OMP_NUM_THREADS``, the variable of the BLAS library and ``threadpoolctl.threadpool_limits`` can lower the number.
    """
    return max(1, min(cores(), _blas.allowed()))


def cores() -> int:
    """Cores the process may use."""
    return joblib.cpu_count()


def check_n_jobs(n_jobs: Any) -> int:
    """scikit-learn's rule: None is 1, -1 is all threads of :func:`n_threads`, -2 all but one."""
    if n_jobs is None:
        return 1
    n_jobs = check_integer("n_jobs", n_jobs)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; None or 1 is one thread, -1 is all cores")
    return n_jobs if n_jobs > 0 else max(1, n_threads() + 1 + n_jobs)


def run_all(tasks: Sequence[Callable[[], Result]], n_jobs: int) -> list[Result]:
    """The results of the tasks, in their order."""
    if n_jobs == 1 or len(tasks) < 2:
        return [task() for task in tasks]
    with ThreadPoolExecutor(min(n_jobs, len(tasks))) as pool:
        return list(pool.map(lambda task: task(), tasks))


def split(n: int, n_parts: int) -> list[tuple[int, int]]:
    """Cut ``range(n)`` into a limited number of runs of nearly the same length."""
    n_parts = max(1, min(n, n_parts))
    return [(n * part // n_parts, n * (part + 1) // n_parts) for part in range(n_parts)]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread within a ``with`` block.

    After their work, its other threads spin for a while and take time from other threads. The number of threads also
    changes the last bits of sums.

    The setting of a BLAS library is one for the whole process. So the setting is changed when the first block begins
    and put back when the last one ends, on any threads. A block must not contain a ``yield``: while a generator waits,
    its setting would apply to other code.
    """

    holder = object()
    try:  # an interrupt between the entry and the block drops this generator, which ends it here, too
        _blas.hold(holder)
        yield
    finally:
        _blas.release(holder)


class _Blas:
    """The BLAS libraries of the process, and the blocks that keep them to one thread."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.holders: set[int] = set()
        self.before: list[tuple[LibController, int]] = []

    # An interrupt may come between any two lines: what is written first is what the next call needs to restore.

    def hold(self, holder: object) -> None:
        with self.lock:
            self.holders.add(id(holder))
            if not self.before:
                self.before = [(library, library.num_threads) for library in _libraries()]
                for library, _ in self.before:
                    _set_num_threads(library, 1)

    def release(self, holder: object) -> None:
        with self.lock:
            self.holders.discard(id(holder))
            if not self.holders:
                self.restore()

    def restore(self) -> None:
        for library, n in self.before:
            if library.num_threads == 1:  # otherwise somebody else has set it since
                _set_num_threads(library, n)
        self.before = []

    def allowed(self) -> int:
        """Threads that BLAS may use, when nobody keeps it to one."""
        with self.lock:
            counts = [n for _, n in self.before] or [library.num_threads for library in _libraries()]
        return max(counts, default=_omp_num_threads())

    def start_again(self) -> None:
        """For a forked process: the blocks belong to threads of the parent, which are not here."""
        self.lock = threading.RLock()
        self.holders.clear()
        self.restore()


@cache
def _libraries() -> list[LibController]:
    """The BLAS libraries with one setting for the process.

    With OpenMP each thread has its own setting, which is not changed.
    """
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return [library for library in libraries if library.info().get("threading_layer") != "openmp"]


def _set_num_threads(library: LibController, n: int) -> None:
    """Set the number from any thread: from version 3.8 on, threadpoolctl obeys only the first thread that used it,
    until it is cleared.
    """
    clear = getattr(library, "clear_controlling_thread", None)
    if clear is None:
        library.set_num_threads(n)
        return
    clear(force=True)
    library.set_num_threads(n)
    clear(force=True)


def _omp_num_threads() -> int:
    """Where the BLAS library cannot be asked: the first number of ``OMP_NUM_THREADS``."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else cores()


_blas = _Blas()

if os.name != "nt":
    os.register_at_fork(after_in_child=_blas.start_again)
