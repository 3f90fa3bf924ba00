"""Arrow's own files and streams (.arrow, .feather): record batches, which may be compressed.

Each buffer of a compressed batch begins with its size in memory. The sizes are added up before anything is
decompressed. The batches of a file are where its footer says: polars writes no schema before them, so a file cannot be
read as a stream.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hashlearn.extras import require
from hashlearn.rows.formats.arrow_table import ArrowTable
from hashlearn.rows.formats.limits import check_expansion
from hashlearn.rows.formats.problems import FileProblem, reading

MAGIC = b"ARROW1"
"""The first and the last bytes of a file; before the last are the footer and its length, in 4 bytes."""


class BatchSize(NamedTuple):
    """The size of a record batch: rows, and bytes of memory after decompression."""

    n_rows: int
    n_bytes: int


@contextmanager
def opened_arrow(path: Path, max_bytes: int | None) -> Iterator[ArrowTable]:
    """The table in a file, which has the form of a file or of a stream."""
    arrow = require("pyarrow", "parquet")
    with reading(path, "Arrow"), arrow.memory_map(str(path)) as file:
        whole = file.read_buffer()
        if whole.slice(0, 4).to_pybytes() == b"FEA1":
            raise FileProblem(path, "Feather version 1 is not read; write it again with pyarrow.feather")
        is_file = whole.slice(0, len(MAGIC)).to_pybytes() == MAGIC
        messages = _messages_of_file(arrow, whole) if is_file else _messages_of_stream(arrow, whole)
        sizes = [_size_of(message) for message in messages]
        check_expansion(path, sum(size.n_bytes for size in sizes), max_bytes)
        schema = (arrow.ipc.open_file if is_file else arrow.ipc.open_stream)(whole).schema

        def batches(columns: list[str]) -> Iterator[Any]:
            places = [schema.get_field_index(name) for name in columns]
            options = arrow.ipc.IpcReadOptions(included_fields=places)
            if is_file:
                file = arrow.ipc.open_file(whole, options=options)
                found: Iterator[Any] = map(file.get_batch, range(file.num_record_batches))
            else:
                found = iter(arrow.ipc.open_stream(whole, options=options))
            for batch in found:
                batch.validate(full=True)
                yield batch

        types = {field.name: field.type for field in schema}
        yield ArrowTable(path, types, sum(size.n_rows for size in sizes), batches, max_bytes)


def _messages_of_stream(arrow: Any, stream: Any) -> Iterator[Any]:
    for message in arrow.ipc.MessageReader.open_stream(stream):
        if message.type in ("record batch", "dictionary"):
            yield message


def _messages_of_file(arrow: Any, whole: Any) -> Iterator[Any]:
    """The dictionaries and record batches whose places the footer (a flatbuffer) lists."""
    end = whole.size - len(MAGIC) - 4
    length = _number("<i", whole.slice(max(end, 0), 4).to_pybytes(), 0)
    if not 0 < length <= end:
        raise ValueError("a footer that reaches beyond the file")
    footer = whole.slice(end - length, length).to_pybytes()
    root = _number("<I", footer, 0)
    for field in (2, 3):
        blocks = _table(footer, root, field)
        for place in range(0 if blocks is None else _number("<I", footer, blocks)):
            offset, n_metadata, n_body = struct.unpack_from("<qi4xq", footer, (blocks or 0) + 4 + 24 * place)
            if min(offset, n_metadata, n_body) < 0 or offset + n_metadata + n_body > whole.size:
                raise ValueError("a record batch that reaches beyond the file")
            yield arrow.ipc.read_message(whole.slice(offset, n_metadata + n_body))


def _size_of(message: Any) -> BatchSize:
    """The size of a record batch, from its metadata (a flatbuffer) and the first bytes of its buffers."""
    metadata, body = message.metadata.to_pybytes(), message.body
    root = _number("<I", metadata, 0)
    batch = _table(metadata, root, 2)
    if batch is not None and message.type == "dictionary":
        batch = _table(metadata, batch, 1)
    if batch is None:
        raise ValueError("a record batch without a header")
    n_rows = 0 if message.type == "dictionary" else _scalar(metadata, batch, 0)
    vector, is_compressed = _table(metadata, batch, 2), _table(metadata, batch, 3) is not None
    n_bytes = 0
    for place in range(0 if vector is None else _number("<I", metadata, vector)):
        offset, length = struct.unpack_from("<qq", metadata, (vector or 0) + 4 + 16 * place)
        if offset < 0 or length < 0 or offset + length > body.size:
            raise ValueError("a buffer that reaches beyond its record batch")
        unpacked = _number("<q", body.slice(offset, 8).to_pybytes(), 0) if is_compressed and length else -1
        n_bytes += length if unpacked == -1 else unpacked
        if unpacked < -1:
            raise ValueError("a buffer of a negative size")
    if n_rows < 0:
        raise ValueError("a negative number of rows")
    return BatchSize(n_rows, n_bytes)


def _field(metadata: bytes, table: int, number: int) -> int | None:
    """The position of a field in a table of a flatbuffer; None if the field has its default."""
    vtable = table - _number("<i", metadata, table)
    if 4 + 2 * number >= _number("<H", metadata, vtable):
        return None
    offset = _number("<H", metadata, vtable + 4 + 2 * number)
    return table + offset if offset else None


def _table(metadata: bytes, table: int, number: int) -> int | None:
    """The position of the table or vector that a field refers to."""
    field = _field(metadata, table, number)
    return None if field is None else field + _number("<I", metadata, field)


def _scalar(metadata: bytes, table: int, number: int) -> int:
    field = _field(metadata, table, number)
    return 0 if field is None else _number("<q", metadata, field)


def _number(form: str, data: bytes, place: int) -> int:
    if place < 0:
        raise ValueError("an offset before the beginning")
    return struct.unpack_from(form, data, place)[0]
