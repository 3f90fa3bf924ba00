"""Rows of a data matrix, read a block at a time, and passes over them on all threads.

Every pass over the data uses :class:`RowBlocks`, so that memory is bounded by a block and the model. A source may hold
bytes, integers, half floats, a memmap or a sparse matrix; only one block of it at a time is a float matrix. Blocks do
not depend on the number of threads, and their results are added in order. So sums do not depend on it either.
"""

import mmap
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hashlearn.checks import check_vectors
from hashlearn.threads import n_threads, one_blas_thread

Result = TypeVar("Result")

_kept = threading.local()
"""Memory that a thread uses again, because the system hands out new memory slowly, page by page."""

BLOCK_ELEMENTS = 4 << 20
"""Numbers in a block: large enough for BLAS to run at full speed, small in memory (16 MB of float32)."""

MAPPED_BYTES = 64 << 20
"""Bytes of a mapped file that are read before its pages are released."""

MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 256, 8192
"""Most rows in a block of narrow data: the products of a block with hundreds of anchors or kernel bases are wider."""

BLOCKS_AHEAD = 4
"""Number of blocks that each thread computes before the first result is handed out."""


def row_slices(n: int, width: int, first: int = 0) -> Iterator[slice]:
    """Slices of the rows from ``first`` to n; each is a block if its rows have ``width`` columns."""
    return _slices(n, _rows_of_block(width), first)


def _slices(n: int, rows: int, first: int) -> Iterator[slice]:
    return (slice(start, min(start + rows, n)) for start in range(first, n, rows))


def _rows_of_block(width: int, parts: int = 1) -> int:
    return max(MIN_BLOCK_ROWS, min(MAX_BLOCK_ROWS, BLOCK_ELEMENTS // max(1, width)) // parts)


@runtime_checkable
class Source(Protocol):
    """Rows that can be asked for by their numbers.

    Attributes
    ----------
    shape : (n, d)
    dtype : the type of the numbers, as they are stored
    """

    shape: tuple[int, int]
    dtype: np.dtype

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> Any:
        """The rows of a slice, or of a list of row numbers: an ndarray or a CSR array."""

    def in_order(self, slices: Iterable[slice]) -> Iterator[tuple[slice, Any]]:
        """The rows of adjoining slices, one after the other, each with its slice."""
        return ((rows, self[rows]) for rows in slices)

    def place_of(self, row: int) -> str:
        """The file of a row, for an error; empty if the number of the row is enough."""
        return ""


def mapped_file(values: Any) -> np.memmap | None:
    """The mapped file that an array is a view of; None if the array has memory of its own."""
    while isinstance(values, np.ndarray):
        if isinstance(values, np.memmap) and isinstance(values.base, mmap.mmap):
            return values
        values = values.base
    return None


class ArrayRows(Source):
    """The rows of an array, a memmap or a CSR matrix."""

    def __init__(self, values: Any):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype
        mapped = mapped_file(values)
        self._pages: Any = mapped.base if mapped is not None and mapped.mode == "r" else None
        self._read_since = 0

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> Any:
        if self._pages is not None:
            self._forget_pages(rows)
        return self.values[rows]

    def _forget_pages(self, rows: slice | NDArray[np.integer]) -> None:
        """Tell the system now and then that pages of a mapped file need not stay in memory. A pass over a file of any
        size then takes the memory of a few blocks. A page that is still in use is read again from the system's
        cache."""
        n_rows = len(range(*rows.indices(self.shape[0]))) if isinstance(rows, slice) else len(rows)
        self._read_since += n_rows * self.shape[1] * self.dtype.itemsize
        if self._read_since > MAPPED_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            self._read_since = 0
            self._pages.madvise(mmap.MADV_DONTNEED)


class SeenRows:
    """How many rows from the first on are known to be finite; shared by all views of a source."""

    until: int = 0


class BlockWorkers(Protocol):
    """Processes on other machines that read the rows and run the passes. See :mod:`hashlearn.rows.cluster`."""

    def n_blocks(self, rows: "RowBlocks") -> int:
        """Number of blocks of a pass over the rows; no block lies across two parts that different workers read."""

    def map_blocks(self, rows: "RowBlocks", function: Callable, args: tuple) -> Iterator[tuple[slice, Any]]: ...

    def fold(self, rows: "RowBlocks", function: Callable, merge: Callable, args: tuple) -> Any: ...

    def write_blocks(self, rows: "RowBlocks", function: Callable, path: str, offset: int) -> Iterator[slice]: ...


class RowBlocks:
    """The rows of ``source`` as float blocks, shifted and scaled on the way: ``(x - shift) / scale``.

    The first pass that meets a row with NaN or infinity raises an error; rows that were found finite are not checked
    again.

    Parameters
    ----------
    source : ndarray, memmap or CSR array of shape (n, d), or another :class:`Source`
    shift : ndarray of shape (d,) or None
    scale : float
    seen : SeenRows or None
        How many rows of the source are known to be finite.
    name : str
        The name of the rows in an error.
    first : int
        The row that a pass begins with.
    offset : int
        Number of the source's first row, if the source is a part of a larger one.
    parts : int
        Each block is cut into this number of smaller blocks.
    workers : BlockWorkers or None
        The workers that run the passes; None for the threads of this process.

    Attributes
    ----------
    shape : (n, d)
    dtype : float64 if the source has more precision than float32 can hold, otherwise float32.
    """

    def __init__(
        self,
        source: Any,
        *,
        shift: NDArray | None = None,
        scale: float = 1.0,
        seen: "SeenRows | None" = None,
        name: str = "Input X",
        first: int = 0,
        offset: int = 0,
        parts: int = 1,
        workers: BlockWorkers | None = None,
    ):
        # An isinstance check against the protocol Source takes longer than encoding an array of one row.
        is_array = isinstance(source, np.ndarray) or not isinstance(source, Source)
        self.source: Source = ArrayRows(source) if is_array else source
        self.name, self.first, self.offset, self.parts, self.workers = name, first, offset, parts, workers
        check_vectors(name, self.source.shape, self.source.dtype)
        self.shape = self.source.shape
        self.dtype = np.promote_types(self.source.dtype, np.float32)
        self.shift = None if shift is None else np.asarray(shift, self.dtype)
        self.scale = scale
        self.seen = SeenRows() if seen is None else seen

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[tuple[slice, NDArray]]:
        """Pairs of the rows' slice and the block."""
        for rows, block in self.as_stored():
            yield rows, self.as_floats(rows, block)
            self.saw(rows)

    def as_floats(self, rows: slice, block: Any, *, in_scratch: bool = False) -> NDArray:
        """The float block of some stored rows, which must be finite; called on any thread.

        A block that is ``in_scratch`` may be overwritten by the thread's next block.
        """
        if rows.stop > self.seen.until:
            check_finite(block, self.offset + rows.start, self.name, self.source.place_of)
        return self._as_floats(block, in_scratch)

    def saw(self, rows: slice) -> None:
        """Note that these rows and the earlier rows of this pass are finite.

        A pass that begins behind the rows that are known to be finite notes nothing.
        """
        if rows.start <= self.seen.until < rows.stop:
            self.seen.until = rows.stop

    def as_stored(self) -> Iterator[tuple[slice, Any]]:
        """Pairs of a slice of rows and the stored rows of this slice."""
        return self.source.in_order(_slices(len(self), self.block_rows, self.first))

    @property
    def block_rows(self) -> int:
        """Number of rows of a block (the last block may have fewer)."""
        return _rows_of_block(self.shape[1], self.parts)

    @property
    def n_blocks(self) -> int:
        """Number of blocks of a pass."""
        if self.workers is not None:
            return self.workers.n_blocks(self)
        return -(-(len(self) - self.first) // self.block_rows)

    def take(self, rows: NDArray[np.integer]) -> NDArray:
        """The named rows, in that order."""
        block = self.source[rows]
        check_finite(block, rows, self.name, self.source.place_of)
        return self._as_floats(block)

    def draw(self, count: int, rng: np.random.RandomState) -> NDArray:
        """``count`` rows drawn at random, in their order; all rows if there are no more than that."""
        n = self.shape[0]
        return self.take(np.sort(rng.choice(n, count, replace=False)) if count < n else np.arange(n))

    def shifted(self, shift: NDArray | None, scale: float = 1.0) -> "RowBlocks":
        """The same rows as ``(x - shift) / scale``; None gives the rows as they are stored."""
        return RowBlocks(self.source, shift=shift, scale=scale, seen=self.seen, name=self.name, workers=self.workers)

    def since(self, first: int, parts: int = 1) -> "RowBlocks":
        """The same rows; passes begin with row ``first``, and rows keep their numbers.

        With ``parts``, each block is cut into this number of smaller blocks.
        """
        rows = self.shifted(self.shift, self.scale)
        rows.first, rows.parts = first, parts
        return rows

    def _as_floats(self, rows: Any, in_scratch: bool = False) -> NDArray:
        block = dense(rows)
        moved = self.shift is not None or self.scale != 1.0
        if not moved and block.dtype == self.dtype and block.flags.c_contiguous:
            return block
        out = scratch("block", block.shape, self.dtype) if in_scratch else np.empty(block.shape, self.dtype)
        np.subtract(block, self.dtype.type(0) if self.shift is None else self.shift, out=out, dtype=self.dtype)
        return np.divide(out, self.dtype.type(self.scale), out=out) if self.scale != 1.0 else out


def dense(block: Any) -> NDArray:
    """A block of rows as an ndarray."""
    return block.toarray() if scipy.sparse.issparse(block) else np.asarray(block)


def check_finite(
    block: Any,
    rows: int | NDArray[np.integer],
    name: str = "Input X",
    place_of: Callable[[int], str] = lambda row: "",
) -> None:
    """Refuse a block with NaN or infinity by the number of the first such row.

    ``rows`` are the block's row numbers, or the first of them; ``place_of`` says in which file a row is.
    """
    values = block.data if scipy.sparse.issparse(block) else np.asarray(block)
    # The common case costs one sum: it is NaN or infinite if any value is, and rarely otherwise.
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype.kind not in "fc" or np.isfinite(values.sum(dtype=np.promote_types(values.dtype, np.float32))):
            return
    values = dense(block)
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    first = int(bad.any(axis=1).argmax())
    number = rows + first if isinstance(rows, int) else int(rows[first])
    what = "NaN" if np.isnan(values[first]).any() else "infinity"
    place = place_of(number)
    raise ValueError(
        f"{name} must not contain NaN or infinity: row {number} has {what}{f' ({place})' if place else ''}"
    )


def scratch(name: str, shape: tuple[int, ...], dtype: np.dtype) -> NDArray:
    """A matrix in the memory of this thread; the next call with the same name overwrites it."""
    kept, size = getattr(_kept, name, None), int(np.prod(shape)) * dtype.itemsize
    if kept is None or len(kept) < size:
        kept = np.empty(size, np.uint8)
        setattr(_kept, name, kept)
    return kept[:size].view(dtype).reshape(shape)


class Pass(NamedTuple):
    """A function of every block of rows."""

    rows: RowBlocks
    function: Callable[..., Any]
    args: tuple
    in_scratch: bool
    """Whether a thread uses the memory of its blocks again, which is faster; a result must not hold a block."""

    def on(self, part: slice, block: Any) -> Any:
        """The function of one block, on any thread."""
        floats = self.rows.as_floats(part, block, in_scratch=self.in_scratch)
        return self.function(floats, self.rows.offset + part.start, *self.args)

    def over(self, blocks: Iterable[tuple[slice, Any]], threads: "Threads") -> Iterator[tuple[slice, Any]]:
        """The results of the blocks, in order. No thread is at work when this ends, also after an error."""
        if threads.pool is None:
            for part, block in blocks:
                result = self.on(part, block)
                self.rows.saw(part)
                yield part, result
            return
        pending: deque[tuple[slice, Future]] = deque()
        try:
            for part, block in blocks:
                pending.append((part, threads.pool.submit(self.on, part, block)))
                if len(pending) > threads.n:
                    yield self._oldest(pending)
            while pending:
                yield self._oldest(pending)
        finally:
            for _, future in pending:
                future.cancel()
            wait([future for _, future in pending])

    def _oldest(self, pending: deque[tuple[slice, Future]]) -> tuple[slice, Any]:
        part, future = pending.popleft()
        result = future.result()
        self.rows.saw(part)
        return part, result


class Threads(NamedTuple):
    """A pool of threads; None for one thread, which is the caller's."""

    n: int
    pool: ThreadPoolExecutor | None


@contextmanager
def threads_for(rows: RowBlocks) -> Iterator[Threads]:
    """The threads of a pass over the rows, at most one for each block."""
    n = 1 if rows.n_blocks <= 1 else min(n_threads(), rows.n_blocks)
    if n == 1:
        yield Threads(1, None)
        return
    with ThreadPoolExecutor(n) as pool:
        yield Threads(n, pool)


def map_blocks(rows: RowBlocks, function: Callable[..., Result], *args: Any) -> Iterator[tuple[slice, Result]]:
    """``function(block, number of its first row, *args)`` of every block, with the slice of its rows, in order.

    Each thread has a block of its own, and BLAS is kept to one thread meanwhile. So the work beside the matrix products
    also runs on all threads. Memory holds at most one block more than there are threads, and the results of
    ``BLOCKS_AHEAD`` blocks for each thread. Nothing runs while the generator waits for its caller, and BLAS then has
    the setting of the caller. If the rows have workers, the workers run the function.
    """
    if rows.workers is not None:
        yield from rows.workers.map_blocks(rows, function, args)
        return
    whole, blocks = Pass(rows, function, args, in_scratch=False), rows.as_stored()
    with threads_for(rows) as threads:
        while True:
            results, failure = _next_batch(whole, blocks, threads)
            if not results and failure is None:
                return
            try:
                yield from results
            finally:
                if failure is not None:
                    raise failure


def _next_batch(
    whole: Pass, blocks: Iterator[tuple[slice, Any]], threads: Threads
) -> tuple[list[tuple[slice, Any]], BaseException | None]:
    """The results of the next blocks and, if a block failed, its error, to be raised after they are handed out."""
    n_ahead = 1 if threads.pool is None else BLOCKS_AHEAD * threads.n
    results = []
    try:
        with one_blas_thread():
            for result in whole.over(islice(blocks, n_ahead), threads):
                results.append(result)
    except BaseException as failure:
        return results, failure
    return results, None
