"""The rows that are compared: read in blocks, identified by their contents, with distances of pairs on demand."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_choice
from hashlearn.duplicates.kernels import facts_of_rows, squared_pair_distances
from hashlearn.durable.files import write_all
from hashlearn.progress import track
from hashlearn.rows import RowBlocks, as_rows, map_blocks
from hashlearn.rows.source import Pieces, Stream
from hashlearn.threads import run_all, split

Metric = Literal["cosine", "euclidean"]
METRICS = ("cosine", "euclidean")
RowMetric = Literal["cosine", "euclidean", "words"]
"""Rows may be vectors, or texts that are compared by their words."""

Rows = NDArray[np.int64]

_WORDS: dict[int, tuple[Any, int]] = {4: (np.uint32, 1 << 31), 8: (np.uint64, 1 << 63)}
"""Bytes of a float -> the integer of that size, and the pattern of -0.0."""

_GATHERED_ELEMENTS = 4 << 20
"""Numbers that are read at a time to compute distances: 16 MB of float32."""


class RowFacts(NamedTuple):
    """The result of one pass over the rows: two hashes of the content of each row, and its length."""

    hashes: NDArray[np.uint64]
    lengths: NDArray[np.float64]


class MetricRows:
    """Rows of one width with a metric.

    Under the cosine, rows count as if they had length one, and everything here that is squared is a squared Euclidean
    distance of such rows: ``|| u - v ||^2 = 2 (1 - cos)``.

    Parameters
    ----------
    X : whatever :func:`hashlearn.rows.as_rows` opens
        A stream or a dask array is copied to a temporary file first, because rows are read by number.
    metric : {"cosine", "euclidean"}

    Attributes
    ----------
    rows : RowBlocks
    hashes : ndarray of shape (n, 2), uint64
        Hashes of the content of each row; equal rows have equal hashes.
    scales : ndarray of shape (n,)
        The factor of each row: one, or the inverse of its length under the cosine.
    """

    def __init__(self, X: Any, metric: Metric, facts: RowFacts | None = None):
        self.metric: RowMetric = check_choice("metric", metric, METRICS)  # type: ignore[assignment]
        self.rows, self._folder = _by_number(_named(as_rows(X)))
        if 0 in self.rows.shape:
            raise ValueError(f"vectors must have rows and columns, got shape {self.rows.shape}")
        self.facts = _facts(self.rows) if facts is None else facts
        if metric == "cosine":
            _refuse_zeros(self.facts.lengths)
            self.scales = (1 / self.facts.lengths).astype(self.rows.dtype)
        else:
            self.scales = np.ones(len(self.rows), self.rows.dtype)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        return self.rows.shape[1]

    @property
    def hashes(self) -> NDArray[np.uint64]:
        return self.facts.hashes

    def take(self, rows: Rows) -> NDArray:
        """The given rows, scaled, in that order."""
        return self.rows.take(rows) * self.scales[rows, None]

    def map_blocks(self, function: Any, task: str) -> Iterator[tuple[slice, Any]]:
        """``function(block)`` of every block of scaled rows, with the slice of its rows, in order."""
        scaled = partial(_of_scaled, scales=self.scales, function=function)
        return track(map_blocks(self.rows.since(0, 3), scaled), task, self.rows.since(0, 3).n_blocks)

    def distances(
        self, first: Rows, second: Rows, n_jobs: int = 1, others: "MetricRows | None" = None
    ) -> NDArray[np.float64]:
        """The distance of every pair of rows, in the metric; ``second`` are rows of ``others`` if that is given."""
        squares = np.empty(len(first), self.scales.dtype)
        right = self if others is None else others

        def compute(start: int, stop: int) -> None:
            _squared_distances(self, first[start:stop], right, second[start:stop], squares[start:stop])

        run_all([partial(compute, *part) for part in split(len(first), n_jobs)] if len(first) else [], n_jobs)
        return distance_of_square(squares.astype(np.float64), self.metric)

    def new(self, X: Any) -> "MetricRows":
        """New rows that can be compared with these."""
        rows = MetricRows(X, self.metric)  # type: ignore[arg-type]
        if rows.width != self.width:
            raise ValueError(f"X must have {self.width} columns, as the known rows, got {rows.width}")
        return rows

    def joined(self, others: "MetricRows") -> "MetricRows":
        """These rows and those of others below them."""
        pieces = [self.rows.source, others.rows.source]
        facts = RowFacts(*(np.concatenate(both) for both in zip(self.facts, others.facts)))
        both = MetricRows(RowBlocks(Pieces(pieces, ["the rows", "the new rows"])), self.metric, facts)  # type: ignore[arg-type]
        both._folder = (self._folder, others._folder)
        return both


def square_of_distance(distance: Any, metric: RowMetric) -> Any:
    """The squared Euclidean distance, of unit rows under the cosine, that a distance stands for."""
    return 2 * distance if metric == "cosine" else distance**2


def distance_of_square(squares: NDArray[np.float64], metric: RowMetric) -> NDArray[np.float64]:
    """The inverse of :func:`square_of_distance`."""
    return squares / 2 if metric == "cosine" else np.sqrt(squares)


def _of_scaled(block: NDArray, first: int, scales: NDArray, function: Any) -> Any:
    return function(block * scales[first : first + len(block), None])


def _squared_distances(left: MetricRows, first: Rows, right: MetricRows, second: Rows, out: NDArray) -> None:
    values = [_as_matrix(left.rows), _as_matrix(right.rows)]
    if all(matrix is not None and matrix.dtype == out.dtype for matrix in values):
        squared_pair_distances(values[0], left.scales, values[1], right.scales, first, second, out)
        return
    step = max(1, _GATHERED_ELEMENTS // left.width)
    for start in range(0, len(first), step):
        part = slice(start, start + step)
        a, a_rows = _gathered(left, first[part], out.dtype)
        b, b_rows = _gathered(right, second[part], out.dtype)
        ones = np.ones(max(len(a), len(b)), out.dtype)
        squared_pair_distances(a, ones, b, ones, a_rows, b_rows, out[part])


def _gathered(vectors: MetricRows, rows: Rows, dtype: np.dtype) -> tuple[NDArray, Rows]:
    """The rows, each read once in ascending order, and the position of each given row among them."""
    unique, places = np.unique(rows, return_inverse=True)
    return vectors.take(unique).astype(dtype, copy=False), places


def _as_matrix(rows: RowBlocks) -> NDArray | None:
    """The rows as one matrix, if they are in memory or in a mapped file; otherwise None."""
    values = getattr(rows.source, "values", None)
    if isinstance(values, np.ndarray) and values.flags.c_contiguous and values.dtype.isnative:
        return np.asarray(values)
    return None


def _named(rows: RowBlocks) -> RowBlocks:
    rows.name = "vectors"
    return rows


def _facts(rows: RowBlocks) -> RowFacts:
    hashes = np.empty((len(rows), 2), np.uint64)
    lengths = np.empty(len(rows))
    for part, facts in track(map_blocks(rows, facts_of_block), "read vectors", rows.n_blocks):
        hashes[part], lengths[part] = facts
    return RowFacts(hashes, lengths)


def facts_of_block(block: NDArray, first: int) -> RowFacts:
    """Hashes and lengths of the rows of a block of floats, for a pass."""
    word, negative_zero = _WORDS[block.dtype.itemsize]
    block = np.ascontiguousarray(block)
    facts = RowFacts(np.empty((len(block), 2), np.uint64), np.empty(len(block)))
    facts_of_rows(block, block.view(word), np.uint64(negative_zero), *facts)
    return facts


def _refuse_zeros(lengths: NDArray[np.float64]) -> None:
    zeros = np.flatnonzero(lengths == 0)
    if len(zeros):
        count = "1 row of zeros" if len(zeros) == 1 else f"{len(zeros)} rows of zeros"
        raise ValueError(
            f"vectors must not be zero where metric='cosine', got {count}, the first is row {zeros[0]}; "
            "leave them out, or use metric='euclidean'"
        )


def _by_number(rows: RowBlocks) -> tuple[RowBlocks, Any]:
    """The rows in a form that allows access by number, and their temporary folder, if any."""
    if not isinstance(rows.source, Stream) and rows.workers is None:
        return rows, None
    folder = tempfile.TemporaryDirectory(prefix="hashlearn-")
    path = Path(folder.name) / "vectors"
    with path.open("wb", buffering=0) as file:  # a full disk raises an error here; in a mapped file it would crash
        for _, block in map_blocks(rows, _block_itself):
            write_all(file, np.ascontiguousarray(block, rows.dtype))
    values = np.memmap(path, rows.dtype, "r", shape=rows.shape)
    return _named(RowBlocks(values, seen=rows.seen)), folder


def _block_itself(block: NDArray, first: int) -> NDArray:
    return block
