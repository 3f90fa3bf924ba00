"""Decisions about the files of a folder: dropped ones moved aside, or kept ones linked. Nothing is deleted.

A file is moved by one rename. What was moved is written to a list beside the files, before each move, so that an
interrupted run can be repeated, and every move can be undone by hand.
"""

import csv
import errno
import os
from collections.abc import Iterable
from pathlib import Path

from hashlearn.checks import check_choice
from hashlearn.durable.files import sync
from hashlearn.progress import track

ACTIONS = ("move", "link")
MOVED = "moved.csv"


def check_apply(action: str, folder: str | Path, target: str | Path) -> Path:
    """The folder to move or link to, or one line why it cannot be used."""
    check_choice("--apply", action, ACTIONS)
    inside, place = Path(folder).resolve(), Path(target).resolve()
    if place == inside or place.is_relative_to(inside) or inside.is_relative_to(place):
        raise ValueError(f"--apply needs a folder outside {folder}, got {target}")
    if place.exists() and not place.is_dir():
        raise ValueError(f"--apply needs a folder, got the file {target}")
    if not place.parent.is_dir():
        raise ValueError(f"--apply needs a folder in an existing one, got {target}: no folder {place.parent}")
    if action == "move" and os.stat(inside).st_dev != os.stat(place if place.exists() else place.parent).st_dev:
        raise ValueError(f"--apply move needs a folder on the disk of {folder}, got {target}")
    return place


def move_files(names: Iterable[str], folder: str | Path, target: str | Path) -> int:
    """Move files of a folder to another, under their names there; returns how many.

    Files that are not there any more are passed over, as those that an earlier run has moved. A name that is taken in
    the target is an error, before anything is moved.
    """
    source, place = Path(folder), Path(target)
    todo = [name for name in names if os.path.lexists(source / name)]
    _refuse_taken(todo, place)
    place.mkdir(exist_ok=True)
    with (place / MOVED).open("a", encoding="utf-8", newline="") as file:
        log = csv.writer(file, lineterminator="\n")
        for name in track(todo, "move"):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            log.writerow([str((source / name).absolute()), str((place / name).absolute())])
            file.flush()
            _rename(source / name, place / name)
        os.fsync(file.fileno())
    sync(place)
    return len(todo)


def link_files(names: Iterable[str], folder: str | Path, target: str | Path) -> int:
    """Make symbolic links to files of a folder in another, under their names; links that are there already stay."""
    source, place = Path(folder).resolve(), Path(target)
    todo = [name for name in names if not _is_link_to(place / name, source / name)]
    _refuse_taken(todo, place)
    place.mkdir(exist_ok=True)
    for name in track(todo, "link"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).symlink_to(source / name)
    return len(todo)


def _rename(source: Path, target: Path) -> None:
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise ValueError(f"{target} is on another disk than {source}; move to a folder on the same disk") from None


def _refuse_taken(names: list[str], place: Path) -> None:
    taken = [name for name in names if os.path.lexists(place / name)]
    if taken:
        raise ValueError(f"{place} has a file {taken[0]} already, and {len(taken) - 1} more of these names")


def _is_link_to(link: Path, target: Path) -> bool:
    return link.is_symlink() and link.resolve() == target
