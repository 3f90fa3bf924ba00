"""Progress of long work, through one small callback.

A library user sees nothing without asking for it::

    hashlearn.set_progress("auto")  # bars in a terminal or a notebook

    with hashlearn.progress.reporting(lambda task, done, total: ...):
        hasher.fit(X)

The command line draws the same calls as bars. ``total`` is None where the end is not known.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from shutil import get_terminal_size
from typing import Literal, TypeVar

Reporter = Callable[[str, int, int | None], None]
Item = TypeVar("Item")

_BAR_CELLS = 20
_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_BARS = 0.1

_reporter: ContextVar[Reporter | None] = ContextVar("hashlearn_reporter", default=None)


def set_progress(how: Literal["auto", "lines"] | Reporter | None) -> None:
    """Choose how fit, add, tune and other long work report in this process.

    Parameters
    ----------
    how : {"auto", "lines"}, callable or None
        "auto" draws a bar on stderr in a terminal or a notebook, and nothing elsewhere. "lines" writes a line to stderr
        every ten seconds, as ``verbose`` does in scikit-learn, also into a log file. A callable gets
        ``(task, done, total)``; ``total`` is None where the end is not known. None, the default, is silence.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import ITQ, set_progress
    >>> seen = []
    >>> set_progress(lambda task, done, total: seen.append((task, done, total)))
    >>> hasher = ITQ(n_bits=2, max_iter=3, random_state=0).fit(np.eye(4))
    >>> seen[-1]
    ('ITQ rounds', 3, 3)
    >>> set_progress(None)
    """
    global _chosen
    if isinstance(how, str):
        if how not in _NAMED:
            raise ValueError(f'how must be "auto", "lines", a callable or None, got {how!r}')
        _chosen = _NAMED[how]()
    elif how is None or callable(how):
        _chosen = how
    else:
        raise TypeError(f'how must be "auto", "lines", a callable or None, got {type(how).__name__}')


@contextmanager
def reporting(reporter: Reporter) -> Iterator[None]:
    """Send the progress of everything done inside the block to ``reporter(task, done, total)``."""
    token = _reporter.set(reporter)
    try:
        yield
    finally:
        _reporter.reset(token)


def track(items: Iterable[Item], task: str, total: int | None = None) -> Iterator[Item]:
    """Pass the items through and report how many are done."""
    reporter = _reporter.get() or _chosen
    if reporter is None:
        yield from items
        return
    if total is None and isinstance(items, Sized):
        total = len(items)
    try:
        reporter(task, 0, total)
        for done, item in enumerate(items, start=1):
            yield item
            reporter(task, done, total)
    finally:
        if isinstance(reporter, _Written):
            reporter.ended(task)


class _Written:
    """Writes the tasks of one thread to stderr; an inner task stands behind its outer task.

    This is the thread that begins the first task. Tasks of other threads are not shown until the last task of this
    thread ends.
    """

    seconds_between = _SECONDS_BETWEEN_LINES

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.clock = clock
        self.lock = threading.Lock()
        self.thread: int | None = None
        self.tasks: dict[str, tuple[int, int | None]] = {}
        self.begun = self.written = 0.0

    def __call__(self, task: str, done: int, total: int | None) -> None:
        with self.lock:
            if not self.tasks:
                self.thread = threading.get_ident()
                self.begun = self.written = self.clock()
            if self.thread != threading.get_ident():
                return
            self._forget_inner(task)
            self.tasks[task] = (done, total)
            if self.clock() - self.written >= self.seconds_between:
                self.written = self.clock()
                self.write(_seconds_text(self.written - self.begun))

    def ended(self, task: str) -> None:
        with self.lock:
            if self.thread == threading.get_ident() and task in self.tasks:
                self._forget_inner(task)
                del self.tasks[task]
                if not self.tasks:
                    self.clear()

    def _forget_inner(self, task: str) -> None:
        if task in self.tasks:
            names = list(self.tasks)
            for inner in names[names.index(task) + 1 :]:
                del self.tasks[inner]

    def write(self, elapsed: str) -> None:
        """Write where the tasks are."""
        print(f"hashlearn: {self.text()}, {elapsed}", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Clean up when the work has ended."""

    def text(self) -> str:
        return " > ".join(f"{task} {_count_text(*count)}" for task, count in self.tasks.items())


class _Bar(_Written):
    """One line that is written over, in a terminal or a notebook; nothing elsewhere."""

    seconds_between = _SECONDS_BETWEEN_BARS

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        super().__init__(clock)
        self.width = 0

    def write(self, elapsed: str) -> None:
        if not _can_overwrite():
            return
        done, total = next(iter(self.tasks.values()))
        cells = _BAR_CELLS * done // total if total else 0
        bar = "#" * cells + "." * (_BAR_CELLS - cells)
        line = f"[{bar}] {self.text()} {elapsed}"[: get_terminal_size().columns - 1]
        self._overwrite(line)

    def clear(self) -> None:
        if self.width and _can_overwrite():
            self._overwrite("")
            print("\r", end="", file=sys.stderr, flush=True)

    def _overwrite(self, line: str) -> None:
        print(f"\r{line.ljust(self.width)}", end="", file=sys.stderr, flush=True)
        self.width = len(line)


def _can_overwrite() -> bool:
    """Is stderr a terminal or the output of a notebook?"""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return sys.stderr.isatty() or getattr(shell, "kernel", None) is not None


def _count_text(done: int, total: int | None) -> str:
    return str(done) if total is None else f"{done}/{total}"


def _seconds_text(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes}:{seconds:02}"


_NAMED: dict[str, Callable[[], Reporter]] = {"auto": _Bar, "lines": _Written}
_chosen: Reporter | None = None
