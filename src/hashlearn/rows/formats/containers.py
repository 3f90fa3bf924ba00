"""Files that hold several named arrays: npz, HDF5, MATLAB's mat. Nothing in them is ever unpickled.

MATLAB files up to version 7 are read by scipy; version 7.3 is HDF5 with every matrix transposed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.rows.formats.problems import file_problem, reading

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


class Container(NamedTuple):
    """How to list the arrays of a kind of file, and how to read one."""

    names: Callable[[Path], list[str]]
    read: Callable[[Path, str], NDArray]


def container_of(suffix: str) -> Container | None:
    """The container of a file that ends in ``suffix``, if it is one."""
    return CONTAINERS.get(suffix)


def _npz_names(path: Path) -> list[str]:
    with reading(path, "npz"), _open_npz(path) as file:
        return list(file.files)


def _read_npz(path: Path, name: str) -> NDArray:
    with reading(path, "npz"), _open_npz(path) as file:
        return file[name]


def _open_npz(path: Path) -> Any:
    file = np.load(path, allow_pickle=False)
    if not isinstance(file, np.lib.npyio.NpzFile):
        raise file_problem(path, "a single npy array under the name of an npz file")
    return file


def _hdf5_names(path: Path) -> list[str]:
    h5py = require("h5py", "hdf5")
    names: list[str] = []
    with reading(path, "HDF5"), h5py.File(path, "r") as file:
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    return names


def _read_hdf5(path: Path, name: str) -> NDArray:
    """The array: mapped where the file holds it in one piece as ann-benchmarks files do, else read."""
    h5py = require("h5py", "hdf5")
    with reading(path, "HDF5"), h5py.File(path, "r") as file:
        dataset = file[name]
        offset = dataset.id.get_offset()  # None where the values are in chunks, which may be compressed
        if offset is None or dataset.dtype.kind not in "buif" or dataset.size == 0 or dataset.external:
            return dataset[()]
        dtype, shape = dataset.dtype, dataset.shape
        if path.stat().st_size < offset + dataset.size * dtype.itemsize:
            raise file_problem(path, f"truncated: {name} {shape} reaches beyond the end of the file")
    return np.memmap(path, dtype, mode="r", offset=offset, shape=shape)


def _is_mat73(path: Path) -> bool:
    """Whether it is HDF5: behind a block of 512 bytes for MATLAB's own header, or without one."""
    with path.open("rb") as file:
        head = file.read(520)
    return HDF5_SIGNATURE in (head[:8], head[512:])


def _mat_names(path: Path) -> list[str]:
    if _is_mat73(path):
        return [name for name in _hdf5_names(path) if not name.startswith("#")]
    import scipy.io

    with reading(path, "MATLAB"):
        return [name for name, _, _ in scipy.io.whosmat(path)]


def _read_mat(path: Path, name: str) -> NDArray:
    if _is_mat73(path):
        return np.asarray(_read_hdf5(path, name)).T
    import scipy.io

    with reading(path, "MATLAB"):
        value: Any = scipy.io.loadmat(path, variable_names=[name])[name]
    return value if isinstance(value, np.ndarray) else value.toarray()  # a sparse matrix


CONTAINERS = {
    ".npz": Container(_npz_names, _read_npz),
    ".hdf5": Container(_hdf5_names, _read_hdf5),
    ".h5": Container(_hdf5_names, _read_hdf5),
    ".mat": Container(_mat_names, _read_mat),
}
