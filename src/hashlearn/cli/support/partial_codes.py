"""Codes while they are written: a file of the full size, and a state beside it from which to go on.

``codes.npy.part`` is the npy file it will be, into which this process or the workers of a cluster write the codes;
``codes.npy.part.json`` says whose codes it holds, how many, from the first on, are safely on the disk, and their
checksum: codes that were changed since are not believed. The part takes the name of the codes when the last is written.
"""

import hashlib
import io
import json
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from hashlearn.cli.support.code_files import replace_codes, sidecar_for
from hashlearn.cli.support.places import path_of
from hashlearn.durable.files import (
    check_writable,
    collect_leftovers,
    keep_permissions,
    naming,
    new_file,
    opened_within,
    read_json,
    read_without_links,
    rename_over,
    sync,
    write_all,
    write_own_text,
)
from hashlearn.durable.locks import status_of

SECONDS_BETWEEN_STATES = 5.0
"""How much work a process that is killed may cost."""

RESERVE = 1 << 16
"""Bytes of codes that are given up on a full disk to make room for the state."""

_CHUNK = 1 << 20


def identity_of(places: list[str], array: str | None, header: str | None = None) -> list[list[Any]]:
    """What tells files from others of the same name: paths, sizes and times of change."""
    found: list[list[Any]] = [["array", array], ["header", header]]
    for place in places:
        path = path_of(place)
        status = path.stat()
        found.append([place, os.path.realpath(path), status.st_size, status.st_mtime_ns])
    return found


class PartialCodes:
    """The codes of ``count`` rows on their way to the file ``out``.

    Parameters
    ----------
    out : str
    count, width : int
        Codes there will be, and bytes of one.
    job : dict
        What must be the same for work that was begun to be continued.
    """

    def __init__(self, out: str, count: int, width: int, job: dict[str, Any]):
        target = check_writable(out)
        self.out, self.target = out, target
        self.part, self.state = target.with_name(target.name + ".part"), target.with_name(target.name + ".part.json")
        self.count, self.width, self.job = count, width, {**job, "count": count, "width": width}
        self.header = _npy_header(count, width)
        self.done = 0
        self._checksum = self._new_checksum()
        self._begun = False
        self._saved_at = time.monotonic()

    def begin(self) -> int:
        """Make the file, or find it, and return the number of codes that are in it already."""
        self.done = self._done_before()
        self._begun = True
        with naming(self.part):
            if not self.done:
                self._checksum = self._new_checksum()  # that of codes which are not believed counts no longer
                self._remove()  # not to be written over: a worker of another job may still be writing to it
                with new_file(self.part, like=status_of(self.target)) as file:
                    write_all(file, self.header)
            with opened_within(self.part) as file:
                file.truncate(self._size(self.count))
        return self.done

    def wrote(self, rows: slice) -> None:
        """Count the codes that follow, which are in the file now, and from time to time save the state."""
        self.done = rows.stop
        if time.monotonic() - self._saved_at > SECONDS_BETWEEN_STATES:
            self._save_state()

    def finish(self, n_bits: int, model: dict[str, Any]) -> None:
        """Give the codes the name they were written for, and a sidecar."""
        sync(self.part)
        sidecar = sidecar_for(n_bits, self.count, self._checksum.of_first(self.count), model)
        replace_codes(self.target, sidecar, self._take_place)
        self._remove_state()
        sync(self.target.parent)

    def stop(self, error: BaseException) -> BaseException:
        """Keep what can be continued after ``error``, and return the error that says so.

        Bad input must change before it can be encoded, and then it is another input: nothing of it is kept.
        """
        if not self._begun:
            return error
        kept = not isinstance(error, (ValueError, TypeError)) and self._keep()
        if not kept:
            self._remove()
        if not isinstance(error, OSError):
            return error
        problem = f"{self.out}: {error.strerror or error}"
        if not kept:
            return error if error.filename else OSError(problem)
        return OSError(
            f"{problem}; {self.done} of {self.count} codes are kept in {self.part.name}, repeat the command to continue"
        )

    def _take_place(self) -> None:
        before = status_of(self.target)
        if before is not None:
            keep_permissions(self.part, before)
        rename_over(self.part, self.target)
        sync(self.target.parent)

    def _keep(self) -> bool:
        """Save the state of the codes so far; on a full disk at the price of the last of them."""
        for given_up in (0, RESERVE // self.width + 1):
            self.done = max(0, self.done - given_up)
            with suppress(OSError):
                with opened_within(self.part) as file:
                    file.truncate(self._size(self.done))
                if self.done:
                    self._save_state()
                    return True
        return False

    def _done_before(self) -> int:
        """Codes of this very job that the state vouches for, and that are as they were then."""
        try:
            state = read_json(self.state)
            done = state["done"]
            if state["job"] != self.job or type(done) is not int or not 0 < done <= self.count:
                return 0
            with read_without_links(self.part) as file:
                status = os.fstat(file.fileno())
                if not _is_own_file(status) or status.st_size < self._size(done):
                    return 0
                is_same = file.read(len(self.header)) == self.header
            return done if is_same and self._checksum.of_first(done) == state["codes_sha256"] else 0
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def _save_state(self) -> None:
        sync(self.part)
        state = {"job": self.job, "done": self.done, "codes_sha256": self._checksum.of_first(self.done)}
        write_own_text(self.state, json.dumps(state) + "\n")
        self._saved_at = time.monotonic()

    def _new_checksum(self) -> "_RunningChecksum":
        return _RunningChecksum(self.part, len(self.header), self.width)

    def _remove(self) -> None:
        self._remove_state()
        self.part.unlink(missing_ok=True)

    def _remove_state(self) -> None:
        """Also what a killed process has left while it wrote the state."""
        self.state.unlink(missing_ok=True)
        collect_leftovers(self.state)

    def _size(self, codes: int) -> int:
        """Size in bytes of a file with the given number of codes."""
        return len(self.header) + codes * self.width


class _RunningChecksum:
    """SHA-256 of the first codes of a file that grows; every code is read once."""

    def __init__(self, path: Path, offset: int, width: int):
        self.path, self.offset, self.width = path, offset, width
        self.digest, self.n_bytes = hashlib.sha256(), 0

    def of_first(self, codes: int) -> str:
        wanted = codes * self.width
        if wanted < self.n_bytes:
            self.digest, self.n_bytes = hashlib.sha256(), 0
        with read_without_links(self.path) as file:
            file.seek(self.offset + self.n_bytes)
            while self.n_bytes < wanted:
                piece = file.read(min(_CHUNK, wanted - self.n_bytes))
                if not piece:
                    raise ValueError(f"{self.path} is truncated")
                self.digest.update(piece)
                self.n_bytes += len(piece)
        return self.digest.hexdigest()


def _is_own_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and (os.name == "nt" or status.st_uid == os.geteuid())


def _npy_header(count: int, width: int) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (count, width)})
    return header.getvalue()
