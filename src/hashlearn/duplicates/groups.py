"""From pairs to groups, and which row of a group is kept.

Rows with equal numbers have one content. Distances are between contents; rows of one content are exact copies.

**Leader**: contents are taken in the order of preference. A content that is near no earlier leader becomes a leader.
Every other content joins the nearest leader. So a member is always within the largest distance of the kept row, and
there are no chains. **Components**: all contents that are connected by pairs are a group, even if its ends are far from
each other.

The order of preference is the rule of ``keep``:

- ``"center"``: most duplicates first (copies count), then as below.
- ``"first"``, ``"last"``: by id, or by position without ids.
- ``"best"``: the highest score first, then as below.

Ties are broken by id, or by the hash of the content without ids, so the order of the rows does not matter.
"""

from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from hashlearn.duplicates.kernels import leaders_in_order
from hashlearn.duplicates.vectors import Rows

Grouping = Literal["leader", "components"]
GROUPINGS = ("leader", "components")
Keep = Literal["center", "first", "last", "best"]
KEEPS = ("center", "first", "last", "best")


class Contents(NamedTuple):
    """The different contents of the rows, numbered as they first appear.

    Attributes
    ----------
    of_row : ndarray of shape (n,), int64
        The content of each row.
    row_of : ndarray of shape (m,), int64
        The first row of each content; ascending.
    """

    of_row: Rows
    row_of: Rows

    @classmethod
    def of(cls, hashes: NDArray[np.uint64]) -> "Contents":
        """The contents of rows, by hashes of 128 bits: two different rows have the same hash by chance once in
        10^38."""
        n = len(hashes)
        order = np.lexsort((np.arange(n), hashes[:, 1], hashes[:, 0]))
        is_new = np.ones(n, np.bool_)
        is_new[1:] = (hashes[order[1:]] != hashes[order[:-1]]).any(axis=1)
        first_rows = order[is_new]
        by_appearance = np.argsort(first_rows)
        numbers = np.empty(len(first_rows), np.int64)
        numbers[by_appearance] = np.arange(len(first_rows))
        of_row = np.empty(n, np.int64)
        of_row[order] = numbers[np.cumsum(is_new) - 1]
        return cls(of_row, first_rows[by_appearance])

    @property
    def n_rows(self) -> NDArray[np.int64]:
        """How many rows have each content."""
        return np.bincount(self.of_row, minlength=len(self.row_of))


class NearPairs(NamedTuple):
    """Pairs of contents ``first < second`` within the largest distance, in ascending order."""

    first: Rows
    second: Rows
    distances: NDArray[np.float64]

    @classmethod
    def in_order(cls, first: Rows, second: Rows, distances: NDArray[np.float64]) -> "NearPairs":
        low, high = np.minimum(first, second), np.maximum(first, second)
        order = np.lexsort((high, low))
        return cls(low[order], high[order], distances[order])

    def within(self, distance: float) -> "NearPairs":
        kept = self.distances <= distance
        return NearPairs(self.first[kept], self.second[kept], self.distances[kept])

    def without(self, apart: Rows) -> "NearPairs":
        """The pairs without the given ones, which have the lower content first."""
        if not len(apart):
            return self
        n = 1 + int(max(self.second.max(initial=0), apart.max()))
        kept = ~np.isin(self.first * n + self.second, apart[:, 0] * n + apart[:, 1])
        return NearPairs(self.first[kept], self.second[kept], self.distances[kept])


class Preference(NamedTuple):
    """The rule for the row that is kept.

    Attributes
    ----------
    keep : {"center", "first", "last", "best"}
    ranks : ndarray of shape (n,), int64
        The place of each row in the order of ids, or its position.
    ranks_are_ids : bool
    scores : ndarray of shape (n,), float64
        Zeros without scores.
    hashes : ndarray of shape (n, 2), uint64
    """

    keep: Keep
    ranks: NDArray[np.int64]
    ranks_are_ids: bool
    scores: NDArray[np.float64]
    hashes: NDArray[np.uint64]


class Assignment(NamedTuple):
    """For each row the row that is kept in its place (itself, if it is kept), and the distance from it.

    The distance is NaN if a row is connected with the kept row only through other rows (components).
    """

    kept: Rows
    distances: NDArray[np.float64]


def assign(contents: Contents, pairs: NearPairs, preference: Preference, grouping: Grouping) -> Assignment:
    """Group the rows, and choose one of each group."""
    n = len(contents.row_of)
    order = order_of_contents(contents, pairs, preference)
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    if grouping == "leader":
        leaders, distances = _nearest_leaders(order, place, pairs)
    else:
        leaders, distances = _first_of_components(order, place, pairs)
    rows = rows_by_preference(contents, preference)
    kept_rows = rows[np.searchsorted(contents.of_row[rows], np.arange(n))]
    return Assignment(kept_rows[leaders[contents.of_row]], distances[contents.of_row])


def order_of_contents(contents: Contents, pairs: NearPairs, preference: Preference) -> Rows:
    """The numbers of the contents, the preferred first."""
    n, ranks = len(contents.row_of), preference.ranks
    if preference.keep == "last":
        highest = np.full(n, -1, np.int64)
        np.maximum.at(highest, contents.of_row, ranks)
        return np.argsort(-highest)
    lowest = np.full(n, len(ranks), np.int64)
    np.minimum.at(lowest, contents.of_row, ranks)
    if preference.keep == "first":
        return np.argsort(lowest)
    hashes = preference.hashes[contents.row_of]
    ties = (lowest,) if preference.ranks_are_ids else (hashes[:, 1], hashes[:, 0])
    if preference.keep == "center":
        return np.lexsort((*ties, -_numbers_of_duplicates(contents, pairs)))
    best = np.full(n, -np.inf)
    np.maximum.at(best, contents.of_row, preference.scores)
    return np.lexsort((*ties, -best))


def _numbers_of_duplicates(contents: Contents, pairs: NearPairs) -> NDArray[np.int64]:
    """For each content, the rows near it or equal to it."""
    n_rows = contents.n_rows
    found = n_rows.copy()
    np.add.at(found, pairs.first, n_rows[pairs.second])
    np.add.at(found, pairs.second, n_rows[pairs.first])
    return found


def rows_by_preference(contents: Contents, preference: Preference) -> Rows:
    """The rows of content 0, of content 1 and so on, each content's preferred row first: by score, then by id."""
    ranks = -preference.ranks if preference.keep == "last" else preference.ranks
    scores = preference.scores if preference.keep == "best" else np.zeros(len(ranks))
    return np.lexsort((ranks, -scores, contents.of_row))


def _nearest_leaders(order: Rows, place: Rows, pairs: NearPairs) -> tuple[Rows, NDArray[np.float64]]:
    n = len(order)
    starts, neighbors = _neighbor_lists(n, pairs)
    is_leader = np.zeros(n, np.bool_)
    leaders_in_order(order, starts, neighbors, is_leader)

    members = np.concatenate([pairs.first, pairs.second])
    others = np.concatenate([pairs.second, pairs.first])
    distances = np.concatenate([pairs.distances, pairs.distances])
    joins = ~is_leader[members] & is_leader[others]
    members, others, distances = members[joins], others[joins], distances[joins]
    nearest = np.lexsort((place[others], distances, members))
    members, first = np.unique(members[nearest], return_index=True)
    leader, distance = np.arange(n), np.zeros(n)
    leader[members], distance[members] = others[nearest][first], distances[nearest][first]
    return leader, distance


def _first_of_components(order: Rows, place: Rows, pairs: NearPairs) -> tuple[Rows, NDArray[np.float64]]:
    n = len(order)
    component = components_of(n, pairs)
    first = np.full(n, n, np.int64)
    np.minimum.at(first, component, place)
    leader = order[first[component]]
    distance = np.where(leader == np.arange(n), 0.0, np.nan)
    for a, b in ((pairs.first, pairs.second), (pairs.second, pairs.first)):
        direct = leader[a] == b
        distance[a[direct]] = pairs.distances[direct]
    return leader, distance


def components_of(n: int, pairs: NearPairs) -> NDArray[np.int64]:
    """The number of the component of each of n contents; connected contents have the same number."""
    graph = scipy.sparse.coo_array((np.ones(len(pairs.first), np.bool_), (pairs.first, pairs.second)), shape=(n, n))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def _neighbor_lists(n: int, pairs: NearPairs) -> tuple[Rows, Rows]:
    """The neighbors of content i are ``neighbors[starts[i] : starts[i + 1]]``."""
    ends = np.concatenate([pairs.first, pairs.second])
    others = np.concatenate([pairs.second, pairs.first])
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(ends, minlength=n))])
    return starts, others[np.argsort(ends, kind="stable")]
