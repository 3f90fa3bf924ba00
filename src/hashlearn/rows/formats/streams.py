"""Streams that are read to their end, where their checksums are."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.rows.formats.problems import FileProblem

CHUNK = 1 << 20
"""Bytes that are decompressed at a time."""


def read_rest(path: Path, stream: Any, n_bytes: int) -> NDArray[np.uint8]:
    """The ``n_bytes`` that a stream still has; one byte more or less is an error.

    zip and gzip compare their checksum when their last byte is read. A reader that stops where it has what it wants
    never sees that the file is damaged.
    """
    values = np.empty(n_bytes, np.uint8)
    filled = 0
    while filled < n_bytes:
        got = stream.readinto(values[filled : filled + CHUNK].data)
        if not got:
            raise FileProblem(path, f"truncated: {n_bytes} bytes of values are missing {n_bytes - filled}")
        filled += got
    if stream.read(1):
        raise FileProblem(path, f"too long: its header says {n_bytes} bytes of values")
    return values


def read_to_end(path: Path, stream: Any, most: int) -> None:
    """Read and forget what is left of a stream, at most so many bytes."""
    while chunk := stream.read(CHUNK):
        most -= len(chunk)
        if most < 0:
            raise FileProblem(path, "it holds far more than it should")
