"""Codes while they are written: a file of the full size, and a state beside it from which a job can continue.

``codes.npy.part`` is the npy file to be. This process, or the workers of a cluster, write the codes into it.
``codes.npy.part.json`` is the state: the job, the number of codes that are safely on the disk, and their checksum. If
the codes were changed since, the job begins again. After the last code, the part is renamed to ``codes.npy``.
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
"""Seconds of work that are lost at most if the process is killed."""

RESERVE = 1 << 16
"""Bytes of codes that are dropped on a full disk to make room for the state."""

_CHUNK = 1 << 20


def identity_of(places: list[str], array: str | None, header: str | None = None) -> list[list[Any]]:
    """Facts that identify files: paths, sizes and times of change."""
    found: list[list[Any]] = [["array", array], ["header", header]]
    for place in places:
        path = path_of(place)
        status = path.stat()
        found.append([place, os.path.realpath(path), status.st_size, status.st_mtime_ns])
    return found


class PartialCodes:
    """Codes of ``count`` rows that are being written to the file ``out``.

    Parameters
    ----------
    out : str
    count, width : int
        The final number of codes, and the bytes of a code.
    job : dict
        Facts that must be equal for a job to be continued.
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
        """Make the file, or open an existing one, and return the number of codes that it already has."""
        self.done = self._done_before()
        self._begun = True
        with naming(self.part):
            if not self.done:
                self._checksum = self._new_checksum()  # the state of rejected codes is removed
                self._remove()  # not overwritten: a worker of another job may still write to it
                with new_file(self.part, like=status_of(self.target)) as file:
                    write_all(file, self.header)
            with opened_within(self.part) as file:
                file.truncate(self._size(self.count))
        return self.done

    def wrote(self, rows: slice) -> None:
        """Count further codes in the file, and save the state from time to time."""
        self.done = rows.stop
        if time.monotonic() - self._saved_at > SECONDS_BETWEEN_STATES:
            self._save_state()

    def finish(self, n_bits: int, model: dict[str, Any]) -> None:
        """Rename the finished codes, and write their sidecar."""
        sync(self.part)
        sidecar = sidecar_for(n_bits, self.count, self._checksum.of_first(self.count), model)
        replace_codes(self.target, sidecar, self._take_place)
        self._remove_state()
        sync(self.target.parent)

    def stop(self, error: BaseException) -> BaseException:
        """Keep the codes for a later run after ``error``, and return an error that says so.

        After an error of the input nothing is kept: the input must change, and is then another job.
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
        """Save the state of the codes so far. On a full disk the last codes are dropped to make room."""
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
        """The number of codes of this job in the state, if their checksum is still right; otherwise 0."""
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
        """Remove the state, and leftovers of a process that was killed while it wrote the state."""
        self.state.unlink(missing_ok=True)
        collect_leftovers(self.state)

    def _size(self, codes: int) -> int:
        """Bytes of a file with the given number of codes."""
        return len(self.header) + codes * self.width


class _RunningChecksum:
    """SHA-256 of the first codes of a growing file; every code is read once."""

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
