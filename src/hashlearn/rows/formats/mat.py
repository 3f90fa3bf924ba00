"""MATLAB's mat files: named arrays.

- version 7.3 is HDF5, with every matrix transposed;
- versions 5 to 7 are a sequence of elements, each a variable, compressed by zlib from version 7 on;
- version 4 is not compressed.

scipy reads the variables, but never to the end of their compressed bytes, where zlib's checksum is, and it takes as
much memory as a damaged length asks for. So elements are inflated and measured here, and scipy gets what is whole.
"""

import io
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import scipy.io
from numpy.typing import NDArray

from hashlearn.rows.formats.format import choose
from hashlearn.rows.formats.hdf5 import Hdf5
from hashlearn.rows.formats.limits import check_expansion
from hashlearn.rows.formats.problems import FileProblem, reading
from hashlearn.rows.formats.streams import CHUNK

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
FILE_HEADER = 128
MATRIX, COMPRESSED = 14, 15
NAME_BYTES = 1 << 10
"""Bytes of an element that hold its flags, its dimensions and its name."""


class Mat:
    """Named arrays, read; mapped where a version 7.3 file allows."""

    def names(self, path: Path) -> list[str]:
        if _is_hdf5(path):
            return [name for name in Hdf5().names(path) if not name.startswith("#")]
        with reading(path, "MATLAB"):
            return [element.name for element in _elements(path)] if _is_version_5(path) else _names_4(path)

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> NDArray:
        name = choose(path, self.names(path), name)
        if _is_hdf5(path):
            return Hdf5().read(path, name, max_bytes).T
        with reading(path, "MATLAB"):
            content: Any = _checked(path, name, max_bytes) if _is_version_5(path) else path
            value: Any = scipy.io.loadmat(content, variable_names=[name])[name]
            if isinstance(value, np.ndarray):
                return value
            check_expansion(path, value.shape[0] * value.shape[1] * value.dtype.itemsize, max_bytes)
            return value.toarray()  # a sparse matrix


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


class _Element(NamedTuple):
    """A variable: its name, and where its bytes are in the file."""

    name: str
    start: int
    n_bytes: int
    compressed: bool
    order: str

    def chunks(self, path: Path, file: IO[bytes]) -> Iterator[bytes]:
        """Its bytes, inflated if they are compressed."""
        file.seek(self.start)
        stored = _pieces(file, self.n_bytes)
        return _inflated(path, stored) if self.compressed else stored


def _elements(path: Path) -> list[_Element]:
    size, elements = path.stat().st_size, []
    with path.open("rb") as file:
        order = {b"IM": "<", b"MI": ">"}[file.read(FILE_HEADER)[126:]]
        position = FILE_HEADER
        while position < size:
            file.seek(position)
            kind, n_bytes = struct.unpack(f"{order}II", file.read(8))
            if position + 8 + n_bytes > size:
                raise FileProblem(path, f"truncated: a variable at byte {position} has {n_bytes} bytes")
            whole = kind == COMPRESSED
            start = position + 8 if whole else position
            element = _Element("", start, n_bytes if whole else 8 + n_bytes, whole, order)
            head = b"".join(_first(element.chunks(path, file), NAME_BYTES))
            elements.append(element._replace(name=_name(head, order)))
            position += 8 + n_bytes
    return [element for element in elements if element.name]


def _checked(path: Path, name: str, max_bytes: int | None) -> IO[bytes]:
    """A file of this variable alone, whose lengths and checksum are right."""
    element = next(element for element in _elements(path) if element.name == name)
    with path.open("rb") as file:
        header = file.read(FILE_HEADER)
        chunks = element.chunks(path, file)
        content = bytearray(next(chunks))
        expected = 8 + _tag(content, 0, element.order).n_bytes
        check_expansion(path, expected, max_bytes)
        for chunk in chunks:
            content += chunk
            if len(content) > expected:
                break
    if len(content) != expected:
        raise FileProblem(path, f"{name} should take {expected} bytes, it has {len(content)}")
    position = 8
    while position < expected:
        position = _tag(content, position, element.order).end
    if position > expected + 7:
        raise FileProblem(path, f"a part of {name} is longer than the whole")
    return io.BytesIO(header + content)


class _Tag(NamedTuple):
    """What stands before a part of a variable."""

    kind: int
    start: int
    n_bytes: int

    @property
    def end(self) -> int:
        """Where the next part begins: parts are filled up to multiples of 8 bytes."""
        return -(-(self.start + self.n_bytes) // 8) * 8


def _tag(content: bytes | bytearray, position: int, order: str) -> _Tag:
    word, n_bytes = struct.unpack_from(f"{order}II", content, position)
    if word >> 16:  # the short form: type, length and up to four bytes of values in the place of a tag
        return _Tag(word & 0xFFFF, position + 4, word >> 16)
    return _Tag(word, position + 8, n_bytes)


def _name(head: bytes, order: str) -> str:
    """The third part of a variable, after its flags and its dimensions; none if it is no variable."""
    if _tag(head, 0, order).kind != MATRIX:
        return ""
    flags = _tag(head, 8, order)
    dimensions = _tag(head, flags.end, order)
    name = _tag(head, dimensions.end, order)
    return head[name.start : name.start + name.n_bytes].decode("latin-1")


def _pieces(file: IO[bytes], n_bytes: int) -> Iterator[bytes]:
    while n_bytes and (piece := file.read(min(n_bytes, CHUNK))):
        n_bytes -= len(piece)
        yield piece


def _inflated(path: Path, stored: Iterator[bytes]) -> Iterator[bytes]:
    """What was compressed, a chunk at a time; zlib compares its checksum at the end."""
    inflater = zlib.decompressobj()
    for piece in stored:
        while piece:
            yield inflater.decompress(piece, CHUNK)
            piece = inflater.unconsumed_tail
    if not inflater.eof:
        raise FileProblem(path, "truncated: a compressed variable does not end")


def _first(chunks: Iterator[bytes], n_bytes: int) -> Iterator[bytes]:
    """Chunks until there are so many bytes."""
    for chunk in chunks:
        yield chunk
        n_bytes -= len(chunk)
        if n_bytes <= 0:
            return
