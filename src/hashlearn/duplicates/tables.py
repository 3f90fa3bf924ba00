"""The decisions as files: a table of the groups, what to keep, what to drop."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hashlearn.duplicates.result import Duplicates
from hashlearn.durable.files import Beside
from hashlearn.extras import require


class GroupRow(NamedTuple):
    """A line of the table: one row of a group."""

    group: int
    id: Any
    decision: str
    duplicate_of: Any
    distance: float | None
    is_copy: bool


def group_rows(duplicates: Duplicates) -> Iterator[GroupRow]:
    """The rows of all groups, the largest group first, the kept row of each first."""
    for number, group in enumerate(duplicates.groups, start=1):
        yield GroupRow(number, group.kept, "keep", group.kept, 0.0, False)
        for name, distance, is_copy in zip(group.members.tolist(), group.distances.tolist(), group.is_copy.tolist()):
            known = None if distance != distance else distance
            yield GroupRow(number, name, "drop", group.kept, known, is_copy)


def write_groups(duplicates: Duplicates, beside: Beside, is_parquet: bool) -> None:
    """Write the table of groups as CSV or as parquet (extra ``parquet``)."""
    rows = list(group_rows(duplicates))
    if is_parquet:
        arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
        columns = {name: [row[place] for row in rows] for place, name in enumerate(GroupRow._fields)}
        with beside.open("wb") as file:
            parquet.write_table(arrow.table(columns), file)
        return
    with beside.open("w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(GroupRow._fields)
        for row in rows:
            distance = "" if row.distance is None else f"{row.distance:.6g}"
            writer.writerow([row.group, row.id, row.decision, row.duplicate_of, distance, int(row.is_copy)])


def check_lines(names: Any, option: str) -> None:
    """Raise where a name has a line break: in a list with one name a line it would become two."""
    odd = next((name for name in names.tolist() if isinstance(name, str) and len(name.splitlines()) > 1), None)
    if odd is not None:
        raise ValueError(f"{option} has one name a line, got the name {odd!r}, which has two; use {option}0 instead")


def write_list(names: Any, beside: Beside, end: str = "\n") -> None:
    """The ids, with a line break behind each, or another end."""
    with beside.open("w") as file:
        file.writelines(f"{name}{end}" for name in names.tolist())


def is_parquet(path: str | Path) -> bool:
    """Whether the name of a table says parquet; CSV otherwise."""
    return Path(path).suffix.lower() == ".parquet"
