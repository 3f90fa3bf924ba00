"""The result of a search for duplicates: pairs, groups, rows to keep; checks of new rows; smaller distances."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_choice, check_number
from hashlearn.duplicates.decisions import as_decided, with_decisions
from hashlearn.duplicates.groups import GROUPINGS, KEEPS, Assignment, Grouping, Keep, NearPairs, Preference, assign
from hashlearn.duplicates.plan import Plan
from hashlearn.duplicates.saved import Saved, read_state, write_state
from hashlearn.duplicates.state import Checked, DuplicatePairs, FoundPairs, Group, added, known_contents, near_known
from hashlearn.duplicates.vectors import RowMetric, Rows
from hashlearn.duplicates.verify import Curve
from hashlearn.names import natural_key
from hashlearn.threads import check_n_jobs

_PAIRS_AT_ONCE = 1 << 20


class Duplicates:
    """The duplicates among rows, at one distance. :func:`hashlearn.find_duplicates` makes it.

    Attributes
    ----------
    state : FoundPairs
        The data of the result; results at smaller distances share it.
    max_distance : float
        Rows at this distance or less are duplicates.
    metric : {"cosine", "euclidean", "words"}
    grouping, keep : str
        See :func:`hashlearn.find_duplicates`.
    reason : str
        Why this distance was chosen, in a sentence.
    curve : Curve or None
        The pairs that each radius of the codes found; None if the search was exact.
    recall : float
        The estimated share of near pairs that was found; 1 if the search was exact.
    """

    def __init__(self, state: FoundPairs, max_distance: float, grouping: Grouping, keep: Keep, reason: str):
        self.state = state
        self.max_distance = max_distance
        self.reason = reason
        self.grouping: Grouping = check_choice("grouping", grouping, GROUPINGS)  # type: ignore[assignment]
        self.keep: Keep = check_choice("keep", keep, KEEPS)  # type: ignore[assignment]
        if keep == "best" and state.scores is None:
            raise ValueError("keep='best' needs scores, got None")

    def __len__(self) -> int:
        """Number of rows, duplicates or not."""
        return len(self.state.vectors)

    def __repr__(self) -> str:
        return (
            f"Duplicates({len(self)} rows, {self.metric} distance <= {self.max_distance:g}: "
            f"{len(self.dropped)} to drop, {len(self.groups)} groups)"
        )

    @property
    def metric(self) -> RowMetric:
        return self.state.vectors.metric

    @property
    def plan(self) -> Plan:
        """How the pairs were found; ``str(duplicates.plan)`` is a description with the expected cost."""
        return self.state.plan

    @property
    def curve(self) -> Curve | None:
        return self.state.curve

    @property
    def recall(self) -> float:
        return 1.0 if self.curve is None else float(self.curve.recall[-1])

    @property
    def ids(self) -> NDArray:
        """The ids of all rows, in their order."""
        ids = self.state.ids
        return np.arange(len(self)) if ids is None else ids

    @cached_property
    def pairs(self) -> DuplicatePairs:
        """Near pairs and exact copies.

        In the near pairs, the row with the lowest id stands for all rows equal to it. Each of the equal rows also makes
        one pair with it, at distance 0. See :meth:`all_pairs` for every pair of rows.
        """
        contents, near = self.state.contents, self._near
        shown = self._lowest_rows
        copies = np.flatnonzero(shown[contents.of_row] != np.arange(len(self)))
        first = np.concatenate([shown[near.first], shown[contents.of_row[copies]]])
        second = np.concatenate([shown[near.second], copies])
        return self._as_pairs(first, second, np.concatenate([near.distances, np.zeros(len(copies))]))

    def all_pairs(self) -> Iterator[DuplicatePairs]:
        """Every pair of rows, also pairs of copies, in pieces: n equal rows make n (n - 1) / 2 pairs."""
        contents, near = self.state.contents, self._near
        rows = np.argsort(contents.of_row, kind="stable")
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(contents.n_rows)])
        for content in np.flatnonzero(contents.n_rows > 1):
            members = rows[starts[content] : starts[content + 1]]
            for place, row in enumerate(members[:-1], start=1):
                others = members[place:]
                yield self._as_pairs(np.full(len(others), row), others, np.zeros(len(others)))
        counts = contents.n_rows[near.first] * contents.n_rows[near.second]
        for part in _parts(counts, _PAIRS_AT_ONCE):
            first, second = near.first[part], near.second[part]
            pair = np.repeat(np.arange(len(first)), counts[part])
            within = np.arange(len(pair)) - np.repeat(np.cumsum(counts[part]) - counts[part], counts[part])
            n_second = contents.n_rows[second[pair]]
            a = rows[starts[first[pair]] + within // n_second]
            b = rows[starts[second[pair]] + within % n_second]
            yield self._as_pairs(a, b, near.distances[part][pair])

    @cached_property
    def assignment(self) -> Assignment:
        """For each row the number of the row that is kept in its place, and the distance from it."""
        found = assign(self.state.contents, self._near, self.preference, self.grouping)
        return as_decided(found, self.state)

    @property
    def preference(self) -> Preference:
        """The rule for the row of a group that is kept."""
        state = self.state
        scores = np.zeros(len(self)) if state.scores is None else state.scores
        return Preference(self.keep, self._ranks, state.ids is not None, scores, state.vectors.hashes)

    @property
    def kept(self) -> NDArray:
        """Ids to keep, in the order of the rows: one of each group, and all rows that have no duplicate."""
        return self.ids[self.assignment.kept == np.arange(len(self))]

    @property
    def dropped(self) -> NDArray:
        """Ids to drop, in the order of the rows."""
        return self.ids[self.assignment.kept != np.arange(len(self))]

    @property
    def n_copies(self) -> int:
        """Number of rows that repeat the numbers of another row; the first row of each content is not counted."""
        return len(self) - len(self.state.contents.row_of)

    @cached_property
    def groups(self) -> list[Group]:
        """Groups of two rows or more, the largest first, ties by the id of the kept row."""
        kept, distances = self.assignment
        members = np.flatnonzero(kept != np.arange(len(self)))
        order = members[np.lexsort((self._ranks[members], distances[members], self._ranks[kept[members]]))]
        of_row = self.state.contents.of_row
        groups = []
        for rows in np.split(order, np.flatnonzero(np.diff(kept[order])) + 1) if len(order) else []:
            leader = kept[rows[0]]
            is_copy = of_row[rows] == of_row[leader]
            groups.append(Group(self.ids[leader].item(), self.ids[rows], distances[rows], is_copy))
        return sorted(groups, key=lambda group: -len(group.members))

    def decide(self, decisions: Iterable[tuple[Any, str, Any]]) -> Self:
        """Store decisions of a user about rows; groups, kept and dropped rows follow them from now on.

        Parameters
        ----------
        decisions : iterable of (id, decision, id)
            A row, ``"keep"``, ``"drop"``, ``"different"`` or ``""``, and the kept row of its group. ``"different"``:
            the two are no duplicates; the row is kept, and the pair is never found again. ``""`` withdraws a decision.
            A group whose rows are all dropped keeps its kept row.

        Returns
        -------
        Duplicates
            This object.

        Examples
        --------
        >>> from hashlearn import find_duplicates
        >>> found = find_duplicates([[1.0, 0.0], [1.0, 0.01], [1.0, 0.02]], 0.01, keep="first")
        >>> found.dropped
        array([1, 2])
        >>> found.decide([(1, "different", 0)]).dropped
        array([2])
        """
        self._replace(with_decisions(self.state, decisions, self.ids))
        return self

    def at(self, max_distance: float, *, grouping: Grouping | None = None, keep: Keep | None = None) -> "Duplicates":
        """The duplicates at a smaller distance, from the stored pairs; nothing is compared again.

        Parameters
        ----------
        max_distance : float
            From 0 to the largest distance that was searched.
        grouping, keep : str, optional
            Other rules than those of this result.

        Returns
        -------
        Duplicates
            Another result; this one is unchanged.
        """
        largest = self.state.largest_distance
        distance = check_number("max_distance", max_distance, low=0)
        if distance > largest:
            raise ValueError(
                f"max_distance must be at most {largest:g}, up to which pairs were searched, got {max_distance}; "
                "call find_duplicates with a larger one"
            )
        reason = self.reason if distance == self.max_distance else f"max_distance={distance:g} was asked for"
        return Duplicates(self.state, distance, grouping or self.grouping, keep or self.keep, reason)

    def check(self, X: Any, *, n_jobs: int | None = None) -> Checked:
        """Which of these rows duplicate a known row, and which are new. The new rows are not compared with each other.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source as for :func:`hashlearn.find_duplicates`; or texts
            The rows to check, of the kind of the known ones.
        n_jobs : int or None
            Threads: None is 1, -1 is all cores.

        Returns
        -------
        Checked
            Which rows are new, and which known rows the others duplicate.

        Examples
        --------
        >>> from hashlearn import find_duplicates
        >>> known = find_duplicates([[1.0, 0.0], [0.0, 1.0]], 0.01)
        >>> known.check([[2.0, 0.01], [1.0, 1.0]]).is_new
        array([False,  True])
        """
        new = self.state.vectors.new(X)
        copies = known_contents(self.state, new)
        near = near_known(self.state, new, np.arange(len(new)), check_n_jobs(n_jobs))
        keep = near.distances <= self.max_distance
        shown = self._lowest_rows
        has_copy = np.flatnonzero(copies >= 0)
        rows = np.concatenate([near.second[keep], has_copy])
        known = shown[np.concatenate([self.state.contents.of_row[near.first[keep]], copies[has_copy]])]
        distances = np.concatenate([near.distances[keep], np.zeros(len(has_copy))])
        order = np.lexsort((self._ranks[known], distances, rows))
        rows, nearest = np.unique(rows[order], return_index=True)
        duplicate_of = np.full(len(new), "" if self.ids.dtype.kind == "U" else -1, self.ids.dtype)
        distance = np.full(len(new), np.inf)
        duplicate_of[rows], distance[rows] = self.ids[known[order][nearest]], distances[order][nearest]
        return Checked(np.isinf(distance), duplicate_of, distance, copies >= 0)

    def add(
        self, X: Any, ids: ArrayLike | None = None, scores: ArrayLike | None = None, *, n_jobs: int | None = None
    ) -> Self:
        """Add rows: they are compared with all known rows and with each other. Known rows are not compared again.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source as for :meth:`check`
            The new rows.
        ids : array of shape (n,)
            Required if the known rows have ids: new ids of the same kind. Without ids the new rows get the next
            numbers.
        scores : array of shape (n,)
            Required if the known rows have scores.
        n_jobs : int or None
            Threads: None is 1, -1 is all cores.

        Returns
        -------
        Duplicates
            This object.
        """
        self._replace(added(self.state, X, ids, scores, check_n_jobs(n_jobs)))
        return self

    def save(self, folder: str | Path) -> None:
        """Write everything, the vectors too, to a folder: new, empty, or one that duplicates were saved to before.

        The folder holds a complete state at every moment, also while others read it or save to it; see
        :mod:`hashlearn.duplicates.generations`.

        Parameters
        ----------
        folder : str or Path
            Its parent exists.

        Examples
        --------
        >>> import tempfile
        >>> from hashlearn import find_duplicates
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     find_duplicates([[1.0, 0.0], [1.0, 0.01]], 0.01).save(folder)
        ...     len(Duplicates.open(folder).groups)
        1
        """
        write_state(Saved(self.state, self.max_distance, self.grouping, self.keep, self.reason), folder)

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Read what :meth:`save` wrote; the vectors are memory-mapped.

        Parameters
        ----------
        folder : str or Path
            A folder that :meth:`save` wrote.

        Returns
        -------
        Duplicates
            As it was saved.
        """
        return cls(*read_state(folder))

    def _replace(self, state: FoundPairs) -> None:
        """Replace the state by one assignment, so that an interrupt leaves the old state or the new one."""
        self.__dict__ = {
            "state": state,
            "max_distance": self.max_distance,
            "grouping": self.grouping,
            "keep": self.keep,
            "reason": self.reason,
        }

    @cached_property
    def _near(self) -> NearPairs:
        return self.state.pairs.within(self.max_distance).without(self.state.apart)

    @cached_property
    def _ranks(self) -> NDArray[np.int64]:
        """The place of each row in the order of ids; names are in natural order (im2 before im10)."""
        ids = self.state.ids
        ranks = np.arange(len(self))
        if ids is not None and ids.dtype.kind == "U":
            keys = [natural_key(name) for name in ids.tolist()]
            ranks[sorted(range(len(self)), key=keys.__getitem__)] = np.arange(len(self))
        elif ids is not None:
            ranks[np.argsort(ids, kind="stable")] = np.arange(len(self))
        return ranks

    @cached_property
    def _lowest_rows(self) -> Rows:
        """The row of each content that has the lowest id."""
        of_row = self.state.contents.of_row
        order = np.lexsort((self._ranks, of_row))
        return order[np.searchsorted(of_row[order], np.arange(len(self.state.contents.row_of)))]

    def _as_pairs(self, first: Rows, second: Rows, distances: NDArray[np.float64]) -> DuplicatePairs:
        """Ids of pairs of rows, the lower one first."""
        swap = self._ranks[first] > self._ranks[second]
        return DuplicatePairs(
            self.ids[np.where(swap, second, first)], self.ids[np.where(swap, first, second)], distances
        )


def _parts(counts: NDArray[np.int64], at_once: int) -> Iterator[slice]:
    """Runs of pairs; each run stands for about the same number of pairs of rows."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + at_once, side="right")))
        yield slice(start, stop)
        start = stop
