"""Look-ups in tables of substrings: the loops of multi-index hashing.

If a code is at distance ``m r + a`` of a query or less, 0 <= a < m, then it is at distance r or less in one of the
first a + 1 substrings, or at distance r - 1 or less in one of the others; otherwise the distances would sum to more
(the pigeonhole principle). So **level** (r, j), the buckets of table j whose value differs from the query's in exactly
r bits, taken in the order (0, 0), (0, 1), ..., (1, 0), ..., has met every code within ``m r + j`` once it is done.

A code met at level (r, j) was met before if an earlier level would have met it, which the distances of its other
substrings tell: no list of codes seen is kept.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import lean
from hashlearn.index.kernels.buckets import Tables, substring
from hashlearn.index.kernels.scan import POSITION_BITS, QUERY_SHIFT
from hashlearn.index.kernels.simd import popcount, prefetch


class Costs(NamedTuple):
    """What the parts of a look into the tables cost."""

    level: float
    probe: float
    bucket: float
    candidate: float


class Budget(NamedTuple):
    """What the look-ups of a query may cost in all, and what they cost one by one."""

    total: float
    costs: Costs


class Query(NamedTuple):
    """The words of all queries, where this one's begin, and the values of its substrings."""

    words: NDArray[np.uint64]
    offset: int
    values: NDArray[np.int64]


class Level(NamedTuple):
    """The buckets of one table whose value differs from the query's in ``weight`` bits."""

    table: int
    weight: int


class Part(NamedTuple):
    """The queries ``first : last`` of many."""

    first: int
    last: int


class Report(NamedTuple):
    """For each query: was it answered, and what has it cost?"""

    answered: NDArray[np.bool_]
    spent: NDArray[np.float64]


def found_size(k: int) -> int:
    """Results held before they are cut to k: several times k, for a cut costs as much as it looks at."""
    return 4 * k + 256


class ProbeScratch(NamedTuple):
    """Memory for one thread at work."""

    found: NDArray[np.int64]
    values: NDArray[np.int64]
    buckets: NDArray[np.int64]

    @classmethod
    def for_search(cls, tables: Tables, k: int) -> "ProbeScratch":
        return cls(
            np.empty(found_size(k), np.int64),
            np.empty(tables.starts.size, np.int64),
            np.empty(tables.masks.size + 1, np.int64),
        )


@lean
def select_smallest(keys, count, k):
    """Bring the k smallest of ``keys[:count]`` to the front, in no order; returns the largest of them."""
    low, high = 0, count - 1
    while low < high:
        pivot = keys[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return keys[k - 1]


@lean
def _n_probes(tables, level):
    """Buckets of a level, empty ones included."""
    length = tables.lengths[level.table]
    return tables.mask_starts[length, level.weight + 1] - tables.mask_starts[length, level.weight]


@lean
def _find_buckets(tables, level, query, buckets):
    """List the occupied buckets of a level, and ask for their ends; returns how many there are."""
    bucket_ends, occupied, masks = tables.bucket_ends, tables.occupied, tables.masks
    first_bucket = level.table * (bucket_ends.size // tables.starts.size)
    first_word = level.table * (occupied.size // tables.starts.size)
    value = query.values[level.table]
    first_mask = tables.mask_starts[tables.lengths[level.table], level.weight]
    count = 0
    for i in range(first_mask, first_mask + _n_probes(tables, level)):
        bucket = value ^ np.int64(masks[i])
        buckets[count] = first_bucket + bucket
        if (occupied[first_word + (bucket >> 6)] >> np.uint64(bucket & 63)) & np.uint64(1) != np.uint64(0):
            prefetch(bucket_ends, first_bucket + bucket)
            count += 1
    return count


@lean
def _count_candidates(tables, level, buckets):
    """The codes in the listed buckets, asked for on the way."""
    bucket_ends, positions, codes = tables.bucket_ends, tables.positions, tables.codes
    first_slot = level.table * tables.n_codes
    total = 0
    for i in range(buckets.size):
        first = np.int64(bucket_ends[buckets[i]])
        total += np.int64(bucket_ends[buckets[i] + 1]) - first
        prefetch(positions, first_slot + first)
        if not tables.codes_by_position:
            prefetch(codes, (first_slot + first) * tables.n_words)
    return total


@lean
def _distance_to(tables, row, query, limit):
    """Distance of the code at ``tables.codes[row:]`` to the query, or something above the limit."""
    total = popcount(tables.codes[row] ^ query.words[query.offset])
    for word in range(1, tables.n_words):
        if total > limit:
            break
        total += popcount(tables.codes[row + word] ^ query.words[query.offset + word])
    return total


@lean
def _met_before(tables, row, level, query):
    """Would an earlier level have met this code?"""
    before = False
    for other in range(tables.starts.size):
        if other != level.table:
            value = substring(tables.codes, row, tables.starts[other], tables.lengths[other])
            distance = popcount(np.uint64(value ^ query.values[other]))
            if distance < level.weight or (distance == level.weight and other < level.table):
                before = True
                break
    return before


class _Nearest(NamedTuple):
    """Room for what is found, and how many are wanted."""

    found: NDArray[np.int64]
    k: int


class _Within(NamedTuple):
    """What a query of a range search asks for, and the number of the query in its hits."""

    radius: int
    first_position: int
    key: int


@lean
def _collect_nearest(tables, level, query, buckets, nearest, count, limit):
    """Append the new codes of a level within the limit; cut to k when full. Returns the count and the limit."""
    bucket_ends, positions = tables.bucket_ends, tables.positions
    first_slot = level.table * tables.n_codes
    for i in range(buckets.size):
        first = first_slot + np.int64(bucket_ends[buckets[i]])
        last = first_slot + np.int64(bucket_ends[buckets[i] + 1])
        for slot in range(first, last):
            position = np.int64(positions[slot])
            row = (position if tables.codes_by_position else slot) * tables.n_words
            distance = _distance_to(tables, row, query, limit)
            if distance > limit or _met_before(tables, row, level, query):
                continue
            nearest.found[count] = (distance << POSITION_BITS) | position
            count += 1
            if count == nearest.found.size:
                limit = select_smallest(nearest.found, count, nearest.k) >> POSITION_BITS
                count = nearest.k
    return count, limit


@lean
def _collect_range(tables, level, query, buckets, within, hits, count):
    """Append the new codes of a level within the radius, from a position on. Returns the count."""
    bucket_ends, positions = tables.bucket_ends, tables.positions
    first_slot = level.table * tables.n_codes
    for i in range(buckets.size):
        first = first_slot + np.int64(bucket_ends[buckets[i]])
        last = first_slot + np.int64(bucket_ends[buckets[i] + 1])
        for slot in range(first, last):
            position = np.int64(positions[slot])
            row = (position if tables.codes_by_position else slot) * tables.n_words
            distance = _distance_to(tables, row, query, within.radius)
            if distance > within.radius or position < within.first_position:
                continue
            if not _met_before(tables, row, level, query):
                hits[count] = within.key | (distance << POSITION_BITS) | position
                count += 1
    return count


@lean
def _substrings_of(tables, words, offset, values):
    """A query, with the values of its substrings written to ``values``."""
    for j in range(tables.starts.size):
        values[j] = substring(words, offset, tables.starts[j], tables.lengths[j])
    return Query(words, offset, values)


@lean
def knn_probe(tables, queries, k, budget, scratch, keys, spent):
    """The k nearest codes of each query, level by level, until no code left can be nearer.

    ``queries`` has shape (n_queries, n_words). Row q of ``keys`` gets the results in no order. A level whose cost would
    bring a query above the budget is not begun: row q then starts with -1, and the query is to be answered otherwise.
    ``spent[q]`` is what it has cost. ``k`` is at most the number of codes, of which there are fewer than 2^31.
    """
    n_tables = tables.starts.size
    max_weight = tables.mask_starts.shape[1] - 2
    words = queries.reshape(-1)
    costs = budget.costs
    nearest = _Nearest(scratch.found, k)
    for number in range(spent.size):
        query = _substrings_of(tables, words, number * tables.n_words, scratch.values)
        count = 0
        limit = tables.n_words * 64
        cost = 0.0
        finished = False
        for step in range((max_weight + 1) * n_tables):
            level = Level(step % n_tables, step // n_tables)
            cost += costs.level + _n_probes(tables, level) * costs.probe
            if cost > budget.total:
                break
            buckets = scratch.buckets[: _find_buckets(tables, level, query, scratch.buckets)]
            cost += buckets.size * costs.bucket + _count_candidates(tables, level, buckets) * costs.candidate
            if cost > budget.total:
                break
            count, limit = _collect_nearest(tables, level, query, buckets, nearest, count, limit)
            if count >= k:
                limit = min(limit, select_smallest(scratch.found, count, k) >> POSITION_BITS)
                count = k
                if limit <= step:
                    finished = True
                    break
        spent[number] = min(cost, budget.total)
        for i in range(k):
            keys[number, i] = scratch.found[i] if finished else -1


@lean
def range_probe(tables, queries, part, budget, scratch, hits, report):
    """All codes within the radius of some of the queries, given as :class:`hashlearn.index.kernels.scan.RangeQueries`.

    Hits are those of :func:`hashlearn.index.kernels.scan.range_scan`. A query that would cost more than the budget has
    no hits and is reported as not answered. Returns the number of hits and the query to go on with, which is below
    ``part.last`` when ``hits`` is full.
    """
    n_tables = tables.starts.size
    max_weight = tables.mask_starts.shape[1] - 2
    n_levels = min(queries.radius + 1, (max_weight + 1) * n_tables)
    words = queries.words.reshape(-1)
    costs = budget.costs
    count = 0
    for number in range(part.first, part.last):
        query = _substrings_of(tables, words, number * tables.n_words, scratch.values)
        within = _Within(queries.radius, queries.first_positions[number], number << QUERY_SHIFT)
        before = count
        cost = 0.0
        answered = n_levels == queries.radius + 1
        for step in range(n_levels):
            level = Level(step % n_tables, step // n_tables)
            cost += costs.level + _n_probes(tables, level) * costs.probe
            if cost > budget.total:
                answered = False
                break
            buckets = scratch.buckets[: _find_buckets(tables, level, query, scratch.buckets)]
            n_candidates = _count_candidates(tables, level, buckets)
            cost += buckets.size * costs.bucket + n_candidates * costs.candidate
            if cost > budget.total:
                answered = False
                break
            if count + n_candidates > hits.size:
                if before > 0:
                    return before, number
                answered = False
                break
            count = _collect_range(tables, level, query, buckets, within, hits, count)
        report.answered[number] = answered
        report.spent[number] = min(cost, budget.total)
        if not answered:
            count = before
    return count, part.last
