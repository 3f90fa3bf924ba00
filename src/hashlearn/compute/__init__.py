"""Where a pass over the data runs: over blocks of rows of an array, a memmap, files, or a stream."""

from hashlearn.compute.blocks import RowBlocks, row_slices
from hashlearn.compute.passes import added, fold, fold_here, mapped, n_threads, one_blas_thread, stored
from hashlearn.compute.scratch import scratch, zeros_again
from hashlearn.compute.sources import as_rows, is_source

__all__ = [
    "RowBlocks",
    "added",
    "as_rows",
    "fold",
    "fold_here",
    "is_source",
    "mapped",
    "n_threads",
    "one_blas_thread",
    "row_slices",
    "scratch",
    "stored",
    "zeros_again",
]
