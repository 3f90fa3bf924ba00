"""Vectors in the plain binary files of the nearest-neighbour benchmarks, mapped into memory rather than read.

- ``fvecs``, ``bvecs``, ``ivecs`` (TEXMEX): before every vector its dimension as int32, then float32, uint8 or int32.
- ``fbin``, ``u8bin``, ``i8bin`` (big-ann-benchmarks): two uint32, rows and dimensions, then all values row by row.

All are little-endian.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hashlearn.rows.formats.problems import file_problem

DIMENSION_CHECKS = 1 << 20
"""Dimension fields of a vecs file that are compared; each costs a page of the file."""

VECS = {".fvecs": "<f4", ".bvecs": "u1", ".ivecs": "<i4"}
BIN = {".fbin": "<f4", ".u8bin": "u1", ".i8bin": "i1"}


def read_vecs(path: Path, dtype: DTypeLike) -> NDArray:
    """The vectors as a strided view of the mapped file, shape (n, d)."""
    size = path.stat().st_size
    if size < 4:
        raise file_problem(path, f"too short for a vector: {size} bytes")
    dimension = int(np.fromfile(path, "<i4", count=1)[0])
    if dimension < 1:
        raise file_problem(path, f"the first vector's dimension must be at least 1, got {dimension}")
    record_size = 4 + dimension * np.dtype(dtype).itemsize
    rows, rest = divmod(size, record_size)
    if rest:
        raise file_problem(
            path,
            f"truncated, or not all vectors have the {dimension} dimensions of the first: {size} bytes are no multiple "
            f"of {record_size}",
        )
    record = np.dtype([("dimension", "<i4"), ("vector", dtype, (dimension,))])
    records = np.memmap(path, record, mode="r", shape=(rows,))
    # A vector of another length displaces all that follow, so a sample that ends with the last row finds it.
    sample = np.unique(np.linspace(0, rows - 1, min(rows, DIMENSION_CHECKS)).astype(np.int64))
    wrong = sample[records["dimension"][sample] != dimension]
    if len(wrong):
        raise file_problem(
            path, f"vector {wrong[0]} does not have the {dimension} dimensions of the first, or the file is damaged"
        )
    return records["vector"]


def read_bin(path: Path, dtype: DTypeLike) -> NDArray:
    """The vectors as a mapped matrix, shape (n, d)."""
    size = path.stat().st_size
    if size < 8:
        raise file_problem(path, f"too short for its header of 8 bytes: {size} bytes")
    rows, dimension = (int(value) for value in np.fromfile(path, "<u4", count=2))
    if rows < 1 or dimension < 1:
        raise file_problem(path, f"its header says {rows} rows of {dimension} dimensions; both must be at least 1")
    wanted = 8 + rows * dimension * np.dtype(dtype).itemsize
    if size != wanted:
        raise file_problem(
            path,
            f"{'truncated' if size < wanted else 'too long'}: {rows} rows of {dimension} dimensions take {wanted} "
            f"bytes, it has {size}",
        )
    return np.memmap(path, dtype, mode="r", offset=8, shape=(rows, dimension))


def reader_of(suffix: str) -> Callable[[Path], NDArray] | None:
    """The reader of a file that ends in ``suffix``, if it is one of these formats."""
    if suffix in VECS:
        return lambda path: read_vecs(path, VECS[suffix])
    if suffix in BIN:
        return lambda path: read_bin(path, BIN[suffix])
    return None
