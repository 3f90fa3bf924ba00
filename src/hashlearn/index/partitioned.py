"""The index for many rows: vectors in, the nearest rows by codes out, looking at few of the lists.

See :mod:`hashlearn.index.partition` for what a code stands for, and :mod:`hashlearn.index.kernels.lists` for how exact
the sums are that codes are ordered by.
"""

import copy
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from hashlearn.checks import check_choice, check_integer, check_number
from hashlearn.codes import bytes_per_code
from hashlearn.codes.results import RangeResult
from hashlearn.index.base import MAX_BITS, check_k
from hashlearn.index.code_table import thread_lock
from hashlearn.index.frontier import N_QUERIES, ListPlan, measured, n_drawn, nearest_rows
from hashlearn.index.kernels.list_queries import Probes
from hashlearn.index.kernels.lists import NO_BITS, Kept
from hashlearn.index.list_file import mapped_lists, write_lists
from hashlearn.index.list_search import ListState, ProbedNeighbors, check_queries_finite, row_numbers
from hashlearn.index.list_table import ListTable
from hashlearn.index.partition import METRICS, EncodedRows, Partition, encode_block
from hashlearn.rows import RowBlocks, as_rows, map_blocks

_ROWS_AT_ONCE = 1 << 24  # encoded before they are written into lists
_LISTS_PER_PROBE = 16
_LEAST_PROBES = 16
_LISTS_PER_ROOT = 2.0  # of the number of rows
_NOBODY = np.int64(-2)  # the row of a query that is none; -1 is a place that nothing fills
_ROWS_PER_NEIGHBOR = 20  # of the recalls that are measured: more neighbors are looked for among all rows


class PartitionedIndex:
    """Nearest rows among many, by codes of n_bits / 8 + 1 bytes in lists around centers.

    A search looks at the lists nearest to the query only, so that its time hardly grows with the number of rows. What
    it finds there are estimates: take some times as many rows as you want and compare their vectors
    (:func:`hashlearn.index.kernels.rerank.nearest_of_candidates`). With all lists probed, the result is exactly what
    all rows in the order of their estimates give, ties by the lowest row.

    Estimates are of squared Euclidean distances, of 1 - cosine, or of negative inner products.

    Rows are numbers given out once, ascending from 0. A row takes n_bits / 8 + 5 bytes, 4 more from row 2^32 on, and a
    list up to 63 empty places.

    Threads may search while another adds or removes: a search sees the index as it was when it began.

    Parameters
    ----------
    n_bits : int
        Length of a code, 1 to 4096.
    metric : {"euclidean", "cosine", "dot"}
        What is near.
    n_lists : int or None
        None is about twice the square root of the number of rows that it is fitted to.
    words : {"signed", "free", "auto"}
        See :class:`~hashlearn.ABH`.
    random_state : int, RandomState instance or None
        Determines the samples that lists and codes are learned from.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> index = PartitionedIndex(n_bits=32, n_lists=16, random_state=0).fit(X).add(X)
    >>> index.search(X[:3], k=1, probes=4).ids.tolist()
    [[0], [1], [2]]
    """

    def __init__(
        self,
        n_bits: int = 128,
        *,
        metric: str = "euclidean",
        n_lists: int | None = None,
        words: str = "signed",
        random_state: Any = None,
    ):
        self.n_bits = check_integer("n_bits", n_bits, low=1, high=MAX_BITS)
        self.metric = check_choice("metric", metric, METRICS)
        self._n_lists = None if n_lists is None else check_integer("n_lists", n_lists, low=1)
        self._words = check_choice("words", words, ("signed", "free", "auto"))
        self._random_state = random_state
        self._begin(None)

    def _begin(self, state: ListState | None) -> None:
        # All that a search needs hangs on this one reference, which a change replaces at its end.
        self._state = state
        self._changing = thread_lock()

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name not in ("_state", "_changing")}
        if self._state is None:
            return {**kept, "content": None}
        table = self._state.table.compacted()
        arrays = table.tiles, table.rows, table.lists, table.n_used, table.next_row, table.removed
        return {**kept, "content": (self._state.partition, table.n_bytes, arrays, self._state.frontier)}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        content = kept.pop("content")
        vars(self).update(kept)
        if content is None:
            self._begin(None)
        else:
            partition, n_bytes, arrays, frontier = content
            self._begin(ListState.of(partition, ListTable(n_bytes, *arrays), frontier))

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        vars(other).update(vars(self))
        other._begin(self._state)
        return other

    def __len__(self) -> int:
        return 0 if self._state is None else len(self._state.table)

    @property
    def fingerprint(self) -> str | None:
        """What tells the file that the index was opened from, with all that it holds, from others; None without one."""
        return None if self._state is None or self._state.file is None else self._state.file.fingerprint

    def __repr__(self) -> str:
        lists = "" if self._state is None else f", {self.n_lists} lists"
        return f"{type(self).__name__}(n_bits={self.n_bits}, metric={self.metric!r}{lists}, {len(self)} rows)"

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return self._fitted.partition.n_lists

    @property
    def n_features(self) -> int:
        """Length of a vector."""
        return self._fitted.partition.n_features

    @property
    def next_row(self) -> int:
        """One more than the largest row there has ever been."""
        return self._fitted.table.next_row

    @property
    def nbytes(self) -> int:
        """Bytes of memory, or of the mapped file, that codes, rows and lists take."""
        return self._fitted.table.nbytes

    @property
    def list_sizes(self) -> NDArray[np.int64]:
        """Codes of each list, with those of removed rows until the next :meth:`compact`."""
        return self._fitted.table.lists.sizes.copy()

    @property
    def rows(self) -> NDArray[np.int64]:
        """All rows, ascending."""
        return np.flatnonzero(self._fitted.table.present())

    @property
    def default_probes(self) -> int:
        """Lists that a search looks at if it is not told how many."""
        return min(self.n_lists, max(_LEAST_PROBES, self.n_lists // _LISTS_PER_PROBE))

    def fit(self, X: Any) -> Self:
        """Learn centers and words from a sample of rows; the index is empty then.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows as for :meth:`hashlearn.ABH.fit`
            At least as many rows as there are to be lists.

        Returns
        -------
        PartitionedIndex
            This object.
        """
        rows = as_rows(X)
        n_lists = self._n_lists or max(1, min(len(rows), round(_LISTS_PER_ROOT * len(rows) ** 0.5)))
        if len(rows) < max(2, n_lists):
            raise ValueError(f"X must have at least {max(2, n_lists)} rows for {n_lists} lists, got {len(rows)}")
        rng = check_random_state(self._random_state)
        partition = Partition.learned(rows, n_lists, self.n_bits, self.metric, self._words, rng)
        table = ListTable.empty(partition.n_lists, bytes_per_code(self.n_bits))
        with self._changing:
            self._state = ListState.of(partition, table)
        return self

    def add(self, X: Any, rows: ArrayLike | None = None) -> Self:
        """Encode vectors and put them into their lists, a block at a time.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows as for :meth:`fit`
            Vectors.
        rows : array of shape (n,), ascending integers, or None
            Not below :attr:`next_row`; by default those that follow.

        Returns
        -------
        PartitionedIndex
            This object.
        """
        with self._changing:
            state = self._fitted
            source = as_rows(X)
            state.check_width("X", source.shape[1])
            numbers = _check_new_rows(rows, len(source), state.table.next_row)
            table = state.table
            if state.file is not None:
                state.file.expect_all()
            for first, encoded in _encoded(source, state.partition):
                table = table.added(encoded, numbers[first : first + len(encoded.lists)])
            self._replace_table(table)
        return self

    def remove(self, rows: ArrayLike) -> Self:
        """Remove rows: searches skip them from now on, and :meth:`compact` takes their codes away.

        Parameters
        ----------
        rows : array of int64
            If one is not there, ValueError is raised and none is removed.

        Returns
        -------
        PartitionedIndex
            This object.
        """
        numbers = row_numbers(rows, "rows")
        with self._changing:
            self._replace_table(self._fitted.table.removing(numbers))
        return self

    def compact(self) -> Self:
        """Copy the lists, one behind the other, without the codes of removed rows.

        Returns
        -------
        PartitionedIndex
            This object.
        """
        with self._changing:
            self._replace_table(self._fitted.table.compacted())
        return self

    @property
    def is_out_of_shape(self) -> bool:
        """Whether :meth:`compact` pays: many codes are removed, or many places are lost by growing lists."""
        return self._fitted.table.is_out_of_shape

    def copy(self) -> Self:
        """Another index with the same rows, at no cost: both share them until one is changed.

        Returns
        -------
        PartitionedIndex
            The other index.
        """
        return copy.copy(self)

    def tune(self, X: Any, queries: ArrayLike | None = None, *, rows: ArrayLike | None = None) -> Self:
        """Measure what a search must look at for which recall; :meth:`search` takes a ``recall`` from then on.

        This is done once, when the rows are in the index, and kept with it. Add or remove half of the rows, and it
        should be done again.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows as for :meth:`fit`
            The vectors of ``rows``.
        queries : array of shape (n_queries, n_features), or None
            What searches will be asked; some hundreds. None draws 500 to 2,000 of the rows, and no row finds itself.
        rows : array of shape (n,), ascending integers, or None
            None is 0, 1, 2, ... up to the last there has ever been. Rows that were removed are not looked at.

        Returns
        -------
        PartitionedIndex
            This object.
        """
        with self._changing:
            state = self._fitted
            source, present = as_rows(X), state.table.present()
            state.check_width("X", source.shape[1])
            numbers = np.arange(len(present)) if rows is None else row_numbers(rows, "rows")
            if len(source) != len(numbers) or (len(numbers) and numbers[-1] >= len(present)):
                raise ValueError(f"X must have a vector for each of {len(numbers)} rows, got {len(source)}")
            there = present[numbers]
            n_there = int(np.count_nonzero(there))
            most = min(max(N_QUERIES), max(n_there // _ROWS_PER_NEIGHBOR, min(10, n_there - 1)))
            if queries is None:
                itself = check_random_state(0).permutation(np.flatnonzero(there))[: n_drawn(n_there)]
                asked = source.take(itself).astype(np.float32, copy=False)
            else:
                asked = state.checked_queries(queries, "queries")
                check_queries_finite(bool(np.isfinite(asked).all()), "queries")
                itself = np.full(len(asked), _NOBODY)
            if most < 1 or not len(asked):
                raise ValueError("tune needs at least two rows in the index, and a query")
            truth = numbers[nearest_rows(source, state.partition, asked, itself, most, there)]
            frontier = measured(
                partial(state.candidates_of_rows, itself=np.where(itself == _NOBODY, _NOBODY, numbers[itself])),
                state.partition,
                state.table.lists.sizes,
                state.table.lists_of,
                asked,
                truth,
            )
            self._state = state._replace(frontier=frontier)
        return self

    def nearest_lists(self, X: Any) -> NDArray[np.int64]:
        """The list that each vector belongs to.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows as for :meth:`fit`
            Vectors.

        Returns
        -------
        array of shape (n,), int64
            Numbers of lists.
        """
        state, source = self._fitted, as_rows(X)
        state.check_width("X", source.shape[1])
        lists = np.empty(len(source), np.int64)
        for part, block in source:
            lists[part] = state.partition.nearest_lists(block)
        return lists

    def squared_residuals(self, X: ArrayLike) -> NDArray[np.float32]:
        """The squared distances of vectors to the centers of their lists; codes say little where they are large.

        Parameters
        ----------
        X : array of shape (n, n_features)
            Vectors; seen as unit vectors where the metric is the cosine.

        Returns
        -------
        array of shape (n,), float32
            One for each vector.
        """
        state = self._fitted
        return state.partition.squared_residuals(state.checked_queries(X, "X"))

    @property
    def is_tuned(self) -> bool:
        """Whether a search can be asked for a recall."""
        return self._state is not None and self._state.frontier is not None

    def plan(self, k: int, recall: float, n_allowed: int | None = None) -> ListPlan:
        """What a search looks at for a recall, as :meth:`tune` has measured it.

        Parameters
        ----------
        k : int
            Neighbors.
        recall : float
            Above 0, at most 1.
        n_allowed : int or None
            Of how many rows the nearest are wanted; None is all of them.

        Returns
        -------
        ListPlan
            ``is_flat`` says that comparing the vectors of all these rows is the cheapest way.
        """
        state = self._fitted
        if state.frontier is None:
            raise ValueError("recall needs an index that was tuned: call tune(X)")
        n = len(state.table)
        return state.frontier.plan(k, check_recall(recall), n, n if n_allowed is None else n_allowed)

    def search(
        self,
        Q: ArrayLike,
        k: int = 10,
        *,
        probes: int | None = None,
        recall: float | None = None,
        vectors: NDArray | None = None,
        subset: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> ProbedNeighbors:
        """The k rows of the nearest lists with the least estimates, or those nearest by their vectors, for each query.

        Parameters
        ----------
        Q : array of shape (n_queries, n_features)
            Vectors.
        k : int
            At least 1, and at most the number of rows or 65536, whichever is more.
        probes : int or None
            Lists to look at, 1 to :attr:`n_lists`; None is :attr:`default_probes`.
        recall : float or None
            The share of the true k nearest rows that is to be found, 1.0 for all of them. It needs ``vectors``, and an
            index that was tuned. Each query looks at as many lists as it needs.
        vectors : array of shape (next_row, n_features), float32 or float16, or None
            The vector of every row, by which candidates are compared.
        subset : boolean array of shape (next_row,), or array of rows, or None
            Look only for these rows.
        n_jobs : int or None
            Threads: None is 1, -1 is all cores.

        Returns
        -------
        ProbedNeighbors
            ``distances``, float32, and ``ids``, the rows, of shape (n_queries, k), nearest first, ties by the lowest
            row. Where fewer rows are found, the places left over get row -1 and infinite distance. ``probed`` is how
            many lists each query looked at; fewer than ``probes`` where others could not change the result. ``recall``
            is what is expected of the result; it is below the one asked for where the lists do not reach that.
        """
        state = self._fitted
        queries = state.checked_queries(Q)
        k = check_k(k, len(state.table))
        allowed = state.allowed(subset)
        if recall is None:
            if vectors is not None:
                raise ValueError("vectors need a recall: without one, rows are ordered by their estimates")
            return state.look(queries, Probes(self._check_probes(probes)), Kept(k, k), allowed, n_jobs)
        if probes is not None:
            raise ValueError("probes and recall cannot both be given: a recall says what lists to look at")
        matrix = state.checked_matrix(vectors)
        n_allowed = None if allowed.chosen.size == 0 else int(np.count_nonzero(allowed.mask(state.table.present())))
        plan = self.plan(k, recall, n_allowed)
        if plan.is_flat:
            return state.all_compared(queries, k, allowed, matrix)
        if subset is None:
            return state.nearest(queries, k, plan, allowed, matrix, n_jobs)
        found = state.look_for(queries, plan, plan.candidates, allowed, n_jobs)
        return ProbedNeighbors.of(*state.in_order(queries, found.ids, k, matrix), found.probed, plan.recall)

    def candidates(
        self, Q: ArrayLike, plan: ListPlan, allowed: NDArray[np.uint8] | None = None, n_jobs: int | None = None
    ) -> ProbedNeighbors:
        """What a plan compares by vectors: for each query the rows with the least estimates in its lists.

        Lists are looked at until a query has as many candidates as the plan says, or as many as neighbors are wanted if
        the plan has a margin, or there are no more rows.

        Parameters
        ----------
        Q : array of shape (n_queries, n_features)
            Vectors.
        plan : ListPlan
            See :meth:`plan`; not a flat one.
        allowed : array of uint8, or None
            A bit for every row that may be found, the first the lowest of the first byte; rows behind the last may not.
        n_jobs : int or None
            As in :meth:`search`.

        Returns
        -------
        ProbedNeighbors
            As of :meth:`search`, with ``plan.candidates`` columns or, if the plan has a margin, as many as are used.
        """
        state = self._fitted
        chosen = state.allowed(None)._replace(chosen=NO_BITS if allowed is None else allowed)
        return state.look_for(state.checked_queries(Q), plan, plan.candidates, chosen, n_jobs)

    def within(
        self,
        Q: ArrayLike,
        distance: float,
        *,
        probes: int | None = None,
        subset: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> RangeResult:
        """All rows of the nearest lists whose estimate is at most a distance.

        Parameters
        ----------
        Q : array of shape (n_queries, n_features)
            Vectors.
        distance : float
            In the units of the estimates.
        probes, subset, n_jobs
            As in :meth:`search`.

        Returns
        -------
        RangeResult
            ``result[q]`` has distances and rows of query q, nearest first, ties by the lowest row.
        """
        state = self._fitted
        queries = state.checked_queries(Q)
        distance, probes = check_number("distance", distance), self._check_probes(probes)
        return state.all_within(queries, distance, probes, state.allowed(subset), n_jobs)

    def save(self, path: str | Path) -> None:
        """Write the index to a file (customary suffix ``.hll``), lists one behind the other, without removed rows.

        The file is written beside ``path`` and renamed: an earlier file there stays whole until the new one is.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        write_lists(self._fitted, path)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Map a saved index into memory: a search reads its lists and nothing else.

        Centers, words and the places of the lists are checked at once, codes and rows by :meth:`verify`. Adding rows
        copies the lists into memory; the file changes only by :meth:`save`.

        Parameters
        ----------
        path : str or Path
            A file that :meth:`save` wrote.

        Returns
        -------
        PartitionedIndex
            An index over the file.
        """
        state = mapped_lists(path)
        partition = state.partition
        index = cls(partition.n_bits, metric=partition.metric, n_lists=partition.n_lists)
        index._begin(state)
        return index

    def verify(self) -> Self:
        """Compare the codes of an opened file with their checksums.

        Returns
        -------
        PartitionedIndex
            This object. ValueError is raised where the file was truncated, edited or damaged.
        """
        if self._fitted.file is not None:
            self._fitted.file.verify()
        return self

    @property
    def _fitted(self) -> ListState:
        if self._state is None:
            raise ValueError("the index must be fitted first: call fit(X)")
        return self._state

    def _replace_table(self, table: ListTable) -> None:
        self._state = self._fitted.with_table(table)

    def _check_probes(self, probes: int | None) -> int:
        return self.default_probes if probes is None else check_integer("probes", probes, low=1, high=self.n_lists)


def check_recall(recall: Any) -> float:
    """A share of neighbors to be found; ValueError where it is none."""
    value = recall if type(recall) is float else check_number("recall", recall)
    if not 0 < value <= 1:
        raise ValueError(f"recall must be above 0 and at most 1, got {recall!r}")
    return value


def _encoded(source: RowBlocks, partition: Partition) -> Iterator[tuple[int, EncodedRows]]:
    """The rows encoded, a bounded number at a time, each with the number of its first row."""
    first, n_kept = 0, 0
    kept: list[EncodedRows] = []
    for _, encoded in map_blocks(source, encode_block, partition):
        kept.append(encoded)
        n_kept += len(encoded.lists)
        if n_kept >= _ROWS_AT_ONCE:
            yield first, EncodedRows(*(np.concatenate(parts) for parts in zip(*kept)))
            first, kept, n_kept = first + n_kept, [], 0
    if kept:
        yield first, EncodedRows(*(np.concatenate(parts) for parts in zip(*kept)))


def _check_new_rows(rows: ArrayLike | None, n: int, next_row: int) -> NDArray[np.int64]:
    if rows is None:
        return np.arange(next_row, next_row + n)
    numbers = row_numbers(rows, "rows")
    if len(numbers) != n:
        raise ValueError(f"rows must be as many as the vectors, {n}, got {len(numbers)}")
    if n and (numbers[0] < next_row or (np.diff(numbers) <= 0).any()):
        raise ValueError(f"rows must ascend and not be below {next_row}, the next row")
    return numbers
