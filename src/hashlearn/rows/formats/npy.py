"""numpy's npy: a header that says type and shape, then the values. The file is mapped, not read."""

from pathlib import Path
from typing import IO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.rows.formats.format import Format, check_no_name
from hashlearn.rows.formats.problems import FileProblem, reading

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class Npy(Format):
    """One array, mapped."""

    def names(self, path: Path) -> list[str]:
        return []

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> NDArray:
        check_no_name(path, name)
        with reading(path, "npy"):
            with path.open("rb") as file:
                header = read_header(path, file)
                offset, size = file.tell(), path.stat().st_size
            check_size(path, header, offset, size)
            return np.memmap(path, header.dtype, mode="r", offset=offset, shape=header.shape, order=header.order)


class Header(NamedTuple):
    """The header of an npy file."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype

    @property
    def order(self) -> Literal["C", "F"]:
        """Whether rows or columns are stored one after the other."""
        return "F" if self.fortran_order else "C"

    @property
    def n_bytes(self) -> int:
        """Bytes of the values, as a Python integer, which cannot overflow."""
        n_bytes = self.dtype.itemsize
        for side in self.shape:
            n_bytes *= side
        return n_bytes


def read_header(path: Path, stream: IO[bytes]) -> Header:
    """The header at the beginning of a stream; the stream is then at the first value. ``path`` is for errors."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:  # 3.0 is for records with names that are not ASCII
        raise FileProblem(path, f"npy version {version[0]}.{version[1]} holds no plain array")
    try:
        header = Header(*_HEADERS[version](stream))
    except (MemoryError, RecursionError):  # from the parser, for deeply nested brackets
        raise FileProblem(path, "not a readable npy file (its header is nested too deeply)") from None
    if header.dtype.hasobject:
        raise FileProblem(path, "it holds Python objects, which are never unpickled")
    if min(header.shape, default=0) < 0 or header.dtype.itemsize == 0:
        raise FileProblem(path, f"its header says shape {header.shape} of {header.dtype}")
    return header


def check_size(path: Path, header: Header, offset: int, size: int) -> None:
    """Refuse a file whose ``size`` differs from what the header says; the header has ``offset`` bytes."""
    expected = offset + header.n_bytes
    if size != expected:
        problem = "truncated" if size < expected else "too long"
        raise FileProblem(
            path,
            f"{problem}: {header.dtype} of shape {header.shape} takes {expected} bytes with its header, got {size}",
        )
