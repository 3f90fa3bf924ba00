"""The nearest rows of millions of queries, by the workers of a Dask cluster, written to parquet files.

Queries are put in the order of their nearest lists and cut into tasks. A worker maps the file of the index, and reads
the lists that the queries of its tasks look at: near queries look at the same lists, so that the lists spread over the
workers. Each task writes one file under a name of its own, which it takes when it is whole. So a task that runs again,
because its worker was lost, changes nothing, and a run that was interrupted goes on where it was.
"""

import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_integer, check_number
from hashlearn.durable.files import replacing
from hashlearn.extras import require
from hashlearn.index.partitioned import PartitionedIndex, check_recall
from hashlearn.rows.cluster import run_tasks
from hashlearn.threads import split

QUERIES_PER_TASK = 1 << 14
_JOB = "job.json"


class BulkSearch(NamedTuple):
    """What every task needs to know; paths are the same for all workers.

    See :func:`search_in_bulk`.
    """

    lists: str
    vectors: str
    queries: str | None
    folder: str
    k: int
    recall: float
    max_distance: float | None

    def part(self, number: int) -> Path:
        """The file of a task."""
        return Path(self.folder) / f"part-{number:06d}.parquet"

    def asked(self) -> NDArray:
        """The queries, mapped."""
        return np.load(self.vectors if self.queries is None else self.queries, mmap_mode="r")

    def write(self, number: int, which: NDArray[np.int64]) -> int:
        """Search for some queries and write what they find; returns how many neighbors."""
        index, vectors = _opened(self.lists, self.vectors)
        itself = self.queries is None
        found = index.search(
            np.asarray(self.asked()[which], np.float32), self.k + itself, recall=self.recall, vectors=vectors
        )
        there = found.ids >= 0
        if itself:
            there &= found.ids != which[:, None]
            there &= np.cumsum(there, axis=1) <= self.k
        if self.max_distance is not None:
            there &= found.distances <= self.max_distance
        pa, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
        columns = {
            "query": np.repeat(which, there.sum(axis=1)),
            "row": found.ids[there],
            "distance": found.distances[there],
        }
        with replacing(self.part(number)) as (beside,):
            parquet.write_table(pa.table(columns), beside)
        return int(there.sum())


def search_in_bulk(
    index: str | Path,
    vectors: str | Path,
    folder: str | Path,
    *,
    queries: str | Path | None = None,
    k: int = 10,
    recall: float = 0.95,
    max_distance: float | None = None,
    client: Any = None,
    queries_per_task: int = QUERIES_PER_TASK,
) -> list[Path]:
    """Write the nearest rows of many queries to parquet files: ``query``, ``row`` and ``distance``, nearest first.

    The result is that of :meth:`~hashlearn.index.PartitionedIndex.search` of all queries, whatever the number of tasks
    and workers; queries are in another order.

    Parameters
    ----------
    index : path
        A file that :meth:`~hashlearn.index.PartitionedIndex.save` wrote, after ``tune``.
    vectors : path
        The vector of every row, npy, float32 or float16.
    folder : path
        Gets the files ``part-*.parquet``. It is made, or has parts of the same search that are kept: the files of the
        index, the vectors and the queries must not have been written again since.
    queries : path or None
        npy. None takes all rows, and no row finds itself: with ``max_distance``, these are the pairs of near
        duplicates, most of them twice (:func:`near_pairs`).
    k : int
        Neighbors of a query, at the most.
    recall : float
        As in :meth:`~hashlearn.index.PartitionedIndex.search`.
    max_distance : float or None
        Leave out what is farther, in the units of the index.
    client : dask.distributed.Client or None
        The cluster; None for this process. All workers must see the files and the folder under the same names.
    queries_per_task : int
        Queries of one file.

    Returns
    -------
    list of Path
        The files.
    """
    search = BulkSearch(
        _absolute(index),
        _absolute(vectors),
        None if queries is None else _absolute(queries),
        _absolute(folder),
        check_integer("k", k, low=1),
        check_recall(recall),
        None if max_distance is None else check_number("max_distance", max_distance),
    )
    tasks = _tasks(search, check_integer("queries_per_task", queries_per_task, low=1))
    missing = [(number, which) for number, which in tasks if not search.part(number).exists()]
    for _ in run_tasks(client, search.write, missing):
        pass
    return [search.part(number) for number, _ in tasks]


def near_pairs(parts: Iterable[Path]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The pairs of rows in the files that :func:`search_in_bulk` wrote for all rows.

    Returns
    -------
    pairs : array of shape (n, 2), int64
        The lower row first; each pair once, whichever of its rows has found the other, ascending.
    distances : array of shape (n,), float32
    """
    parquet = require("pyarrow.parquet", "parquet")
    tables = [parquet.read_table(path) for path in parts]
    query, row, distances = (
        np.concatenate([np.empty(0, dtype), *(table[name].to_numpy() for table in tables)])
        for name, dtype in (("query", np.int64), ("row", np.int64), ("distance", np.float32))
    )
    pairs, first = np.unique(np.sort(np.stack([query, row], axis=1), axis=1), axis=0, return_index=True)
    return pairs, distances[first]


def _absolute(path: str | Path) -> str:
    return str(Path(path).absolute())


def _tasks(search: BulkSearch, queries_per_task: int) -> list[tuple[int, NDArray[np.int64]]]:
    """The number of each task and its queries. ValueError where the folder has parts of another search."""
    index, _ = _opened(search.lists, search.vectors)
    asked, folder = search.asked(), Path(search.folder)
    index.plan(search.k, search.recall)  # raises where the index was not tuned
    text = json.dumps(
        {
            "index": index.fingerprint,
            "vectors": _version(search.vectors),
            "queries": None if search.queries is None else _version(search.queries),
            "queries_per_task": queries_per_task,
            "k": search.k,
            "recall": search.recall,
            "max_distance": search.max_distance,
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / _JOB).exists():
        with replacing(folder / _JOB) as (beside,):
            beside.write_text(text, encoding="utf-8")
    if (folder / _JOB).read_text(encoding="utf-8") != text:
        raise ValueError(f"folder {folder} has parts of another search: take an empty one, or remove them")
    order = np.argsort(index.nearest_lists(asked), kind="stable")
    bounds = split(len(order), -(-len(order) // queries_per_task))
    return [(number, order[start:stop]) for number, (start, stop) in enumerate(bounds)]


def _version(path: str) -> tuple[int, int]:
    """Tells a file that was written again from the one before."""
    status = Path(path).stat()
    return status.st_size, status.st_mtime_ns


def _opened(index: str, vectors: str) -> tuple[PartitionedIndex, NDArray]:
    """The mapped files; nothing is written to the vectors."""
    return _mapped(index, vectors, _version(index), _version(vectors))


@lru_cache(maxsize=1)
def _mapped(index: str, vectors: str, *versions: tuple[int, int]) -> tuple[PartitionedIndex, NDArray]:
    """Once in a process, as long as neither file is written again."""
    return PartitionedIndex.open(index), np.load(vectors, mmap_mode="c")
