"""HDF5: named arrays in groups, as ann-benchmarks files have them.

References to other files (external storage, virtual datasets, external links) are refused: a downloaded file must not
choose which other files are read.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.rows.formats.format import Format, choose
from hashlearn.rows.formats.limits import check_expansion
from hashlearn.rows.formats.problems import FileProblem, reading

_LONGEST_NAME = 1000
"""Characters in the name of a dataset, with its groups."""


class Hdf5(Format):
    """Named arrays: mapped where the file holds one in a single piece, otherwise read."""

    def names(self, path: Path) -> list[str]:
        h5py = require("h5py", "hdf5")
        with reading(path, "HDF5"), h5py.File(path, "r") as file:
            return _names(path, h5py, file)

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> NDArray:
        h5py = require("h5py", "hdf5")
        with reading(path, "HDF5"), h5py.File(path, "r") as file:
            # Only hard links are named, so no name leads out of the file.
            dataset = file[choose(path, _names(path, h5py, file), name and name.lstrip("/"))]
            _check_dataset(path, dataset)
            offset = dataset.id.get_offset()  # None if the values are in chunks, which may be compressed
            if offset is None or dataset.size == 0:
                check_expansion(path, dataset.size * dataset.dtype.itemsize, max_bytes)
                return dataset[()]
            dtype, shape = dataset.dtype, dataset.shape
            if path.stat().st_size < offset + dataset.size * dtype.itemsize:
                raise FileProblem(path, f"truncated: {dataset.name} {shape} reaches beyond the end of the file")
        return np.memmap(path, dtype, mode="r", offset=offset, shape=shape)


def _names(path: Path, h5py: Any, file: Any) -> list[str]:
    names: list[str] = []

    def note(name: str, item: Any) -> None:
        if len(name) > _LONGEST_NAME:  # the time of a look-up grows with the square of the depth
            raise FileProblem(path, "groups are nested too deeply")
        if isinstance(item, h5py.Dataset):
            names.append(name)

    file.visititems(note)
    return [name for name in names if isinstance(name, str)]  # a name that is not text comes as bytes


def _check_dataset(path: Path, dataset: Any) -> None:
    if dataset.external or dataset.is_virtual:
        raise FileProblem(path, f"{dataset.name} refers to other files, which are not read")
    if dataset.shape is None or dataset.dtype.kind not in "buifcSU":
        raise FileProblem(path, f"{dataset.name} holds no plain array, but {dataset.dtype} of shape {dataset.shape}")
