"""Search in a stream of blocks: for databases that read codes faster than they compare them.

Each block is compared with all queries before the next block is read. Memory holds one block and the results so far.
"""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import hamming_distances
from hashlearn.stores.base import Block, Hits
from hashlearn.stores.filters import Condition, matches

PAIRS_AT_ONCE = 1 << 22


def nearest_in(
    blocks: Iterable[Block], codes: NDArray[np.uint8], n_bits: int, k: int, condition: Condition | None
) -> list[Hits]:
    """The k nearest codes of each query; with a condition the blocks must have their payloads.

    Only rows that are near enough are tested, nearest first, so most payloads are never read.
    """
    found: list[Hits] = [[] for _ in codes]
    for block in blocks:
        meets = _Tester(block, condition)
        for query, distances in _distances(block, codes, n_bits):
            hits = found[query]
            limit = hits[-1][0] if len(hits) == k else n_bits
            candidates = np.flatnonzero(distances <= limit)
            if condition is None and len(candidates) > k:
                candidates = candidates[distances[candidates] <= np.partition(distances[candidates], k - 1)[k - 1]]
            nearer = _sorted_hits(distances, block.ids, candidates)
            found[query] = sorted(hits + meets.first(nearer, k))[:k]
    return found


def within_in(
    blocks: Iterable[Block], codes: NDArray[np.uint8], n_bits: int, radius: int, condition: Condition | None
) -> list[Hits]:
    """All codes at distance ``radius`` or less of each query; with a condition the blocks must have their payloads."""
    found: list[Hits] = [[] for _ in codes]
    for block in blocks:
        meets = _Tester(block, condition)
        for query, distances in _distances(block, codes, n_bits):
            near = _sorted_hits(distances, block.ids, np.flatnonzero(distances <= radius))
            found[query] += meets.first(near, len(near))
    return [sorted(hits) for hits in found]


class _Tester:
    """Which rows of a block meet a condition; each row is tested at most once, on demand."""

    def __init__(self, block: Block, condition: Condition | None):
        self.condition = condition
        self.payloads = {} if block.payloads is None else dict(zip(block.ids.tolist(), block.payloads))
        self.known: dict[Any, bool] = {}

    def first(self, hits: Hits, k: int) -> Hits:
        """The first k of the hits that meet the condition."""
        if self.condition is None:
            return hits[:k]
        kept: Hits = []
        for distance, id in hits:
            if len(kept) == k:
                break
            if id not in self.known:
                self.known[id] = matches(self.condition, json.loads(self.payloads[id]))
            if self.known[id]:
                kept.append((distance, id))
        return kept


def _distances(block: Block, codes: NDArray[np.uint8], n_bits: int) -> Iterable[tuple[int, NDArray[np.int32]]]:
    step = max(1, PAIRS_AT_ONCE // max(1, len(block.ids)))
    for start in range(0, len(codes) if len(block.ids) else 0, step):
        yield from enumerate(hamming_distances(codes[start : start + step], block.codes, n_bits), start)


def _sorted_hits(distances: NDArray[np.int32], ids: NDArray[Any], rows: NDArray[np.intp]) -> Hits:
    return sorted(zip(distances[rows].tolist(), ids[rows].tolist()))
