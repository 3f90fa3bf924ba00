"""Standard streams that are closed (``2>&-``), full, or no longer read."""

import os
import sys


def check_streams() -> None:
    """Have all three streams open, or raise where nothing could be printed.

    The first file that is opened gets the number of a closed stream, and would get what is printed there.
    """
    closed = [descriptor for descriptor in range(3) if not _is_open(descriptor)]
    for _ in closed:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if 1 in closed or sys.stdout is None:
        raise ValueError("standard output is closed; to discard it, write it to /dev/null")


def give_up_stdout() -> None:
    """Drop output that cannot be written: Python would try again at exit and print an error."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
