"""Arrays from ``.npy`` and ``.npz`` files; nothing in them is ever unpickled."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

NPY_MAGIC = b"\x93NUMPY"
ZIP_MAGIC = b"PK\x03\x04"
SPARSE_NAMES = {"data", "indices", "indptr", "format", "shape"}


def read_array(place: str, array: str | None = None) -> Any:
    """The array in a file: memory-mapped from ``.npy``, by name from ``.npz``.

    Parameters
    ----------
    place : str
        A path, or ``file.npz:name``.
    array : str, optional
        The name in an ``.npz``; not needed where it holds one array or a matrix of ``scipy.sparse.save_npz``.
    """
    path, name = _path_and_name(place, array)
    with path.open("rb") as file:
        magic = file.read(6)
    if not magic.startswith((NPY_MAGIC, ZIP_MAGIC)):
        raise ValueError(f"{path} is no .npy or .npz file")
    if magic.startswith(NPY_MAGIC) and name is not None:
        raise ValueError(f"{path} holds one array without a name, got the name {name!r}")
    try:
        return _read_npz(path, name) if magic.startswith(ZIP_MAGIC) else _read_npy(path)
    except (EOFError, OSError, ValueError, zipfile.BadZipFile, zlib.error, SyntaxError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.strerror:
            raise
        raise ValueError(f"{path} cannot be read: {_reason(error)}") from None


def read_matrix(place: str, array: str | None = None) -> Any:
    """Like :func:`read_array`, of vectors: two-dimensional numbers."""
    matrix = read_array(place, array)
    if matrix.ndim != 2:
        raise ValueError(f"{place} must hold a matrix of shape (n, n_features), got shape {matrix.shape}")
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"{place} must hold numbers, got dtype {matrix.dtype}")
    return matrix


def _path_and_name(place: str, array: str | None) -> tuple[Path, str | None]:
    path = Path(place)
    if array is not None or path.exists() or ".npz:" not in place:
        return path, array
    file, _, name = place.rpartition(":")
    return Path(file), name


def _read_npy(path: Path) -> NDArray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError:
        return np.load(path, allow_pickle=False)  # an array without elements cannot be mapped


def _read_npz(path: Path, name: str | None) -> Any:
    with np.load(path, allow_pickle=False) as file:
        names = list(file.keys())
        if name is None and set(names) == SPARSE_NAMES:
            from scipy.sparse import csr_matrix, load_npz

            return csr_matrix(load_npz(path))
        if name is None and len(names) == 1:
            name = names[0]
        if name not in names:
            wanted = "choose one with --array or file.npz:name" if name is None else f"none is called {name!r}"
            raise ValueError(f"it holds {', '.join(names) or 'no arrays'}; {wanted}")
        array = file[name]
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} in it is no array")
    return array


def _reason(error: Exception) -> str:
    if "allow_pickle" in str(error):
        return "it holds Python objects, not numbers"
    return " ".join(str(error).split()) or type(error).__name__
