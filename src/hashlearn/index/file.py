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
"""

import hashlib
import json
import mmap
import os
import struct
import sys
import zlib
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_integer, check_regular
from hashlearn.durable.files import replacing
from hashlearn.index.code_table import CodeTable, Once, Segment
from hashlearn.index.kernels.tiles import TILE, Layout, Tiles, byte_layout, n_tiles, word_layout

MAGIC = b"HLINDEX\n"
VERSION = 2

_ALIGNMENT = 4096
_LONGEST_HEADER = 1 << 20
_PREFIX = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
_CHUNK = 1 << 24


class Column(NamedTuple):
    """What a section holds for every code: words of a type."""

    dtype: np.dtype
    n_words: int

    def n_bytes(self, n_codes: int) -> int:
        """Length of the section, in whole tiles."""
        return n_tiles(n_codes) * TILE * self.n_words * self.dtype.itemsize


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


def write_table(table: CodeTable, path: str | Path) -> None:
    """Write an index's codes so that ``path`` holds, whatever happens, either the old file or the new one."""
    _require_little_endian()
    table = table.compacted()
    arrays = _arrays_of(table)
    columns = _columns(table.layout)
    sections = {name: _pieces(array, columns[name], len(table)) for name, array in arrays.items()}
    with replacing(path) as (beside,), beside.open("wb") as file:
        _write(file, table, sections)


def read_table(path: str | Path) -> CodeTable:
    """Map a file into memory as the codes of an index; nothing is read but the header."""
    _require_little_endian()
    path = check_regular(path)
    with path.open("rb") as file:
        text = _read_header(file, path)
        try:
            header = _checked_header(text, os.fstat(file.fileno()).st_size)
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

    corrected, n = "corrections" in arrays, header.n_codes
    table = CodeTable(header.n_bits, header.layout, corrected, header.metadata, (), header.next_id)
    if not n:
        return table
    tiles = Tiles(arrays["front"], arrays["back"], header.layout.n_front, header.layout.n_back, n)
    ids = arrays["ids"][:n] if "ids" in arrays else None
    segment = Segment(
        header.n_bits, header.layout, tiles, ids, 0, arrays.get("corrections"), room=None, check=Once(check)
    )
    return CodeTable(header.n_bits, header.layout, corrected, header.metadata, (segment,), header.next_id)


def fingerprint(path: str | Path) -> str:
    """A digest of the header, and so of the whole file: the header has the checksums of what follows."""
    with check_regular(path).open("rb") as file:
        _, length = _read_header(file, Path(path)), file.tell()
        file.seek(0)
        return hashlib.sha256(file.read(length)).hexdigest()


def _arrays_of(table: CodeTable) -> dict[str, NDArray]:
    """The sections of a table of one segment, by name."""
    if not table.segments:
        nothing = np.empty(0, table.layout.dtype)
        arrays = {"front": nothing, "back": nothing}
        return {**arrays, "corrections": np.empty(0, np.uint8)} if table.corrected else arrays
    (segment,) = table.segments
    arrays = {"front": segment.tiles.front, "back": segment.tiles.back}
    if segment.ids is not None or segment.first_id:
        arrays["ids"] = segment.ids_at(np.arange(len(segment)))
    if segment.corrections is not None:
        arrays["corrections"] = segment.corrections
    return arrays


def _columns(layout: Layout) -> dict[str, Column]:
    """The columns that a file may have."""
    return {
        "front": Column(layout.dtype, layout.n_front),
        "back": Column(layout.dtype, layout.n_back),
        "ids": Column(np.dtype(np.int64), 1),
        "corrections": Column(np.dtype(np.uint8), 1),
    }


def _write(file: BinaryIO, table: CodeTable, sections: dict[str, list[NDArray]]) -> None:
    header = {
        "n_bits": table.n_bits,
        "bit_order": "big",
        "n_codes": len(table),
        "next_id": table.next_id,
        "word_bytes": table.layout.dtype.itemsize,
        "n_words": table.layout.n_words,
        "n_front": table.layout.n_front,
        "tile": TILE,
        "metadata": dict(table.metadata),
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
    """The full tiles of a column, and the last one with zeros behind the codes: a later table may write there."""
    tile_words = TILE * column.n_words
    n_full, n_in_last = n_codes // TILE * tile_words, n_codes % TILE
    if not n_in_last:
        return [array[:n_full]]
    rest = array[n_full : n_full + tile_words]
    last = np.zeros(tile_words, column.dtype)
    last[: len(rest)] = rest
    last.reshape(-1, TILE)[:, n_in_last:] = 0
    return [array[:n_full], last]


def _read_header(file: BinaryIO, path: Path) -> bytes:
    """The header, once its checksum is seen to be right."""
    prefix = file.read(_PREFIX.size)
    if not prefix.startswith(MAGIC) or len(prefix) < _PREFIX.size:
        raise ValueError(f"{path}: not an index file of hashlearn")
    _, version, length = _PREFIX.unpack(prefix)
    if version != VERSION:
        raise ValueError(f"{path}: version {version} of the index format; this hashlearn reads version {VERSION}")
    rest = file.read(length + _CRC.size) if length <= _LONGEST_HEADER else b""
    text, crc32 = rest[:length], rest[length:]
    if len(crc32) < _CRC.size or _CRC.unpack(crc32)[0] != zlib.crc32(prefix + text):
        raise ValueError(f"{path}: the header does not match its checksum; the file was truncated, edited or damaged")
    return text


def _checked_header(text: bytes, file_size: int) -> _Header:
    """What the header says; raises if it contradicts itself or the size of the file."""
    said = json.loads(text)
    n_bits = check_integer("n_bits", said["n_bits"], low=1)
    n_codes = check_integer("n_codes", said["n_codes"], low=0)
    layout = _layout(n_bits, said)
    wanted = {name: column.n_bytes(n_codes) for name, column in _columns(layout).items()}
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


def _layout(n_bits: int, said: dict[str, Any]) -> Layout:
    described = (said["word_bytes"], said["n_words"], said["n_front"], said["tile"], said["bit_order"])
    for layout in (word_layout(n_bits), byte_layout(n_bits)):
        if described == (layout.dtype.itemsize, layout.n_words, layout.n_front, TILE, "big"):
            return layout
    raise ValueError("codes are laid out in a way this hashlearn does not know")


def _array(mapped: mmap.mmap, name: str, header: _Header) -> NDArray:
    dtype, section = _columns(header.layout)[name].dtype, header.sections[name]
    return np.frombuffer(mapped, dtype, section.n_bytes // dtype.itemsize, section.offset)


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
