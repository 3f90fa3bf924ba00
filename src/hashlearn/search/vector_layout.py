"""The bytes of a vector file.

===============  =======================================================================================================
bytes            content
===============  =======================================================================================================
8                ``HLVECTS`` and a line feed
4, 4             version of this format; length of the header
as told          the header, JSON: n_features, dtype (``float32``, ``float16`` or ``int8``), records of a segment, and
                 for int8 the calibration: ``offset`` and ``scale`` of every feature; a value is offset + scale * byte
4                CRC-32 of all that stands before
4096             the state, twice, at bytes 0 and 2048: sequence number, number of records, next id, values that were
                 clipped (8 bytes each) and the CRC-32 of these (4 bytes); the valid one of the higher number counts
segments         for every 1024 records their keys, int64, then the checksums of the keys, then the vectors; behind the
                 values of a vector there are zeros up to a multiple of 4 bytes, and its checksum
===============  =======================================================================================================

Numbers are little-endian. State and segments begin at multiples of 4096, with zeros between; the last segment is as
long as the others. The key of a record is an id, or -1 - id where the record says that the vector of this id is
removed. Of several records of an id the last counts. Checksums have 4 bytes; :mod:`hashlearn.search.vector_checks` says
how they are computed. Those of the keys are compared when a file is first searched for ids, and that of a vector
whenever it is read: a damaged one is an error, and never a wrong distance.

A change writes its records behind the others and waits until they are on the disk. Then it writes the first state,
waits again, and writes the second, which is the same. A process that is killed before the first is written, or amid,
leaves the file as it was; damage to one of the two does no harm.
"""

import json
import os
import struct
import zlib
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_integer
from hashlearn.durable.json_files import parsed_json
from hashlearn.search.vector_checks import checksums
from hashlearn.search.vector_values import Calibration, Values

MAGIC = b"HLVECTS\n"
VERSION = 2
SEGMENT = 1024
"""Records of a segment."""

KEY_CHECKS_IN_SEGMENT = 8 * SEGMENT
ROWS_IN_SEGMENT = 12 * SEGMENT
"""Where the checksums of the keys, and the vectors, begin in a segment."""

_PAGE = 4096
_STATES = (0, _PAGE // 2)
_PREFIX = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
_STATE = struct.Struct("<QQQQ")
_LONGEST_HEADER = 1 << 24


class Layout(NamedTuple):
    """What does not change in a file, and where things are."""

    n_features: int
    values: Values
    state_at: int

    @property
    def row_bytes(self) -> int:
        return self.n_features * self.values.stored_dtype.itemsize

    @property
    def row_words(self) -> int:
        """Words of 32 bits that hold the values of a vector; the checksum is one more."""
        return -(-self.row_bytes // 4)

    @property
    def segment_bytes(self) -> int:
        return _aligned(ROWS_IN_SEGMENT + 4 * SEGMENT * (self.row_words + 1))

    @property
    def states_at(self) -> list[int]:
        """Where the two states are, in the order in which they are written."""
        return [self.state_at + start for start in _STATES]

    @property
    def segments_at(self) -> int:
        return self.state_at + _PAGE

    def size(self, n_records: int) -> int:
        """Bytes of a file with so many records."""
        return self.segments_at + -(-n_records // SEGMENT) * self.segment_bytes

    def keys_at(self, place: Any) -> Any:
        """Where the key of a record is; of one or many."""
        segment, row = np.divmod(place, SEGMENT)
        return self.segments_at + segment * self.segment_bytes + 8 * row

    def key_checks_at(self, place: Any) -> Any:
        """Where the checksum of a key is; of one or many."""
        segment, row = np.divmod(place, SEGMENT)
        return self.segments_at + segment * self.segment_bytes + KEY_CHECKS_IN_SEGMENT + 4 * row

    def rows_at(self, place: Any) -> Any:
        """Where the vector of a record begins; of one or many."""
        segment, row = np.divmod(place, SEGMENT)
        return self.segments_at + segment * self.segment_bytes + ROWS_IN_SEGMENT + row * 4 * (self.row_words + 1)

    def checked_rows(self, stored: NDArray, first: int) -> NDArray[np.uint32]:
        """The bytes of vectors with their checksums, for records from number ``first`` on; shape (n, row_words + 1)."""
        rows = np.zeros((len(stored), self.row_words + 1), "<u4")
        rows.view(np.uint8)[:, : self.row_bytes] = np.ascontiguousarray(stored).view(np.uint8)
        rows[:, -1] = checksums(rows[:, :-1], first)
        return rows


class State(NamedTuple):
    """What a change replaces."""

    sequence: int
    n_records: int
    next_id: int
    n_clipped: int

    def packed(self) -> bytes:
        content = _STATE.pack(*self)
        return content + _CRC.pack(zlib.crc32(content))


def key_checks(keys: NDArray[np.int64], first: int) -> NDArray[np.uint32]:
    """Checksums of the keys of records from number ``first`` on."""
    return checksums(np.ascontiguousarray(keys, "<i8").view("<u4").reshape(-1, 2), first)


def head_of_file(n_features: int, values: Values, state: State) -> bytes:
    """The bytes before the segments."""
    said: dict[str, Any] = {"n_features": n_features, "dtype": values.dtype, "segment": SEGMENT}
    if values.calibration is not None:
        said["calibration"] = {name: array.tolist() for name, array in values.calibration._asdict().items()}
    text = json.dumps(said).encode()
    head = _PREFIX.pack(MAGIC, VERSION, len(text)) + text
    head += _CRC.pack(zlib.crc32(head))
    return _filled_up(head) + 2 * state.packed().ljust(_PAGE // 2, b"\0")


def read_layout(file: FileIO, path: Path | str) -> Layout:
    """What the header says, once its checksum is seen to be right."""
    file.seek(0)
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size or not prefix.startswith(MAGIC):
        raise ValueError(f"{path}: not a vector file of hashlearn")
    _, version, length = _PREFIX.unpack(prefix)
    if version != VERSION:
        raise ValueError(f"{path}: version {version} of the format of vector files; this hashlearn reads {VERSION}")
    rest = file.read(length + _CRC.size) if length <= _LONGEST_HEADER else b""
    text, crc32 = rest[:length], rest[length:]
    if len(crc32) < _CRC.size or _CRC.unpack(crc32)[0] != zlib.crc32(prefix + text):
        raise ValueError(f"{path}: the header does not match its checksum; the file was truncated, edited or damaged")
    try:
        n_features, values = _checked_header(parsed_json(text.decode()))
    except KeyError as missing:
        raise ValueError(f"{path}: the header says no {missing}") from None
    except (TypeError, AttributeError, ValueError) as wrong:
        raise ValueError(f"{path}: {wrong}") from None
    return Layout(n_features, values, _aligned(len(prefix) + len(rest)))


def read_state(file: FileIO, path: Path | str, layout: Layout) -> State:
    """The newer of the two states, once the file is seen to be as long as it says."""
    file.seek(layout.state_at)
    page = file.read(_PAGE)
    found = []
    for start in _STATES:
        content, crc32 = _STATE.size, _STATE.size + _CRC.size
        said = page[start : start + crc32]
        if len(said) == crc32 and _CRC.unpack(said[content:])[0] == zlib.crc32(said[:content]):
            found.append(State(*_STATE.unpack(said[:content])))
    if not found:
        raise ValueError(f"{path}: no state that matches its checksum; the file was truncated, edited or damaged")
    state = max(found)
    size, wanted = os.fstat(file.fileno()).st_size, layout.size(state.n_records)
    if size < wanted:
        raise ValueError(f"{path}: {size} bytes long, its {state.n_records} records need {wanted}; it was truncated")
    return state


def _checked_header(said: dict[str, Any]) -> tuple[int, Values]:
    n_features = check_integer("n_features", said["n_features"], low=1)
    if said["segment"] != SEGMENT:
        raise ValueError(f"segments of {said['segment']} records; this hashlearn reads {SEGMENT}")
    calibration = None
    if "calibration" in said:
        arrays = (np.array(said["calibration"][name], np.float32) for name in Calibration._fields)
        calibration = Calibration(*arrays)
    return n_features, Values.checked(n_features, said["dtype"], calibration)


def _filled_up(content: bytes) -> bytes:
    return content.ljust(_aligned(len(content)), b"\0")


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // _PAGE) * _PAGE
