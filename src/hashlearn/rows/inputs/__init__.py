"""Vectors, ids and payloads in every form that users have, converted to the forms that the package uses."""

from hashlearn.rows.inputs.columns import is_frame_of_numbers
from hashlearn.rows.inputs.ids import MAX_ID_BYTES, as_ids, check_unique, held_ids, ids_are_text, is_plain
from hashlearn.rows.inputs.payloads import NO_PAYLOAD, as_payloads, payload_of
from hashlearn.rows.inputs.vectors import (
    GivenVectors,
    as_matrix,
    as_rows,
    as_vectors,
    check_holds_rows,
    is_source,
    plain_rows,
)

__all__ = [
    "MAX_ID_BYTES",
    "NO_PAYLOAD",
    "GivenVectors",
    "as_ids",
    "as_matrix",
    "as_payloads",
    "as_rows",
    "as_vectors",
    "check_holds_rows",
    "check_unique",
    "held_ids",
    "ids_are_text",
    "is_frame_of_numbers",
    "is_plain",
    "is_source",
    "payload_of",
    "plain_rows",
]
