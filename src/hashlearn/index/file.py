"""The file of an index: written beside and renamed, memory-mapped on opening, refused if it is not whole.

It is a file of named arrays:

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

An index begins with ``HLINDEX`` and a line feed, and has version 3:

===============  =======================================================================================================
section          content
===============  =======================================================================================================
``front``        the first words of the codes (see :mod:`hashlearn.index.kernels.tiles`)
``back``         their other words
``ids``          int64, ascending; missing where the ids are 0, 1, 2, ...
``corrections``  one byte for every code, where the index has them
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
===================  ===================================================================================================

A section is whole tiles: ids and corrections, too, have room for a multiple of 64 codes. Opening reads the header, and
checks it and the file's size, in a time that does not depend on the number of codes; the checksums of the sections are
compared before they are first used.
"""

import mmap
import os
import sys
import zlib
from collections.abc import Collection, Mapping, Sequence
from math import isfinite, prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.durable.files import aligned, check_regular, packed_header, read_header, reading_header
from hashlearn.index.code_table import CodeTable, Once, Segment
from hashlearn.index.kernels.tiles import TILE, Layout, Tiles, byte_layout, n_tiles, word_layout

MAGIC = b"HLINDEX\n"
VERSION = 3

_LEAST = {"n_bits": 1, "n_codes": 0, "next_id": 0}
_CHUNK = 1 << 24
_TYPES = ("|u1", "<u2", "<u4", "<u8", "<i4", "<i8", "<f4", "<f8")

Pieces = NDArray | Sequence[NDArray]
"""An array, or parts of one that are written one behind the other."""


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
    mapped: mmap.mmap

    def expect_all(self) -> None:
        """Tell the operating system that arrays will be read from end to end, so that it reads ahead."""
        if hasattr(mmap, "MADV_NORMAL"):
            self.mapped.madvise(mmap.MADV_NORMAL)

    def verify(self) -> None:
        """Compare the arrays that were not read on opening with their checksums."""
        self.expect_all()
        for name, crc32 in self.crc32.items():
            _check(self.path, name, self.arrays[name], crc32)


def write_table(table: CodeTable, file: BinaryIO) -> str:
    """Write an index's codes to an open file; returns the fingerprint of the file."""
    table = table.compacted()
    layout = table.layout
    header = {
        "n_bits": table.n_bits,
        "bit_order": "big",
        "n_codes": len(table),
        "next_id": table.next_id,
        "word_bytes": layout.dtype.itemsize,
        "n_words": layout.n_words,
        "n_front": layout.n_front,
        "tile": TILE,
        "metadata": dict(table.metadata),
    }
    widths = _widths(layout)
    arrays = {name: _pieces(array, widths[name], len(table)) for name, array in _arrays_of(table).items()}
    return write_sections(file, MAGIC, VERSION, header, arrays)


def read_table(path: str | Path) -> CodeTable:
    """Map a file into memory as the codes of an index; nothing is read but the header."""
    on_demand = ("front", "back", "ids", "corrections")
    sections = read_sections(path, MAGIC, VERSION, "an index file", on_demand, _LEAST)
    with reading_header(path):
        return _table(sections)


def _table(sections: Sections) -> CodeTable:
    """The codes of a file; raises if the header contradicts itself."""
    said, arrays = sections.header, sections.arrays
    n_bits, n, next_id = said["n_bits"], said["n_codes"], said["next_id"]
    layout = _layout(n_bits, said)
    dtypes = {"front": layout.dtype, "back": layout.dtype, "ids": np.dtype(np.int64), "corrections": np.dtype(np.uint8)}
    widths = _widths(layout)
    for name, array in arrays.items():
        if name not in widths or array.dtype != dtypes[name] or array.shape != (n_tiles(n) * TILE * widths[name],):
            raise ValueError(f"the section {name!r} is not as long as it has to be, or not known")
    corrected, metadata = "corrections" in arrays, dict(said.get("metadata", {}))
    if corrected and not _is_affine(*metadata["corrections"]):
        raise ValueError("the scale and the offset of corrections are no finite numbers")
    if not n:
        return CodeTable(n_bits, layout, corrected, metadata, (), next_id, sections.fingerprint)
    tiles = Tiles(arrays["front"], arrays["back"], layout.n_front, layout.n_back, n)
    ids = arrays["ids"][:n] if "ids" in arrays else None
    check = Once(sections.verify)
    segment = Segment(n_bits, layout, tiles, ids, 0, arrays.get("corrections"), room=None, check=check)
    return CodeTable(n_bits, layout, corrected, metadata, (segment,), next_id, sections.fingerprint)


def _is_affine(scale: float, offset: float) -> bool:
    return scale > 0 and isfinite(scale) and isfinite(offset)


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


def _widths(layout: Layout) -> dict[str, int]:
    """Numbers of a code in each section that a file may have."""
    return {"front": layout.n_front, "back": layout.n_back, "ids": 1, "corrections": 1}


def _pieces(array: NDArray, width: int, n_codes: int) -> list[NDArray]:
    """The full tiles of a section, and the last one with zeros behind the codes: a later table may write there."""
    tile_words = TILE * width
    n_full, n_in_last = n_codes // TILE * tile_words, n_codes % TILE
    if not n_in_last:
        return [array[:n_full]]
    rest = array[n_full : n_full + tile_words]
    last = np.zeros(tile_words, array.dtype)
    last[: len(rest)] = rest
    last.reshape(-1, TILE)[:, n_in_last:] = 0
    return [array[:n_full], last]


def _layout(n_bits: int, said: dict[str, Any]) -> Layout:
    described = (said["word_bytes"], said["n_words"], said["n_front"], said["tile"], said["bit_order"])
    for layout in (word_layout(n_bits), byte_layout(n_bits)):
        if described == (layout.dtype.itemsize, layout.n_words, layout.n_front, TILE, "big"):
            return layout
    raise ValueError("codes are laid out in a way this hashlearn does not know")


def write_sections(
    file: BinaryIO, magic: bytes, version: int, header: Mapping[str, Any], arrays: Mapping[str, Pieces]
) -> str:
    """Write arrays to an open file; returns the fingerprint of the file."""
    _require_little_endian()
    pieces = {name: _as_pieces(array) for name, array in arrays.items()}
    sections = {name: _described(parts) for name, parts in pieces.items()}
    head, digest = packed_header(magic, version, {**header, "sections": sections})
    file.write(head)
    for parts in pieces.values():
        _write(file, parts)
    return digest


def read_sections(
    path: str | Path,
    magic: bytes,
    version: int,
    kind: str,
    on_demand: Collection[str],
    least: Mapping[str, int],
    *,
    in_parts: bool = False,
) -> Sections:
    """Map a file; the checksums of all arrays are compared, but for those ``on_demand``.

    ``in_parts`` says that few parts of these will be read: the operating system then reads nothing around them.
    """
    _require_little_endian()
    path = check_regular(path)
    with path.open("rb") as file:
        said, offset, digest = read_header(file, path, magic, version, kind, least)
        size = os.fstat(file.fileno()).st_size
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if in_parts and hasattr(mmap, "MADV_RANDOM"):
        mapped.madvise(mmap.MADV_RANDOM)
    arrays, later = {}, {}
    with reading_header(path):
        for name, section in said.pop("sections").items():
            arrays[name] = _mapped(mapped, size, offset, name, section)
            offset += aligned(arrays[name].nbytes)
            if name in on_demand:
                later[name] = section["crc32"]
            else:
                _expect(mapped, offset - aligned(arrays[name].nbytes), arrays[name].nbytes)
                _check(path, name, arrays[name], section["crc32"])
    if size != offset:
        raise ValueError(f"{path}: {size} bytes long instead of {offset}; the file was truncated or appended to")
    return Sections(path, said, arrays, later, digest, mapped)


def _mapped(mapped: mmap.mmap, size: int, offset: int, name: str, section: dict[str, Any]) -> NDArray:
    if section["dtype"] not in _TYPES:
        raise ValueError(f"the section {name!r} is of a type this hashlearn does not know")
    dtype, shape = np.dtype(section["dtype"]), tuple(int(n) for n in section["shape"])
    n_bytes = prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or offset + n_bytes > size:
        raise ValueError(f"{size} bytes long, too short for the section {name!r}; the file was truncated")
    array = np.frombuffer(mapped, dtype, prod(shape), offset) if n_bytes else np.empty(0, dtype)
    return array.reshape(shape)


def _expect(mapped: mmap.mmap, start: int, n_bytes: int) -> None:
    """Have the operating system read a section at once, and not page by page."""
    if hasattr(mmap, "MADV_WILLNEED") and n_bytes:
        first = start // mmap.PAGESIZE * mmap.PAGESIZE
        mapped.madvise(mmap.MADV_WILLNEED, first, start + n_bytes - first)


def _as_pieces(array: Pieces) -> list[NDArray]:
    pieces = [array] if isinstance(array, np.ndarray) else list(array)
    return [np.ascontiguousarray(piece, piece.dtype.newbyteorder("<")) for piece in pieces]


def _described(pieces: list[NDArray]) -> dict[str, Any]:
    first, crc32 = pieces[0], 0
    for piece in pieces:
        crc32 = zlib.crc32(_as_bytes(piece), crc32)
    return {"dtype": first.dtype.str, "shape": [sum(map(len, pieces)), *first.shape[1:]], "crc32": crc32}


def _write(file: BinaryIO, pieces: list[NDArray]) -> None:
    for piece in pieces:
        content = _as_bytes(piece)
        for first in range(0, len(content), _CHUNK):
            file.write(content[first : first + _CHUNK])
    n_bytes = sum(piece.nbytes for piece in pieces)
    file.write(b"\0" * (aligned(n_bytes) - n_bytes))


def _check(path: Path, name: str, array: NDArray, crc32: int) -> None:
    if zlib.crc32(_as_bytes(array)) != crc32:
        raise ValueError(f"{path}: the section {name!r} does not match its checksum; the file was edited or damaged")


def _as_bytes(array: NDArray) -> memoryview:
    return memoryview(array.reshape(-1).data).cast("B") if array.size else memoryview(b"")


def _require_little_endian() -> None:
    if sys.byteorder != "little":
        raise ValueError("index files are little-endian and memory-mapped; this machine is big-endian")
