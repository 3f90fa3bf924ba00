"""Arrays from files, as a command line names them: ``vectors.npy``, ``data.npz:X``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import why_no_numbers

CLUSTER = "Address of a Dask scheduler (tcp://host:8786) whose workers read the files and do the work."
FORMATS = ".npy, .npz, .h5, .mat, .parquet, .csv, .fvecs, .fbin; file.npz:name takes one of several arrays"


def read_array(place: str, array: str | None = None) -> NDArray:
    """The array in a file, memory-mapped where the format allows.

    Parameters
    ----------
    place : str
        A path, or ``path:name`` for one array of several.
    array : str, optional
        That name; not needed where there is but one array or one is called as vectors usually are.
    """
    values = _read(place, array)
    if not isinstance(values, np.ndarray):
        raise ValueError(f"{place} must hold an array, got a sparse matrix")
    return values


def read_matrix(place: str, array: str | None = None) -> Any:
    """Like :func:`read_array`, of vectors: two-dimensional numbers, or a matrix of ``scipy.sparse.save_npz``."""
    matrix = _read(place, array)
    if matrix.ndim != 2:
        raise ValueError(f"{place} must hold a matrix of shape (n, n_features), got shape {matrix.shape}")
    reason = why_no_numbers(matrix.dtype)
    if reason is not None:
        raise TypeError(f"{place} must hold {reason}")
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


def _read(place: str, array: str | None) -> Any:
    from hashlearn.rows import formats

    try:
        return formats.read_array(*formats.path_and_name(place, array))
    except formats.FileProblem as error:
        raise ValueError(str(error).replace("with array=", "with --array or FILE:NAME")) from None


def column_values(path: str, fields: list[dict[str, str]], option: str, column: str) -> list[str]:
    """The values of a column of a table of texts, which every text must have."""
    missing = next((row for row, each in enumerate(fields) if not each.get(column)), None)
    if missing is not None:
        raise ValueError(f"{path}: {option} must name a column with a value in every row, text {missing} has none")
    return [each[column] for each in fields]
