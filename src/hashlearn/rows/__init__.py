"""Passes over the data: over blocks of rows of an array, a memmap, files, or a stream."""

from hashlearn.rows.blocks import RowBlocks, map_blocks, row_slices, scratch
from hashlearn.rows.inputs import as_rows, as_vectors, check_holds_rows, is_source, plain_rows
from hashlearn.rows.passes import added, fold, sum_blocks, write_blocks

__all__ = [
    "RowBlocks",
    "added",
    "as_rows",
    "as_vectors",
    "check_holds_rows",
    "fold",
    "is_source",
    "map_blocks",
    "plain_rows",
    "row_slices",
    "scratch",
    "sum_blocks",
    "write_blocks",
]
