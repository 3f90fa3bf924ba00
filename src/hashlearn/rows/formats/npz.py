"""numpy's npz: a zip archive of npy files, whose checksums are compared; and scipy's sparse matrices in it."""

import zipfile
from pathlib import Path
from typing import Any

import scipy.sparse
from numpy.typing import NDArray

from hashlearn.rows.formats.format import Format, choose
from hashlearn.rows.formats.limits import check_expansion
from hashlearn.rows.formats.npy import check_size, read_header
from hashlearn.rows.formats.problems import FileProblem, reading
from hashlearn.rows.formats.streams import read_rest

MEMBER = ".npy"

_SPARSE = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array, "bsr": scipy.sparse.bsr_array}
_SPARSE_NAMES = {"data", "indices", "indptr", "format", "shape"}


class Npz(Format):
    """Named arrays, read. Other files in the archive are left alone.

    Without a name, a matrix that ``scipy.sparse.save_npz`` has written is read as a CSR array.
    """

    def names(self, path: Path) -> list[str]:
        with reading(path, "npz"), zipfile.ZipFile(path) as archive:
            return _names(archive)

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> Any:
        with reading(path, "npz"), zipfile.ZipFile(path) as archive:
            names = _names(archive)
            if name is None and set(names) >= _SPARSE_NAMES:
                return _sparse(path, {each: _array(path, archive, each, max_bytes) for each in _SPARSE_NAMES})
            return _array(path, archive, choose(path, names, name), max_bytes)


def _names(archive: zipfile.ZipFile) -> list[str]:
    for member in archive.infolist():
        archive.open(member).close()  # compares the two names in the archive: a damaged name would hide an array
    return [member.removesuffix(MEMBER) for member in archive.NameToInfo if member.endswith(MEMBER)]


def _array(path: Path, archive: zipfile.ZipFile, name: str, max_bytes: int | None) -> NDArray:
    member = archive.getinfo(name + MEMBER)
    check_expansion(path, member.file_size, max_bytes)
    with archive.open(member) as stream:
        header = read_header(path, stream)
        check_size(path, header, stream.tell(), member.file_size)
        values = read_rest(path, stream, header.n_bytes)
    return values.view(header.dtype).reshape(header.shape, order=header.order)


def _sparse(path: Path, arrays: dict[str, NDArray]) -> Any:
    """The matrix, with its indices checked: scipy's loops would follow a wrong index out of the array."""
    kind = arrays["format"].item()
    kind = kind.decode("ascii") if isinstance(kind, bytes) else kind
    if kind not in _SPARSE:
        raise FileProblem(path, f"a sparse matrix of format {kind!r}; save it as csr with X.tocsr()")
    shape = arrays["shape"]
    integers = (shape, arrays["indices"], arrays["indptr"])
    if shape.shape != (2,) or any(part.dtype.kind not in "iu" or part.ndim != 1 for part in integers):
        raise FileProblem(path, "its sparse matrix has no row numbers, or not two dimensions")
    rows, columns = (int(side) for side in shape)
    matrix = _SPARSE[kind]((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(rows, columns))
    matrix.check_format(full_check=True)
    return scipy.sparse.csr_array(matrix)
