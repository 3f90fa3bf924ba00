"""Decisions of users about the rows of groups: kept in the state, read from and written to a table.

The table is a CSV file with the columns ``id``, ``decision`` and ``duplicate_of``. A decision is ``keep``, ``drop``,
``different`` (the row is no duplicate of the other one) or empty (the decision is withdrawn). The last line of a row
counts.
"""

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.duplicates.groups import Assignment
from hashlearn.duplicates.state import DROPPED, KEPT, UNDECIDED, FoundPairs
from hashlearn.durable.files import write_text

DECISIONS = {"keep": KEPT, "drop": DROPPED, "different": KEPT, "": UNDECIDED}
TITLES = ["id", "decision", "duplicate_of"]

Decision = tuple[Any, str, Any]


def with_decisions(state: FoundPairs, decisions: Iterable[Decision], ids: NDArray) -> FoundPairs:
    """The state with more decisions."""
    rows = {name: row for row, name in enumerate(ids.tolist())}
    decided = state.decided.copy()
    apart = {(int(a), int(b)) for a, b in state.apart}
    for name, decision, of in decisions:
        if decision not in DECISIONS:
            raise ValueError(f"decision must be one of {', '.join(map(repr, DECISIONS))}, got {decision!r}")
        for each in (name, of):
            if each not in rows:
                raise ValueError(f"decisions must name known ids, got {each!r}")
        decided[rows[name]] = DECISIONS[decision]
        a, b = sorted(int(state.contents.of_row[rows[each]]) for each in (name, of))
        apart.discard((a, b))
        if decision == "different" and a != b:
            apart.add((a, b))
    return state._replace(decided=decided, apart=np.array(sorted(apart), np.int64).reshape(-1, 2))


def as_decided(found: Assignment, state: FoundPairs) -> Assignment:
    """The assignment of rows to kept rows, after the decisions.

    If the kept row of a group is dropped, the nearest row that a user keeps replaces it. Without such a row it stays,
    so no group loses all its rows.
    """
    if not state.decided.any():
        return found
    kept, distances = found.kept.copy(), found.distances.copy()
    leaders = np.unique(found.kept[state.decided != UNDECIDED])
    order = np.lexsort((found.distances, found.kept))
    starts, ends = (np.searchsorted(found.kept[order], leaders, side=side) for side in ("left", "right"))
    for leader, start, end in zip(leaders, starts, ends):
        rows = order[start:end]
        members = rows[rows != leader]
        keepers = members[state.decided[members] == KEPT]
        first = leader if state.decided[leader] != DROPPED or not len(keepers) else keepers[0]
        kept[keepers], distances[keepers] = keepers, 0.0
        others = np.setdiff1d(rows, [first, *keepers])
        kept[others], kept[first], distances[first] = first, first, 0.0
        if first != leader and len(others):
            distances[others] = state.vectors.distances(np.full(len(others), first), others)
    return Assignment(kept, distances)


def read_decisions(path: str | Path, ids: NDArray) -> list[Decision]:
    """The decisions in a table; ids are integers if the ids of the rows are."""
    as_id = str if ids.dtype.kind == "U" else int
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            lines = csv.DictReader(file, strict=True)
            if not set(TITLES) <= set(lines.fieldnames or []):
                raise ValueError
            return [(as_id(line["id"]), line["decision"], as_id(line["duplicate_of"])) for line in lines]
    except (ValueError, TypeError, csv.Error):
        raise ValueError(f"{path} must be a table of decisions with the columns {', '.join(TITLES)}") from None


def write_decisions(path: str | Path, decisions: Iterable[Decision]) -> None:
    """Write the table, in one step."""
    text = io.StringIO()
    csv_writer(text).writerows([TITLES, *decisions])
    write_text(path, text.getvalue())


class _LineFeeds:
    """Ends the lines of a ``csv.writer`` by line feeds."""

    def __init__(self, file: Any):
        self.file = file

    def write(self, line: str) -> int:
        return self.file.write(line.removesuffix("\r\n") + "\n")


def csv_writer(file: Any, delimiter: str = ",") -> Any:
    """A ``csv.writer`` whose lines end by line feeds, and which quotes values with a carriage return.

    Without the quotes, readers take a carriage return for the end of a line. A ``csv.writer`` quotes it only where its
    own line end has one.
    """
    return csv.writer(_LineFeeds(file), delimiter=delimiter)
