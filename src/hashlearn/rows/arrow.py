"""Vectors in Arrow columns: the kind of a column, and its numbers as a matrix, without a copy if Arrow allows it."""

from typing import Any

from numpy.typing import NDArray

from hashlearn.extras import require


def is_list_type(kind: Any) -> bool:
    """Whether an Arrow type is a list of numbers: a vector in every row."""
    check = require("pyarrow", "parquet").types
    kind = getattr(kind, "storage_type", kind)  # an extension, such as a tensor of a fixed shape
    lists = check.is_list(kind) or check.is_large_list(kind) or check.is_fixed_size_list(kind)
    return lists and is_number_type(kind.value_type)


def is_number_type(kind: Any) -> bool:
    """Whether an Arrow type is a number."""
    check = require("pyarrow", "parquet").types
    return check.is_integer(kind) or check.is_floating(kind)


def matrix_of_lists(lists: Any) -> NDArray:
    """The vectors of an Arrow array of lists, shape (n, d).

    Raises
    ------
    ValueError
        If the column has no vectors of one length. The message follows the name of the column: "has missing vectors".
    """
    lists = getattr(lists, "storage", lists)
    if lists.null_count:
        raise ValueError("has missing vectors")
    lengths = require("pyarrow.compute", "parquet").list_value_length(lists).to_numpy(zero_copy_only=False)
    if len(lengths) and (lengths != lengths[0]).any():
        raise ValueError(f"has vectors of different lengths, {lengths.min()} to {lengths.max()}")
    values = lists.flatten()
    if values.null_count:
        raise ValueError("has missing values")
    return values.to_numpy(zero_copy_only=False).reshape(len(lists), -1 if len(lists) else 0)
