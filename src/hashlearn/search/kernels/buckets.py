"""Tables of substrings: the loops of multi-index hashing (Norouzi, Punjani and Fleet, CVPR 2012).

A code is cut into m substrings, and a table per substring lists the codes by its value. If a code is at distance
``m r + a`` of a query or less, 0 <= a < m, then it is at distance r or less in one of the first a + 1 substrings, or at
distance r - 1 or less in one of the others: by the pigeonhole principle, for otherwise the distances would sum to more.
So **level** (r, j), the buckets of table j whose value differs from the query's in exactly r bits, taken in the order
(0, 0), (0, 1), ..., (1, 0), ..., has met every code within ``m r + j`` once it is done.

A code met at level (r, j) was met before if an earlier level would have met it, which the distances of its other
substrings tell: no list of codes seen is kept.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled, lean
from hashlearn.search.kernels.scan import POSITION_BITS, QUERY_SHIFT
from hashlearn.search.kernels.simd import popcount, prefetch


class Tables(NamedTuple):
    """m tables over n codes of W words of 64 bits; all arrays but the first two are flat, table after table.

    A bucket's codes lie side by side where ``shared_codes`` is 0: ``codes`` then holds a copy per table, in the order
    of its buckets. Where it is 1 there is one copy, by position.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    bucket_ends: NDArray[np.int32]
    occupied: NDArray[np.uint64]
    positions: NDArray[np.int32]
    codes: NDArray[np.uint64]
    masks: NDArray[np.int32]
    mask_starts: NDArray[np.int64]
    shared_codes: int


class Costs(NamedTuple):
    """What the parts of a look into the tables cost, in the unit of the budget."""

    level: float
    probe: float
    bucket: float
    candidate: float


def found_size(k: int) -> int:
    """Results held before they are cut to k: several times k, for a cut costs as much as it looks at."""
    return 4 * k + 256


class Scratch(NamedTuple):
    """Memory for one thread at work."""

    found: NDArray[np.int64]
    values: NDArray[np.int64]
    buckets: NDArray[np.int64]

    @classmethod
    def for_search(cls, tables: Tables, k: int) -> "Scratch":
        return cls(
            np.empty(found_size(k), np.int64),
            np.empty(tables.starts.size, np.int64),
            np.empty(tables.masks.size + 1, np.int64),
        )


@lean
def substring(words, offset, start, length):
    """Bits ``start : start + length`` of the code at ``words[offset:]``, as int64; at most 32 of them."""
    word = offset + (start >> 6)
    shift = start & 63
    value = words[word] >> np.uint64(shift)
    if shift + length > 64:
        value |= words[word + 1] << np.uint64(64 - shift)
    return np.int64(value & ((np.uint64(1) << np.uint64(length)) - np.uint64(1)))


@compiled
def fill_table(words, n_words, start, length, bucket_ends, occupied, positions, codes):
    """Sort codes into the buckets of one table.

    Bucket v holds ``bucket_ends[v - 1] : bucket_ends[v]`` of ``positions``, ascending, and of ``codes`` where that is
    not empty; ``bucket_ends`` has an entry 0 in front, so v counts from 1 there.
    """
    n_codes = words.size // n_words
    for position in range(n_codes):
        bucket_ends[substring(words, position * n_words, start, length) + 1] += 1
    for value in range(1 << length):
        if bucket_ends[value + 1] > 0:
            occupied[value >> 6] |= np.uint64(1) << np.uint64(value & 63)
        bucket_ends[value + 1] += bucket_ends[value]
    heads = bucket_ends.copy()
    for position in range(n_codes):
        value = substring(words, position * n_words, start, length)
        slot = np.int64(heads[value])
        heads[value] += 1
        positions[slot] = position
        if codes.size > 0:
            for word in range(n_words):
                codes[slot * n_words + word] = words[position * n_words + word]


@lean
def masks_of_weight(length, weight, out):
    """All words of so many bits with so many ones, ascending (Gosper's rule)."""
    mask = (1 << weight) - 1
    for i in range(out.size):
        out[i] = mask
        if mask == 0:
            return
        lowest = mask & -mask
        ripple = mask + lowest
        mask = (((ripple ^ mask) >> 2) // lowest) | ripple


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
def _find_buckets(tables, table, value, weight, buckets):
    """List the occupied buckets of a level, and ask for their ends; returns how many there are."""
    bucket_ends, occupied, masks = tables.bucket_ends, tables.occupied, tables.masks
    first_bucket = table * (bucket_ends.size // tables.starts.size)
    first_word = table * (occupied.size // tables.starts.size)
    length = tables.lengths[table]
    count = 0
    for i in range(tables.mask_starts[length, weight], tables.mask_starts[length, weight + 1]):
        bucket = value ^ np.int64(masks[i])
        buckets[count] = first_bucket + bucket
        if (occupied[first_word + (bucket >> 6)] >> np.uint64(bucket & 63)) & np.uint64(1) != np.uint64(0):
            prefetch(bucket_ends, first_bucket + bucket)
            count += 1
    return count


@lean
def _count_candidates(tables, table, n_codes, n_words, buckets, n_buckets):
    """The codes in the listed buckets, asked for on the way."""
    bucket_ends, positions, codes = tables.bucket_ends, tables.positions, tables.codes
    copied = tables.shared_codes == 0
    total = 0
    for i in range(n_buckets):
        first = np.int64(bucket_ends[buckets[i]])
        total += np.int64(bucket_ends[buckets[i] + 1]) - first
        prefetch(positions, table * n_codes + first)
        if copied:
            prefetch(codes, (table * n_codes + first) * n_words)
    return total


@lean
def _distance_to(codes, row, words, query_offset, n_words, limit):
    """Distance of a code to a query, or something above the limit."""
    total = popcount(codes[row] ^ words[query_offset])
    for word in range(1, n_words):
        if total > limit:
            break
        total += popcount(codes[row + word] ^ words[query_offset + word])
    return total


@lean
def _met_before(codes, row, starts, lengths, values, table, weight):
    """Would a level before (weight, table) have met this code?"""
    before = False
    for other in range(starts.size):
        if other != table:
            value = substring(codes, row, starts[other], lengths[other])
            distance = popcount(np.uint64(value ^ values[other]))
            if distance < weight or (distance == weight and other < table):
                before = True
                break
    return before


@lean
def _collect_level(
    tables, table, weight, n_codes, words, query, n_words, values, buckets, n_buckets, limit, found, count, k
):
    """Append the new codes of a level within the limit; cut to k when full. Returns the count and the limit."""
    bucket_ends, positions, codes = tables.bucket_ends, tables.positions, tables.codes
    starts, lengths = tables.starts, tables.lengths
    shared = tables.shared_codes != 0
    for i in range(n_buckets):
        first = table * n_codes + np.int64(bucket_ends[buckets[i]])
        last = table * n_codes + np.int64(bucket_ends[buckets[i] + 1])
        for slot in range(first, last):
            row = (np.int64(positions[slot]) if shared else slot) * n_words
            distance = _distance_to(codes, row, words, query * n_words, n_words, limit)
            if distance > limit or _met_before(codes, row, starts, lengths, values, table, weight):
                continue
            found[count] = (distance << POSITION_BITS) | np.int64(positions[slot])
            count += 1
            if count == found.size:
                limit = select_smallest(found, count, k) >> POSITION_BITS
                count = k
    return count, limit


@lean
def _collect_range(
    tables,
    table,
    weight,
    n_codes,
    words,
    query,
    n_words,
    values,
    buckets,
    n_buckets,
    radius,
    hits,
    count,
    first_position,
):
    """Append the new codes of a level within the radius, from a position on. Returns the count."""
    bucket_ends, positions, codes = tables.bucket_ends, tables.positions, tables.codes
    starts, lengths = tables.starts, tables.lengths
    shared = tables.shared_codes != 0
    for i in range(n_buckets):
        first = table * n_codes + np.int64(bucket_ends[buckets[i]])
        last = table * n_codes + np.int64(bucket_ends[buckets[i] + 1])
        for slot in range(first, last):
            position = np.int64(positions[slot])
            row = (position if shared else slot) * n_words
            distance = _distance_to(codes, row, words, query * n_words, n_words, radius)
            if distance > radius or position < first_position:
                continue
            if not _met_before(codes, row, starts, lengths, values, table, weight):
                hits[count] = (query << QUERY_SHIFT) | (distance << POSITION_BITS) | position
                count += 1
    return count


@lean
def knn_probe(tables, n_codes, n_words, words, k, budget, costs, scratch, keys, spent):
    """The k nearest codes of each query, level by level, until no code left can be nearer.

    Row q of ``keys`` gets the results in no order. A level whose cost would bring a query above ``budget`` is not
    begun: row q then starts with -1, and the query is to be answered otherwise. ``spent[q]`` is what it has cost.
    ``k`` is at most ``n_codes``, of which there are fewer than 2^31.
    """
    n_tables = tables.starts.size
    max_weight = tables.mask_starts.shape[1] - 2
    found, values, buckets = scratch.found, scratch.values, scratch.buckets
    for query in range(spent.size):
        for j in range(n_tables):
            values[j] = substring(words, query * n_words, tables.starts[j], tables.lengths[j])
        count = 0
        limit = n_words * 64
        cost = 0.0
        finished = False
        for level in range((max_weight + 1) * n_tables):
            weight, j = level // n_tables, level % n_tables
            length = tables.lengths[j]
            n_probes = tables.mask_starts[length, weight + 1] - tables.mask_starts[length, weight]
            cost += costs.level + n_probes * costs.probe
            if cost > budget:
                break
            n_buckets = _find_buckets(tables, j, values[j], weight, buckets)
            n_candidates = _count_candidates(tables, j, n_codes, n_words, buckets, n_buckets)
            cost += n_buckets * costs.bucket + n_candidates * costs.candidate
            if cost > budget:
                break
            count, limit = _collect_level(
                tables, j, weight, n_codes, words, query, n_words, values, buckets, n_buckets, limit, found, count, k
            )
            if count >= k:
                limit = min(limit, select_smallest(found, count, k) >> POSITION_BITS)
                count = k
                if limit <= level:
                    finished = True
                    break
        spent[query] = min(cost, budget)
        for i in range(k):
            keys[query, i] = found[i] if finished else -1


@lean
def range_probe(
    tables, n_codes, n_words, words, first_positions, radius, budget, costs, scratch,
    first_query, last_query, hits, answered, spent,
):  # fmt: skip
    """All codes within a radius of the queries ``first_query : last_query``, of which there are at most 512.

    Hits are those of :func:`hashlearn.search.kernels.scan.range_scan`. ``answered[q]`` is set to 1, or to 0 where the
    query would cost more than ``budget`` and has no hits; ``spent[q]`` is what it has cost. Returns the number of hits
    and the query to go on with, which is below ``last_query`` when ``hits`` is full.
    """
    n_tables = tables.starts.size
    values, buckets = scratch.values, scratch.buckets
    max_weight = tables.mask_starts.shape[1] - 2
    n_levels = min(radius + 1, (max_weight + 1) * n_tables)
    count = 0
    for query in range(first_query, last_query):
        before = count
        cost = 0.0
        answered[query] = 1 if n_levels == radius + 1 else 0
        for j in range(n_tables):
            values[j] = substring(words, query * n_words, tables.starts[j], tables.lengths[j])
        for level in range(n_levels):
            weight, j = level // n_tables, level % n_tables
            length = tables.lengths[j]
            n_probes = tables.mask_starts[length, weight + 1] - tables.mask_starts[length, weight]
            cost += costs.level + n_probes * costs.probe
            if cost <= budget:
                n_buckets = _find_buckets(tables, j, values[j], weight, buckets)
                n_candidates = _count_candidates(tables, j, n_codes, n_words, buckets, n_buckets)
                cost += n_buckets * costs.bucket + n_candidates * costs.candidate
            if cost > budget:
                answered[query] = 0
                break
            if count + n_candidates > hits.size:
                if before > 0:
                    return before, query
                answered[query] = 0
                break
            count = _collect_range(
                tables, j, weight, n_codes, words, query, n_words, values, buckets, n_buckets, radius, hits, count,
                first_positions[query],
            )  # fmt: skip
        spent[query] = min(cost, budget)
        if answered[query] == 0:
            count = before
    return count, last_query
