"""A user's own vectors, from the files they come in.

========================  ================================================  ================
file                      content                                           mapped
========================  ================================================  ================
npy                       one array                                         yes
npz, mat                  named arrays (mat: up to v7, and v7.3 with h5py)  no
hdf5, h5                  named arrays, also ann-benchmarks files           where contiguous
parquet, pq               a column of lists, or numeric columns             no
arrow, feather            the same                                          no
safetensors               named arrays                                      yes
jsonl, ndjson             objects in lines, with a vector in one field      no
fvecs, bvecs, ivecs       the dimension before every vector                 yes
fbin, u8bin, i8bin        rows and dimensions, then all values              yes
idx, ubyte, also gz       one array, as MNIST comes                         without gz
csv, tsv                  numeric columns, or vectors between brackets      no
txt, vec                  lines of a word and its vector, or of numbers     no
========================  ================================================  ================

A mapped file is read only where it is used: opening it takes no memory.
"""

from pathlib import Path
from typing import Any

from hashlearn.checks import why_no_numbers
from hashlearn.rows.formats.arrow_file import opened_arrow
from hashlearn.rows.formats.arrow_table import ArrowFormat
from hashlearn.rows.formats.csv import Csv
from hashlearn.rows.formats.fbin import Bin
from hashlearn.rows.formats.format import Format
from hashlearn.rows.formats.fvecs import Vecs
from hashlearn.rows.formats.hdf5 import Hdf5
from hashlearn.rows.formats.idx import Idx
from hashlearn.rows.formats.jsonl import Jsonl
from hashlearn.rows.formats.mat import Mat
from hashlearn.rows.formats.npy import Npy
from hashlearn.rows.formats.npz import Npz
from hashlearn.rows.formats.parquet import opened_parquet
from hashlearn.rows.formats.problems import FileProblem
from hashlearn.rows.formats.safetensors import Safetensors
from hashlearn.rows.formats.words import WordVectors

FORMATS: dict[str, Format] = {
    ".npy": Npy(),
    ".npz": Npz(),
    ".hdf5": Hdf5(),
    ".h5": Hdf5(),
    ".mat": Mat(),
    ".parquet": ArrowFormat(opened_parquet),
    ".pq": ArrowFormat(opened_parquet),
    ".fvecs": Vecs("<f4"),
    ".bvecs": Vecs("u1"),
    ".ivecs": Vecs("<i4"),
    ".fbin": Bin("<f4"),
    ".u8bin": Bin("u1"),
    ".i8bin": Bin("i1"),
    ".idx": Idx(),
    ".idx.gz": Idx(),
    "-ubyte": Idx(),
    "-ubyte.gz": Idx(),
    ".csv": Csv(),
    ".tsv": Csv(),
    ".arrow": ArrowFormat(opened_arrow),
    ".feather": ArrowFormat(opened_arrow),
    ".safetensors": Safetensors(),
    ".jsonl": Jsonl(),
    ".ndjson": Jsonl(),
    ".txt": WordVectors(),
    ".vec": WordVectors(),
}
"""The format of a file, by the ending of its name."""

SUFFIXES = tuple(FORMATS)
_ADVICE = {
    (".gz", ".bz2", ".xz", ".zst", ".zip"): "decompress it first",
    (".json",): "write JSON lines, an object a line, as .jsonl",
    (
        ".pkl",
        ".pickle",
        ".pt",
        ".pth",
        ".ckpt",
        ".joblib",
    ): "files are never unpickled; save it as .npy or .safetensors",
    (".xlsx", ".xls", ".ods"): "save the sheet as .csv",
    (".bin", ".dat", ".raw"): "its type and shape are unknown; save it as .npy",
}
"""What to do with a file of another format."""


def read_vectors(
    path: str | Path, array: str | None = None, *, max_bytes: int | None = None, header: bool | None = None
) -> Any:
    """The vectors of a file, memory-mapped where the format allows.

    Parameters
    ----------
    path : str or Path
        Its ending names the format.
    array : str or None, default=None
        The array of an npz, HDF5, mat or safetensors file, or the column of a table. None takes the only one, or the
        one with a usual name (X, features, vectors, embeddings, data, train, traindata, embedding, vector).
    max_bytes : int or None, default=None
        Memory that a compressed file may take. None allows 256 MiB or 100 times the size of the file, whichever is
        more, or what the environment variable ``HASHLEARN_MAX_BYTES`` says.
    header : bool or None, default=None
        Whether the first line of a csv or tsv file names its columns. None finds out.

    Returns
    -------
    ndarray of shape (n, d), or csr_array where ``scipy.sparse.save_npz`` has written the file
        In the file's own type; read-only where it is mapped.

    Raises
    ------
    FileProblem
        A ValueError of one line that names the file and says what is wrong with it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "vectors.csv")
    ...     _ = path.write_text("width,height\\n1,2\\n3,4.5\\n")
    ...     read_vectors(path).tolist()
    [[1.0, 2.0], [3.0, 4.5]]
    """
    values = read_array(path, array, max_bytes=max_bytes, header=header)
    if values.ndim != 2:
        hint = f": one column of texts, such as {values[0]!r:.40}" if values.dtype == object and len(values) else ""
        if hint and isinstance(format_of(Path(path)), Csv):
            hint += "; the delimiter of a table is a comma, a semicolon or a tab"
        raise FileProblem(path, f"vectors must have shape (n, d), got shape {values.shape} of {values.dtype}{hint}")
    reason = why_no_numbers(values.dtype)
    if reason is not None:
        raise FileProblem(path, f"vectors must be {reason}")
    if 0 in values.shape:
        raise FileProblem(path, f"no vectors in it: shape {values.shape}")
    return values


def read_array(
    path: str | Path, array: str | None = None, *, max_bytes: int | None = None, header: bool | None = None
) -> Any:
    """An array of a file, of any shape: labels, images, vectors, texts. See :func:`read_vectors`."""
    path = check_file(path)
    return format_of(path, header).read(path, array, max_bytes)


def read_records(path: str | Path, names: list[str]) -> list[dict[str, Any]]:
    """The values of some columns of a table: a dict for each row."""
    columns = [read_array(path, name) for name in names]
    for name, column in zip(names, columns):
        if column.ndim != 1:
            raise FileProblem(path, f"{name} must have one value a row, got shape {column.shape}")
        if len(column) != len(columns[0]):
            raise FileProblem(path, f"{name} has {len(column)} values, {names[0]} has {len(columns[0])}")
    return [dict(zip(names, row)) for row in zip(*(column.tolist() for column in columns))]


def describe_file(path: str | Path, header: bool | None = None) -> dict[str, str]:
    """How a file is read: its columns, arrays or header, as titles with a line of text each."""
    path = check_file(path)
    return format_of(path, header).describe(path)


def read_place(place: str | Path, array: str | None = None) -> Any:
    """The vectors of a path, or of ``path:name``, which names an array or column of the file."""
    return read_vectors(*path_and_name(place, array))


def path_and_name(place: str | Path, array: str | None = None) -> tuple[Path, str | None]:
    """A path and the name of an array or column in it, from a text such as ``data.npz:X``; ``array`` gives the name,
    too."""
    file, _, name = str(place).rpartition(":")
    is_named = array is None and has_known_suffix(file) and not Path(place).exists()
    return (Path(file), name) if is_named else (Path(place), array)


def is_place_of_file(place: str | Path) -> bool:
    """Whether a text looks like the name of a file of vectors, with or without the name of an array."""
    return has_known_suffix(path_and_name(place)[0])


def array_names(path: str | Path) -> list[str]:
    """The names of the arrays in an npz, HDF5 or mat file; an empty list for the other formats."""
    path = check_file(path)
    return format_of(path).names(path)


def check_file(path: str | Path) -> Path:
    """``path`` if it is a file of a known format that is not empty."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if path.is_dir():
        raise FileProblem(path, "a folder, not a file of vectors")
    if not has_known_suffix(path):
        advice = next((f"; {line}" for endings, line in _ADVICE.items() if path.suffix.lower() in endings), "")
        raise FileProblem(path, f"unknown format {path.suffix!r}{advice}; known are {' '.join(SUFFIXES)}")
    if path.stat().st_size == 0:
        raise FileProblem(path, "empty")
    return path


def has_known_suffix(path: str | Path) -> bool:
    """Whether the ending of a name is that of a known format."""
    return Path(path).name.lower().endswith(SUFFIXES)


def format_of(path: Path, header: bool | None = None) -> Format:
    """The format that the ending of a name says; the name must have one. ``header`` is for csv and tsv files only."""
    found = next(known for suffix, known in FORMATS.items() if path.name.lower().endswith(suffix))
    if header is None:
        return found
    if not isinstance(found, Csv):
        raise FileProblem(path, "only csv and tsv files have a header; leave header out")
    return Csv(header)
