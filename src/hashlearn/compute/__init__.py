"""Where a pass over the data runs: today over blocks of rows of an array or memmap."""

from hashlearn.compute.blocks import RowBlocks, row_slices

__all__ = ["RowBlocks", "row_slices"]
