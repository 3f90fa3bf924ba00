"""How far the nearest codes of recent queries were, so that the next scan begins with a limit.

A scan passes over codes that are farther than the k-th it has found. Until it has found k good ones it has to count
almost every bit. Queries of one kind have their k-th neighbor at about the same distance; with a little more than the
largest of these as a limit from the start, a scan passes over most codes from the start. Where fewer than k are nearer
than the limit, the query is scanned once more without. So the limit decides how long a search takes, never what it
returns.
"""

import threading
from collections import OrderedDict, deque

import numpy as np
from numpy.typing import NDArray

FEWEST_SEEN = 16  # queries, before there is a limit

_MOST_SEEN = 64
_MOST_KINDS = 32  # values of k
_ALLOWANCE = 1 / 16


class Reach:
    """Distances of the k-th neighbors of recent queries, for each k; for one set of codes, from any thread.

    Attributes
    ----------
    no_limit : int
        Above every distance.
    """

    def __init__(self, n_bits: int):
        self.no_limit = n_bits + 1
        self._seen: OrderedDict[int, deque[int]] = OrderedDict()
        self._changing = threading.RLock()

    def knows(self, k: int) -> bool:
        """Have enough queries been seen for a limit?"""
        with self._changing:
            return len(self._seen.get(k, ())) >= FEWEST_SEEN

    def limit(self, k: int) -> int:
        """A distance that the k-th neighbor of the next query is most likely below."""
        with self._changing:
            seen = self._seen.get(k, ())
            if len(seen) < FEWEST_SEEN:
                return self.no_limit
            farthest = max(seen)
        return min(farthest + int(farthest * _ALLOWANCE) + 2, self.no_limit)

    def record(self, k: int, distances: NDArray[np.int64]) -> None:
        """The distances of some queries' k-th neighbors."""
        with self._changing:
            seen = self._seen.setdefault(k, deque(maxlen=_MOST_SEEN))
            seen.extend(distances[-_MOST_SEEN:].tolist())
            self._seen.move_to_end(k)
            if len(self._seen) > _MOST_KINDS:
                self._seen.popitem(last=False)
