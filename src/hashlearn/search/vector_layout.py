"""The format of a file of kept vectors: its header, and how the values of a vector are written.

The file is only appended to:

===============  =======================================================================================================
bytes            content
===============  =======================================================================================================
8                ``HLVECTS`` and a line feed
4, 4             version of this format (3); length of the header
as told          the header, JSON: ``n_features``, ``dtype`` (``float32``, ``float16`` or ``int8``), ``id`` (16
                 hexadecimal digits, drawn for this file), and for int8 the ``calibration``: ``offset`` and ``scale`` of
                 every feature; a value is offset + scale * byte
4                CRC-32 of all that stands before
8, 4             number of records, and the CRC-32 of these 8 bytes
records          the values of a vector, zeros up to a multiple of 4 bytes, and the checksum of the record (4 bytes)
===============  =======================================================================================================

Numbers are little-endian. The number of records begins at the first multiple of 4096 behind the header, the records
4096 bytes later. The file may be longer than its records. Where a file belongs to a search, the catalog of the search
says how many records count. :mod:`hashlearn.search.kernels.checksums` says how checksums are computed; the id, read as
a number, is the state that their multipliers come from. The checksum of a record is compared whenever it is read: a
damaged vector, or one of another file, is an error, and never a wrong distance.
"""

import json
import os
import secrets
import struct
import zlib
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_choice, check_integer
from hashlearn.durable.files import parsed_json
from hashlearn.rows import as_rows, fold
from hashlearn.search.kernels.checksums import FIRST, write_checksums

MAGIC = b"HLVECTS\n"
VERSION = 3
DTYPES = ("float32", "float16", "int8")

_LARGEST_BYTE = 127
_PAGE = 4096
_PREFIX = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
_COUNT = struct.Struct("<QI")
_LONGEST_HEADER = 1 << 24


class Calibration(NamedTuple):
    """What the bytes of int8 vectors mean: a value is ``offset + scale * byte``, the byte from -127 to 127.

    Attributes
    ----------
    offset, scale : ndarray of shape (n_features,), float32
    """

    offset: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def of(cls, X: Any) -> "Calibration":
        """Of training vectors: the bytes of a feature reach from its least to its largest value.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows (:func:`hashlearn.rows.as_rows`)

        Examples
        --------
        >>> calibration = Calibration.of([[0.0, -1.0], [2.54, 1.0]])
        >>> calibration.offset.round(2), calibration.scale.round(4)
        (array([1.27, 0.  ], dtype=float32), array([0.01  , 0.0079], dtype=float32))
        """
        rows = as_rows(X)
        if not len(rows):
            raise ValueError("X must have at least one row to calibrate by, got 0")
        low, high = fold(rows, _range_of_block, _wider)
        tiny = np.finfo(np.float32).tiny
        scale = np.where(high > low, np.maximum((high - low) / (2 * _LARGEST_BYTE), tiny), 1.0)
        return cls(((low + high) / 2).astype(np.float32), scale.astype(np.float32))


class VectorLayout:
    """What does not change in a file: what its values mean, and where things are.

    Attributes
    ----------
    n_features : int
    dtype : one of DTYPES
    calibration : Calibration or None
        For int8 what the bytes mean.
    id : str
    count_at, records_at : int
        Where the number of records is, and where the records begin.
    stored_dtype : dtype
    row_words : int
        Words of 32 bits that hold the values of a vector; the checksum is one more.
    record_bytes : int
    multipliers : uint64 array
        Of the checksums.
    """

    def __init__(self, n_features: int, dtype: str, calibration: Calibration | None, id: str, count_at: int):
        self.n_features, self.dtype, self.calibration, self.id = n_features, dtype, calibration, id
        self.count_at, self.records_at = count_at, count_at + _PAGE
        self.stored_dtype = np.dtype(dtype).newbyteorder("<")
        self.row_words = -(-n_features * self.stored_dtype.itemsize // 4)
        self.record_bytes = 4 * (self.row_words + 1)
        self.multipliers = _multipliers(int(id, 16), self.row_words)

    def size(self, n_records: int) -> int:
        """Bytes of a file with room for ``n_records``."""
        return self.records_at + n_records * self.record_bytes

    def stored(self, block: NDArray) -> tuple[NDArray, int]:
        """The values of vectors as they are kept, and how many of them were out of range and are clipped."""
        if self.calibration is None:
            values, limit = block, float(np.finfo(self.dtype).max)
        else:
            values, limit = np.rint((block - self.calibration.offset) / self.calibration.scale), float(_LARGEST_BYTE)
        n_clipped = int(np.count_nonzero(np.abs(values) > limit))
        return np.clip(values, -limit, limit).astype(self.stored_dtype), n_clipped

    def floats(self, stored: NDArray) -> NDArray[np.float32]:
        """The values that are meant."""
        if self.calibration is None:
            return stored.astype(np.float32, copy=False)
        values = stored.astype(np.float32)
        values *= self.calibration.scale
        values += self.calibration.offset
        return values

    def records_of(self, stored: NDArray, first: int) -> NDArray[np.uint32]:
        """Vectors with their checksums, for records from number ``first`` on; shape (n, row_words + 1)."""
        records = np.zeros((len(stored), self.row_words + 1), "<u4")
        values = np.ascontiguousarray(stored).view(np.uint8)
        records.view(np.uint8)[:, : values.shape[1]] = values
        checks = np.empty(len(stored), np.uint32)
        write_checksums(np.ascontiguousarray(records[:, :-1]), first, self.multipliers, checks)
        records[:, -1] = checks
        return records


def new_head(n_features: Any, dtype: Any, calibration: Any) -> bytes:
    """The bytes before the records of a new file."""
    n_features = check_integer("n_features", n_features, low=1)
    checked = _checked_calibration(n_features, dtype, calibration)
    said: dict[str, Any] = {"n_features": n_features, "dtype": dtype, "id": secrets.token_hex(8)}
    if checked is not None:
        said["calibration"] = {name: array.tolist() for name, array in checked._asdict().items()}
    text = json.dumps(said).encode()
    head = _PREFIX.pack(MAGIC, VERSION, len(text)) + text
    head += _CRC.pack(zlib.crc32(head))
    return head.ljust(_aligned(len(head)), b"\0") + count_of(0).ljust(_PAGE, b"\0")


def count_of(n: int) -> bytes:
    """The number of records as it is written."""
    count = struct.pack("<Q", n)
    return count + _CRC.pack(zlib.crc32(count))


def read_layout(file: FileIO, path: Path | str) -> VectorLayout:
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
        said = parsed_json(text.decode())
        n_features = check_integer("n_features", said["n_features"], low=1)
        calibration = None
        if "calibration" in said:
            calibration = Calibration(*(np.array(said["calibration"][name], "f4") for name in Calibration._fields))
        calibration = _checked_calibration(n_features, said["dtype"], calibration)
        return VectorLayout(n_features, said["dtype"], calibration, said["id"], _aligned(len(prefix) + len(rest)))
    except KeyError as missing:
        raise ValueError(f"{path}: the header says no {missing}") from None
    except (TypeError, AttributeError, ValueError) as wrong:
        raise ValueError(f"{path}: {wrong}") from None


def read_count(file: FileIO, layout: VectorLayout) -> int:
    file.seek(layout.count_at)
    said = file.read(_COUNT.size)
    n, crc32 = _COUNT.unpack(said) if len(said) == _COUNT.size else (0, -1)
    if crc32 != zlib.crc32(said[:8]):
        raise ValueError(f"{file.name}: the number of records does not match its checksum; the file was damaged")
    if os.fstat(file.fileno()).st_size < layout.size(n):
        raise ValueError(f"{file.name}: too short for its {n} records; it was truncated")
    return n


def _checked_calibration(n_features: int, dtype: Any, calibration: Any) -> Calibration | None:
    """Raise unless int8 has a calibration of ``n_features`` features, and the others have none."""
    if check_choice("dtype", dtype, DTYPES) != "int8":
        if calibration is not None:
            raise ValueError(f"calibration must be None with dtype={dtype!r}: only int8 has one")
        return None
    if not isinstance(calibration, Calibration):
        raise ValueError(f"int8 vectors need a calibration, Calibration.of(training vectors), got {calibration!r}")
    offset, scale = (np.asarray(values, np.float32) for values in calibration)
    if offset.shape != (n_features,) or scale.shape != (n_features,):
        raise ValueError(
            f"calibration must have an offset and a scale for each of {n_features} features, "
            f"got shapes {offset.shape} and {scale.shape}"
        )
    if not np.isfinite(offset).all() or not np.isfinite(scale).all() or scale.min() <= 0:
        raise ValueError("calibration must be finite, with scales above zero")
    return Calibration(offset, scale)


def _multipliers(seed: int, n_words: int) -> NDArray[np.uint64]:
    """Those of the checksums of records of ``n_words`` words in a file with this seed."""
    with np.errstate(over="ignore"):
        z = np.arange(1, n_words + FIRST + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // _PAGE) * _PAGE


def _range_of_block(block: NDArray, first: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return block.min(axis=0).astype(np.float64), block.max(axis=0).astype(np.float64)


def _wider(
    left: tuple[NDArray[np.float64], NDArray[np.float64]], right: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.minimum(left[0], right[0]), np.maximum(left[1], right[1])
