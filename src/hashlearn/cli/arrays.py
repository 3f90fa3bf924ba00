"""Arrays from files, as a command line names them: ``vectors.npy``, ``data.npz:X``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

CLUSTER = "Address of a Dask scheduler (tcp://host:8786) whose workers read the files and do the work."
SPARSE_NAMES = {"data", "indices", "indptr", "format", "shape"}
FORMATS = ".npy, .npz, .h5, .mat, .parquet, .fvecs, .fbin; file.npz:name takes one of several arrays"


def read_array(place: str, array: str | None = None) -> Any:
    """The array in a file, memory-mapped where the format allows.

    Parameters
    ----------
    place : str
        A path, or ``path:name`` for one array of several.
    array : str, optional
        That name; not needed where there is but one array or one is called as vectors usually are.
    """
    from hashlearn.rows import formats

    path, name = _path_and_name(place, array)
    try:
        values = formats.read_array(path, name)
    except ValueError as error:
        raise ValueError(_in_words_of_the_command_line(str(error))) from None
    if not isinstance(values, np.ndarray):  # another file that was put into the archive
        raise ValueError(f"{path}: not a readable array")
    return values


def read_matrix(place: str, array: str | None = None) -> Any:
    """Like :func:`read_array`, of vectors: two-dimensional numbers, or a matrix of ``scipy.sparse.save_npz``."""
    path, name = _path_and_name(place, array)
    if name is None and path.suffix == ".npz" and _is_sparse(path):
        from scipy.sparse import csr_matrix, load_npz

        return csr_matrix(load_npz(path))
    matrix = read_array(place, array)
    if matrix.ndim != 2:
        raise ValueError(f"{place} must hold a matrix of shape (n, n_features), got shape {matrix.shape}")
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"{place} must hold numbers, got dtype {matrix.dtype}")
    return matrix


@contextmanager
def matrices(places: list[str], array: str | None = None, cluster: str | None = None) -> Iterator[Any]:
    """The vectors of one file, or of several as one source of which no more than a file is in memory.

    With the address of a Dask cluster they are read by its workers, under the same names.
    """
    if cluster is None:
        yield read_matrix(places[0], array) if len(places) == 1 else _joined(places, array)
        return
    if array is not None:
        raise ValueError("--array cannot be used with --cluster: its files hold a single array each")
    from hashlearn.rows.cluster import connected, on_cluster

    with connected(cluster) as client:
        yield on_cluster([str(Path(place).absolute()) for place in places], client)


def _joined(places: list[str], array: str | None) -> Any:
    from hashlearn.rows import RowBlocks
    from hashlearn.rows.source import Files

    return RowBlocks(Files(places, lambda place: _not_empty(place, read_matrix(place, array))))


def _not_empty(place: str, matrix: Any) -> Any:
    if 0 in matrix.shape:
        raise ValueError(f"{place}: no vectors in it, shape {matrix.shape}")
    return matrix


def _path_and_name(place: str, array: str | None) -> tuple[Path, str | None]:
    from hashlearn.rows.formats import SUFFIXES

    file, _, name = place.rpartition(":")
    is_named = array is None and not Path(place).exists() and Path(file).suffix.lower() in SUFFIXES
    return (Path(file), name) if is_named else (Path(place), array)


def _is_sparse(path: Path) -> bool:
    from hashlearn.rows import formats

    return set(formats.array_names(path)) == SPARSE_NAMES


def _in_words_of_the_command_line(message: str) -> str:
    if "pickle" in message:  # numpy's advice to allow it is none that is given here
        return message.partition(" (")[0] + " (it holds Python objects, or no array at all)"
    return message.replace("with array=", "with --array or FILE:NAME")
