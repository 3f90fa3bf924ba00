"""Files from the web: checked, resumed, and complete or absent.

A file is written as ``NAME.part`` and takes its name when its checksum is right, so a file with its name is complete.
The next attempt continues a ``.part`` that an interruption left; a ``.part`` with a wrong checksum is removed. If
several processes need a file, one downloads it and the others wait. (pooch restarts a broken download from the
beginning, and downloads a file once for each process.)
"""

import errno
import hashlib
import http.client
import os
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hashlearn.durable.locks import exclusive
from hashlearn.progress import track

CHUNK = 1 << 20
TIMEOUT = 30.0
PART = ".part"


class DownloadError(OSError):
    """A download that failed, in one line."""


@dataclass(frozen=True)
class RemoteFile:
    """A file with a known checksum, and its addresses, which are tried in turn.

    Attributes
    ----------
    name : str
        Its name in the cache.
    urls : tuple of str
    checksum : str
        The algorithm and the hexadecimal digest: ``"sha256:..."`` or ``"md5:..."``.
    """

    name: str
    urls: tuple[str, ...]
    checksum: str


def fetch(remote: RemoteFile, folder: Path) -> Path:
    """The file in ``folder``, downloaded if it is not there.

    Raises
    ------
    DownloadError
        The error of the last address: no network, connection lost, no space, wrong checksum.
    """
    target = folder / remote.name
    if target.is_file():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with exclusive(target):
            if not target.is_file():
                part = target.with_name(target.name + PART)
                _complete(part, remote)
                os.replace(part, target)
    except DownloadError:
        raise
    except OSError as error:
        raise _disk_problem(error, folder, remote) from None
    return target


def _complete(part: Path, remote: RemoteFile) -> None:
    """Complete ``part`` from the first address that works."""
    problems = []
    for url in remote.urls:
        try:
            if not _is_whole(part, remote):
                _transfer(url, part)
                _check(part, remote)
            return
        except DownloadError as error:
            problems.append(str(error))
    raise DownloadError("; ".join(problems))


def _transfer(url: str, part: Path) -> None:
    """Download the rest of the file to ``part``; from the beginning if the server cannot resume."""
    start = part.stat().st_size if part.is_file() else 0
    with _open(url, start) as response:
        if response.status == 206 and not _continues_at(response, start):
            raise DownloadError(f"{url} answered with another part of the file than was asked for")
        start = start if response.status == 206 else 0
        length = response.headers.get("Content-Length")
        missing = int(length) if length and length.isdigit() else None
        _check_space(part.parent, missing)
        received = 0
        with part.open("r+b" if start else "wb") as file:
            file.seek(start)
            for chunk in track(_chunks(response, url), f"download {part.stem}", missing and -(-missing // CHUNK)):
                file.write(chunk)
                received += len(chunk)
            file.flush()
            os.fsync(file.fileno())
    if missing is not None and received < missing:
        raise DownloadError(
            f"the connection to {_host(url)} was lost after {start + received} bytes; try again to go on"
        )


def _open(url: str, start: int) -> Any:
    if urlsplit(url).scheme not in ("http", "https"):
        raise DownloadError(f"only http and https addresses are downloaded, got {url}")
    headers = {"User-Agent": "hashlearn", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and start:  # we have all bytes already, or the file has changed: begin again
            return _open(url, 0)
        raise DownloadError(f"{url} answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DownloadError(f"cannot reach {_host(url)}: {reason}") from None


def _chunks(response: Any, url: str) -> Iterator[bytes]:
    """The pieces that arrive; if the connection breaks, an error in one line after the last piece."""
    while True:
        try:
            chunk = response.read(CHUNK)
        except http.client.IncompleteRead as error:
            chunk = error.partial
            if chunk:
                yield chunk
            return
        except (OSError, http.client.HTTPException) as error:
            raise DownloadError(f"the connection to {_host(url)} was lost: {error}; try again to go on") from None
        if not chunk:
            return
        yield chunk


def _continues_at(response: Any, start: int) -> bool:
    match = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return match is not None and int(match.group(1)) == start


def _check_space(folder: Path, missing: int | None) -> None:
    if missing is not None and shutil.disk_usage(folder).free < missing:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _is_whole(part: Path, remote: RemoteFile) -> bool:
    """Whether an earlier attempt was stopped between its last byte and its renaming."""
    return part.is_file() and _digest(part, remote) == remote.checksum


def _check(part: Path, remote: RemoteFile) -> None:
    found = _digest(part, remote)
    if found != remote.checksum:
        part.unlink()
        raise DownloadError(f"{remote.name} has the checksum {found}, not {remote.checksum}; the download was removed")


def _digest(part: Path, remote: RemoteFile) -> str:
    algorithm = remote.checksum.partition(":")[0]
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return f"{algorithm}:{digest.hexdigest()}"


def _disk_problem(error: OSError, folder: Path, remote: RemoteFile) -> DownloadError:
    if error.errno == errno.ENOSPC:
        return DownloadError(
            f"no space for {remote.name} in {folder}; free some, or set HASHLEARN_CACHE to another folder"
        )
    return DownloadError(f"cannot write {remote.name} in {folder}: {error.strerror or error}")


def _host(url: str) -> str:
    return urlsplit(url).netloc
