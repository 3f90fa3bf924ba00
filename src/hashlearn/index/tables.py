"""Exact multi-index hashing: tables of substrings that lead to the near codes without looking at the others.

M. Norouzi, A. Punjani, D. J. Fleet, Fast search in Hamming space with multi-index hashing, CVPR 2012. The reasoning
and the loops are in :mod:`hashlearn.index.kernels.probe`.
"""

import math
import threading
from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import as_words, bytes_per_code
from hashlearn.index.code_table import Segment
from hashlearn.index.kernels.buckets import Table, Tables, fill_table, masks_of_weight
from hashlearn.index.kernels.probe import Budget, Part, ProbeScratch, Report, found_size, knn_probe, range_probe
from hashlearn.index.kernels.scan import RangeQueries
from hashlearn.index.scan import Keys, in_pieces
from hashlearn.progress import track
from hashlearn.threads import run_all, split

_LONGEST_SUBSTRING = 24
_MOST_MASKS = 20000  # of one level: beyond this, looking at every code is faster
_COPY_WORDS = 2  # codes up to this length are copied into every table
MAX_CODES = 2**31 - 1

_BLOCK = 1 << 18
_HITS = 1 << 20


class Substrings:
    """How codes are cut: into m substrings of about log2(n) bits, so that a bucket holds about one code.

    Attributes
    ----------
    starts, lengths : ndarray of shape (m,), int64
    """

    def __init__(self, n_bits: int, n_codes: int):
        bits = 8 * bytes_per_code(n_bits)
        wanted = min(_LONGEST_SUBSTRING, max(8.0, math.log2(max(2, n_codes))))
        n_tables = max(round(bits / wanted), -(-bits // _LONGEST_SUBSTRING))
        cuts = np.array([cut for cut, _ in split(bits, n_tables)] + [bits], np.int64)
        self.starts, self.lengths = cuts[:-1], np.diff(cuts)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def max_weight(self) -> int:
        """The most differing bits of a substring that are still looked up."""
        shortest, longest = int(self.lengths.min()), int(self.lengths.max())
        weight = 0
        while weight < shortest and math.comb(longest, weight + 1) <= _MOST_MASKS:
            weight += 1
        return weight

    def probes(self, level: int) -> int:
        """Buckets looked up at a level; see :mod:`hashlearn.index.kernels.probe`."""
        return math.comb(int(self.lengths[level % len(self)]), level // len(self))

    def masks(self, n_words: int) -> NDArray[np.uint64]:
        """The bits of each substring in a code's words, shape (m, n_words)."""
        bits = np.zeros((len(self), 64 * n_words), np.uint8)
        for row, start, length in zip(bits, self.starts, self.lengths):
            row[start : start + length] = 1
        return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)


class MultiIndex:
    """The tables over the codes of a segment; searching from several threads at once is safe."""

    def __init__(self, segment: Segment, n_jobs: int = 1):
        self._tables = _build(segment, Substrings(segment.n_bits, len(segment)), n_jobs)
        self._kept = threading.local()

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._tables if isinstance(array, np.ndarray))

    def _scratch(self, k: int) -> ProbeScratch:
        """This thread's memory, kept from search to search: asking the system for it takes longer than a search."""
        kept: ProbeScratch | None = getattr(self._kept, "scratch", None)
        if kept is None or kept.found.size < found_size(k):
            kept = self._kept.scratch = ProbeScratch.for_search(self._tables, k)
        return kept._replace(found=kept.found[: found_size(k)])

    def knn(self, queries: NDArray[np.uint64], k: int, budget: Budget, n_jobs: int = 1) -> tuple[Keys, Report]:
        """The k nearest codes as sorted keys ``distance << 40 | position`` of shape (n_queries, k).

        A query that would cost more than the budget is given up and reported as not answered; its keys are -1.
        """
        keys = np.empty((len(queries), k), np.int64)
        spent = np.empty(len(queries))

        def answer(first: int, last: int) -> None:
            part = slice(first, last)
            knn_probe(self._tables, queries[part], k, budget, self._scratch(k), keys[part], spent[part])
            keys[part].sort(axis=1)

        run_all([partial(answer, *part) for part in split(len(queries), n_jobs)], n_jobs)
        return keys, Report(keys[:, 0] >= 0, spent)

    def range(self, queries: RangeQueries, budget: Budget, n_jobs: int = 1) -> tuple[Iterator[Keys], Report]:
        """Hits as those of :func:`hashlearn.index.scan.flat_range`; the report is filled once all pieces are taken."""
        n_queries = len(queries.words)
        report = Report(np.zeros(n_queries, np.bool_), np.zeros(n_queries))
        parts = [Part(*part) for part in split(n_queries, n_jobs)]
        return in_pieces([_Probe(self._tables, queries, part, budget, report) for part in parts], n_jobs), report


class _Probe:
    """A range search for some of the queries that stops whenever its buffer of hits is full."""

    def __init__(self, tables: Tables, queries: RangeQueries, part: Part, budget: Budget, report: Report):
        self._tables, self._queries, self._part = tables, queries, part
        self._budget, self._report = budget, report
        self._scratch = ProbeScratch.for_search(tables, 0)
        self._hits = np.empty(_HITS, np.int64)

    @property
    def finished(self) -> bool:
        return self._part.first >= self._part.last

    def step(self) -> Keys:
        count, next_query = range_probe(
            self._tables, self._queries, self._part, self._budget, self._scratch, self._hits, self._report
        )
        self._part = self._part._replace(first=next_query)
        return self._hits[:count].copy()


def _build(segment: Segment, substrings: Substrings, n_jobs: int) -> Tables:
    n, m = len(segment), len(substrings)
    words = _row_words(segment)
    n_words = words.shape[1]
    longest = int(substrings.lengths.max())
    bucket_ends = np.zeros((m, (1 << longest) + 1), np.int32)
    occupied = np.zeros((m, max(1, (1 << longest) // 64)), np.uint64)
    positions = np.empty((m, n), np.int32)
    by_position = n_words > _COPY_WORDS
    codes = words if by_position else np.empty((m, n, n_words), np.uint64)

    def fill(j: int) -> None:
        start, length = int(substrings.starts[j]), int(substrings.lengths[j])
        fill_table(words.reshape(-1), n_words, Table(start, length, bucket_ends[j], occupied[j], positions[j]))
        if not by_position:
            np.take(words, positions[j], axis=0, out=codes[j], mode="clip")  # in the other modes numpy copies once more

    for group in track([range(m)[i : i + n_jobs] for i in range(0, m, n_jobs)], "index tables"):
        run_all([partial(fill, j) for j in group], n_jobs)
    masks, mask_starts = _masks(substrings)
    return Tables(
        starts=substrings.starts,
        lengths=substrings.lengths,
        bucket_ends=bucket_ends.reshape(-1),
        occupied=occupied.reshape(-1),
        positions=positions.reshape(-1),
        codes=codes.reshape(-1),
        codes_by_position=by_position,
        masks=masks,
        mask_starts=mask_starts,
        n_codes=n,
        n_words=n_words,
    )


def _row_words(segment: Segment) -> NDArray[np.uint64]:
    """All codes as 64-bit words, row by row, shape (n, n_words)."""
    words = np.empty((len(segment), -(-bytes_per_code(segment.n_bits) // 8)), np.uint64)
    for start in range(0, len(segment), _BLOCK):
        end = min(start + _BLOCK, len(segment))
        words[start:end] = as_words(segment.codes_at(np.arange(start, end)))
    return words


def _masks(substrings: Substrings) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The words of each length and weight: ``masks[starts[length, weight] : starts[length, weight + 1]]``."""
    max_weight = substrings.max_weight
    starts = np.zeros((int(substrings.lengths.max()) + 1, max_weight + 2), np.int64)
    parts, position = [], 0
    for length in sorted(set(substrings.lengths.tolist())):
        for weight in range(max_weight + 1):
            part = np.empty(math.comb(length, weight), np.int32)
            masks_of_weight(length, weight, part)
            parts.append(part)
            starts[length, weight] = position
            position += part.size
        starts[length, max_weight + 1] = position
    return np.concatenate(parts), starts
