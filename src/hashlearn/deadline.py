"""A deadline for long work, and the check that the work makes.

The caller sets a deadline for the work inside a block::

    with until(Deadline(seconds=30)):
        search.search(X)

Long work calls :func:`check_deadline` between its blocks of rows. Without a deadline the call costs almost nothing.
"""

import time
from contextvars import ContextVar
from typing import Protocol


class DeadlineExceeded(TimeoutError):
    """Nobody waits for this work any more."""


class HasEnd(Protocol):
    """Has an end, a value of ``time.monotonic()``, which may become earlier."""

    @property
    def at(self) -> float: ...


class Deadline:
    """A number of seconds from now. Any thread may call :meth:`expire` to end it earlier.

    Attributes
    ----------
    at : float
        The moment, by ``time.monotonic()``.
    """

    def __init__(self, seconds: float):
        self.at = time.monotonic() + seconds

    def expire(self) -> None:
        """End the work at its next check."""
        self.at = 0.0


class LastOf:
    """The deadline of work that several callers wait for: the latest of their deadlines."""

    def __init__(self, deadlines: list[HasEnd]):
        self.deadlines = deadlines

    @property
    def at(self) -> float:
        return max(deadline.at for deadline in self.deadlines)


current_deadline: ContextVar[HasEnd | None] = ContextVar("hashlearn_deadline", default=None)
"""The deadline of this work; None if there is none."""


class until:
    """All work inside the block has this deadline; None sets no deadline."""

    def __init__(self, deadline: HasEnd | None):
        self.deadline = deadline

    def __enter__(self) -> None:
        self._token = current_deadline.set(self.deadline)

    def __exit__(self, *exception: object) -> None:
        current_deadline.reset(self._token)


def remaining_seconds() -> float:
    """Seconds until the deadline, at least 0; infinity where there is none."""
    deadline = current_deadline.get()
    return float("inf") if deadline is None else max(0.0, deadline.at - time.monotonic())


def check_deadline() -> None:
    """Raise :class:`DeadlineExceeded` where the deadline is over.

    >>> with until(Deadline(seconds=0)):
    ...     check_deadline()
    Traceback (most recent call last):
    hashlearn.deadline.DeadlineExceeded: the time for this work is over
    """
    deadline = current_deadline.get()
    if deadline is not None and time.monotonic() >= deadline.at:
        raise DeadlineExceeded("the time for this work is over")
