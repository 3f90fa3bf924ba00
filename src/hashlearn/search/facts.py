"""The facts of a saved search, and the number of the last change whose call has returned."""

import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from hashlearn.durable.files import naming
from hashlearn.durable.json_files import json_digest, parsed_json
from hashlearn.stores.base import IdType

FORMAT, VERSION = "hashlearn similarity search", 4
_CRC = struct.Struct("<I")
_ACKNOWLEDGED = struct.Struct("<Q16s")


class Facts(NamedTuple):
    """What is known of a search beside its rows.

    Attributes
    ----------
    search : str
        A random name, drawn when the folder was written: no other folder has it.
    change : int
        Number of the last change.
    hasher, model : str
        The folder of the hasher, and its digest.
    metric, query : str
    lengths : [float, float] or None
        The least and the largest length of the training rows in a sample.
    keep_vectors : str or None
        How vectors are kept.
    id_type : "int64", "str" or None
        None while there has been no row.
    first_row, next_row : int
        Rows have numbers from the first to below the next. A number is never given twice.
    next_id : int
        The id that the next row gets if none is given.
    n_rows, sum : int
        How many rows there are, and the sum of their sums.
    codes : dict or None
        ``file`` and ``fingerprint`` of the code file, and the number of places it covers.
    vectors : dict or None
        ``file`` of the vectors, and its ``id``.
    n_clipped : int
        Values of kept vectors that were out of range.
    tuning : dict or None
    """

    search: str
    change: int
    hasher: str
    model: str
    metric: str
    query: str
    lengths: Any
    keep_vectors: str | None
    id_type: IdType | None
    first_row: int
    next_row: int
    next_id: int
    n_rows: int
    sum: int
    codes: dict[str, Any] | None
    vectors: dict[str, Any] | None
    n_clipped: int
    tuning: dict[str, Any] | None

    @property
    def n_places(self) -> int:
        return self.next_row - self.first_row

    def to_json(self) -> str:
        said = {"format": FORMAT, "format_version": VERSION, **self._asdict()}
        return json.dumps({**said, "sha256": json_digest(said)})

    @classmethod
    def from_json(cls, text: str, place: Any) -> "Facts":
        """The facts in a text, or one line why there are none."""
        try:
            said = parsed_json(text)
            if said["format"] != FORMAT:
                raise KeyError
            if said["format_version"] > VERSION:
                found = said["format_version"]
                raise ValueError(f"{place} has layout {found}; this hashlearn reads up to {VERSION}: update hashlearn")
            if said.pop("sha256") != json_digest(said):
                raise ValueError(f"{place}: the facts do not match their checksum; it was edited or damaged")
            return cls(**{name: said[name] for name in cls._fields})
        except (KeyError, TypeError, AttributeError):
            raise ValueError(f"{place}: no catalog of a similarity search; it was edited or damaged") from None
        except ValueError as error:
            if str(error).startswith(str(place)):
                raise
            raise ValueError(f"{place}: the facts are no JSON; it was edited or damaged") from None


class Acknowledgement(NamedTuple):
    """What the file says: the number of a change, and the random name of the search."""

    change: int
    search: str
    path: Path

    def check(self, facts: Facts, catalog: Path) -> None:
        """Raise where the catalog is of another search, or lacks a change that was acknowledged."""
        if self.search != facts.search:
            raise ValueError(f"{catalog} is of another search than {self.path}; the folder was mixed")
        if facts.change < self.change:
            raise ValueError(
                f"{catalog} has {facts.change} changes, {self.change} were made: its log, {catalog.name}-wal, is "
                "damaged, missing, or cannot be merged here (open the folder once where it can be written)"
            )


class Acknowledged:
    """The number of the last change whose call has returned, in a file of its own.

    It has 28 bytes: the number (8), the random name of the search (16), and the CRC-32 of both (4).
    """

    def __init__(self, path: Path):
        self.path = path

    def write(self, facts: Facts) -> None:
        """Write the number of the last change, without waiting for the disk."""
        content = _ACKNOWLEDGED.pack(facts.change, facts.search.encode())
        with naming(self.path):
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
            try:
                os.write(descriptor, content + _CRC.pack(zlib.crc32(content)))
            finally:
                os.close(descriptor)

    def read(self) -> Acknowledgement:
        """What was written last."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            raise ValueError(f"{self.path} is missing: the folder was not copied whole") from None
        if len(content) != _ACKNOWLEDGED.size + 4 or zlib.crc32(content[:-4]) != _CRC.unpack(content[-4:])[0]:
            raise ValueError(f"{self.path} does not match its checksum; it was edited or damaged")
        change, search = _ACKNOWLEDGED.unpack(content[:-4])
        return Acknowledgement(change, search.decode("ascii", "replace"), self.path)
