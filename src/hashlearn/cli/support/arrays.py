"""Arrays from files that a command line names: ``vectors.npy``, ``data.npz:X``."""

from collections import ChainMap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLUSTER = "Address of a Dask scheduler (tcp://host:8786) whose workers read the files and do the work."
FORMATS = (
    ".npy, .npz, .h5, .mat, .parquet, .feather, .safetensors, .csv, .jsonl, .txt, .fvecs, .fbin; file.npz:name "
    "takes one of several arrays or columns"
)
Header = Annotated[
    Literal["yes", "no"] | None,
    typer.Option(help="Whether the first line of a .csv or .tsv file names its columns; found out otherwise."),
]
_WITH_HEADER = (".csv", ".tsv")


def read_array(place: str, array: str | None = None, header: str | None = None) -> "NDArray":
    """The array in a file, memory-mapped where the format allows.

    Parameters
    ----------
    place : str
        A path, or ``path:name`` for one array of several.
    array : str, optional
        The same name as an option. Not needed if the file has one array, or one with a usual name for vectors.
    header : {"yes", "no"}, optional
        See :data:`Header`. Ignored for files of other formats.
    """
    import numpy as np

    values = _read(place, array, header)
    if not isinstance(values, np.ndarray):
        raise ValueError(f"{place} must hold an array, got a sparse matrix")
    return values


def read_ids(place: str) -> "NDArray":
    """The ids in a file: an array, a column, or the only column of a table or of a text file."""
    values = read_array(place)
    if values.shape[1:] == (1,):
        values = values[:, 0]
    if values.dtype.kind == "f" and (values % 1 == 0).all():  # the numbers of text tables are float64
        values = values.astype("int64")
    return values


def read_matrix(place: str, array: str | None = None, header: str | None = None) -> Any:
    """Like :func:`read_array`, of vectors: two-dimensional numbers, or a matrix of ``scipy.sparse.save_npz``."""
    from hashlearn.checks import why_no_numbers

    matrix = _read(place, array, header)
    if matrix.ndim != 2:
        raise ValueError(f"{place} must hold a matrix of shape (n, n_features), got shape {matrix.shape}")
    reason = why_no_numbers(matrix.dtype)
    if reason is not None:
        raise TypeError(f"{place} must hold {reason}")
    return matrix


@contextmanager
def matrices(
    places: list[str], array: str | None = None, cluster: str | None = None, header: str | None = None
) -> Iterator[Any]:
    """The vectors of one file, or of several files as one source that holds at most one file in memory.

    With the address of a Dask cluster they are read by its workers, under the same names.
    """
    if cluster is None:
        yield read_matrix(places[0], array, header) if len(places) == 1 else _joined(places, array, header)
        return
    if array is not None:
        raise ValueError("--array cannot be used with --cluster: its files hold a single array each")
    if header is not None:
        raise ValueError("--header cannot be used with --cluster")
    from hashlearn.rows.cluster import connected, on_cluster

    with connected(cluster) as client:
        yield on_cluster([str(Path(place).absolute()) for place in places], client)


def _joined(places: list[str], array: str | None, header: str | None) -> Any:
    from hashlearn.rows import RowBlocks
    from hashlearn.rows.source import Files

    return RowBlocks(Files(places, lambda place: _not_empty(place, read_matrix(place, array, header))))


def _not_empty(place: str, matrix: Any) -> Any:
    if 0 in matrix.shape:
        raise ValueError(f"{place}: no vectors in it, shape {matrix.shape}")
    return matrix


def read_payloads(columns: str | None, texts: str | None) -> list[dict[str, Any]] | None:
    """Payloads from ``table:column,column``, and texts from ``table:column`` as the field "text"; None without both."""
    payloads = [] if columns is None else [_columns_of(columns)]
    if texts is not None:
        payloads.append([{"text": text} for text in _texts_of(texts)])
    if len({len(rows) for rows in payloads}) > 1:
        raise ValueError(f"{columns} has {len(payloads[0])} rows, {texts} has {len(payloads[1])}")
    return [dict(ChainMap(*reversed(parts))) for parts in zip(*payloads)] if payloads else None


def _columns_of(place: str) -> list[dict[str, Any]]:
    from hashlearn.rows import formats

    path, names = formats.path_and_name(place)
    if not names:
        raise ValueError(f"{place} must name columns of a table: FILE:COLUMN or FILE:COLUMN,COLUMN")
    return formats.read_records(path, names.split(","))


def _texts_of(place: str) -> list[str]:
    """The texts of one column; an empty text where the column has none."""
    from hashlearn.rows.forms import is_missing

    rows = _columns_of(place)
    if any(len(row) != 1 for row in rows):
        raise ValueError(f"{place} must name one column of texts: FILE:COLUMN")
    values = [value for row in rows for value in row.values()]
    return ["" if is_missing(value) else str(value) for value in values]


def check_header(header: str | None, *places: str | None) -> None:
    """Refuse the option --header if no file of vectors can have a header."""
    given = [place for place in places if place is not None]
    if header is not None and not any(map(_has_header, given)):
        of = f"{given[0]}: " if given else ""
        raise ValueError(f"{of}only csv and tsv files have a header; leave --header out")


def _has_header(place: str) -> bool:
    from hashlearn.rows import formats

    return formats.path_and_name(place)[0].suffix.lower() in _WITH_HEADER


def names_columns(header: str | None) -> bool | None:
    """The option --header as a bool; None without the option."""
    return None if header is None else header == "yes"


def _read(place: str, array: str | None, header: str | None) -> Any:
    from hashlearn.rows import formats

    try:
        names = names_columns(header) if _has_header(place) else None
        return formats.read_array(*formats.path_and_name(place, array), header=names)
    except formats.FileProblem as error:
        raise ValueError(as_option(error)) from None


def as_option(error: Exception) -> str:
    """An error of the readers in the words of the command line."""
    return str(error).replace("with array=", "with --array or FILE:NAME").replace("leave header", "leave --header")


def column_values(path: str, fields: list[dict[str, str]], option: str, column: str) -> list[str]:
    """The values of a column; every text must have one."""
    missing = next((row for row, each in enumerate(fields) if not each.get(column)), None)
    if missing is not None:
        raise ValueError(f"{path}: {option} must name a column with a value in every row, text {missing} has none")
    return [each[column] for each in fields]
