"""The file of an index: written beside and renamed, memory-mapped on opening, refused if it is not whole.

========================  ==============================================================================
bytes                     content
========================  ==============================================================================
8                         ``HLINDEX`` and a line feed
4, 4                      version of this format; length of the header
as told                   the header, JSON: n_bits, bit_order, n_codes, next_id, the words' layout, per section
                          its offset, length and CRC-32, and the digest of the model of the codes, if it is known
4                         CRC-32 of all that stands before
from 4096 on              section ``codes``: the tiles (see :mod:`hashlearn.search.kernels.tiles`)
from the next 4096 on     section ``ids``: int64, ascending; missing where ids are running numbers
========================  ==============================================================================

Numbers are little-endian. Opening reads the header, and checks it and the file's size, in a time that does not depend
on the number of codes; the sections' checksums are compared before they are first used. Header and sections are
filled with zeros up to the next multiple of 4096.
"""

import hashlib
import json
import mmap
import os
import struct
import sys
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from hashlearn.codes import check_n_bits
from hashlearn.files import replacing
from hashlearn.search.kernels.tiles import TILE, n_tiles, word_layout
from hashlearn.search.store import CodeStore

MAGIC = b"HLINDEX\n"
VERSION = 1
_ALIGNMENT = 4096
_PREFIX = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
_CHUNK = 1 << 24


def write_store(store: CodeStore, path: str | Path) -> None:
    """Write an index's codes so that ``path`` holds, whatever happens, either the old file or the new one."""
    _require_little_endian()
    sections = _sections(store)
    with replacing(path) as (beside,), beside.open("wb") as file:
        _write(file, store, sections)


def read_store(path: str | Path) -> CodeStore:
    """Map a file into memory as the codes of an index; nothing is read but the header."""
    _require_little_endian()
    path = Path(path)
    with path.open("rb") as file:
        header = _read_header(file, path)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    n_bits, n_codes = header["n_bits"], header["n_codes"]
    dtype, n_words = word_layout(n_bits)
    sections = header["sections"]
    tiles = np.frombuffer(mapped, dtype, n_tiles(n_codes) * TILE * n_words, sections["codes"]["offset"])
    ids = None
    if "ids" in sections:
        ids = np.frombuffer(mapped, np.int64, n_codes, sections["ids"]["offset"])

    def check() -> None:
        for name, array in {"codes": tiles, "ids": ids}.items():
            if array is not None and _checksum(array) != sections[name]["crc32"]:
                raise ValueError(f"{path}: the {name} do not match their checksum; the file was edited or damaged")

    store = CodeStore(n_bits, tiles, n_codes, ids, header["next_id"], check)
    store.model = header.get("model")
    return store


def fingerprint(path: str | Path) -> str:
    """A digest of the header, and so of the whole file: the header has the checksums of what follows."""
    with Path(path).open("rb") as file:
        return hashlib.sha256(file.read(_ALIGNMENT)).hexdigest()


def _sections(store: CodeStore) -> dict[str, np.ndarray]:
    _, n_words = word_layout(store.n_bits)
    sections: dict[str, np.ndarray] = {"codes": store.tiles[: n_tiles(len(store)) * TILE * n_words]}
    if store.ids is not None:
        sections["ids"] = store.ids
    return sections


def _write(file: BinaryIO, store: CodeStore, sections: dict[str, np.ndarray]) -> None:
    dtype, n_words = word_layout(store.n_bits)
    header: dict[str, Any] = {
        "n_bits": store.n_bits,
        "bit_order": "big",
        "n_codes": len(store),
        "next_id": store.next_id,
        "word_bytes": dtype.itemsize,
        "n_words": n_words,
        "tile": TILE,
        "sections": {
            name: {"offset": 0, "n_bytes": array.nbytes, "crc32": _checksum(array)} for name, array in sections.items()
        },
    }
    if store.model is not None:
        header["model"] = store.model
    offset = _ALIGNMENT
    for section in header["sections"].values():
        section["offset"] = offset
        offset += _aligned(section["n_bytes"])
    text = json.dumps(header).encode()
    head = _PREFIX.pack(MAGIC, VERSION, len(text)) + text
    file.write((head + _CRC.pack(zlib.crc32(head))).ljust(_ALIGNMENT, b"\0"))
    for array in sections.values():
        for start in range(0, array.nbytes, _CHUNK):
            file.write(memoryview(array.data).cast("B")[start : start + _CHUNK])
        file.write(b"\0" * (_aligned(array.nbytes) - array.nbytes))


def _read_header(file: BinaryIO, path: Path) -> dict[str, Any]:
    head = file.read(_ALIGNMENT)
    if not head.startswith(MAGIC) or len(head) < _PREFIX.size:
        raise ValueError(f"{path}: not an index file of hashlearn")
    _, version, length = _PREFIX.unpack_from(head)
    if version != VERSION:
        raise ValueError(f"{path}: version {version} of the index format; this hashlearn reads version {VERSION}")
    end = _PREFIX.size + length
    if end + _CRC.size > len(head) or _CRC.unpack_from(head, end)[0] != zlib.crc32(head[:end]):
        raise ValueError(f"{path}: the header does not match its checksum; the file was truncated, edited or damaged")
    header = json.loads(head[_PREFIX.size : end])
    size, wanted = os.fstat(file.fileno()).st_size, _file_size(header, path)
    if size != wanted:
        raise ValueError(f"{path}: {size} bytes long instead of {wanted}; the file was truncated or appended to")
    return header


def _file_size(header: dict[str, Any], path: Path) -> int:
    """The size a file with this header has; raises if the header contradicts itself."""
    dtype, n_words = word_layout(check_n_bits(header["n_bits"]))
    layout = (dtype.itemsize, n_words, TILE, "big")
    if (header["word_bytes"], header["n_words"], header["tile"], header["bit_order"]) != layout:
        raise ValueError(f"{path}: codes are laid out in a way this hashlearn does not know")
    wanted = {"codes": n_tiles(header["n_codes"]) * TILE * n_words * dtype.itemsize, "ids": 8 * header["n_codes"]}
    offset = _ALIGNMENT
    for name, section in header["sections"].items():
        if section["offset"] != offset or section["n_bytes"] != wanted[name]:
            raise ValueError(f"{path}: section {name!r} is not where, or as long as, it has to be")
        offset += _aligned(section["n_bytes"])
    return offset


def _checksum(array: np.ndarray) -> int:
    return zlib.crc32(memoryview(array.data).cast("B")) if array.size else 0


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _require_little_endian() -> None:
    if sys.byteorder != "little":
        raise ValueError("index files are little-endian and memory-mapped; this machine is big-endian")
