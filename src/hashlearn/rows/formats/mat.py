"""MATLAB's mat files: named arrays.

- version 7.3 is HDF5, with every matrix transposed;
- versions 5 to 7 are a sequence of variables, compressed from version 7 on (:mod:`hashlearn.rows.formats.mat5`);
- version 4 is not compressed, and read by scipy.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # which imports scipy.io when it is first used
from numpy.typing import NDArray

from hashlearn.rows.formats import mat5
from hashlearn.rows.formats.format import Format, choose
from hashlearn.rows.formats.hdf5 import Hdf5
from hashlearn.rows.formats.limits import check_expansion
from hashlearn.rows.formats.problems import FileProblem, reading

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


class Mat(Format):
    """Named arrays, read; mapped where a version 7.3 file allows."""

    def names(self, path: Path) -> list[str]:
        if _is_hdf5(path):
            return [name for name in Hdf5().names(path) if not name.startswith("#")]
        with reading(path, "MATLAB"):
            return [each.name for each in mat5.variables(path)] if _is_version_5(path) else _names_4(path)

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> NDArray:
        name = choose(path, self.names(path), name)
        if _is_hdf5(path):
            return Hdf5().read(path, name, max_bytes).T
        with reading(path, "MATLAB"):
            return mat5.read(path, name, max_bytes) if _is_version_5(path) else _read_4(path, name, max_bytes)


def _is_hdf5(path: Path) -> bool:
    """Whether it is version 7.3: HDF5 behind a block of 512 bytes for MATLAB's own header, or without one."""
    with path.open("rb") as file:
        head = file.read(520)
    return HDF5_SIGNATURE in (head[:8], head[512:])


def _is_version_5(path: Path) -> bool:
    return scipy.io.matlab.matfile_version(str(path))[0] == 1


def _names_4(path: Path) -> list[str]:
    variables = scipy.io.whosmat(path)
    for name, shape, _ in variables:
        if math.prod(shape) > path.stat().st_size:
            raise FileProblem(path, f"truncated: {name} of shape {shape} is longer than the file")
    return [name for name, _, _ in variables]


def _read_4(path: Path, name: str, max_bytes: int | None) -> NDArray:
    value: Any = scipy.io.loadmat(path, variable_names=[name])[name]
    if isinstance(value, np.ndarray):
        return value
    check_expansion(path, value.shape[0] * value.shape[1] * value.dtype.itemsize, max_bytes)
    return value.toarray()
