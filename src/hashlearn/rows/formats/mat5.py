"""The variables of MATLAB files of versions 5 to 7, which are compressed by zlib from version 7 on.

A file is a header of 128 bytes and a sequence of elements. An element is a tag (its type and its length) and its bytes;
that of a variable consists of elements again: flags, dimensions, name, values. scipy reads these files, too, but its
reader crashes the process on a damaged type, takes any amount of memory on a damaged length, and never compares zlib's
checksum, which comes after the values.
"""

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hashlearn.rows.formats.limits import check_expansion
from hashlearn.rows.formats.problems import FileProblem
from hashlearn.rows.formats.streams import CHUNK

FILE_HEADER = 128
MATRIX, COMPRESSED = 14, 15
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}

SPARSE = 5
NUMERIC = range(6, 16)
COMPLEX_FLAG = 0x800
"""Bits of the flags: the last byte is the class of the variable."""

HEAD_BYTES = 1 << 10
"""Bytes of a variable that hold its flags, its dimensions and its name."""


class Variable(NamedTuple):
    """Where a variable is in the file; ``order`` is the byte order of all numbers."""

    name: str
    start: int
    n_bytes: int
    is_compressed: bool
    order: str


def variables(path: Path) -> list[Variable]:
    """The variables of a file."""
    size, found = path.stat().st_size, []
    with path.open("rb") as file:
        order = {b"IM": "<", b"MI": ">"}[file.read(FILE_HEADER)[126:]]
        position = FILE_HEADER
        while position < size:
            file.seek(position)
            kind, n_bytes = struct.unpack(f"{order}II", file.read(8))
            end = position + 8 + n_bytes
            if end > size:
                raise FileProblem(path, f"truncated: the variable at byte {position} ends at byte {end} of {size}")
            start = position + 8 if kind == COMPRESSED else position
            variable = Variable("", start, end - start, kind == COMPRESSED, order)
            head = _Parts(path, next(_chunks(path, file, variable))[:HEAD_BYTES], order)
            found.append(variable._replace(name=head.name()))
            position = end
    return [variable for variable in found if variable.name]


def read(path: Path, name: str, max_bytes: int | None) -> NDArray:
    """A variable's values, in the type they are stored in, shape as in MATLAB."""
    variable = next(variable for variable in variables(path) if variable.name == name)
    parts = _Parts(path, _content(path, variable, max_bytes), variable.order)
    flags = int(parts.values(0, "u4")[0])
    shape = tuple(int(side) for side in parts.values(1, "i4"))
    if flags & COMPLEX_FLAG:
        raise FileProblem(path, f"{name} holds complex numbers")
    if flags & 0xFF == SPARSE:
        return _sparse(path, parts, shape, max_bytes)
    if flags & 0xFF not in NUMERIC:
        raise FileProblem(path, f"{name} is no array of numbers")
    values = parts.values(3)
    if min(shape) < 0 or math.prod(shape) != len(values):
        raise FileProblem(path, f"{name} has {len(values)} values, its shape is {shape}")
    return values.reshape(shape, order="F")


def _sparse(path: Path, parts: "_Parts", shape: tuple[int, ...], max_bytes: int | None) -> NDArray:
    """A sparse matrix, made dense: row numbers, where the columns begin, values."""
    rows, starts, values = parts.values(3), parts.values(4), parts.values(5)
    check_expansion(path, math.prod(shape) * values.dtype.itemsize, max_bytes)
    n = int(starts[-1])  # MATLAB may store more values than it uses
    matrix = scipy.sparse.csc_array((values[:n], rows[:n], starts), shape=shape)
    matrix.check_format(full_check=True)
    return matrix.toarray()


def _content(path: Path, variable: Variable, max_bytes: int | None) -> bytearray:
    """All bytes of a variable. Their number must be the one in its tag, and their checksum must be right."""
    with path.open("rb") as file:
        chunks = _chunks(path, file, variable)
        content = bytearray(next(chunks))
        expected = _tag(content, 0, variable.order).end
        check_expansion(path, expected, max_bytes)
        for chunk in chunks:
            content += chunk
            if len(content) > expected:
                break
    if len(content) != expected:
        raise FileProblem(path, f"{variable.name} should take {expected} bytes, it has {len(content)}")
    return content


def _chunks(path: Path, file: IO[bytes], variable: Variable) -> Iterator[bytes]:
    """The bytes of a variable, inflated if they are compressed."""
    file.seek(variable.start)
    left, inflater = variable.n_bytes, zlib.decompressobj()
    while left:
        piece = file.read(min(left, CHUNK))
        left -= len(piece)
        if not variable.is_compressed:
            yield piece
            continue
        while piece:
            yield inflater.decompress(piece, CHUNK)  # compares the checksum where the bytes end
            piece = inflater.unconsumed_tail
    if variable.is_compressed and not inflater.eof:
        raise FileProblem(path, "truncated: a compressed variable does not end")


class _Tag(NamedTuple):
    """The tag of an element: its type, and where its bytes begin and end."""

    kind: int
    start: int
    end: int


def _tag(content: bytes | bytearray, position: int, order: str) -> _Tag:
    word, n_bytes = struct.unpack_from(f"{order}II", content, position)
    if word >> 16:  # the short form: type, length and at most four bytes of values in the place of a tag
        return _Tag(word & 0xFFFF, position + 4, position + 4 + min(word >> 16, 4))
    return _Tag(word, position + 8, position + 8 + n_bytes)


class _Parts:
    """The elements of a variable: flags, dimensions, name, values."""

    def __init__(self, path: Path, content: bytes | bytearray, order: str):
        self.path, self.content, self.order = path, content, order

    def name(self) -> str:
        """The name, from the first bytes; MATLAB's own variables have an empty one."""
        if _tag(self.content, 0, self.order).kind != MATRIX:
            raise FileProblem(self.path, "damaged: an element is no variable")
        return self.values(2, "i1").tobytes().decode("latin-1")

    def values(self, number: int, wanted: str | None = None) -> NDArray:
        """The numbers of an element; ``wanted`` is the type it must have."""
        position = 8
        for _ in range(number):
            position = -(-_tag(self.content, position, self.order).end // 8) * 8
        tag = _tag(self.content, position, self.order)
        kind = TYPES.get(tag.kind)
        if kind is None or (wanted is not None and kind != wanted) or tag.end > len(self.content):
            raise FileProblem(self.path, f"damaged: part {number} of a variable has type {tag.kind} or is too long")
        dtype = np.dtype(self.order + kind)
        return np.frombuffer(self.content, dtype, (tag.end - tag.start) // dtype.itemsize, tag.start)
