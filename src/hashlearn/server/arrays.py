"""From numbers in a request to arrays, and from arrays to text in an answer. Errors are 422s that name the field."""

import binascii
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import bytes_per_code, check_codes
from hashlearn.deadline import check_deadline
from hashlearn.server.errors import unprocessable

_LARGEST_SQUARE = 8.1e37
"""The largest length of a vector. The squared distance of two is at most 4 times its square; float32 ends at 3.4e38."""
_BYTES_AT_A_TIME = 1 << 16


def vector_matrix(field: str, vectors: Sequence[list[float] | str], n_features: int) -> NDArray[np.float32]:
    """Vectors as float32 of shape (n, n_features).

    Parameters
    ----------
    field : str
        The field of the request, for errors; ``{}`` in it is replaced by the number of a vector.
    vectors : list of lists of numbers, or of base64
    n_features : int
        The length of each.
    """
    rows = []
    for number, vector in enumerate(vectors):
        # array reads a list several times as fast as numpy; a number too large for float32 becomes infinite
        row = _floats(field, number, vector, n_features) if isinstance(vector, str) else array("f", vector)
        if len(row) != n_features:
            raise unprocessable(field.format(number), f"must have {n_features} numbers, got {len(row)}")
        rows.append(row)
    # Not read-only, as in code_matrix.
    matrix = np.frombuffer(bytearray().join(rows), np.float32).reshape(len(rows), n_features)
    is_finite = np.einsum("ij,ij->i", matrix, matrix) <= _LARGEST_SQUARE  # not so of NaN
    if not is_finite.all():
        number = int(np.argmin(is_finite))
        message = "must have finite numbers whose distances float32 can hold: a length of at most 9e18"
        raise unprocessable(field.format(number), message)
    return matrix


def code_matrix(field: str, codes: Sequence[list[int] | str], n_bits: int, encoding: str) -> NDArray[np.uint8]:
    """Packed codes of shape (n, bytes); ``encoding`` says how strings are written, "base64" or "hex"."""
    width = bytes_per_code(n_bits)
    rows = []
    for number, code in enumerate(codes):
        row = _bytes(field.format(number), code, encoding, width) if isinstance(code, str) else bytes(code)
        if len(row) != width:
            raise unprocessable(field.format(number), f"must have {width} bytes, got {len(row)}")
        rows.append(row)
    # Not read-only: for such arrays the kernels would be compiled once more, while the request waits.
    matrix = np.frombuffer(bytearray().join(rows), np.uint8).reshape(len(rows), width)
    try:
        return check_codes(matrix, n_bits)
    except ValueError:
        raise unprocessable(field.format(0), f"must have zeros behind its {n_bits} bits") from None


def written_codes(codes: NDArray[np.uint8], encoding: str) -> list[Any]:
    """Codes as they are written in an answer: base64, hex, or lists of bytes."""
    return _WRITERS[encoding](codes)


def has_more_values(body: bytes, most: int, has_texts: bool) -> bool:
    """Whether a JSON text has more than about ``most`` values.

    They are the commas and opening brackets, without those inside of strings if it ``has_texts``.
    """
    return _exceeds(map(_begins, _blocks(body)), most) and (not has_texts or _exceeds(_begins_outside(body), most))


def _exceeds(begins: Iterable[NDArray[np.bool_]], most: int) -> bool:
    n = 0
    for block in begins:
        check_deadline()
        n += int(np.count_nonzero(block))
        if n > most:
            return True
    return False


def _begins_outside(body: bytes) -> Iterator[NDArray[np.bool_]]:
    """Which signs of each block begin a value and are outside of strings."""
    is_inside = np.False_
    for block in _blocks(body):
        plain = block.replace(rb"\\", b"..").replace(rb"\"", b"..")
        inside = np.logical_xor.accumulate(np.frombuffer(plain, np.uint8) == ord('"')) ^ is_inside
        yield _begins(plain) & ~inside
        is_inside = inside[-1]


def _blocks(body: bytes) -> Iterator[bytes]:
    """Parts of a text, short ones: no other thread works while Python replaces letters. An escape is in one part."""
    start = 0
    while start < len(body):
        part = body[start : start + _BYTES_AT_A_TIME]
        if (len(part) - len(part.rstrip(b"\\"))) % 2:
            part = body[start : start + len(part) + 1]
        yield part
        start += len(part)


def _begins(text: bytes) -> NDArray[np.bool_]:
    letters = np.frombuffer(text, np.uint8)
    return (letters == ord(",")) | (letters == ord("[")) | (letters == ord("{"))


def base64_bytes(field: str, text: str) -> bytes:
    """The bytes in a text of base64."""
    return _bytes(field, text, "base64")


def base64_text(array: NDArray) -> str:
    """The bytes of an array as base64."""
    return b64encode(array.tobytes()).decode()


def _floats(field: str, number: int, text: str, n_features: int) -> array:
    data = _bytes(field.format(number), text, "base64", 4 * n_features)
    if len(data) % 4:
        raise unprocessable(field.format(number), f"must be float32 numbers as base64, got {len(data)} bytes")
    numbers = array("f", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _bytes(field: str, text: str, encoding: str, n_bytes: int | None = None) -> bytes:
    """The bytes in a text. A text that is far too long for ``n_bytes`` is refused without decoding it."""
    if n_bytes is not None and len(text) > 4 * n_bytes + 4:
        raise unprocessable(field, f"must stand for {n_bytes:,} bytes, got {len(text):,} letters")
    try:
        return bytes.fromhex(text) if encoding == "hex" else b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise unprocessable(field, f"must be {encoding}") from None


_WRITERS: dict[str, Callable[[NDArray[np.uint8]], list[Any]]] = {
    "base64": lambda codes: [b64encode(code).decode() for code in codes],
    "hex": lambda codes: [code.tobytes().hex() for code in codes],
    "ubinary": lambda codes: codes.tolist(),
}
