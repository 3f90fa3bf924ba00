"""Where a pass over the data runs: over blocks of rows of an array, a memmap, files, or a stream."""

from hashlearn.compute.blocks import RowBlocks, row_slices
from hashlearn.compute.sources import as_rows, is_source

__all__ = ["RowBlocks", "as_rows", "is_source", "row_slices"]
