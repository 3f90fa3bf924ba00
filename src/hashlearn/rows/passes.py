"""One pass over the rows: a function of a block, on every block, on all threads.

The blocks do not depend on the number of threads and their results are taken in order, so neither do sums over them.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hashlearn.files import opened_within, write_at
from hashlearn.rows.blocks import RowBlocks
from hashlearn.rows.scratch import done_with, forget_spare
from hashlearn.threads import n_threads, one_blas_thread

Result = TypeVar("Result")


def map_blocks(
    rows: RowBlocks, function: Callable[..., Result], *args: Any, in_scratch: bool = False
) -> Iterator[tuple[slice, Result]]:
    """``function(block, number of its first row, *args)`` of every block, with the slice of its rows, in order.

    Each thread has a block of its own and BLAS is kept to one thread meanwhile: what is done beside the matrix products
    is then on all threads, too. At most one block more than there are threads is in memory. Where the rows have
    workers, these run the function. Blocks ``in_scratch`` are faster to make, and gone when the function has returned.
    """
    if rows.workers is not None:
        yield from rows.workers.map_blocks(rows, function, args)
        return

    def of_stored(part: slice, block: Any) -> Result:
        return function(rows.as_floats(part, block, in_scratch=in_scratch), rows.offset + part.start, *args)

    threads = n_threads()
    if threads == 1 or rows.n_blocks == 1:
        for part, block in rows.as_stored():
            value = of_stored(part, block)
            rows.saw(part)
            yield part, value
        return
    pending: deque[tuple[slice, Future[Result]]] = deque()

    def oldest() -> tuple[slice, Result]:
        part, result = pending.popleft()
        value = result.result()
        rows.saw(part)
        return part, value

    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        for part, block in rows.as_stored():
            pending.append((part, pool.submit(of_stored, part, block)))
            if len(pending) > threads:
                yield oldest()
        while pending:
            yield oldest()


def write_blocks(rows: RowBlocks, function: Callable[..., NDArray], path: str, offset: int) -> Iterator[slice]:
    """Write what ``function`` makes of every block (one row for each of the block's) to its place in a file.

    The file is there at its full size, and row 0 begins at byte ``offset``. The slice of a block's rows is given when
    they have been written; when the last is taken, all are on the disk. Where the rows have workers, these write.
    """
    if rows.workers is not None:
        yield from rows.workers.write_blocks(rows, function, path, offset)
        return
    with opened_within(path) as file:
        yield from write_blocks_here(rows, function, file, offset)


def write_blocks_here(rows: RowBlocks, function: Callable[..., NDArray], file: FileIO, offset: int) -> Iterator[slice]:
    """:func:`write_blocks` in this process, in a file that is open."""
    for part, result in map_blocks(rows, function):
        write_at(file, offset + (rows.offset + part.start) * result[0].nbytes, np.ascontiguousarray(result))
        yield part
    os.fsync(file.fileno())


def fold(
    rows: RowBlocks,
    function: Callable[..., Result],
    merge: Callable[[Result, Result], Result],
    *args: Any,
) -> Result:
    """The results of all blocks merged into one; ``merge`` may change its first argument, a result not hold its block.

    Where the rows have workers, these run the function and send what it returns: it must be a function of a module, and
    its results small.
    """
    if rows.workers is not None:
        return rows.workers.fold(rows, function, merge, args)
    return fold_here(rows, function, merge, *args)


def fold_here(
    rows: RowBlocks,
    function: Callable[..., Result],
    merge: Callable[[Result, Result], Result],
    *args: Any,
) -> Result:
    """:func:`fold` in this process, wherever the rows come from."""
    results = iter(map_blocks(rows, function, *args, in_scratch=True))
    _, total = next(results)
    for _, result in results:
        total = merge(total, result)
    forget_spare()
    return total


def added(left: tuple[NDArray, ...], right: tuple[NDArray, ...]) -> tuple[NDArray, ...]:
    """A merge for tuples of sums: ``right`` is added to ``left``, and its memory is used again."""
    for total, part in zip(left, right):
        total += part
        done_with(part)
    return left
