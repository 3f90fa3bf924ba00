"""idx files of every type, mapped, or read from gzip whose checksum is compared."""

import gzip

import numpy as np
import pytest

from hashlearn.rows.blocks import mapped_file
from hashlearn.rows.formats import FileProblem, read_array
from hashlearn.rows.formats.idx import TYPES


def content(values, code):
    return bytes((0, 0, code, values.ndim)) + np.array(values.shape, ">u4").tobytes() + values.tobytes()


@pytest.mark.parametrize(("code", "dtype"), TYPES.items())
@pytest.mark.parametrize("shape", [(5,), (4, 3), (2, 3, 4)])
def test_round_trip(tmp_path, code, dtype, shape):
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    for name, data in (
        ("a.idx", content(values, code)),
        ("a-idx3-ubyte.gz", gzip.compress(content(values, code))),
    ):
        (tmp_path / name).write_bytes(data)
        read = read_array(tmp_path / name)
        np.testing.assert_array_equal(read, values)
        assert (mapped_file(read) is not None) == (name == "a.idx")


@pytest.mark.parametrize("name", ["a-ubyte", "a.idx.gz"])
def test_damage(tmp_path, name):
    path = tmp_path / name
    good = content(np.arange(12, dtype=np.uint8).reshape(3, 4), 8)
    for data in (
        good[:3],
        b"\0\0\7" + good[3:],
        b"\0\1" + good[2:],
        good[:7],
        good[:-1],
        good + b"x",
        good[:3] + b"\0",
    ):
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        with pytest.raises(FileProblem, match=rf"^{path}: [^\n]+$"):
            read_array(path)


def test_the_checksum_of_gzip_is_read(tmp_path):
    path = tmp_path / "a.idx.gz"
    data = bytearray(gzip.compress(content(np.arange(200, dtype=np.uint8), 8), compresslevel=0))
    place = data.index(bytes(range(100, 110)))
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(FileProblem, match="CRC"):
        read_array(path)
