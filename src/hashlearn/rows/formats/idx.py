"""idx, the format of MNIST, with or without gzip: two zero bytes, type, number of axes, their lengths, the values.

All numbers are big-endian. Without gzip the file is mapped; with it, gzip's checksum is compared.
"""

import gzip
import math
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.rows.formats.format import Format, check_no_name
from hashlearn.rows.formats.limits import check_expansion
from hashlearn.rows.formats.problems import FileProblem, reading
from hashlearn.rows.formats.streams import read_rest

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


class Idx(Format):
    """One array: mapped, or read from a gz file."""

    def names(self, path: Path) -> list[str]:
        return []

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> NDArray:
        check_no_name(path, name)
        if path.suffix.lower() == ".gz":
            return _read_gzipped(path, max_bytes)
        with path.open("rb") as file:
            header = _read_header(path, file)
        size = path.stat().st_size - header.offset
        if size != header.n_bytes:
            raise FileProblem(path, f"{header.shape} values take {header.n_bytes} bytes, it has {size}")
        return np.memmap(path, header.dtype, mode="r", offset=header.offset, shape=header.shape)


class _IdxHeader(NamedTuple):
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def offset(self) -> int:
        return 4 + 4 * len(self.shape)

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def _read_gzipped(path: Path, max_bytes: int | None) -> NDArray:
    with reading(path, "idx"), gzip.open(path) as stream:
        header = _read_header(path, stream)
        check_expansion(path, header.n_bytes, max_bytes)
        return read_rest(path, stream, header.n_bytes).view(header.dtype).reshape(header.shape)


def _read_header(path: Path, stream: BufferedIOBase) -> _IdxHeader:
    start = stream.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in TYPES:
        raise FileProblem(path, "not an idx file: it must begin with two zero bytes and a type")
    lengths = stream.read(4 * start[3])
    if len(lengths) < 4 * start[3] or not lengths:
        raise FileProblem(path, "truncated in its header")
    return _IdxHeader(np.dtype(TYPES[start[2]]), tuple(int(length) for length in np.frombuffer(lengths, ">u4")))
