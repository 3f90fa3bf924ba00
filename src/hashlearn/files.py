"""Writing files so that nobody ever sees half of one: beside the target, synced, then renamed over it."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

LEFTOVER = ".hashlearn-tmp"
"""How the name of a file ends while it is written; one that stays behind is of a process that was killed."""


def check_writable(path: str | Path, name: str = "path") -> Path:
    """The file that ``path`` names, links followed, or one line why it cannot be written."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise ValueError(f"{name} must be a file, got the folder {path}")
    if target.exists() and not target.is_file():
        raise ValueError(f"{name} must be a regular file, got {path}")
    if not target.parent.is_dir():
        raise ValueError(f"{name} must lie in an existing folder, got {path}: no folder {target.parent}")
    return target


@contextmanager
def replacing(*paths: str | Path) -> Iterator[tuple[Path, ...]]:
    """Yield one temporary path beside each target; what was written there takes the targets' places at the end.

    If the block raises, the targets are as they were and the temporary files are gone. Everything that can fail for
    lack of space has happened before the first rename.
    """
    targets = [check_writable(path) for path in paths]
    beside = tuple(path.with_name(f".{path.name}.{secrets.token_hex(4)}{LEFTOVER}") for path in targets)
    try:
        yield beside
        for path in beside:
            sync(path)
        for path, target in zip(beside, targets):
            os.replace(path, target)
        for folder in {path.parent for path in targets}:
            sync(folder)
    finally:
        for path in beside:
            path.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in one step, as UTF-8."""
    with replacing(path) as (beside,):
        beside.write_text(text, encoding="utf-8")


def opened_within(path: str | Path) -> FileIO:
    """Open a file that is there, to write to places in it while others write to other places.

    It is for writing alone: where it may also read, NFS reads the pages at both ends of what is written and sends them
    back whole, which undoes what another machine has put there meanwhile.
    """
    return open(os.open(path, os.O_WRONLY), "wb", buffering=0)


def write_at(file: FileIO, position: int, content: Any) -> None:
    """Write all bytes of the content to a place in the file."""
    file.seek(position)
    rest = memoryview(content).cast("B")
    while len(rest):
        rest = rest[file.write(rest) :]


def sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    if path.is_dir() and os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
