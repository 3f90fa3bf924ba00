"""The file of an index: written beside and renamed, memory-mapped on opening, refused if it is not whole.

===============  =======================================================================================================
bytes            content
===============  =======================================================================================================
8                ``HLINDEX`` and a line feed
4, 4             version of this format (2); length of the header
as told          the header, JSON (below)
4                CRC-32 of all that stands before
sections         ``front``: the first words of the codes (see :mod:`hashlearn.index.kernels.tiles`);
                 ``back``: their other words;
                 ``ids``: int64, ascending; missing where the ids are 0, 1, 2, ...;
                 ``corrections``: one byte for every code, where the index has them
===============  =======================================================================================================

===================  ===================================================================================================
key of the header    value
===================  ===================================================================================================
``n_bits``           bits of a code
``bit_order``        ``"big"``: the first bit of a code is the most significant of its first byte
``n_codes``          number of codes
``next_id``          the id that the next code gets if none is given
``word_bytes``       bytes of a word: 1, 2, 4 or 8
``n_words``          words of a code
``n_front``          words of a code that are in ``front``
``tile``             codes of a tile: 64
``metadata``         an object: ``model``, the digest of the model that made the codes, and ``corrections``,
                     ``[scale, offset]``, where they are known; a correction is ``offset + scale * byte``
``sections``         name -> ``n_bytes`` and ``crc32`` of every section, in the order of the file
===================  ===================================================================================================

Numbers are little-endian. The first section begins at the first multiple of 4096 behind the CRC-32, and every other one
at the first multiple of 4096 behind the section before it. The bytes between are zeros, and so are those that fill up
the last section. A section is whole tiles: ids and corrections, too, have room for a multiple of 64 codes. Opening
reads the header, and checks it and the file's size, in a time that does not depend on the number of codes; the
checksums of the sections are compared before they are first used.

Version 1 has a section ``codes`` in place of ``front`` and ``back``, with all words of a tile side by side. Opening
such a file reads it into memory and checks it.
"""

import hashlib
import json
import mmap
import os
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_integer, check_regular
from hashlearn.durable.files import replacing
from hashlearn.index.code_table import CodeTable
from hashlearn.index.columns import Arrays, Column, Room, columns_of
from hashlearn.index.kernels.tiles import TILE, Layout, byte_layout, empty_tiles, word_layout

MAGIC = b"HLINDEX\n"
VERSION = 2

_ALIGNMENT = 4096
_LONGEST_HEADER = 1 << 20
_PREFIX = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
_CHUNK = 1 << 24


class _Section(NamedTuple):
    """Where an array stands in the file, and the CRC-32 of its bytes."""

    offset: int
    n_bytes: int
    crc32: int


class _Header(NamedTuple):
    """What a file says of itself, once it is checked."""

    n_bits: int
    layout: Layout
    n_codes: int
    next_id: int
    metadata: dict[str, Any]
    sections: dict[str, _Section]


def write_store(store: CodeTable, path: str | Path) -> None:
    """Write an index's codes so that ``path`` holds, whatever happens, either the old file or the new one."""
    _require_little_endian()
    columns = columns_of(store.layout, ids=store.ids is not None, corrections=store.corrected)
    sections = {name: _pieces(store.arrays[name], column, len(store)) for name, column in columns.items()}
    with replacing(path) as (beside,), beside.open("wb") as file:
        _write(file, store, sections)


def read_store(path: str | Path) -> CodeTable:
    """Map a file into memory as the codes of an index; nothing is read but the header."""
    _require_little_endian()
    path = check_regular(path)
    with path.open("rb") as file:
        version, text = _read_header(file, path)
        try:
            header = _checked_header(version, text, os.fstat(file.fileno()).st_size)
        except KeyError as missing:
            raise ValueError(f"{path}: the header says no {missing}") from None
        except (AttributeError, TypeError, ValueError, RecursionError) as wrong:
            raise ValueError(f"{path}: {wrong}") from None
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    arrays = {name: _array(mapped, name, header) for name in header.sections}

    def check() -> None:
        for name, array in arrays.items():
            if zlib.crc32(_as_bytes(array)) != header.sections[name].crc32:
                what = name if name in ("ids", "corrections") else "codes"
                raise ValueError(f"{path}: the {what} do not match their checksum; the file was edited or damaged")

    if version == 1:
        check()
        return _store(header, _halves_apart(arrays, header))
    return _store(header, arrays, check)


def fingerprint(path: str | Path) -> str:
    """A digest of the header, and so of the whole file: the header has the checksums of what follows."""
    with check_regular(path).open("rb") as file:
        _, length = _read_header(file, Path(path)), file.tell()
        file.seek(0)
        return hashlib.sha256(file.read(length)).hexdigest()


def _store(header: _Header, arrays: Arrays, check: Callable[[], None] | None = None) -> CodeTable:
    room = Room(arrays, capacity=header.n_codes)
    return CodeTable(header.n_bits, header.layout, room, header.n_codes, header.next_id, header.metadata, check)


def _write(file: BinaryIO, store: CodeTable, sections: dict[str, list[NDArray]]) -> None:
    header = {
        "n_bits": store.n_bits,
        "bit_order": "big",
        "n_codes": len(store),
        "next_id": store.next_id,
        "word_bytes": store.layout.dtype.itemsize,
        "n_words": store.layout.n_words,
        "n_front": store.layout.n_front,
        "tile": TILE,
        "metadata": dict(store.metadata),
        "sections": {name: {"n_bytes": _n_bytes(p), "crc32": _checksum(p)} for name, p in sections.items()},
    }
    text = json.dumps(header).encode()
    if len(text) > _LONGEST_HEADER:
        raise ValueError(f"metadata must take less than {_LONGEST_HEADER} bytes as JSON, got {len(text)}")
    head = _PREFIX.pack(MAGIC, VERSION, len(text)) + text
    head += _CRC.pack(zlib.crc32(head))
    file.write(head.ljust(_aligned(len(head)), b"\0"))
    for pieces in sections.values():
        for piece in pieces:
            content = _as_bytes(piece)
            for first in range(0, len(content), _CHUNK):
                file.write(content[first : first + _CHUNK])
        n_bytes = _n_bytes(pieces)
        file.write(b"\0" * (_aligned(n_bytes) - n_bytes))


def _pieces(array: NDArray, column: Column, n_codes: int) -> list[NDArray]:
    """The full tiles of a column, and the last one with zeros behind the codes: a later store may write there."""
    tile_words = TILE * column.n_words
    n_full, n_in_last = n_codes // TILE * tile_words, n_codes % TILE
    full, last = array[:n_full], array[n_full : n_full + tile_words if n_in_last else n_full]
    last = last.reshape(-1, TILE).copy()
    last[:, n_in_last:] = 0
    return [full, last.reshape(-1)]


def _read_header(file: BinaryIO, path: Path) -> tuple[int, bytes]:
    """Version and header, once its checksum is seen to be right."""
    prefix = file.read(_PREFIX.size)
    if not prefix.startswith(MAGIC) or len(prefix) < _PREFIX.size:
        raise ValueError(f"{path}: not an index file of hashlearn")
    _, version, length = _PREFIX.unpack(prefix)
    if not 1 <= version <= VERSION:
        raise ValueError(f"{path}: version {version} of the index format; this hashlearn reads 1 to {VERSION}")
    rest = file.read(length + _CRC.size) if length <= _LONGEST_HEADER else b""
    text, crc32 = rest[:length], rest[length:]
    if len(crc32) < _CRC.size or _CRC.unpack(crc32)[0] != zlib.crc32(prefix + text):
        raise ValueError(f"{path}: the header does not match its checksum; the file was truncated, edited or damaged")
    return version, text


def _checked_header(version: int, text: bytes, file_size: int) -> _Header:
    """What the header says; raises if it contradicts itself or the size of the file."""
    said = json.loads(text)
    n_bits = check_integer("n_bits", said["n_bits"], low=1)
    n_codes = check_integer("n_codes", said["n_codes"], low=0)
    layout = _layout(version, n_bits, said)
    wanted = _section_bytes(version, layout, n_codes)
    offset = _aligned(_PREFIX.size + len(text) + _CRC.size)
    sections = {}
    for name, section in said["sections"].items():
        if name not in wanted or section["n_bytes"] != wanted[name]:
            raise ValueError(f"the section {name!r} is not as long as it has to be, or not known")
        sections[name] = _Section(offset, wanted[name], section["crc32"])
        offset += _aligned(wanted[name])
    missing = wanted.keys() - sections.keys() - {"ids", "corrections"}
    if missing:
        raise ValueError(f"the header says no section {min(missing)!r}")
    if file_size != offset:
        raise ValueError(f"{file_size} bytes long instead of {offset}; the file was truncated or appended to")
    next_id = check_integer("next_id", said["next_id"], low=0)
    return _Header(n_bits, layout, n_codes, next_id, dict(said.get("metadata", {})), sections)


def _layout(version: int, n_bits: int, said: dict[str, Any]) -> Layout:
    for layout in (word_layout(n_bits), byte_layout(n_bits)):
        n_front = layout.n_front if version == 1 else said["n_front"]
        described = (said["word_bytes"], said["n_words"], n_front, said["tile"], said["bit_order"])
        if described == (layout.dtype.itemsize, layout.n_words, layout.n_front, TILE, "big"):
            return layout
    raise ValueError("codes are laid out in a way this hashlearn does not know")


def _section_bytes(version: int, layout: Layout, n_codes: int) -> dict[str, int]:
    """How long each section is that a file may have."""
    if version == 1:
        return {"codes": Column(layout.dtype, layout.n_words).n_bytes(n_codes), "ids": 8 * n_codes}
    columns = columns_of(layout, ids=True, corrections=True)
    return {name: column.n_bytes(n_codes) for name, column in columns.items()}


def _array(mapped: mmap.mmap, name: str, header: _Header) -> NDArray:
    columns = columns_of(header.layout, ids=True, corrections=True)
    dtype = columns[name].dtype if name in columns else header.layout.dtype
    section = header.sections[name]
    return np.frombuffer(mapped, dtype, section.n_bytes // dtype.itemsize, section.offset)


def _halves_apart(arrays: Arrays, header: _Header) -> Arrays:
    """The arrays of version 1 as those of this version."""
    words = arrays["codes"].reshape(-1, header.layout.n_words, TILE)
    tiles = empty_tiles(header.n_codes, header.layout)
    tiles.front[:] = words[:, : tiles.n_front].reshape(-1)
    tiles.back[:] = words[:, tiles.n_front :].reshape(-1)
    others = {name: array for name, array in arrays.items() if name != "codes"}
    return {"front": tiles.front, "back": tiles.back, **others}


def _checksum(pieces: list[NDArray]) -> int:
    crc32 = 0
    for piece in pieces:
        crc32 = zlib.crc32(_as_bytes(piece), crc32)
    return crc32


def _n_bytes(pieces: list[NDArray]) -> int:
    return sum(piece.nbytes for piece in pieces)


def _as_bytes(array: NDArray) -> memoryview:
    return memoryview(array.data).cast("B") if array.size else memoryview(b"")


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _require_little_endian() -> None:
    if sys.byteorder != "little":
        raise ValueError("index files are little-endian and memory-mapped; this machine is big-endian")
