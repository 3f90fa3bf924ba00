"""One pass over the rows: a function of a block, on every block, on all threads.

The blocks do not depend on the number of threads and their results are taken in order, so neither do sums over them.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import reduce
from io import FileIO
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hashlearn.files import opened_within, write_at
from hashlearn.rows.blocks import RowBlocks, done_with, forget_spare
from hashlearn.threads import n_threads, one_blas_thread

Result = TypeVar("Result")

BLOCKS_AHEAD = 4
"""Blocks a thread whose results are made before the first is handed out; then the threads wait for each other."""


def map_blocks(rows: RowBlocks, function: Callable[..., Result], *args: Any) -> Iterator[tuple[slice, Result]]:
    """``function(block, number of its first row, *args)`` of every block, with the slice of its rows, in order.

    Each thread has a block of its own and BLAS is kept to one thread meanwhile: what is done beside the matrix products
    is then on all threads, too. At most one block more than there are threads is in memory, and the results of
    ``BLOCKS_AHEAD`` blocks a thread. Nothing runs while the generator waits for its caller, so BLAS is then as the
    caller has it. Where the rows have workers, these run the function.
    """
    if rows.workers is not None:
        yield from rows.workers.map_blocks(rows, function, args)
        return
    task, blocks = _Task(rows, function, args, in_scratch=False), rows.as_stored()
    with _threads_for(rows) as threads:
        while (batch := _next_batch(task, blocks, threads)).is_any:
            try:
                yield from batch.results
            finally:
                batch.raise_failure()


class _Batch(NamedTuple):
    """The results of some blocks and, if one of them failed, its error, which is raised after they are handed out."""

    results: list[tuple[slice, Any]]
    failure: BaseException | None

    @property
    def is_any(self) -> bool:
        return bool(self.results) or self.failure is not None

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure


def _next_batch(task: "_Task", blocks: Iterator[tuple[slice, Any]], threads: "_Threads") -> _Batch:
    results = []
    try:
        with one_blas_thread():
            for result in _run(task, islice(blocks, threads.n_ahead), threads):
                results.append(result)
    except BaseException as failure:
        return _Batch(results, failure)
    return _Batch(results, None)


class _Task(NamedTuple):
    """What is done with a block."""

    rows: RowBlocks
    function: Callable[..., Any]
    args: tuple
    in_scratch: bool
    """Whether blocks are made in memory that the thread uses again, which is faster; a result must not hold any."""

    def on(self, part: slice, block: Any) -> Any:
        floats = self.rows.as_floats(part, block, in_scratch=self.in_scratch)
        return self.function(floats, self.rows.offset + part.start, *self.args)


class _Threads(NamedTuple):
    """So many threads; None for the pool is the caller's own."""

    n: int
    pool: ThreadPoolExecutor | None

    @property
    def n_ahead(self) -> int:
        """Blocks of which the results are made before the first is handed out."""
        return 1 if self.pool is None else BLOCKS_AHEAD * self.n


@contextmanager
def _threads_for(rows: RowBlocks) -> Iterator[_Threads]:
    n = min(n_threads(), rows.n_blocks)
    if n <= 1:
        yield _Threads(1, None)
        return
    with ThreadPoolExecutor(n) as pool:
        yield _Threads(n, pool)


def _run(task: _Task, blocks: Iterable[tuple[slice, Any]], threads: _Threads) -> Iterator[tuple[slice, Any]]:
    """The results of the blocks, in order; when it ends, whichever way, no thread is at work."""
    if threads.pool is None:
        for part, block in blocks:
            result = task.on(part, block)
            task.rows.saw(part)
            yield part, result
        return
    pending: deque[tuple[slice, Future]] = deque()
    try:
        for part, block in blocks:
            pending.append((part, threads.pool.submit(task.on, part, block)))
            if len(pending) > threads.n:
                yield _oldest(task, pending)
        while pending:
            yield _oldest(task, pending)
    finally:
        for _, future in pending:
            future.cancel()
        wait([future for _, future in pending])


def _oldest(task: _Task, pending: deque[tuple[slice, Future]]) -> tuple[slice, Any]:
    part, future = pending.popleft()
    result = future.result()
    task.rows.saw(part)
    return part, result


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
    task = _Task(rows, function, args, in_scratch=True)
    with one_blas_thread(), _threads_for(rows) as threads:
        total = reduce(merge, (result for _, result in _run(task, rows.as_stored(), threads)))
    forget_spare()
    return total


def added(left: tuple[NDArray, ...], right: tuple[NDArray, ...]) -> tuple[NDArray, ...]:
    """A merge for tuples of sums: ``right`` is added to ``left``, and its memory is used again."""
    for total, part in zip(left, right):
        total += part
        done_with(part)
    return left
