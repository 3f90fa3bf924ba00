"""Codes while they are written: a file of what is done so far, and a state beside it from which to go on.

``codes.npy.part`` is the beginning of the npy file it will be, ``codes.npy.part.json`` says whose codes it holds and
how many are safely on the disk. The two take the names of the codes and their sidecar only when the last code is
written.
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
from numpy.typing import NDArray

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
        self._file: Any = None
        self._checksum = hashlib.sha256()
        self._saved_at = time.monotonic()

    def begin(self) -> int:
        """Open the file and return the number of codes that are in it already."""
        self.done = self._done_before()
        # Without a buffer: what append has counted is in the file.
        self._file = self.part.open("r+b" if self.done else "wb", buffering=0)
        if self.done:
            self._file.truncate(len(self.header) + self.done * self.width)
            self._file.seek(len(self.header))
            while chunk := self._file.read(1 << 24):
                self._checksum.update(chunk)
        else:
            self._write(self.header)
        return self.done

    def append(self, codes: NDArray[np.uint8]) -> None:
        """Write the codes that follow, and from time to time the state."""
        content = np.ascontiguousarray(codes).tobytes()
        self._write(content)
        self._checksum.update(content)
        self.done += len(codes)
        if time.monotonic() - self._saved_at > SECONDS_BETWEEN_STATES:
            self._save_state()

    def finish(self, n_bits: int, model: dict[str, Any]) -> None:
        """Give the codes and their sidecar the names they were written for."""
        self._file.close()
        sync(self.part)
        sidecar = sidecar_for(n_bits, self.count, self._checksum.hexdigest(), model)
        write_text(self.state, json.dumps(sidecar, indent=2) + "\n")
        # An old sidecar beside new codes is refused by its checksum, so no order of the two is ever believed wrongly.
        os.replace(self.part, self.target)
        os.replace(self.state, sidecar_of(self.target))
        sync(self.target.parent)

    def stop(self, error: BaseException) -> BaseException:
        """Keep what can be continued after ``error``, and return the error that says so.

        Bad input must change before it can be encoded, and then it is another input: nothing of it is kept.
        """
        if self._file is None:
            return error
        kept = isinstance(error, (OSError, KeyboardInterrupt, MemoryError)) and self._keep()
        self._file.close()
        if not kept:
            self.part.unlink(missing_ok=True)
            self.state.unlink(missing_ok=True)
            return error
        if isinstance(error, OSError):
            return OSError(
                f"{self.out}: {error.strerror or error}; {self.done} of {self.count} codes are kept in "
                f"{self.part.name}, repeat the command to continue"
            )
        return error

    def _keep(self) -> bool:
        """Save the state of the codes so far; on a full disk at the price of the last of them."""
        for given_up in (0, RESERVE // self.width + 1):
            self.done = max(0, self.done - given_up)
            with suppress(OSError):
                self._file.truncate(len(self.header) + self.done * self.width)
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
        whole = isinstance(done, int) and 0 < done <= self.count and size >= len(self.header) + done * self.width
        return done if same and whole else 0

    def _save_state(self) -> None:
        os.fsync(self._file.fileno())
        write_text(self.state, json.dumps({"job": self.job, "done": self.done}) + "\n")
        self._saved_at = time.monotonic()

    def _write(self, content: Any) -> None:
        rest = memoryview(content).cast("B")
        while len(rest):
            rest = rest[self._file.write(rest) :]


def _npy_header(count: int, width: int) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (count, width)})
    return header.getvalue()
