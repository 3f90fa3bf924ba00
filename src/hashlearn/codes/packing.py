"""A code as bits, as bytes and as 64-bit words, and the correction that can be kept with it.

All packages exchange **packed** codes: C-contiguous ``uint8`` of shape ``(n, ceil(n_bits / 8))``, the first bit in the
most significant position of the first byte, padding bits zero. This is the order of numpy, sentence-transformers and
DuckDB; faiss, sqlite-vec and the MATLAB programs of this field put the first bit in the least significant position.
Distances do not depend on the order, so codes of hashlearn go into any engine as they are. ``bit_order="little"`` and
:func:`reverse_bit_order` are for codes that another program packed in the other order.
"""

from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer

BitOrder = Literal["big", "little"]
BIT_ORDERS = ("big", "little")

_REVERSED_BYTE = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1), axis=1, bitorder="little")[
    :, 0
]


def bytes_per_code(n_bits: int) -> int:
    """Width of a packed code in bytes."""
    return -(-check_n_bits(n_bits) // 8)


def check_n_bits(n_bits: int) -> int:
    """Return ``n_bits`` as an int, or raise if it is no positive whole number."""
    return check_integer("n_bits", n_bits, low=1)


def check_codes(codes: ArrayLike, n_bits: int, name: str = "codes") -> NDArray[np.uint8]:
    """Return ``codes`` as C-contiguous packed codes of ``n_bits``, or raise naming the argument.

    A single code of shape ``(n_bytes,)`` is not promoted: one code is ``codes[None]``.
    """
    if type(codes) is np.ndarray and codes.dtype == np.uint8 and codes.ndim == 2 and 8 * codes.shape[1] == n_bits > 0:
        return np.ascontiguousarray(codes)  # the checks below take longer than the distances of a few codes
    if isinstance(codes, np.ma.MaskedArray):  # numpy would drop the mask without an error
        raise TypeError(f"{name} must not be masked; pass the codes that count")
    array = np.asarray(codes)
    width = bytes_per_code(n_bits)
    if array.dtype != np.uint8:
        raise TypeError(
            f"{name} must be packed codes of dtype uint8, got {array.dtype}; hashlearn.pack makes them from bits"
        )
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"{name} must have shape (n, {width}) for n_bits={n_bits}, got {array.shape}")
    if n_bits % 8 and array.size and np.any(array[:, -1] & (0xFF >> n_bits % 8)):
        raise ValueError(
            f"{name} has bits set beyond n_bits={n_bits}; padding bits must be zero (is the bit order 'little'?)"
        )
    return np.ascontiguousarray(array)


def pack(bits: ArrayLike, bit_order: BitOrder = "big") -> NDArray[np.uint8]:
    """Pack bits into bytes.

    Parameters
    ----------
    bits : array of shape (n, n_bits)
        Boolean, or zeros and ones.
    bit_order : {"big", "little"}, default="big"
        Where the first bit goes: into the most or the least significant place of the first byte.

    Returns
    -------
    ndarray of shape (n, ceil(n_bits / 8)), uint8
        Packed codes; padding bits are zero.

    Examples
    --------
    >>> pack([[1, 0, 0, 0, 0, 0, 0, 0, 1]])
    array([[128, 128]], dtype=uint8)
    """
    array = np.asarray(bits)
    if array.ndim != 2:
        raise ValueError(f"bits must be a matrix of shape (n, n_bits), got shape {array.shape}")
    if array.dtype != np.bool_:
        if not (np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)):
            raise TypeError(f"bits must be boolean or 0/1, got dtype {array.dtype}")
        if not np.all((array == 0) | (array == 1)):
            raise ValueError("bits must be 0 or 1 (for -1/+1 codes pass codes > 0)")
        array = array.astype(np.bool_)
    return np.packbits(array, axis=1, bitorder=_check_order(bit_order))


def unpack(codes: ArrayLike, n_bits: int, bit_order: BitOrder = "big") -> NDArray[np.uint8]:
    """The bits of packed codes.

    Parameters
    ----------
    codes : array of shape (n, ceil(n_bits / 8)), uint8
        Packed codes.
    n_bits : int
        Length of a code, at least 1.
    bit_order : {"big", "little"}, default="big"
        Where the first bit is: in the most or the least significant place of the first byte.

    Returns
    -------
    ndarray of shape (n, n_bits), uint8
        Zeros and ones.

    Examples
    --------
    >>> unpack(np.array([[128, 128]], dtype=np.uint8), n_bits=9)
    array([[1, 0, 0, 0, 0, 0, 0, 0, 1]], dtype=uint8)
    """
    array = np.asarray(codes)
    if _check_order(bit_order) == "little":
        array = reverse_bit_order(array)
    return np.unpackbits(check_codes(array, n_bits), axis=1, count=n_bits)


def reverse_bit_order(codes: ArrayLike) -> NDArray[np.uint8]:
    """Turn codes packed first-bit-most-significant into first-bit-least-significant, and back."""
    array = np.asarray(codes)
    if array.dtype != np.uint8:
        raise TypeError(f"codes must be packed codes of dtype uint8, got {array.dtype}")
    return _REVERSED_BYTE[array]


def as_words(codes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Packed codes as 64-bit words of shape (n, ceil(n_bytes / 8)), zero-padded.

    Distances are the same in both forms. The bytes keep their order in memory, so the value of a word has no meaning.
    """
    n, width = codes.shape
    n_words = -(-width // 8)
    if width != 8 * n_words:
        padded = np.zeros((n, 8 * n_words), np.uint8)
        padded[:, :width] = codes
        codes = padded
    return np.ascontiguousarray(codes).view(np.uint64).reshape(n, n_words)


def _check_order(bit_order: str) -> Literal["big", "little"]:
    if bit_order not in BIT_ORDERS:
        raise ValueError(f"bit_order must be 'big' (first bit most significant) or 'little', got {bit_order!r}")
    return bit_order  # type: ignore[return-value]


class Corrections(NamedTuple):
    """Numbers that are added to the distances of codes from any query: ``offset + scale * values``, one for every code.

    Parameters
    ----------
    values : ndarray of shape (n,), uint8
        One byte for every code.
    scale : float
        Above 0.
    offset : float
        The number for byte 0.

    Examples
    --------
    >>> corrections = Corrections.of([2.0, 2.5, 4.0], scale=0.5, offset=2.0)
    >>> corrections.values
    array([0, 1, 4], dtype=uint8)
    >>> corrections.numbers()
    array([2. , 2.5, 4. ])
    """

    values: NDArray[np.uint8]
    scale: float
    offset: float

    @classmethod
    def of(cls, numbers: ArrayLike, scale: float, offset: float) -> Self:
        """The bytes that stand for numbers; numbers beyond ``offset`` and ``offset + 255 * scale`` are clipped.

        Parameters
        ----------
        numbers : array of shape (n,)
            The numbers that the bytes stand for.
        scale : float
            Above 0.
        offset : float
            The number for byte 0.

        Returns
        -------
        Corrections
            With one byte for every number.
        """
        steps = (np.asarray(numbers, np.float64) - offset) / scale
        return cls(np.clip(np.rint(steps), 0, 255).astype(np.uint8), scale, offset)

    def numbers(self) -> NDArray[np.float64]:
        """The numbers that the bytes stand for.

        Returns
        -------
        ndarray of shape (n,), float64
            One number for every code.
        """
        return self.offset + self.scale * self.values.astype(np.float64)
