"""Progress of long work, through one small callback.

A library user sees nothing without asking for it::

    with hashlearn.progress.reporting(lambda task, done, total: ...):
        hasher.fit(X)

The command line draws the same calls as bars. ``total`` is None where the end is not known.
"""

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Reporter = Callable[[str, int, int | None], None]
Item = TypeVar("Item")

_reporter: ContextVar[Reporter | None] = ContextVar("hashlearn_reporter", default=None)


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
    reporter = _reporter.get()
    if reporter is None:
        yield from items
        return
    if total is None and isinstance(items, Sized):
        total = len(items)
    reporter(task, 0, total)
    for done, item in enumerate(items, start=1):
        yield item
        reporter(task, done, total)
