"""Codes of another hasher for the rows that a search has, made beside its searches and changes.

The kept vectors are encoded block by block. The codes of a search in a folder are also written to a file there, each
block with its checksum: if the process ends, the next call with the same hasher goes on after the last whole block.
Rows that are added meanwhile are encoded too, the last of them inside of the change that takes all new codes.
"""

import hashlib
import os
import struct
import zlib
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.durable.files import LEFTOVER, naming, opened_within, sync, write_all
from hashlearn.durable.locks import NO_LINKS
from hashlearn.hashers.saving import digest_of
from hashlearn.progress import track
from hashlearn.rows import RowBlocks
from hashlearn.search.lists import VectorsAt
from hashlearn.search.metric_hasher import Index, MetricHasher
from hashlearn.search.rows import CatalogRows
from hashlearn.search.snapshot import Snapshot

_HEAD = struct.Struct("<QI")
"""Before each block: its first place, and how many codes it has."""
_CRC = struct.Struct("<I")
_BLOCK = 1 << 14
_FEW_ROWS = 4096
"""Rows that may be encoded inside of the change, while other changes wait."""
_ROUNDS = 8


def reencode(rows: CatalogRows, hasher: Any, changing: AbstractContextManager) -> None:
    """Give all rows codes of another hasher, in one change; ``changing`` lets one thread at a time change the rows."""
    new = _fitted(rows.reader, hasher)
    while True:
        snapshot = rows.reader
        vectors = _name_of(snapshot)
        made = CodesInProgress(new, rows.folder, vectors)
        for _ in range(_ROUNDS):  # in each of them fewer rows are left, unless others add them as fast
            if snapshot.n_places - made.n_done <= _FEW_ROWS or _name_of(rows.reader) != vectors:
                break
            made.extend(snapshot)
            snapshot = rows.reader
        with changing, rows.changing() as pending:
            # Rows that were compacted or restored meanwhile are in another file, at other places.
            is_same = _name_of(pending.snapshot) == vectors
            if is_same:
                made.extend(pending.snapshot)
                rows.use_hasher(pending, new)
                pending.snapshot = replace(pending.snapshot, index=made.index(pending.snapshot.places))
                pending.must_flush = rows.folder is not None and pending.snapshot.n_places > 0
        made.forget()
        if is_same:
            return


def _fitted(snapshot: Snapshot, hasher: Any) -> MetricHasher:
    """The hasher for the metric of a snapshot, learned from its vectors where it is not fitted."""
    own = snapshot.hasher
    new = own if hasher is None else MetricHasher.of(hasher, own.metric, None)
    if not new.has_weights and not own.has_weights and new.query != own.query:
        new = MetricHasher.of(hasher, own.metric, own.query)
    if hasher is not None and new.is_fitted:
        if new.n_features != own.n_features:
            raise ValueError(f"hasher must be fitted to {own.n_features} features, got one of {new.n_features}")
        return new
    if len(snapshot) < 2:
        raise ValueError(f"hasher must be fitted: there are {len(snapshot)} rows to learn from, at least 2 are wanted")
    return new.fitted(RowBlocks(VectorsAt(snapshot.places, own.n_features, snapshot.vectors_at)))


def _name_of(snapshot: Snapshot) -> str:
    """The file of the vectors."""
    return "" if snapshot.vectors is None else snapshot.vectors.layout.id


class CodesInProgress:
    """The codes of the places 0, 1, 2, ... as far as they are made.

    Parameters
    ----------
    hasher : MetricHasher
    folder : Path or None
        Where they are written, to go on from there.
    vectors : str
        Names the vectors that are encoded: codes of others are not taken.

    Attributes
    ----------
    n_done : int
    """

    def __init__(self, hasher: MetricHasher, folder: Path | None, vectors: str):
        self.hasher = hasher
        self.width = hasher.n_packed
        self.blocks: list[NDArray[np.uint8]] = []
        self.n_done = 0
        name = hashlib.sha256(f"{digest_of(hasher.hasher)} {vectors}".encode()).hexdigest()[:16]
        self.path = None if folder is None else folder / f".reencode-{name}{LEFTOVER}"
        if self.path is not None:
            self._read(self.path)

    def extend(self, snapshot: Snapshot) -> None:
        """Encode the places of a snapshot that are not encoded yet; those of removed rows get zeros."""
        alive = snapshot.is_alive
        for start in track(range(self.n_done, snapshot.n_places, _BLOCK), "new codes"):
            here = np.arange(start, min(start + _BLOCK, snapshot.n_places))
            codes, there = np.zeros((len(here), self.width), np.uint8), alive[here]
            if there.any():
                codes[there] = self.hasher.encode(snapshot.vectors_at(here[there])).packed
            self._append(codes)

    def index(self, places: NDArray[np.int64]) -> Index:
        """An index with the codes of these places."""
        index = self.hasher.empty_index()
        if not len(places):
            return index
        return self.hasher.unpacked(np.concatenate(self.blocks)[places]).added_to(index, places)

    def forget(self) -> None:
        """Remove the file, and those of other hashers that were given up."""
        for path in self.path.parent.glob(f".reencode-*{LEFTOVER}") if self.path is not None else ():
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _append(self, codes: NDArray[np.uint8]) -> None:
        self.blocks.append(codes)
        self.n_done += len(codes)
        if self.path is None:
            return
        content = _HEAD.pack(self.n_done - len(codes), len(codes)) + codes.tobytes()
        with naming(self.path):
            with FileIO(self.path, "a", opener=lambda name, flags: os.open(name, flags | NO_LINKS, 0o666)) as file:
                write_all(file, content + _CRC.pack(zlib.crc32(content)))
            sync(self.path)

    def _read(self, path: Path) -> None:
        """Take the blocks of a file up to the first that is not whole, and cut the file there."""
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return
        end = 0
        while end + _HEAD.size <= len(content):
            start, n = _HEAD.unpack_from(content, end)
            first = end + _HEAD.size
            stop = first + n * self.width
            if start != self.n_done or content[stop : stop + 4] != _CRC.pack(zlib.crc32(content[end:stop])):
                break
            self.blocks.append(np.frombuffer(content, np.uint8, n * self.width, first).reshape(n, self.width))
            self.n_done += n
            end = stop + _CRC.size
        with naming(path), opened_within(path) as file:
            file.truncate(end)
