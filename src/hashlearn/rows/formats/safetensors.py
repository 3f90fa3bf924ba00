"""safetensors: a header of JSON that says where each tensor lies, then the tensors. They are mapped, not read."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.rows.formats.format import Format, choose
from hashlearn.rows.formats.limits import check_expansion
from hashlearn.rows.formats.problems import FileProblem, reading

DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}
"""The types of numbers that numpy can hold; BF16 is converted."""

LENGTH = struct.Struct("<Q")
LARGEST_HEADER = 100 << 20
"""The longest header that the format allows, in bytes."""


class Safetensors(Format):
    """Named arrays, mapped; bfloat16, which numpy lacks, is read as float32."""

    def names(self, path: Path) -> list[str]:
        with reading(path, "safetensors"):
            return list(_header(path)[0])

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> NDArray:
        with reading(path, "safetensors"):
            tensors, start = _header(path)
            name = choose(path, list(tensors), name)
            tensor = tensors[name]
            if tensor["dtype"] not in DTYPES:
                raise FileProblem(path, f"{name} has the type {tensor['dtype']}; known are {' '.join(DTYPES)}")
            dtype = np.dtype(DTYPES[tensor["dtype"]])
            shape = tuple(_size(path, side) for side in tensor["shape"])
            first, last = (_size(path, place) for place in tensor["data_offsets"])
            n_bytes = dtype.itemsize
            for side in shape:
                n_bytes *= side
            if last - first != n_bytes or start + last > path.stat().st_size:
                raise FileProblem(path, f"{name} should take {n_bytes} bytes, its header says {last - first}")
            if n_bytes == 0:
                return np.empty(shape, dtype)
            values = np.memmap(path, dtype, mode="r", offset=start + first, shape=shape)
            if tensor["dtype"] != "BF16":
                return values
            check_expansion(path, 2 * n_bytes, max_bytes)
            return np.left_shift(values, 16, dtype=np.uint32).view(np.float32)


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """The entries of the header, one for each tensor, and where the first tensor begins."""
    with path.open("rb") as file:
        prefix = file.read(LENGTH.size)
        if len(prefix) < LENGTH.size:
            raise FileProblem(path, f"too short for its header of {LENGTH.size} bytes")
        (length,) = LENGTH.unpack(prefix)
        if length > min(LARGEST_HEADER, path.stat().st_size):
            raise FileProblem(path, f"its header should have {length} bytes, more than there are or may be")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return header, LENGTH.size + length


def _size(path: Path, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise FileProblem(path, f"its header has the size {value!r:.40}")
    return value
