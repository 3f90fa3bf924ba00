"""The results of a pass over blocks: merged into one result, such as a sum, or written as rows of a file."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from io import FileIO
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hashlearn.durable.files import opened_within, write_at
from hashlearn.rows.blocks import Pass, RowBlocks, map_blocks, threads_for
from hashlearn.threads import one_blas_thread

Result = TypeVar("Result")


def fold(
    rows: RowBlocks,
    function: Callable[..., Result],
    merge: Callable[[Result, Result], Result],
    *args: Any,
) -> Result:
    """``function(block, number of its first row, *args)`` of all blocks, merged into one result in their order.

    ``merge`` may change its first argument. A result must not hold its block, because the memory of the block is used
    again. If the rows have workers, the workers run the function and send the results: then the function must be
    picklable, such as a function of a module, and its results small.
    """
    if rows.workers is not None:
        return rows.workers.fold(rows, function, merge, args)
    with one_blas_thread(), threads_for(rows) as threads:
        results = Pass(rows, function, args, in_scratch=True).over(rows.as_stored(), threads)
        return reduce(merge, (result for _, result in results))


def added(left: tuple[NDArray, ...], right: tuple[NDArray, ...]) -> tuple[NDArray, ...]:
    """A merge for tuples of sums: ``right`` is added to ``left``."""
    for total, part in zip(left, right):
        total += part
    return left


def sum_blocks(
    rows: RowBlocks, add_block: Callable[..., None], shapes: Sequence[tuple[int, ...]], *args: Any
) -> tuple[NDArray[np.float64], ...]:
    """Sums over all blocks: ``add_block(block, sums, *args)`` adds those of a block to arrays of these shapes.

    As :func:`fold` with :func:`added`, but without new arrays for every block.
    """
    sums = _BlockSums(add_block, shapes)
    return fold(rows, sums.of_block, sums.merge, *args)


class _BlockSums:
    """Sums of blocks; after merging, their arrays are used again for another block."""

    def __init__(self, add_block: Callable[..., None], shapes: Sequence[tuple[int, ...]]):
        self.add_block, self.shapes = add_block, shapes
        # Keep few spare arrays: sums that workers send are merged here, and nobody uses their arrays again.
        self.spare: deque[tuple[NDArray[np.float64], ...]] = deque(maxlen=2)

    def __reduce__(self) -> tuple:
        return _BlockSums, (self.add_block, self.shapes)  # spare arrays are not sent to workers

    def of_block(self, block: NDArray, first: int, *args: Any) -> tuple[NDArray[np.float64], ...]:
        try:
            sums = self.spare.pop()
        except IndexError:
            sums = tuple(np.empty(shape) for shape in self.shapes)
        for each in sums:
            each.fill(0)
        self.add_block(block, sums, *args)
        return sums

    def merge(self, total: tuple[NDArray, ...], sums: tuple[NDArray, ...]) -> tuple[NDArray, ...]:
        added(total, sums)
        self.spare.append(sums)
        return total


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
