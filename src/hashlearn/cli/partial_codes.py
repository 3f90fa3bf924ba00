"""Codes while they are written: a file of the full size, and a state beside it from which to go on.

``codes.npy.part`` is the npy file it will be, into which this process or the workers of a cluster write the codes;
``codes.npy.part.json`` says whose codes it holds and how many, from the first on, are safely on the disk. The two take
the names of the codes and their sidecar only when the last code is written.
"""

import hashlib
import io
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from hashlearn.cli.code_files import sidecar_for, sidecar_of
from hashlearn.files import check_writable, sync, write_text

SECONDS_BETWEEN_STATES = 5.0
"""How much work a process that is killed may cost."""

RESERVE = 1 << 16
"""Bytes of codes that are given up on a full disk to make room for the state."""


def identity_of(places: list[str], array: str | None) -> list[list[Any]]:
    """What tells files from others of the same name: paths, sizes and times of change."""
    found: list[list[Any]] = [["array", array]]
    for place in places:
        path = Path(place) if Path(place).exists() else Path(place.rpartition(":")[0])
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
        self._begun = False
        self._saved_at = time.monotonic()

    def begin(self) -> int:
        """Make the file, or find it, and return the number of codes that are in it already."""
        self.done = self._done_before()
        self._begun = True
        if not self.done:
            self._remove()  # not to be written over: a state must not outlive its codes, nor a worker find other codes
            self.part.write_bytes(self.header)
        os.truncate(self.part, self._size(self.count))
        return self.done

    def wrote(self, rows: slice) -> None:
        """Count the codes that follow, which are in the file now, and from time to time save the state."""
        self.done = rows.stop
        if time.monotonic() - self._saved_at > SECONDS_BETWEEN_STATES:
            self._save_state()

    def finish(self, n_bits: int, model: dict[str, Any]) -> None:
        """Give the codes and their sidecar the names they were written for."""
        sync(self.part)
        with self.part.open("rb") as file:
            file.seek(len(self.header))
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
        sidecar = sidecar_for(n_bits, self.count, checksum, model)
        write_text(self.state, json.dumps(sidecar, indent=2) + "\n")
        # An old sidecar beside new codes is refused by its checksum, so no order of the two is ever believed wrongly.
        os.replace(self.part, self.target)
        os.replace(self.state, sidecar_of(self.target))
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

    def _keep(self) -> bool:
        """Save the state of the codes so far; on a full disk at the price of the last of them."""
        for given_up in (0, RESERVE // self.width + 1):
            self.done = max(0, self.done - given_up)
            with suppress(OSError):
                os.truncate(self.part, self._size(self.done))
                if self.done:
                    self._save_state()
                    return True
        return False

    def _done_before(self) -> int:
        """Codes of this very job that the state vouches for."""
        try:
            state = json.loads(self.state.read_text(encoding="utf-8"))
            size = self.part.stat().st_size
            with self.part.open("rb") as file:
                same = state["job"] == self.job and file.read(len(self.header)) == self.header
            done = state["done"]
        except (OSError, ValueError, KeyError, TypeError):
            return 0
        whole = isinstance(done, int) and 0 < done <= self.count and size >= self._size(done)
        return done if same and whole else 0

    def _save_state(self) -> None:
        sync(self.part)
        write_text(self.state, json.dumps({"job": self.job, "done": self.done}) + "\n")
        self._saved_at = time.monotonic()

    def _remove(self) -> None:
        self.state.unlink(missing_ok=True)
        self.part.unlink(missing_ok=True)

    def _size(self, codes: int) -> int:
        """Bytes of the file with so many codes."""
        return len(self.header) + codes * self.width


def _npy_header(count: int, width: int) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (count, width)})
    return header.getvalue()
