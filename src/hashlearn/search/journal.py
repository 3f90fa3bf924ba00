"""A file that is only appended to: what has changed since a state was saved, one record after the other.

===============  ====================================================================================================
bytes            content
===============  ====================================================================================================
8                ``HLJOURN`` and a line feed
records          length of the content (8 bytes), CRC-32 (4 bytes) of length and content, and the content; one record
                 behind the other
===============  ====================================================================================================

Numbers are little-endian. The CRC-32 of a record begins with that of the one before (zlib's second argument), and that
of the first record with the CRC-32 of the name of the folder that the journal is in: records of another journal, or in
another order, do not fit. A record that a killed process has written in part ends the journal, and the next one is
written over it.
"""

import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from hashlearn.durable.files import naming, opened_within, write_at

MAGIC = b"HLJOURN\n"
_HEAD = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")


class Position(NamedTuple):
    """The end of a journal: where it is, and the CRC-32 of the last record."""

    offset: int
    crc32: int


def start_of(name: str) -> Position:
    """The position before the first record of a journal of this name."""
    return Position(len(MAGIC), zlib.crc32(name.encode()))


def read_records(path: Path, since: Position) -> tuple[list[bytes], Position]:
    """The records behind a position, and the position behind them."""
    with naming(path), path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise ValueError(f"{path}: no journal of hashlearn")
        file.seek(since.offset)
        content = file.read()
    records, at, crc32 = [], 0, since.crc32
    while (record := _record(content, at, crc32)) is not None:
        records.append(record)
        crc32 = _crc32(record, crc32)
        at += _HEAD.size + len(record)
    if _goes_on(content, at):
        raise ValueError(f"{path}: a record does not match its checksum; the file was edited or damaged")
    return records, Position(since.offset + at, crc32)


def append_record(path: Path, end: Position, content: bytes) -> Position:
    """Write a record behind the end; it is on the disk when this returns. Be the only one who writes."""
    crc32 = _crc32(content, end.crc32)
    with naming(path), opened_within(path) as file:
        file.truncate(end.offset)
        try:
            write_at(file, end.offset, _HEAD.pack(len(content), crc32) + content)
            os.fsync(file.fileno())
        except BaseException:
            file.truncate(end.offset)
            raise
    return Position(end.offset + _HEAD.size + len(content), crc32)


def _record(content: bytes, at: int, crc32: int) -> bytes | None:
    """The record at a place, or None if there is no whole one."""
    if len(content) - at < _HEAD.size:
        return None
    length, told = _HEAD.unpack_from(content, at)
    record = content[at + _HEAD.size : at + _HEAD.size + length]
    return record if len(record) == length and _crc32(record, crc32) == told else None


def _goes_on(content: bytes, at: int) -> bool:
    """Whether a whole record stands behind one that is not: then that one was damaged, and not cut off."""
    if len(content) - at < _HEAD.size:
        return False
    length, told = _HEAD.unpack_from(content, at)
    return length > 0 and _record(content, at + _HEAD.size + length, told) is not None


def _crc32(record: bytes, before: int) -> int:
    return zlib.crc32(record, zlib.crc32(_LENGTH.pack(len(record)), before))
