"""Searches in the lists of a partitioned index as it is at one moment."""

from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import plain_array
from hashlearn.codes.results import NO_ID, Neighbors, RangeResult
from hashlearn.index.base import check_k
from hashlearn.index.file import Sections
from hashlearn.index.frontier import Frontier, ListPlan
from hashlearn.index.kernels.list_queries import Geometry, Lists, Probes
from hashlearn.index.kernels.lists import (
    NO_BITS,
    QUERIES_PER_BLOCK,
    Allowed,
    Kept,
    expect,
    knn_in_lists,
    within_lists,
)
from hashlearn.index.kernels.products import vector_tiles
from hashlearn.index.kernels.rerank import METRIC_NUMBERS, Vectors, nearest_in_lists, nearest_of_candidates
from hashlearn.index.list_table import ListTable
from hashlearn.index.partition import Partition, word_rows
from hashlearn.threads import check_n_jobs, run_all, split

_FEWER_LEFT_OUT = 8  # times less of the weight, where a filter leaves too few rows
_NEARLY_ALL = 0.9999
_VECTOR_TYPES = np.dtype(np.float32), np.dtype(np.float16)
_EVERY_ROW = Allowed()


class ProbedNeighbors(Neighbors):
    """The nearest rows of each query, and how they were found.

    Attributes
    ----------
    probed : ndarray of shape (n_queries,), int64
        How many lists each query has looked at.
    recall : float or None
        The share of the true nearest rows that is expected among these, in the mean over queries such as those that
        the index was tuned with; 1.0 where all vectors were compared, None where it is not known.
    """

    probed: NDArray[np.int64]
    recall: float | None

    @classmethod
    def of(
        cls, distances: NDArray[Any], ids: NDArray[Any], probed: NDArray[np.int64], recall: float | None = None
    ) -> Self:
        found = cls(distances, ids)
        found.probed, found.recall = probed, recall
        return found


class ListState(NamedTuple):
    """All that a search needs; a change of the index makes another one."""

    partition: Partition
    geometry: Geometry
    table: ListTable
    lists: Lists
    frontier: Frontier | None = None
    file: Sections | None = None

    @classmethod
    def of(
        cls, partition: Partition, table: ListTable, frontier: Frontier | None = None, file: Sections | None = None
    ) -> "ListState":
        words = word_rows(partition.words, partition.n_bits, table.n_bytes)
        geometry = Geometry(
            partition.origin,
            vector_tiles(partition.offsets),
            vector_tiles(words),
            len(words),
            partition.cross,
            0.0 if partition.metric == "dot" else partition.cross / 2,
            partition.metric == "cosine",
        )
        return cls(partition, geometry, table, table.for_kernels(partition.levels()), frontier, file)

    def with_table(self, table: ListTable) -> "ListState":
        """The same with other codes; the file is that of this state as long as its tiles are."""
        kept = self.file if table.tiles is self.table.tiles else None
        return self._replace(table=table, lists=table.for_kernels(self.partition.levels()), file=kept)

    def allowed(self, subset: ArrayLike | None) -> Allowed:
        """Which rows may be found."""
        table = self.table
        removed = table.removed if table.n_removed and table.removed is not None else NO_BITS
        if subset is None:
            return _EVERY_ROW if removed is NO_BITS else Allowed(removed=removed)
        chosen = plain_array(subset, "subset")
        if chosen.dtype == np.bool_:
            if chosen.shape != (table.next_row,):
                raise ValueError(f"subset must have shape ({table.next_row},) as a mask by row, got {chosen.shape}")
            return Allowed(np.packbits(chosen, bitorder="little"), removed)
        rows = row_numbers(chosen, "subset")
        if len(rows) and (rows.min() < 0 or rows.max() >= table.next_row):
            raise ValueError(f"subset must hold rows from 0 to {table.next_row - 1}, got {rows.min()} to {rows.max()}")
        bits = np.zeros(table.next_row, bool)
        bits[rows] = True
        return Allowed(np.packbits(bits, bitorder="little"), removed)

    def look(
        self,
        queries: NDArray[np.float32],
        probes: Probes,
        kept: Kept,
        allowed: Allowed,
        n_jobs: int | None,
        lists: Lists | None = None,
    ) -> ProbedNeighbors:
        """The rows with the least estimates in the lists of each query; ``lists`` are those of :meth:`expecting`."""
        n, k, those = len(queries), kept.most, tuple(self.lists if lists is None else lists)
        distances, rows, probed = np.empty((n, k), np.float32), np.empty((n, k), np.int64), np.empty(n, np.int64)

        def look(part: slice) -> bool:
            out = distances[part], rows[part], probed[part]
            asked = queries[part], tuple(probes), tuple(kept), tuple(allowed)
            return knn_in_lists(those, tuple(self.geometry), *asked, *out)

        if self.table.n_codes == 0:
            distances[:], rows[:], probed[:] = np.inf, NO_ID, 0
            check_queries_finite(bool(np.isfinite(queries).all()))
        elif n == 1:
            check_queries_finite(look(slice(1)))
        else:
            threads = check_n_jobs(n_jobs)
            check_queries_finite(all(run_all([partial(look, part) for part in _blocks(n, threads)], threads)))
        return ProbedNeighbors.of(distances, rows, probed)

    def expecting(self, allowed: Allowed) -> Lists:
        """The lists, with about how many rows of each may be found."""
        expected = np.empty(len(self.lists.sizes), np.float32)
        expect(self.lists, allowed, expected)
        return self.lists._replace(expected=expected) if expected.any() else self.lists

    def _lists_for(self, plan: ListPlan, allowed: Allowed) -> Lists:
        return self.expecting(allowed) if plan.is_among_few and allowed.chosen.size > 0 else self.lists

    def look_for(
        self, queries: NDArray[np.float32], plan: ListPlan, n_wanted: int, allowed: Allowed, n_jobs: int | None
    ) -> ProbedNeighbors:
        """The candidates of a plan; queries that found fewer than are wanted look at more lists."""
        probes, kept, lists = plan.probes, plan.kept, self._lists_for(plan, allowed)
        found = self.look(queries, probes, kept, allowed, n_jobs, lists)
        rows, probed = found.ids, found.probed
        if plan.has_margin:
            n_wanted = min(n_wanted, kept.near)
        lacking = np.flatnonzero(rows[:, n_wanted - 1] < 0)
        while len(lacking) and probes.share < 1:
            probes = probes._replace(share=1 - (1 - probes.share) / _FEWER_LEFT_OUT)
            if probes.share > _NEARLY_ALL:
                probes = probes._replace(share=1.0)
            again = self.look(queries[lacking], probes, kept, allowed, n_jobs, lists)
            found.distances[lacking], rows[lacking], probed[lacking] = again.distances, again.ids, again.probed
            lacking = lacking[again.ids[:, n_wanted - 1] < 0]
        width = max(n_wanted, int((rows >= 0).sum(axis=1).max(initial=0))) if plan.has_margin else kept.most
        distances, rows = (np.ascontiguousarray(part[:, :width]) for part in found)
        return ProbedNeighbors.of(distances, rows, probed, plan.recall)

    def candidates_of_rows(
        self, queries: NDArray[np.float32], k: int, probes: Probes, itself: NDArray[np.int64]
    ) -> Neighbors:
        """The k rows with the least estimates, without the row that each query is."""
        k = check_k(k + 1, len(self.table))
        found = self.look(queries, probes, Kept(k, k), self.allowed(None), -1)
        others = found.ids != itself[: len(queries), None]
        others[others.all(axis=1), -1] = False
        return Neighbors(*(part[others].reshape(len(queries), -1) for part in found))

    def nearest(
        self, queries: NDArray, k: int, plan: ListPlan, allowed: Allowed, vectors: Vectors, n_jobs: int | None
    ) -> ProbedNeighbors:
        """The k nearest of the candidates of a plan, by their vectors."""
        n, metric = len(queries), METRIC_NUMBERS[self.partition.metric]
        into = np.empty((n, k), np.float32), np.empty((n, k), np.int64), np.empty(n, np.int64)
        lists = tuple(self._lists_for(plan, allowed)), tuple(self.geometry)
        asked = tuple(plan.probes), tuple(plan.kept), tuple(allowed), tuple(vectors), metric

        def look(part: slice) -> bool:
            return nearest_in_lists(*lists, queries[part], *asked, *(array[part] for array in into))

        if self.table.n_codes and n == 1:
            has_enough = nearest_in_lists(*lists, queries, *asked, *into)
        elif self.table.n_codes:
            threads = check_n_jobs(n_jobs)
            has_enough = all(run_all([partial(look, part) for part in _blocks(n, threads)], threads))
        else:
            has_enough = False
        if has_enough:
            return ProbedNeighbors.of(*into, plan.recall)
        found = self.look_for(queries, plan, min(k, plan.candidates), allowed, n_jobs)
        return ProbedNeighbors.of(*self.in_order(queries, found.ids, k, vectors), found.probed, found.recall)

    def in_order(
        self, queries: NDArray, candidates: NDArray[np.int64], k: int, vectors: Vectors
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The distances and rows of the k nearest candidates of each query, by their vectors."""
        distances, rows = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        metric = METRIC_NUMBERS[self.partition.metric]
        nearest_of_candidates(vectors, queries, candidates, metric, distances, rows)
        return distances, rows

    def all_compared(self, queries: NDArray, k: int, allowed: Allowed, vectors: Vectors) -> ProbedNeighbors:
        """The k nearest of all rows that may be found, by their vectors."""
        check_queries_finite(bool(np.isfinite(queries).all()))
        every = np.flatnonzero(allowed.mask(self.table.present()))
        candidates = np.broadcast_to(every, (len(queries), len(every)))
        nearest = self.in_order(queries, candidates, k, vectors)
        return ProbedNeighbors.of(*nearest, np.zeros(len(queries), np.int64), 1.0)

    def all_within(
        self, queries: NDArray[np.float32], distance: float, probes: int, allowed: Allowed, n_jobs: int | None
    ) -> RangeResult:
        """All rows of the nearest lists of each query whose estimate is not above a distance."""

        def found(q: int) -> tuple[NDArray[np.float32], NDArray[np.int64], bool]:
            if not self.table.n_codes:
                return np.empty(0, np.float32), np.empty(0, np.int64), bool(np.isfinite(queries[q]).all())
            asked = queries[q : q + 1], tuple(Probes(probes)), distance, tuple(allowed)
            return within_lists(tuple(self.lists), tuple(self.geometry), *asked)

        parts = run_all([partial(found, q) for q in range(len(queries))], check_n_jobs(n_jobs))
        check_queries_finite(all(is_finite for _, _, is_finite in parts))
        offsets = np.cumsum([0, *(len(rows) for _, rows, _ in parts)])
        distances = np.concatenate([np.empty(0, np.float32), *(part[0] for part in parts)])
        return RangeResult(offsets, distances, np.concatenate([np.empty(0, np.int64), *(part[1] for part in parts)]))

    def checked_matrix(self, vectors: Any) -> Vectors:
        """The vector of every row, as a caller gives them; ValueError where this is something else."""
        wanted = self.table.next_row, self.partition.n_features
        if not isinstance(vectors, np.ndarray) or vectors.shape != wanted or vectors.dtype not in _VECTOR_TYPES:
            got = f"{vectors.dtype} of {vectors.shape}" if isinstance(vectors, np.ndarray) else type(vectors).__name__
            raise ValueError(f"vectors must be an array of float32 or float16 of shape {wanted}, got {got}")
        return Vectors.of(np.ascontiguousarray(vectors))

    def checked_queries(self, Q: ArrayLike, name: str = "Q") -> NDArray[np.float32]:
        """Queries in single precision; kernels tell whether they are finite."""
        array, width = plain_array(Q, name), self.partition.n_features
        if array.ndim != 2 or array.dtype.kind not in "buif":
            raise ValueError(f"{name} must hold vectors, shape (n, {width}), got {array.dtype} of {array.shape}")
        self.check_width(name, array.shape[1])
        return np.ascontiguousarray(array, np.float32)

    def check_width(self, name: str, width: int) -> None:
        """ValueError where vectors have not as many features as those of the index."""
        if width != self.partition.n_features:
            raise ValueError(f"{name} must have {self.partition.n_features} features, got {width}")


def check_queries_finite(is_finite: bool, name: str = "Q") -> None:
    """ValueError where queries are not finite."""
    if not is_finite:
        raise ValueError(f"{name} must be finite and within single precision, got NaN or infinity")


def row_numbers(value: ArrayLike, name: str) -> NDArray[np.int64]:
    """Numbers of rows that a caller gives; TypeError where this is something else."""
    array = plain_array(value, name)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(f"{name} must be a list of row numbers, got {array.dtype} of shape {array.shape}")
    return array.astype(np.int64)


def _blocks(n: int, threads: int) -> list[slice]:
    n_parts = max(-(-n // QUERIES_PER_BLOCK), min(threads, n))
    return [slice(first, last) for first, last in split(n, n_parts)]
