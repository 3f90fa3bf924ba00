"""A file of named arrays: written beside and renamed, memory-mapped on opening, refused if it is not whole.

===============  =======================================================================================================
bytes            content
===============  =======================================================================================================
8                what kind of file it is
4, 4             version of the format; length of the header
as told          the header, JSON: what the caller says, and ``sections``: name -> ``dtype``, ``shape`` and ``crc32``
4                CRC-32 of all that stands before
sections         arrays, in the order of the header
===============  =======================================================================================================

Numbers are little-endian. The first section begins at the first multiple of 4096 behind the CRC-32, and every other one
at the first multiple of 4096 behind the section before it. The bytes between are zeros, and so are those that fill up
the last section.
"""

import hashlib
import json
import mmap
import os
import struct
import zlib
from collections.abc import Collection, Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_regular
from hashlearn.durable.files import replacing

_ALIGNMENT = 4096
_LONGEST_HEADER = 1 << 20
_PREFIX = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
_CHUNK = 1 << 24
_TYPES = ("|u1", "<u4", "<i4", "<i8", "<f4", "<f8")


class Sections(NamedTuple):
    """What a file says, and its arrays, mapped.

    ``crc32`` are the checksums of those not compared yet. ``fingerprint`` is a digest of the header, which has the
    checksums of all arrays, and so of the whole file.
    """

    path: Path
    header: dict[str, Any]
    arrays: dict[str, NDArray]
    crc32: dict[str, int]
    fingerprint: str

    def verify(self) -> None:
        """Compare the arrays that were not read on opening with their checksums."""
        for name, crc32 in self.crc32.items():
            _check(self.path, name, self.arrays[name], crc32)


def write_sections(
    path: str | Path, magic: bytes, version: int, header: Mapping[str, Any], arrays: Mapping[str, NDArray]
) -> None:
    """Write arrays so that ``path`` holds, whatever happens, either the old file or the new one."""
    little = {name: _little_endian(array) for name, array in arrays.items()}
    sections = {
        name: {"dtype": array.dtype.str, "shape": list(array.shape), "crc32": zlib.crc32(_as_bytes(array))}
        for name, array in little.items()
    }
    text = json.dumps({**header, "sections": sections}).encode()
    head = _PREFIX.pack(magic, version, len(text)) + text
    head += _CRC.pack(zlib.crc32(head))
    with replacing(path) as (beside,), beside.open("wb") as file:
        file.write(head.ljust(_aligned(len(head)), b"\0"))
        for array in little.values():
            content = _as_bytes(array)
            for first in range(0, len(content), _CHUNK):
                file.write(content[first : first + _CHUNK])
            file.write(b"\0" * (_aligned(len(content)) - len(content)))


def read_sections(path: str | Path, magic: bytes, version: int, kind: str, on_demand: Collection[str]) -> Sections:
    """Map a file; the checksums of all arrays are compared, but for those ``on_demand``."""
    path = check_regular(path)
    with path.open("rb") as file:
        prefix = file.read(_PREFIX.size)
        if not prefix.startswith(magic) or len(prefix) < _PREFIX.size:
            raise ValueError(f"{path}: not {kind}")
        _, written, length = _PREFIX.unpack(prefix)
        if written != version:
            raise ValueError(f"{path}: version {written} of the format; this hashlearn reads {version}")
        rest = file.read(length + _CRC.size) if length <= _LONGEST_HEADER else b""
        text, crc32 = rest[:length], rest[length:]
        if len(crc32) < _CRC.size or _CRC.unpack(crc32)[0] != zlib.crc32(prefix + text):
            raise ValueError(f"{path}: the header does not match its checksum; the file was cut short or damaged")
        said = json.loads(text)
        size = os.fstat(file.fileno()).st_size
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    offset = _aligned(_PREFIX.size + length + _CRC.size)
    arrays, later = {}, {}
    for name, section in said.pop("sections").items():
        if section["dtype"] not in _TYPES:
            raise ValueError(f"{path}: the section {name!r} is of a type this hashlearn does not know")
        dtype, count = np.dtype(section["dtype"]), prod(section["shape"])
        if offset + count * dtype.itemsize > size:
            raise ValueError(f"{path}: {size} bytes long, too short for {name!r}; the file was cut short")
        array = np.frombuffer(mapped, dtype, count, offset) if count else np.empty(0, dtype)
        arrays[name] = array.reshape(section["shape"])
        offset += _aligned(array.nbytes)
        if name in on_demand:
            later[name] = section["crc32"]
        else:
            _check(path, name, arrays[name], section["crc32"])
    if size != offset:
        raise ValueError(f"{path}: {size} bytes long instead of {offset}; the file was cut short or appended to")
    return Sections(path, said, arrays, later, hashlib.sha256(prefix + rest).hexdigest())


def _check(path: Path, name: str, array: NDArray, crc32: int) -> None:
    if zlib.crc32(_as_bytes(array)) != crc32:
        raise ValueError(f"{path}: {name} do not match their checksum; the file was edited or damaged")


def _little_endian(array: NDArray) -> NDArray:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _as_bytes(array: NDArray) -> memoryview:
    return memoryview(array.reshape(-1).data).cast("B") if array.size else memoryview(b"")


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT
