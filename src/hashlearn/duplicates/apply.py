"""Move dropped files of a folder to another folder and back, or link the kept files. Nothing is deleted.

1. :func:`plan_moves` looks at the folder as it is now and says which files to move, which stay, and why. A file stays
   if it or its kept file changed since they were compared, or if a link leads to it.
2. :func:`move_files` writes the plan to ``moved.csv`` in the target, waits until it is on the disk, and then moves each
   file by one rename. So a file is in its old place or in its new one, and the record names both, whatever happens.
3. :func:`undo_moves` reads the record and puts back whatever is in its new place. It can be repeated.
"""

import csv
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from filelock import lock_descriptor

from hashlearn.checks import check_choice
from hashlearn.durable.files import parsed_json, replacing, sync, write_text
from hashlearn.durable.locks import exclusive, status_of
from hashlearn.progress import track

ACTIONS = ("move", "link")
MOVED = "moved.csv"

_CHANGED = "it changed since it was compared"


class FileStamp(NamedTuple):
    """Facts about a file that change with its content and stay the same when it is renamed."""

    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, path: str | Path) -> "FileStamp | None":
        """The facts of a regular file; None if there is no such file, or if it is a link."""
        status = status_of(Path(path))
        if status is None or not stat.S_ISREG(status.st_mode):
            return None
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)


class Move(NamedTuple):
    """A line of the record.

    Attributes
    ----------
    source : str
        The absolute path from which the file is moved.
    target : str
        The new path, relative to the folder of the record.
    kept : str
        The absolute path of the file that is kept in its place.
    n_bytes : int
        Bytes that are saved; 0 if another name of the same file is counted already or stays.
    stamp : FileStamp
    """

    source: str
    target: str
    kept: str
    n_bytes: int
    stamp: FileStamp


class Stays(NamedTuple):
    """A file that is not moved, or not put back, and why."""

    name: str
    reason: str


class MovePlan(NamedTuple):
    """The folder, the files to move, the dropped files that stay, and the stamps of the kept files when they were
    compared."""

    folder: Path
    moves: list[Move]
    stays: list[Stays]
    kept: dict[str, FileStamp]

    @property
    def n_bytes(self) -> int:
        return sum(move.n_bytes for move in self.moves)


class Moved(NamedTuple):
    """How many files were moved or put back, which were not, and the bytes that the moved ones had."""

    n_files: int
    stays: list[Stays]
    n_bytes: int


def check_apply(action: str, folder: str | Path, target: str | Path) -> Path:
    """The folder to move or link to; a ValueError of one line if it cannot be used."""
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


def plan_moves(
    dropped: Mapping[str, str],
    folder: str | Path,
    target: str | Path,
    stamps: Mapping[str, FileStamp],
    other_names: Mapping[str, Sequence[str]],
) -> MovePlan:
    """Plan which files of a folder to move, from its present state.

    Parameters
    ----------
    dropped : mapping of str to str
        Each file to drop, with the file that is kept in its place, as paths in the folder.
    folder, target : str or Path
        The old and the new folder.
    stamps : mapping of str to FileStamp
        The stamps of the files when they were compared.
    other_names : mapping of str to list of str
        Further names of the same file (hard links). All names of a file move together.

    Returns
    -------
    MovePlan
        The argument of :func:`move_files`.

    Raises
    ------
    ValueError
        The target has a file of that name already.
    """
    top = Path(folder).resolve()
    links = _links_to(top)
    moves: list[Move] = []
    stays: list[Stays] = []
    for name, kept in dropped.items():
        if not os.path.lexists(top / name):  # moved by an earlier run, or removed
            continue
        names = [name, *other_names.get(name, [])]
        reason = _why_it_stays(top, names, kept, stamps, links, dropped)
        if reason is None:
            moves += _moves(top, names, kept)
        else:
            stays.append(Stays(name, reason))
    taken = [move.target for move in moves if os.path.lexists(Path(target) / move.target)]
    if taken:
        raise ValueError(f"{target} has a file {taken[0]} already, and {len(taken) - 1} more of these names")
    return MovePlan(top, moves, stays, {str(top / kept): stamps[kept] for kept in dropped.values() if kept in stamps})


def move_files(plan: MovePlan, target: str | Path) -> Moved:
    """Write the record of a plan, and move its files to their names below the target.

    A file stays if it has changed since the plan was made, or if the system refuses to move it. Moves of an interrupted
    run stay in the record.
    """
    place = Path(target)
    with exclusive(place.absolute()), _only_mover(plan.folder):
        place.mkdir(exist_ok=True)
        record = place / MOVED
        known = read_record(record) if record.exists() else []
        before = [move for move in known if os.path.lexists(place / move.target)]
        _write_record(record, [*before, *plan.moves])
        done, stays = [], []
        for move in track(plan.moves, "move"):
            reason = _why_not_now(move, place, plan.kept) or _why_not_renamed(Path(move.source), place / move.target)
            if reason is None:
                done.append(move)
            else:
                stays.append(Stays(move.target, reason))
        _sync_folders(done, place)
        if stays:
            _write_record(record, [*before, *done])
            _remove_empty_folders(plan.moves, place)
    return Moved(len(done), [*plan.stays, *stays], sum(move.n_bytes for move in done))


def undo_moves(record: str | Path) -> Moved:
    """Put back the files of a record, then remove the record and empty folders.

    A file stays where it is, and in the record, if its old name is taken, if it is in neither place, or if the system
    refuses to move it.
    """
    path = Path(record)
    path.stat()  # the error names the record, not its folder
    place = path.parent
    with exclusive(place.absolute()):
        moves = read_record(path)
        done: list[Move] = []
        left: list[Move] = []
        stays: list[Stays] = []
        for move in track(moves, "put back"):
            source, there = Path(move.source), place / move.target
            is_there, is_back = os.path.lexists(there), os.path.lexists(source)
            if is_back and not is_there:
                continue
            if is_there:
                reason = "its old name is taken" if is_back else _why_not_renamed(there, source)
            else:
                reason = "it is in neither place"
            if reason is None:
                done.append(move)
            else:
                left.append(move)
                stays.append(Stays(move.source, reason))
        _sync_folders(moves, place)
        _remove_empty_folders(moves, place)
        if left:
            _write_record(path, left)
        else:
            path.unlink()
            with suppress(OSError):  # others may have files there
                place.rmdir()
    return Moved(len(done), stays, sum(move.n_bytes for move in done))


def link_files(names: Iterable[str], folder: str | Path, target: str | Path) -> int:
    """Make symbolic links in a folder to files of another folder, under their names; existing links stay."""
    source, place = Path(folder).resolve(), Path(target)
    todo = [name for name in names if not _is_link_to(place / name, source / name)]
    taken = [name for name in todo if os.path.lexists(place / name)]
    if taken:
        raise ValueError(f"{place} has a file {taken[0]} already, and {len(taken) - 1} more of these names")
    place.mkdir(exist_ok=True)
    for name in track(todo, "link"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).symlink_to(source / name)
    return len(todo)


def read_record(path: str | Path) -> list[Move]:
    """The lines of a record; a ValueError of one line if it is no record."""
    with Path(path).open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        try:
            rows = list(csv.reader(file, strict=True))
            if rows[:1] != [_TITLES] or any(len(row) != len(_TITLES) for row in rows):
                raise ValueError
            moves = [Move(row[0], row[1], row[2], int(row[3]), FileStamp(*map(int, row[4:]))) for row in rows[1:]]
        except (ValueError, csv.Error):
            raise ValueError(f"{path} is no record of moved files, whose columns are {', '.join(_TITLES)}") from None
    outside = [move.target for move in moves if Path(move.target).is_absolute() or ".." in Path(move.target).parts]
    if outside:
        raise ValueError(f"{path} must name files below its folder, got {outside[0]}")
    return moves


def write_stamps(path: str | Path, stamps: Mapping[str, FileStamp]) -> None:
    """Write the stamps of files."""
    write_text(path, json.dumps({name: list(stamp) for name, stamp in stamps.items()}))


def read_stamps(path: str | Path) -> dict[str, FileStamp]:
    """The stamps that :func:`write_stamps` wrote; an empty dict if there is no such file."""
    try:
        content = parsed_json(Path(path).read_text(encoding="utf-8"))
        return {name: FileStamp(*map(int, values)) for name, values in content.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f"{path} is damaged; remove it, and no file of an earlier run is moved") from None


_TITLES = ["from", "to", "kept", "bytes", *FileStamp._fields]


def _write_record(path: Path, moves: Sequence[Move]) -> None:
    with replacing(path) as (beside,), beside.open("wb") as file:
        file.writelines(_line([*_TITLES]))
        for move in moves:
            file.writelines(_line([*move[:4], *move.stamp]))
    sync(path.parent.parent)


def _line(values: Sequence[object]) -> Iterator[bytes]:
    """A line of CSV, in the encoding of file names."""
    quoted = ('"' + str(value).replace('"', '""') + '"' if isinstance(value, str) else str(value) for value in values)
    yield (",".join(quoted) + "\n").encode("utf-8", "surrogateescape")


def _links_to(top: Path) -> dict[tuple[int, int], str]:
    """The links below the folder: device and inode of a file -> the name of a link that leads to it."""
    links: dict[tuple[int, int], str] = {}
    for parent, folders, files in os.walk(top):
        for path in (Path(parent, each) for each in [*files, *folders]):
            with suppress(OSError):  # a link that leads nowhere or to itself, or a path that is too long
                if path.is_symlink():
                    place, name = _identity(os.stat(path)), path.relative_to(top).as_posix()
                    links[place] = min(name, links.get(place, name))
    return links


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _why_it_stays(
    top: Path,
    names: Sequence[str],
    kept: str,
    stamps: Mapping[str, FileStamp],
    links: Mapping[tuple[int, int], str],
    dropped: Mapping[str, str],
) -> str | None:
    """Why a file with these names must not be moved; None if it may."""
    status, of_kept = os.lstat(top / names[0]), FileStamp.of(top / kept)
    stamp = FileStamp.of(top / names[0])
    if stamp is None:
        return "it is no file but a link or a folder"
    if stamp != stamps.get(names[0]):
        return _CHANGED
    if of_kept is None or of_kept != stamps.get(kept):
        return f"{kept}, which is kept in its place, changed or is gone since it was compared"
    if of_kept.inode == stamp.inode:
        return f"it is another name of {kept}, which is kept in its place"
    if _identity(status) in links:
        return f"the link {links[_identity(status)]} leads to it"
    if status.st_dev != os.stat(top).st_dev:
        return "it is on another disk"
    other = next((name for name in names[1:] if name in stamps and name not in dropped), None)
    return None if other is None else f"it is another name of {other}, which is kept"


def _moves(top: Path, names: Sequence[str], kept: str) -> list[Move]:
    """The moves of all names that still belong to one file."""
    status = os.lstat(top / names[0])
    stamp = FileStamp(status.st_ino, status.st_size, status.st_mtime_ns)
    together = [name for name in names if FileStamp.of(top / name) == stamp]
    saved = stamp.size if status.st_nlink == len(together) else 0
    return [
        Move(str(top / name), name, str(top / kept), saved if place == 0 else 0, stamp)
        for place, name in enumerate(together)
    ]


def _why_not_now(move: Move, place: Path, kept: Mapping[str, FileStamp]) -> str | None:
    """Why a file must not be moved, checked right before the move; None if it may."""
    if _stamp_now(move.source) != move.stamp:
        return _CHANGED
    if _stamp_now(move.kept) != kept[move.kept]:
        return f"{move.kept}, which is kept in its place, changed or is gone since it was compared"
    if os.path.lexists(place / move.target):
        return "its new name is taken"
    return None


def _stamp_now(path: str) -> FileStamp | None:
    """The facts of a file; None if it cannot be reached any more."""
    try:
        return FileStamp.of(path)
    except OSError:
        return None


def _why_not_renamed(old: Path, new: Path) -> str | None:
    """Move a file by one rename. If the system refuses, the file stays, and this says why; None if it was moved."""
    try:
        new.parent.mkdir(parents=True, exist_ok=True)
        os.rename(old, new)
    except OSError as error:
        return f"the system refuses to move it: {error.strerror}"
    return None


@contextmanager
def _only_mover(folder: Path) -> Iterator[None]:
    """Nobody else moves files of a folder meanwhile, to whatever target: two plans may keep what the other one drops.

    The folder itself is locked, so that no file of ours appears in it.
    """
    descriptor = None
    try:
        with suppress(OSError):  # not every system locks folders
            descriptor = os.open(folder, os.O_RDONLY)
            lock_descriptor(descriptor)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _sync_folders(moves: Sequence[Move], place: Path) -> None:
    folders = {Path(move.source).parent for move in moves} | {(place / move.target).parent for move in moves}
    for folder in folders:
        if folder.is_dir():
            sync(folder)


def _remove_empty_folders(moves: Sequence[Move], place: Path) -> None:
    """Remove the folders below ``place`` that were made for moved files and are empty."""
    folders = {parent for move in moves for parent in Path(move.target).parents if parent != Path()}
    for folder in sorted(folders, key=lambda each: -len(each.parts)):
        with suppress(OSError):
            (place / folder).rmdir()


def _is_link_to(link: Path, target: Path) -> bool:
    return link.is_symlink() and link.resolve() == target
