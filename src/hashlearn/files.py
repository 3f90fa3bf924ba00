"""Writing files so that nobody ever sees half of one: beside the target, synced, then renamed over it."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


def sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    if path.is_dir() and os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
