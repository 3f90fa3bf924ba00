"""What a program asks of the file system, one operation after the other: to be counted, killed at, or refused."""

import errno
import functools
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from hashlearn.durable import files

TAKES_SPACE = ("open", "mkdir", "write", "fsync", "replace", "rename", "truncate", "ftruncate")
OTHER = ("unlink", "remove", "rmdir", "chmod", "chown")
STATEMENT = "statement"
"""An operation of SQLite, which writes by itself: killed and refused before it. It takes space, too."""
_WRITES = ("INSERT", "DELETE", "CREATE", "COMMIT")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@contextmanager
def watched(before: Callable[[str], Any], after_half: Callable[[], Any] = lambda: None) -> Iterator[None]:
    """Call ``before`` with the name of every operation that changes files, and ``after_half`` amid a write."""

    def watching(name: str) -> Callable[..., Any]:
        original = getattr(os, name)

        def operation(*args: Any, **kwargs: Any) -> Any:
            if name != "open" or args[1] & _WRITING:
                try:
                    before(name)
                except OSError as error:  # as the operating system would say it
                    raise OSError(error.errno, error.strerror, *(args[:1] if name != "fsync" else ())) from None
            return original(*args, **kwargs)

        return operation

    original = files.write_all

    def write_all(file: Any, content: Any) -> int:
        before("write")
        content = memoryview(content).cast("B")
        half = original(file, content[: len(content) // 2])
        after_half()
        return half + original(file, content[half:])

    class Watched(sqlite3.Connection):
        def __init__(self, database: str, *args: Any, **kwargs: Any):
            self._is_file = database != ":memory:"
            super().__init__(database, *args, **kwargs)

        def execute(self, statement: str, *args: Any) -> Any:
            return self._watched(super().execute, statement, *args)

        def executemany(self, statement: str, *args: Any) -> Any:
            return self._watched(super().executemany, statement, *args)

        def _watched(self, action: Callable[..., Any], statement: str, *args: Any) -> Any:
            if self._is_file and statement.startswith(_WRITES):
                try:
                    before(STATEMENT)
                except OSError:  # as SQLite would say it
                    raise sqlite3.OperationalError("database or disk is full") from None
            return action(statement, *args)

    names = [name for name in (*TAKES_SPACE, *OTHER) if name != "write"]
    patches = {name: watching(name) for name in names}
    connect = functools.partial(sqlite3.connect, factory=Watched)
    with mock.patch.multiple(os, **patches), mock.patch.object(sqlite3, "connect", connect), ExitStack() as stack:
        for module in [module for name, module in sys.modules.items() if name.startswith("hashlearn")]:
            if getattr(module, "write_all", None) is original:
                stack.enter_context(mock.patch.object(module, "write_all", write_all))
        yield


def count_operations(action: Callable[[], Any]) -> int:
    """Operations that a call takes, with two for a write: before it, and in its midst."""
    seen: list[str] = []
    with watched(seen.append, lambda: seen.append("half")):
        action()
    return len(seen)


def killed_at(action: Callable[[], Any], moment: int) -> bool:
    """Run a call in another process that is killed at one of its operations; whether it came so far."""
    pid = os.fork()
    if pid == 0:
        left = [moment]

        def maybe_die(_: str = "") -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            with watched(maybe_die, maybe_die):
                action()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


@contextmanager
def full_disk_at(moment: int) -> Iterator[list[str]]:
    """From one operation on, there is no space left; what needs none still works. Gives the operations refused."""
    left, refused = [moment], []

    def maybe_refuse(name: str = "write") -> None:
        left[0] -= 1
        if left[0] <= 0 and name in (*TAKES_SPACE, STATEMENT) and name not in ("replace", "rename"):
            refused.append(name)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with watched(maybe_refuse, maybe_refuse):
        yield refused
