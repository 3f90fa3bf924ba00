"""Passes with one result for each row: handed out a block at a time, or written to a file."""

import os
from collections.abc import Callable, Iterator
from io import FileIO
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hashlearn.durable.files import opened_within, write_at
from hashlearn.rows.blocks import Pass, RowBlocks, Threads, threads_for
from hashlearn.threads import one_blas_thread

Result = TypeVar("Result")

BLOCKS_AHEAD = 4
"""Number of blocks that each thread computes before the first result is handed out."""


def map_blocks(rows: RowBlocks, function: Callable[..., Result], *args: Any) -> Iterator[tuple[slice, Result]]:
    """``function(block, number of its first row, *args)`` of every block, with the slice of its rows, in order.

    Each thread has a block of its own, and BLAS is kept to one thread meanwhile. So the work beside the matrix products
    also runs on all threads. At most one block more than there are threads is in memory, and the results of
    ``BLOCKS_AHEAD`` blocks a thread. Nothing runs while the generator waits for its caller, and BLAS then has the
    setting of the caller. If the rows have workers, the workers run the function.
    """
    if rows.workers is not None:
        yield from rows.workers.map_blocks(rows, function, args)
        return
    whole, blocks = Pass(rows, function, args, in_scratch=False), rows.as_stored()
    with threads_for(rows) as threads:
        while (batch := _next_batch(whole, blocks, threads)).is_any:
            try:
                yield from batch.results
            finally:
                batch.raise_failure()


class _Batch(NamedTuple):
    """The results of some blocks and, if a block failed, its error. The error is raised after the results are handed
    out."""

    results: list[tuple[slice, Any]]
    failure: BaseException | None

    @property
    def is_any(self) -> bool:
        return bool(self.results) or self.failure is not None

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure


def _next_batch(whole: Pass, blocks: Iterator[tuple[slice, Any]], threads: Threads) -> _Batch:
    n_ahead = 1 if threads.pool is None else BLOCKS_AHEAD * threads.n
    results = []
    try:
        with one_blas_thread():
            for result in whole.over(islice(blocks, n_ahead), threads):
                results.append(result)
    except BaseException as failure:
        return _Batch(results, failure)
    return _Batch(results, None)


def write_blocks(rows: RowBlocks, function: Callable[..., NDArray], path: str, offset: int) -> Iterator[slice]:
    """Write the result of ``function`` for every block (one row for each row of the block) to its place in a file.

    The file must exist at its full size, and row 0 begins at byte ``offset``. Yields the slice of each block after it
    is written; after the last one, all rows are on the disk. If the rows have workers, the workers write.
    """
    if rows.workers is not None:
        yield from rows.workers.write_blocks(rows, function, path, offset)
        return
    with opened_within(path) as file:
        yield from write_blocks_here(rows, function, file, offset)


def write_blocks_here(rows: RowBlocks, function: Callable[..., NDArray], file: FileIO, offset: int) -> Iterator[slice]:
    """:func:`write_blocks` in this process, to an open file."""
    for part, result in map_blocks(rows, function):
        write_at(file, offset + (rows.offset + part.start) * result[0].nbytes, np.ascontiguousarray(result))
        yield part
    os.fsync(file.fileno())
