"""One line for everything that can be wrong with a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_REASON = 200


class FileProblem(ValueError):
    """A file or folder that cannot be used, and why, in one line.

    Attributes
    ----------
    path : str
    reason : str
    """

    def __init__(self, path: str | Path, reason: str):
        super().__init__(str(path), reason)  # these are what a pickled error is made from again
        self.path, self.reason = str(path), reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a parser raises on damaged bytes into one line that names the file.

    Parsers of other libraries raise nearly every class of exception on a file that is cut or is something else, so all
    are caught but those that say something of their own: missing files, missing extras, no memory.
    """
    try:
        yield
    except (FileProblem, FileNotFoundError, PermissionError, IsADirectoryError, ImportError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:LONGEST_REASON] or type(error).__name__
        raise FileProblem(path, f"not a readable {kind} file ({reason})") from None
