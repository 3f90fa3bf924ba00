"""A user's own vectors, from the files they come in.

========================  ================================================  ======
file                      content                                           mapped
========================  ================================================  ======
npy                       one array                                         yes
npz, mat                  named arrays (mat: up to v7, and v7.3 with h5py)  no
hdf5, h5                  named arrays, also ann-benchmarks files           where contiguous
parquet, pq               a column of lists, or numeric columns             no
fvecs, bvecs, ivecs       the dimension before every vector                 yes
fbin, u8bin, i8bin        rows and dimensions, then all values              yes
========================  ================================================  ======

A mapped file is read as it is used: opening one of any size takes no memory.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hashlearn.rows.formats.binary import BIN, VECS, reader_of
from hashlearn.rows.formats.containers import CONTAINERS, container_of
from hashlearn.rows.formats.parquet import read_parquet
from hashlearn.rows.formats.problems import file_problem, reading

PARQUET = (".parquet", ".pq")
SUFFIXES = (".npy", *CONTAINERS, *PARQUET, *VECS, *BIN)

USUAL_NAMES = ("X", "features", "vectors", "embeddings", "data", "train", "traindata")
"""What an array of vectors is called, where a file holds several and none is asked for."""


def read_vectors(path: str | Path, array: str | None = None) -> NDArray:
    """The vectors of a file, memory-mapped where the format allows.

    Parameters
    ----------
    path : str or Path
        Its ending names the format.
    array : str or None, default=None
        The array of an npz, HDF5 or mat file, or the column of a parquet file. None takes the only one, or the one
        with a usual name (X, features, vectors, embeddings, data, train, traindata).

    Returns
    -------
    ndarray of shape (n, d)
        In the file's own type; read-only where it is mapped.
    """
    values = read_array(path, array)
    if values.ndim != 2 or values.dtype.kind not in "buif":
        raise file_problem(
            Path(path), f"vectors must be numbers of shape (n, d), got {values.dtype} of shape {values.shape}"
        )
    if 0 in values.shape:
        raise file_problem(Path(path), f"no vectors in it: shape {values.shape}")
    return values


def read_array(path: str | Path, array: str | None = None) -> NDArray:
    """An array of a file, of any shape: labels, images, vectors. See :func:`read_vectors`."""
    path = check_file(path)
    suffix = path.suffix.lower()
    container = container_of(suffix)
    if container is not None:
        return container.read(path, _choose(path, container.names(path), array))
    if suffix in PARQUET:
        return read_parquet(path, array)
    if array is not None:
        raise ValueError(f"array must be None for a {suffix} file, which holds a single array, got {array!r}")
    reader = reader_of(suffix)
    return _read_npy(path) if reader is None else reader(path)


def array_names(path: str | Path) -> list[str]:
    """The names of the arrays in an npz, HDF5 or mat file; an empty list for the other formats."""
    path = check_file(path)
    container = container_of(path.suffix.lower())
    return [] if container is None else container.names(path)


def check_file(path: str | Path) -> Path:
    """``path`` if it is a file of a known format that is not empty."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if path.is_dir():
        raise file_problem(path, "a folder, not a file of vectors")
    if path.suffix.lower() not in SUFFIXES:
        raise file_problem(path, f"unknown format {path.suffix!r}; known are {' '.join(SUFFIXES)}")
    if path.stat().st_size == 0:
        raise file_problem(path, "empty")
    return path


def _read_npy(path: Path) -> NDArray:
    with reading(path, "npy"):
        values = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(values, np.ndarray):
            raise file_problem(path, "an npz archive under the name of an npy file")
        return values


def _choose(path: Path, names: list[str], array: str | None) -> str:
    listing = ", ".join(names[:20]) or "none"
    if array is not None:
        if array not in names:
            raise file_problem(path, f"no array named {array!r}; it has {listing}")
        return array
    usual = [name for name in USUAL_NAMES if name in names]
    if len(names) != 1 and not usual:
        raise file_problem(path, f"name one of its arrays with array=: {listing}")
    return names[0] if len(names) == 1 else usual[0]
