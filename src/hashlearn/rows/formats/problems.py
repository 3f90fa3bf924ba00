"""One line for everything that can be wrong with a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def file_problem(path: Path, problem: str) -> ValueError:
    """The error to raise: the file, then what is wrong with it."""
    return ValueError(f"{path}: {problem}")


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a parser raises on damaged bytes into one line that names the file.

    Parsers of other libraries raise nearly every class of exception on a file that is cut or is something else, so all
    are caught but those that say something of their own: missing files, missing extras, no memory.
    """
    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError, ImportError, MemoryError):
        raise
    except Exception as error:
        if str(error).startswith(f"{path}: "):
            raise
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise file_problem(path, f"not a readable {kind} file ({reason})") from None
