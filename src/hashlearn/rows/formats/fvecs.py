"""fvecs, bvecs, ivecs (TEXMEX): before every vector its dimension as int32, then float32, uint8 or int32.

All are little-endian, and mapped.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hashlearn.rows.formats.format import Format, check_no_name
from hashlearn.rows.formats.problems import FileProblem

DIMENSION_CHECKS = 1 << 20
"""Number of dimension fields that are checked; each costs a page of the file."""


@dataclass(frozen=True)
class Vecs(Format):
    """Vectors of one type, as a strided view of the mapped file."""

    dtype: str

    def names(self, path: Path) -> list[str]:
        return []

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> NDArray:
        check_no_name(path, name)
        size = path.stat().st_size
        if size < 4:
            raise FileProblem(path, f"too short for a vector: {size} bytes")
        dimension = int(np.fromfile(path, "<i4", count=1)[0])
        if dimension < 1:
            raise FileProblem(path, f"the first vector's dimension must be at least 1, got {dimension}")
        record_size = 4 + dimension * np.dtype(self.dtype).itemsize
        rows, rest = divmod(size, record_size)
        if rest:
            raise FileProblem(
                path,
                f"truncated, or not all vectors have the {dimension} dimensions of the first: {size} bytes are no "
                f"multiple of {record_size}",
            )
        record = np.dtype([("dimension", "<i4"), ("vector", self.dtype, (dimension,))])
        records = np.memmap(path, record, mode="r", shape=(rows,))
        _check_dimensions(path, records["dimension"], dimension)
        return records["vector"]


def _check_dimensions(path: Path, found: NDArray, dimension: int) -> None:
    """Refuse vectors of different lengths.

    A vector of another length shifts all later ones, so a sample with the last row finds it.
    """
    sample = np.unique(np.linspace(0, len(found) - 1, min(len(found), DIMENSION_CHECKS)).astype(np.int64))
    wrong = sample[found[sample] != dimension]
    if len(wrong):
        raise FileProblem(
            path, f"vector {wrong[0]} does not have the {dimension} dimensions of the first, or the file is damaged"
        )
