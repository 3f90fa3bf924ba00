"""One way to change files, so that nobody ever sees half of one and nothing of others is lost.

A file is written beside its target under a name that says whose it is, synced, and renamed over the target; then the
folder is synced. While its writer lives, an unfinished file is locked. One without a lock is of a process that was
killed: the next that writes the same target removes it. Where something is read, changed and written back,
:func:`hashlearn.durable.locks.exclusive` keeps others from doing the same meanwhile.
"""

import errno
import hashlib
import io
import json
import os
import secrets
import stat
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from hashlearn.durable.locks import NO_LINKS, exclusive, hidden_name, is_at, lock_now, status_of

LEFTOVER = ".hashlearn-tmp"
"""How the name of a file ends while it is written."""

PAGE = 4096
"""What follows a header begins at a multiple of this."""

_IS_WINDOWS = os.name == "nt"
_PREFIX = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
_LONGEST_HEADER = 1 << 24


def check_regular(path: str | Path) -> Path:
    """The path of a file that can be read to its end; a pipe or a device may have none."""
    if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):  # of a folder, the reader says so
        raise ValueError(f"{path} must be a regular file, got a pipe or a device")
    return Path(path)


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


class Beside:
    """The unfinished file of a target. Write to it with :meth:`open`, :meth:`write_bytes` or :meth:`write_text`.

    It is locked while this object lives, has the permissions of the target from the start, and is no link. A program
    that only takes a path may write to that of :func:`os.fspath`.
    """

    def __init__(self, target: Path):
        self.target = target
        self._is_written = False
        self._before = status_of(target)
        with naming(target):
            self._file, self.path = self._made()

    def __fspath__(self) -> str:
        return str(self.path)

    __str__ = __fspath__

    def open(self, mode: str = "wb", encoding: str = "utf-8") -> Any:
        """A file object, binary or text, that begins at the start; an error of it names the target."""
        if mode not in ("wb", "xb", "w"):
            raise ValueError(f"mode must be 'wb', 'xb' or 'w', got {mode!r}")
        self._is_written = True
        self._file.seek(0)
        self._file.truncate()
        binary = io.BufferedWriter(_Unfinished(self._file, self.target), 1 << 16)
        return binary if "b" in mode else io.TextIOWrapper(binary, encoding=encoding, newline="\n")

    def write_bytes(self, content: Any) -> None:
        with self.open() as file:
            file.write(content)

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        self.write_bytes(text.encode(encoding))

    def finish(self) -> None:
        """Give the file the owner and the permissions of what it replaces, and wait until it is on the disk."""
        with naming(self.target):
            if not is_at(self.path, self._file):  # one that was written by its path, and renamed to it
                self._file = FileIO(self.path, "r+", opener=_without_links)
            if not self._is_written and os.fstat(self._file.fileno()).st_size == 0:
                raise FileNotFoundError(errno.ENOENT, "nothing was written", str(self.target))
            if self._before is not None:
                keep_permissions(self._file.fileno(), self._before)
            os.fsync(self._file.fileno())

    def take_place(self) -> None:
        """Rename the file over its target."""
        with naming(self.target):
            if _IS_WINDOWS:  # an open file cannot be renamed there
                self._file.close()
            rename_over(self.path, self.target)

    def remove(self) -> None:
        """Remove the file, unless it has taken the target's place."""
        if _IS_WINDOWS:
            self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        self._file.close()

    def _made(self) -> tuple[FileIO, Path]:
        while True:
            path = self.target.with_name(f"{hidden_name(self.target)}.{os.getpid()}-{secrets.token_hex(8)}{LEFTOVER}")
            file = new_file(path, like=self._before)
            # Another that collects leftovers may have taken the file for one before it was locked.
            if _IS_WINDOWS or (lock_now(file, if_unknown=True) and is_at(path, file)):
                return file, path
            file.close()


@contextmanager
def replacing(*paths: str | Path) -> Iterator[tuple[Beside, ...]]:
    """Yield one unfinished file for each target; what was written there takes the targets' places at the end.

    If the block raises, the targets are as they were and the unfinished files are gone. Everything that can fail for
    lack of space has happened before the first rename. Several targets are renamed in their order: where a process is
    killed meanwhile, the first are new and the others old. See :func:`replacing_together` where that must not be.
    """
    with _unfinished([check_writable(path) for path in paths]) as beside:
        yield beside
        _finish(beside)
        _take_places(beside)


@contextmanager
def replacing_together(*paths: str | Path) -> Iterator[tuple[Beside, ...]]:
    """As :func:`replacing`, for files that mean nothing without each other and do not say to whom they belong.

    All targets but the first are removed before the first rename. Where a process is killed meanwhile, a file is
    missing, and there are never two that do not belong together.
    """
    targets = [check_writable(path) for path in paths]
    with exclusive(targets[0]), _unfinished(targets) as beside:
        yield beside
        _finish(beside)
        for file in beside[1:]:
            with naming(file.target):
                file.target.unlink(missing_ok=True)
        _take_places(beside)


@contextmanager
def _unfinished(targets: list[Path]) -> Iterator[tuple[Beside, ...]]:
    with ExitStack() as stack:
        beside = []
        for target in targets:
            collect_leftovers(target)
            beside.append(Beside(target))
            stack.callback(beside[-1].remove)
        yield tuple(beside)


def _finish(beside: tuple[Beside, ...]) -> None:
    for file in beside:
        file.finish()


def _take_places(beside: tuple[Beside, ...]) -> None:
    for file in beside:
        file.take_place()
    for folder in {file.target.parent for file in beside}:
        sync(folder)


@contextmanager
def writing_new(path: Path) -> Iterator[BinaryIO]:
    """Write a file that is not there, under a name that nobody else knows; it is on the disk when the block ends."""
    with naming(path):
        with open(path, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        sync(path.parent)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in one step, as UTF-8."""
    write_bytes(path, text.encode())


def write_own_text(path: Path, text: str) -> None:
    """As :func:`write_text`, for a file whose name the user did not choose: a link there is replaced, not followed."""
    with _unfinished([path]) as (beside,):
        beside.write_text(text)
        beside.finish()
        _take_places((beside,))


def write_bytes(path: str | Path, content: Any) -> None:
    """Write a file in one step."""
    with replacing(path) as (beside,):
        beside.write_bytes(content)


@contextmanager
def writing(contents: Mapping[str, bytes]) -> Iterator[None]:
    """Write files, by their paths, all or none: they take their places once the block has done its work."""
    with replacing(*contents) as files:
        for file, content in zip(files, contents.values()):
            file.write_bytes(content)
        yield


def collect_leftovers(target: Path) -> None:
    """Remove the unfinished files of a target whose writers are dead; what cannot be told or removed is left."""
    for path in _leftovers(target):
        with suppress(OSError):
            if _IS_WINDOWS:  # what is open cannot be removed there
                path.unlink()
                continue
            with FileIO(path, "r+", opener=_without_links) as file:
                is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                if is_file and lock_now(file, if_unknown=False) and is_at(path, file):
                    path.unlink()


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Have errors of the operating system name the file the user knows."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        if _IS_WINDOWS and isinstance(error, PermissionError):
            raise PermissionError(
                error.errno, "in use: close the program, or the opened index, that has it open or mapped", str(path)
            ) from error
        if error.errno is None:
            raise OSError(f"{path}: {error}") from error
        raise OSError(error.errno, error.strerror, str(path)) from error


def new_file(path: Path, like: os.stat_result | None = None) -> FileIO:
    """Make a file that is not there, no easier to read than the one it is ``like``."""
    mode = 0o666 if like is None else stat.S_IMODE(like.st_mode) | stat.S_IWUSR
    return FileIO(path, "x", opener=lambda name, flags: os.open(name, flags | NO_LINKS, mode))


def read_without_links(path: Path) -> FileIO:
    """Open a file to read it, and raise where it is a link."""
    return FileIO(path, "r", opener=_without_links)


def opened_within(path: str | Path) -> FileIO:
    """Open a file that is there, and no link, to write to places in it while others write to other places.

    It is for writing alone: where it may also read, NFS reads the pages at both ends of what is written and sends them
    back whole, which undoes what another machine has put there meanwhile.
    """

    def opener(name: str, flags: int) -> int:
        return os.open(name, (flags | NO_LINKS) & ~(os.O_CREAT | os.O_TRUNC))

    return FileIO(path, "w", opener=opener)


def write_at(file: FileIO, position: int, content: Any) -> None:
    """Write all bytes of the content to a place in the file."""
    file.seek(position)
    write_all(file, content)


def write_all(file: FileIO, content: Any) -> int:
    """Write all bytes of the content, however many the operating system takes at once; returns how many."""
    rest = memoryview(content).cast("B")
    length = len(rest)
    while len(rest):
        rest = rest[file.write(rest) :]
    return length


def keep_permissions(file: int | Path, before: os.stat_result) -> None:
    """Give a file the permissions and, as far as this process may, owner and group of what it replaces."""
    if _IS_WINDOWS:
        return
    now = os.stat(file)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        for owner in (before.st_uid, -1):  # only root may give files away; the group may still be one of ours
            with suppress(PermissionError):
                os.chown(file, owner, before.st_gid)
                break
    os.chmod(file, stat.S_IMODE(before.st_mode))


def rename_over(path: Path, target: Path) -> None:
    """As os.replace. On Windows that fails while another program reads the target: there it is tried for a second."""
    for _ in range(50 if _IS_WINDOWS else 0):
        with suppress(PermissionError):
            os.replace(path, target)
            return
        time.sleep(0.02)
    os.replace(path, target)


def sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    if path.is_dir():
        if _IS_WINDOWS:  # a folder cannot be opened there
            return
        flags = os.O_RDONLY
    else:
        flags = os.O_RDWR  # what is open for reading only cannot be synced on Windows
    descriptor = os.open(path, flags)
    try:
        with naming(path):
            os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems do not sync folders
            raise
    finally:
        os.close(descriptor)


def read_json(path: str | Path) -> Any:
    """The value in a JSON file, or a ValueError of one line."""
    try:
        return parsed_json(check_regular(path).read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{path} is truncated, damaged or no JSON") from None


def parsed_json(text: str | bytes) -> Any:
    """As json.loads, with a ValueError for what is nested too deeply too."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_digest(*values: Any) -> str:
    """SHA-256 of JSON values; layout and order of the keys do not matter."""
    return hashlib.sha256("\0".join(map(canonical_json, values)).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """The text of a JSON value that its digest is of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


class FileHeader(NamedTuple):
    """What the header of a file says, where its end is, and a digest of it."""

    said: dict[str, Any]
    end: int
    digest: str


def packed_header(magic: bytes, version: int, said: Mapping[str, Any]) -> tuple[bytes, str]:
    """The header of a file, with zeros up to a multiple of :data:`PAGE`, and its digest.

    It is the magic bytes (8), the version (4), the length of the text (4), the text, JSON, and the CRC-32 of all that
    (4). Numbers are little-endian.
    """
    text = json.dumps(said).encode()
    if len(text) > _LONGEST_HEADER:
        raise ValueError(f"metadata must take less than {_LONGEST_HEADER} bytes as JSON, got {len(text)}")
    head = _PREFIX.pack(magic, version, len(text)) + text
    head += _CRC.pack(zlib.crc32(head))
    return head.ljust(aligned(len(head)), b"\0"), hashlib.sha256(head).hexdigest()


def read_header(
    file: BinaryIO | FileIO, path: Path | str, magic: bytes, version: int, kind: str, least: Mapping[str, int]
) -> FileHeader:
    """The header at the begin of an open file, once its checksum is seen to be right.

    ``least`` names the numbers that it must say, and how large they are at least.
    """
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size or not prefix.startswith(magic):
        raise ValueError(f"{path}: not {kind} of hashlearn")
    _, written, length = _PREFIX.unpack(prefix)
    if written != version:
        raise ValueError(f"{path}: version {written} of the format; this hashlearn reads version {version}")
    rest = file.read(length + _CRC.size) if length <= _LONGEST_HEADER else b""
    text, crc32 = rest[:length], rest[length:]
    if len(crc32) < _CRC.size or _CRC.unpack(crc32)[0] != zlib.crc32(prefix + text):
        raise ValueError(f"{path}: the header does not match its checksum; the file was truncated, edited or damaged")
    try:
        said = parsed_json(text)
    except ValueError as wrong:
        raise ValueError(f"{path}: {wrong}") from None
    for name, low in least.items():
        if not isinstance(said, dict) or name not in said:
            raise ValueError(f"{path}: the header says no {name!r}")
        if type(said[name]) is not int or said[name] < low:
            raise ValueError(f"{path}: {name} must be an integer of at least {low}, got {said[name]!r:.60}")
    return FileHeader(said, aligned(len(prefix) + len(rest)), hashlib.sha256(prefix + rest).hexdigest())


def aligned(n_bytes: int) -> int:
    """The first multiple of :data:`PAGE` that is not less."""
    return -(-n_bytes // PAGE) * PAGE


class _Unfinished(io.RawIOBase):
    """An unfinished file as a file object that writes whole pieces, and whose errors name the target.

    It has no ``fileno``: numpy would write past it, with errors that say neither the file nor the reason.
    """

    def __init__(self, file: FileIO, target: Path):
        self._file, self._target = file, target

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        with naming(self._target):
            return write_all(self._file, content)

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(position, whence)

    def truncate(self, size: int | None = None) -> int:
        with naming(self._target):
            return self._file.truncate(size)


def _leftovers(target: Path) -> list[Path]:
    prefix = hidden_name(target) + "."
    with os.scandir(target.parent) as entries:
        names = [entry.name for entry in entries]
    return [target.parent / name for name in names if name.startswith(prefix) and name.endswith(LEFTOVER)]


def _without_links(name: str, flags: int) -> int:
    return os.open(name, flags | NO_LINKS)
