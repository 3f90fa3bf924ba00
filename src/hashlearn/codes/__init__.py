"""Codes: packed bytes, and the distance between them."""

from hashlearn.codes.hamming import hamming_distances, paired_distances
from hashlearn.codes.packing import (
    BitOrder,
    Corrections,
    as_words,
    bytes_per_code,
    check_codes,
    check_n_bits,
    pack,
    reverse_bit_order,
    unpack,
)

__all__ = [
    "BitOrder",
    "Corrections",
    "as_words",
    "bytes_per_code",
    "check_codes",
    "check_n_bits",
    "hamming_distances",
    "pack",
    "paired_distances",
    "reverse_bit_order",
    "unpack",
]
