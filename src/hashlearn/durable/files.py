"""Safe changes of files: readers never see half a file, and files of other programs are not lost.

A file is written beside its target, under a name that contains the target's name. Then it is synced and renamed over
the target, and the folder is synced. A writer locks its unfinished file. An unfinished file without a lock was left by
a killed process, and the next writer of the same target removes it. For changes that read, modify and write back,
:func:`hashlearn.durable.locks.exclusive` excludes other processes.
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
"""The ending of a file's name while it is written."""

PAGE = 4096
"""The data after a header begin at a multiple of this number of bytes."""

_IS_WINDOWS = os.name == "nt"
_PREFIX = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
_LONGEST_HEADER = 1 << 24


def check_regular(path: str | Path) -> Path:
    """The path of a file that can be read to its end; a pipe or a device may have none."""
    if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):  # for a folder the reader raises the error
        raise ValueError(f"{path} must be a regular file, got a pipe or a device")
    return Path(path)


def check_writable(path: str | Path, name: str = "path") -> Path:
    """The file that ``path`` names, with links followed; raises one line if it cannot be written."""
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
    that needs a path can write to the path that :func:`os.fspath` gives.
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
        """A binary or text file object at the start of the file. Its errors name the target."""
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
        """Give the file the owner and permissions of the file it replaces, and wait until it is on the disk."""
        with naming(self.target):
            if not is_at(self.path, self._file):  # a program may have written another file and renamed it to this path
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
            # Before it was locked, another process may have removed the file as a leftover.
            if _IS_WINDOWS or (lock_now(file, if_unknown=True) and is_at(path, file)):
                return file, path
            file.close()


@contextmanager
def replacing(*paths: str | Path) -> Iterator[tuple[Beside, ...]]:
    """Yield one unfinished file for each target; at the end these files replace the targets.

    If the block raises, the targets stay as they were and the unfinished files are removed. All steps that need space
    on the disk come before the first rename. Several targets are replaced in their order, so if the process is killed
    then, the first are new and the others old. Where this is not acceptable, use :func:`replacing_together`.
    """
    with _unfinished([check_writable(path) for path in paths]) as beside:
        yield beside
        _finish(beside)
        _take_places(beside)


@contextmanager
def replacing_together(*paths: str | Path) -> Iterator[tuple[Beside, ...]]:
    """As :func:`replacing`, for files that are only valid together and cannot be told apart from other versions.

    All targets except the first are removed before the first rename. If the process is killed then, a file is missing,
    but files of two versions are never mixed.
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
    """As :func:`write_text`, for a name that the user did not choose: a link of this name is replaced, not followed."""
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
    """Write files by their paths, all or none: they replace their targets when the block has ended."""
    with replacing(*contents) as files:
        for file, content in zip(files, contents.values()):
            file.write_bytes(content)
        yield


def collect_leftovers(target: Path) -> None:
    """Remove the unfinished files of a target whose writers have ended.

    Files that cannot be checked or removed are left.
    """
    for path in _leftovers(target):
        with suppress(OSError):
            if _IS_WINDOWS:  # Windows does not remove open files
                path.unlink()
                continue
            with FileIO(path, "r+", opener=_without_links) as file:
                is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                if is_file and lock_now(file, if_unknown=False) and is_at(path, file):
                    path.unlink()


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Let errors of the operating system name the file that the user knows."""
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
    """Create a file with permissions no wider than those of the file ``like``."""
    mode = 0o666 if like is None else stat.S_IMODE(like.st_mode) | stat.S_IWUSR
    return FileIO(path, "x", opener=lambda name, flags: os.open(name, flags | NO_LINKS, mode))


def read_without_links(path: Path) -> FileIO:
    """Open a file for reading; raise if it is a link."""
    return FileIO(path, "r", opener=_without_links)


def opened_within(path: str | Path) -> FileIO:
    """Open an existing file, not a link, to write to parts of it while other processes write to other parts.

    The file is opened for writing only. If it could also read, NFS would read the pages at both ends of a write and
    send them back whole. That would undo writes of other machines to these pages.
    """

    def opener(name: str, flags: int) -> int:
        return os.open(name, (flags | NO_LINKS) & ~(os.O_CREAT | os.O_TRUNC))

    return FileIO(path, "w", opener=opener)


def write_at(file: FileIO, position: int, content: Any) -> None:
    """Write all bytes of the content to a place in the file."""
    file.seek(position)
    write_all(file, content)


def write_all(file: FileIO, content: Any) -> int:
    """Write all bytes of the content, in several system calls if necessary; returns their number."""
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
        for owner in (before.st_uid, -1):  # only root may change the owner, but the group may be one of ours
            with suppress(PermissionError):
                os.chown(file, owner, before.st_gid)
                break
    os.chmod(file, stat.S_IMODE(before.st_mode))


def rename_over(path: Path, target: Path) -> None:
    """As os.replace. On Windows it is tried for a second, because it fails while another program reads the target."""
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
        flags = os.O_RDWR  # Windows cannot sync a file that is open for reading only
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
    """As json.loads, with a ValueError also for values that are nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_digest(*values: Any) -> str:
    """SHA-256 of JSON values; layout and order of the keys do not matter."""
    return hashlib.sha256("\0".join(map(canonical_json, values)).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """The text from which the digest of a JSON value is computed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


class FileHeader(NamedTuple):
    """The content of a file's header, the place of its end, and its digest."""

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
    """The header at the beginning of an open file; its checksum is compared.

    ``least`` has the names of numbers that the header must have, and the least value of each.
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
    with reading_header(path):
        said = parsed_json(text)
        for name, low in least.items():
            if type(said[name]) is not int or said[name] < low:
                raise ValueError(f"{name} must be an integer of at least {low}, got {said[name]!r:.60}")
    return FileHeader(said, aligned(len(prefix) + len(rest)), hashlib.sha256(prefix + rest).hexdigest())


@contextmanager
def reading_header(path: Path | str) -> Iterator[None]:
    """If the header lacks an entry or has an impossible one, the error names the file."""
    try:
        yield
    except KeyError as missing:
        raise ValueError(f"{path}: the header says no {missing}") from None
    except (AttributeError, TypeError, ValueError) as wrong:
        is_named = str(wrong).startswith(f"{path}: ")
        raise ValueError(str(wrong) if is_named else f"{path}: {wrong}") from None


def aligned(n_bytes: int) -> int:
    """The number rounded up to a multiple of :data:`PAGE`."""
    return -(-n_bytes // PAGE) * PAGE


class _Unfinished(io.RawIOBase):
    """An unfinished file as a file object that writes whole pieces, and whose errors name the target.

    It has no ``fileno``, because numpy would then write around this object, and its errors name neither file nor
    reason.
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
