"""An exception as one line for the user. Also handles streams that are closed (``2>&-``), full, or no longer read."""

import errno
import os
import sys

import typer

BAD_INPUT = 2
INTERRUPTED = 130

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF)
_LONGEST = 600

# typer carries its own copy of click in some versions and uses the installed one in others; this is its UsageError.
_UsageError = typer.BadParameter.__mro__[1]


def complaint(error: Exception) -> str | None:
    """The line to print; empty to print nothing; None for an internal error, which needs its traceback."""
    if isinstance(error, _UsageError):
        return _of_usage(error)
    if isinstance(error, BrokenPipeError):
        return ""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{_text(error.filename)}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in _FULL:  # errors of files have a name, errors of printing have none
        return f"standard output: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory: {_first_line(error)}" if str(error) else "not enough memory"
    if isinstance(error, (ValueError, TypeError, OSError, ImportError, OverflowError)):
        return _first_line(error)
    return None


def exit_code(error: Exception) -> int:
    """2 for bad input; for a closed pipe, the code that the shell expects."""
    return 1 if isinstance(error, BrokenPipeError) else BAD_INPUT


def _of_usage(error) -> str:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # the help
        return ""
    message = " ".join(error.format_message().split())
    command = error.ctx.command_path if error.ctx is not None else "hashlearn"
    return f"{message} (see {command} --help)"


def _first_line(error: Exception) -> str:
    """The first line of a message: scikit-learn adds long explanations."""
    lines = str(error).strip().splitlines()
    line = lines[0].rstrip(":") if lines else type(error).__name__
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"


def _text(name: str | bytes | int) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def check_streams() -> None:
    """Open all closed standard streams; raise if standard output is closed.

    Otherwise the first opened file would get the number of a closed stream, and printed text would go to this file.
    """
    closed = [descriptor for descriptor in range(3) if not _is_open(descriptor)]
    for _ in closed:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if 1 in closed or sys.stdout is None:
        raise ValueError("standard output is closed; to discard it, write it to /dev/null")


def give_up_stdout() -> None:
    """Drop output that cannot be written. Otherwise Python would try again at exit, and print an error."""
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
