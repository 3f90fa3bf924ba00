"""Locks between processes: one process holds a lock until it releases it or ends, even if it is killed."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from filelock import lock_descriptor

LOCK = ".hashlearn-lock"
"""The ending of a lock's name. A killed process leaves its lock file, which does no harm."""

NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags to open a file with that follow no link and do not wait for the other end of a pipe."""

_IS_WINDOWS = os.name == "nt"
_LONGEST_NAME = 180
"""Bytes of a file's name that hidden files beside it repeat; most file systems allow 255 in all."""


@contextmanager
def exclusive(path: str | Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file. The lock is a file beside it, and only one thread of one process can hold it.

    Parameters
    ----------
    path : str or Path
        The file need not exist, but its folder must.
    wait : bool
        Whether to wait until the lock is free. Without waiting, a lock that is held raises BlockingIOError.
    """
    path = Path(path)
    with _lock(path.with_name(hidden_name(path) + LOCK), path, wait):
        yield


@contextmanager
def exclusive_folder(folder: str | Path, *, wait: bool = True) -> Iterator[None]:
    """As :func:`exclusive`, for a folder, whose lock is inside.

    Raises FileNotFoundError if the folder does not exist.
    """
    folder = Path(folder)
    with _lock(folder / LOCK, folder, wait):
        yield


def lock_now(file: FileIO, *, if_unknown: bool) -> bool:
    """Lock an open file if nobody holds its lock; ``if_unknown`` is the answer if the file system has no locks."""
    try:
        return lock_descriptor(file.fileno(), blocking=False)
    except OSError:
        return if_unknown


def is_at(path: Path, file: FileIO) -> bool:
    """Whether an open file is still the one of that name."""
    status = status_of(path)
    return status is not None and os.path.samestat(status, os.fstat(file.fileno()))


def status_of(path: Path) -> os.stat_result | None:
    """As os.lstat, which does not follow a link; None if there is no such file."""
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def hidden_name(path: Path) -> str:
    """The beginning of the names of hidden files that belong to a file."""
    name = os.fsencode(path.name)
    return f".{path.name}" if len(name) <= _LONGEST_NAME else f".{hashlib.sha256(name).hexdigest()[:16]}"


@contextmanager
def _lock(place: Path, path: Path, wait: bool) -> Iterator[None]:
    lock = None
    try:
        lock = _held(place, path, wait)
        yield
    finally:
        if lock is not None:
            _release(place, lock)


def _held(place: Path, path: Path, wait: bool) -> FileIO:
    while True:
        lock = _opened(place, path)
        try:
            if not lock_descriptor(lock.fileno(), blocking=wait):
                raise BlockingIOError(f"{path} is being written by another process; wait for it, or stop it")
        except BlockingIOError:
            lock.close()
            raise
        except OSError:  # a file system without locks
            return lock
        if is_at(place, lock):
            return lock
        lock.close()


def _opened(place: Path, path: Path) -> FileIO:
    try:
        return FileIO(place, "r+", opener=lambda name, flags: os.open(name, flags | os.O_CREAT | NO_LINKS, 0o666))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _release(place: Path, lock: FileIO) -> None:
    with suppress(OSError):
        if _IS_WINDOWS:  # Windows cannot remove an open file: if another process has opened it, that process removes it
            lock.close()
            place.unlink()
        # Removed before it is released, so that a waiting process sees that the file is gone. If it is gone already, it
        # was removed with its folder.
        elif is_at(place, lock):
            place.unlink()
    lock.close()
