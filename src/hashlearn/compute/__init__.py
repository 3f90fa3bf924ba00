"""Where a pass over the data runs: today over blocks of rows of an array or memmap."""

from hashlearn.compute.blocks import RowBlocks

__all__ = ["RowBlocks"]
