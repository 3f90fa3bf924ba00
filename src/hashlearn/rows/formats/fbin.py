"""fbin, u8bin, i8bin (big-ann-benchmarks): two uint32, rows and dimensions, then all values row by row.

All are little-endian, and mapped.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hashlearn.rows.formats.format import Format, check_no_name
from hashlearn.rows.formats.problems import FileProblem

HEADER_BYTES = 8


@dataclass(frozen=True)
class Bin(Format):
    """A matrix of one type, mapped."""

    dtype: str

    def names(self, path: Path) -> list[str]:
        return []

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> NDArray:
        check_no_name(path, name)
        size = path.stat().st_size
        if size < HEADER_BYTES:
            raise FileProblem(path, f"too short for its header of {HEADER_BYTES} bytes: {size} bytes")
        rows, dimension = (int(value) for value in np.fromfile(path, "<u4", count=2))
        if rows < 1 or dimension < 1:
            raise FileProblem(path, f"its header says {rows} rows of {dimension} dimensions; both must be at least 1")
        expected = HEADER_BYTES + rows * dimension * np.dtype(self.dtype).itemsize
        if size != expected:
            problem = "truncated" if size < expected else "too long"
            raise FileProblem(
                path, f"{problem}: {rows} rows of {dimension} dimensions take {expected} bytes, it has {size}"
            )
        return np.memmap(path, self.dtype, mode="r", offset=HEADER_BYTES, shape=(rows, dimension))
