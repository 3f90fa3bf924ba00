"""Rows on a Dask cluster: workers run the passes, and this process merges the results.

A pass is one task for every part of the rows. A task depends only on the rows and the pass, so Dask runs it again
elsewhere if its worker dies. Results are merged in the order of the rows.
"""

import os
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_vectors
from hashlearn.durable.files import LEFTOVER, opened_within
from hashlearn.extras import require
from hashlearn.rows.blocks import RowBlocks, SeenRows, Source, map_blocks
from hashlearn.rows.formats import read_vectors
from hashlearn.rows.passes import fold, write_blocks_here
from hashlearn.rows.source import Files, PathLike
from hashlearn.version import __version__

ROWS_PER_TASK = 1 << 16
CONNECT_SECONDS = 10
RETRIES = 5
"""How often a failed task is tried again: files on a network may fail for a moment. A ValueError about the rows is not
tried again."""


def on_cluster(paths: PathLike | Sequence[PathLike], client: Any = None) -> RowBlocks:
    """The vectors of files that all workers can read, for ``fit`` and ``transform`` on a cluster.

    Parameters
    ----------
    paths : path or list of paths
        Several files are one source. Workers open them under the same names; mapped formats (npy, fbin, fvecs) are
        read only where a task needs them.
    client : dask.distributed.Client or None
        The cluster; None for the current client, or threads of this process if there is none.
    """
    require("dask", "dask")
    files = Files([paths] if isinstance(paths, (str, bytes)) or not isinstance(paths, Sequence) else paths)
    parts = []
    for path, low, high in zip(files.paths, files.starts, files.starts[1:]):
        bounds = [*range(0, int(high - low), ROWS_PER_TASK), int(high - low)]
        parts += [_Part(int(low) + start, stop - start, _Slice(path, start, stop)) for start, stop in pairwise(bounds)]
    return RowBlocks(files, workers=Cluster(parts, _current(client)))


def connected(address: str) -> Any:
    """A client of the cluster whose scheduler listens at ``address`` (``tcp://host:8786``)."""
    distributed = require("distributed", "dask")
    try:
        return distributed.Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:150]
        raise ValueError(f"no cluster answers at {address}: {reason}") from None


def dask_rows(X: Any, client: Any = None) -> RowBlocks:
    """The rows of a dask array of shape (n, d), one task for every chunk of rows."""
    check_vectors("X", X.shape, X.dtype)
    if any(np.isnan(side) for side in X.shape):
        X = X.compute_chunk_sizes()
    X = X.rechunk({1: -1})
    firsts = np.cumsum([0, *X.chunks[0]])
    chunks = X.to_delayed()[:, 0]
    parts = [_Part(int(first), n, chunk) for first, n, chunk in zip(firsts, X.chunks[0], chunks) if n]
    return RowBlocks(_Computed(X), workers=Cluster(parts, _current(client)))


class _Slice(NamedTuple):
    """Rows of a file, which the worker reads."""

    path: str
    start: int
    stop: int

    def read(self) -> NDArray:
        return read_vectors(self.path)[self.start : self.stop]


class _Part(NamedTuple):
    """Some of the rows: the number of the first, how many, and a slice of a file or a delayed chunk."""

    first: int
    n: int
    data: Any

    def since(self, row: int) -> "_Part":
        """The part from a row on."""
        if row <= self.first:
            return self
        passed = row - self.first
        data = self.data
        rest = data._replace(start=data.start + passed) if isinstance(data, _Slice) else data[passed:]
        return _Part(row, self.n - passed, rest)


class _Computed(Source):
    """A dask array whose rows are fetched on demand."""

    def __init__(self, X: Any):
        n, d = X.shape
        self.X, self.shape, self.dtype = X, (int(n), int(d)), X.dtype

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray:
        return np.asarray(self.X[rows].compute())


class Cluster:
    """The workers of :class:`~hashlearn.rows.RowBlocks` on a Dask cluster, which read one part of the rows for each
    task.

    Parameters
    ----------
    parts : list of _Part
    client : dask.distributed.Client, or None for this process
    """

    def __init__(self, parts: list[_Part], client: Any):
        self.parts, self.client = parts, client
        if client is not None:
            _check_workers(client)

    def n_blocks(self, rows: RowBlocks) -> int:
        """Blocks of the parts that a pass over the rows takes."""
        return sum(-(-part.n // rows.block_rows) for part in self._parts(rows))

    def fold(self, rows: RowBlocks, function: Callable, merge: Callable, args: tuple) -> Any:
        """:func:`hashlearn.rows.fold`, a part of the rows on each worker."""
        results = (result for _, result in self._run(rows, _fold_part, (function, merge, *args)))
        total = next(results)
        for result in results:
            total = merge(total, result)
        return total

    def map_blocks(self, rows: RowBlocks, function: Callable, args: tuple) -> Iterator[tuple[slice, Any]]:
        """:func:`hashlearn.rows.map_blocks`, with all results of a part at once."""
        for part, results in self._run(rows, _map_part, (function, *args)):
            for start, stop, result in results:
                yield slice(part.first + start, part.first + stop), result

    def write_blocks(self, rows: RowBlocks, function: Callable, path: str, offset: int) -> Iterator[slice]:
        """:func:`hashlearn.rows.write_blocks`: the workers write to the file and report which rows they wrote."""
        if self.client is not None:
            _check_folder(self.client, Path(path).parent)
        for part, slices in self._run(rows, _write_part, (function, path, offset)):
            for start, stop in slices:
                yield slice(part.first + start, part.first + stop)

    def _run(self, rows: RowBlocks, task: Callable, args: tuple) -> Iterator[tuple[_Part, Any]]:
        for part, result in self._results(rows, task, args):
            accepted = _accepted(result)
            rows.saw(slice(part.first, part.first + part.n))
            yield part, accepted

    def _results(self, rows: RowBlocks, task: Callable, args: tuple) -> Iterator[tuple[_Part, Any]]:
        """Results in the order of the parts."""
        dask = require("dask", "dask")
        # Large arguments, such as anchors, are one node of the graph: each worker gets them once, not with every task.
        of_rows = (rows.shift, rows.scale, rows.name, rows.seen.until)
        shared = dask.delayed((task, args, of_rows), pure=False, traverse=False)
        on_part = dask.delayed(_on_part, pure=False)
        tasks = [(part, on_part(part.data, part.first, shared)) for part in self._parts(rows)]
        if self.client is None:
            for part, each in tasks:
                yield part, each.compute(scheduler="synchronous")
            return
        parts = (part for part, _ in tasks)
        futures = (self.client.compute(each, retries=RETRIES) for _, each in tasks)
        yield from zip(parts, _in_order(futures, self.client))

    def _parts(self, rows: RowBlocks) -> list[_Part]:
        return [part.since(rows.first) for part in self.parts if part.first + part.n > rows.first]


def run_tasks(client: Any, function: Callable, arguments: Sequence[tuple]) -> Iterator[Any]:
    """The results of a function for each tuple of arguments, in their order.

    Parameters
    ----------
    client : dask.distributed.Client, or None for this process
    function : function
        Dask may run it more than once for the same arguments, also at the same time: when a worker is lost.
    arguments : list of tuples
    """
    if client is None:
        yield from (function(*each) for each in arguments)
        return
    _check_workers(client)
    yield from _in_order((client.submit(function, *each, pure=False, retries=RETRIES) for each in arguments), client)


def _in_order(futures: Iterator[Any], client: Any) -> Iterator[Any]:
    """The results of futures that are made one by one: enough at a time to keep all workers busy, few enough to keep
    memory small."""
    waiting: deque[Any] = deque()
    at_a_time = 4 * max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
    for future in futures:
        waiting.append(future)
        if len(waiting) > at_a_time:
            yield _result(waiting.popleft())
    while waiting:
        yield _result(waiting.popleft())


def _on_part(data: Any, first: int, shared: tuple) -> Any:
    task, args, (shift, scale, name, seen_until) = shared

    def rows() -> RowBlocks:
        values = data.read() if isinstance(data, _Slice) else data
        seen = SeenRows()
        seen.until = max(0, seen_until - first)
        return RowBlocks(values, shift=shift, scale=scale, seen=seen, name=name, offset=first)

    try:
        return task(rows, *args)
    except ValueError as error:
        return _Refused(error)


class _Refused(NamedTuple):
    """A ValueError that a task returns instead of raising, because Dask would try a raised error again."""

    error: ValueError


def _accepted(result: Any) -> Any:
    if isinstance(result, _Refused):
        raise result.error
    return result


def _fold_part(rows: Callable[[], RowBlocks], function: Callable, merge: Callable, *args: Any) -> Any:
    return fold(rows(), function, merge, *args)


def _map_part(rows: Callable[[], RowBlocks], function: Callable, *args: Any) -> list[tuple[int, int, Any]]:
    return [(part.start, part.stop, result) for part, result in map_blocks(rows(), function, *args)]


def _write_part(rows: Callable[[], RowBlocks], function: Callable, path: str, offset: int) -> list[tuple[int, int]]:
    # The file is opened before a row is read: if the client ends and a new client replaces the file, a late task still
    # writes to the old file.
    with opened_within(path) as file:
        return [(part.start, part.stop) for part in write_blocks_here(rows(), function, file, offset)]


def _result(future: Any) -> Any:
    try:
        return future.result()
    except (CancelledError, require("distributed", "dask").KilledWorker) as error:
        raise ConnectionError(f"the cluster has given up: {error}") from None


def _current(client: Any) -> Any:
    if client is not None:
        return client
    try:
        return require("distributed", "dask").get_client()
    except (ImportError, ValueError):  # dask is not installed, or there is no client
        return None


def _check_workers(client: Any) -> None:
    """Refuse workers without this version of the package: their errors would come from pickle and say nothing."""
    here = _version()
    try:
        versions = client.run(_version)
    except Exception as error:  # a worker without the package cannot unpickle the call
        if "ModuleNotFoundError" not in repr(error):
            raise
        raise ImportError(
            f"a worker of the cluster has no hashlearn; pip install 'hashlearn[dask]=={here}' there"
        ) from None
    for worker, version in versions.items():
        if version != here:
            raise ImportError(f"worker {worker} has hashlearn {version}, this process {here}")


def _check_folder(client: Any, folder: Path) -> None:
    """Refuse workers that do not see this folder: a local folder of the same name would take the codes without an
    error."""
    probe = folder / f".{secrets.token_hex(8)}{LEFTOVER}"
    probe.touch()
    try:
        seen = client.run(os.path.exists, str(probe))
    finally:
        probe.unlink()
    for worker, sees in seen.items():
        if not sees:
            raise OSError(f"worker {worker} does not see the folder {folder}, where the workers write the codes")


def _version() -> str:
    return __version__
