"""How much memory a small file may ask for.

A small compressed file can take much memory: 4 MB of npz inflate to 4 GB of zeros. The header says how much, so the
size is compared with a limit before any memory is taken.
"""

import os
from pathlib import Path

from hashlearn.checks import check_integer
from hashlearn.rows.formats.problems import FileProblem

SETTING = "HASHLEARN_MAX_BYTES"

EXPANSION = 100
"""How many times its own size a file may grow in memory. Vectors rarely shrink to a tenth."""

ALWAYS_ALLOWED = 256 << 20
"""Bytes of memory that any file may take, because small files of sparse tags can shrink to a hundredth."""


def check_expansion(path: Path, n_bytes: int, max_bytes: int | None) -> None:
    """Refuse a file whose array would take more memory than is allowed.

    Parameters
    ----------
    path : Path
    n_bytes : int
        Bytes of the array in memory.
    max_bytes : int or None
        Bytes that are allowed; None for the environment variable ``HASHLEARN_MAX_BYTES``, or without it for 256 MiB or
        100 times the size of the file, whichever is more.
    """
    size = path.stat().st_size
    allowed = _allowed(size) if max_bytes is None else check_integer("max_bytes", max_bytes, low=0)
    if n_bytes > allowed:
        raise FileProblem(
            path,
            f"its array would take {n_bytes} bytes of memory, the file has {size} and {allowed} are allowed; if you "
            f"trust it, set {SETTING}={n_bytes} (in Python, max_bytes)",
        )


def _allowed(size: int) -> int:
    setting = os.environ.get(SETTING)
    if not setting:
        return max(ALWAYS_ALLOWED, EXPANSION * size)
    if not setting.isdecimal():
        raise ValueError(f"{SETTING} must be a number of bytes, got {setting!r}")
    return int(setting)
