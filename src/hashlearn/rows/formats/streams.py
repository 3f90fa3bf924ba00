"""Streams that are read to their end, because their checksums are there."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.rows.formats.problems import FileProblem

CHUNK = 1 << 20
"""Bytes that are decompressed at a time."""


def read_rest(path: Path, stream: Any, n_bytes: int) -> NDArray[np.uint8]:
    """The rest of a stream, which must have ``n_bytes`` bytes; one byte more or less is an error.

    zip and gzip compare their checksum when their last byte is read. A reader that stops earlier does not notice
    damage.
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
    """Read the rest of a stream and drop it; more than ``n_bytes`` are an error."""
    while chunk := stream.read(CHUNK):
        most -= len(chunk)
        if most < 0:
            raise FileProblem(path, "it holds far more than it should")
