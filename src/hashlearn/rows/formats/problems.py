"""Every problem of a file as an error of one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_REASON = 400


class FileProblem(ValueError):
    """A file or folder that cannot be used, and why, in one line.

    Attributes
    ----------
    path : str
    reason : str
    """

    def __init__(self, path: str | Path, reason: str):
        self.path, self.reason = str(path), _one_line(reason)
        super().__init__(self.path, self.reason)  # unpickling makes the error from these arguments

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a parser raises on damaged bytes into one line that names the file.

    Parsers of other libraries raise nearly every class of exception on a damaged file, so all exceptions are caught,
    except those with a clear meaning: missing files, missing extras, no memory.
    """
    try:
        yield
    except (FileProblem, FileNotFoundError, PermissionError, IsADirectoryError, ImportError, MemoryError):
        raise
    except Exception as error:
        not_utf8 = isinstance(error, UnicodeDecodeError)
        reason = "its text must be UTF-8" if not_utf8 else _one_line(str(error)) or type(error).__name__
        raise FileProblem(path, f"not a readable {kind} file ({reason})") from None


def _one_line(text: str) -> str:
    """The reason as one printable line: it may quote bytes of a damaged file."""
    line = " ".join(text[: 2 * LONGEST_REASON].split())[:LONGEST_REASON]
    return "".join(character if character.isprintable() else "?" for character in line)
