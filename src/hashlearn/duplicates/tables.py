"""Results as files: a table of the groups, ids to keep, ids to drop, and the source without dropped rows."""

import csv
from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hashlearn.duplicates.decisions import csv_writer
from hashlearn.duplicates.result import Duplicates
from hashlearn.duplicates.state import Checked
from hashlearn.durable.files import Beside
from hashlearn.extras import require
from hashlearn.rows.formats.csv import DELIMITERS, Csv

_ROWS_AT_ONCE = 1 << 14


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


def checked_rows(checked: Checked, ids: Sequence[Any]) -> Iterator[GroupRow]:
    """The rows that repeat a row of another set."""
    for number, row in enumerate(np.flatnonzero(~checked.is_new).tolist(), start=1):
        of, distance = checked.duplicate_of[row].item(), float(checked.distances[row])
        yield GroupRow(number, ids[row], "drop", of, distance, bool(checked.is_copy[row]))


def write_rows(rows: Iterable[GroupRow], beside: Beside, is_parquet: bool) -> None:
    """Write a table of rows as CSV or as parquet (extra ``parquet``)."""
    if is_parquet:
        arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
        kept = list(rows)
        columns = {name: [row[place] for row in kept] for place, name in enumerate(GroupRow._fields)}
        with beside.open("wb") as file:
            parquet.write_table(arrow.table(columns), file)
        return
    with beside.open("w") as file:
        writer = csv_writer(file)
        writer.writerow(GroupRow._fields)
        for row in rows:
            distance = "" if row.distance is None else f"{row.distance:.6g}"
            writer.writerow([row.group, row.id, row.decision, row.duplicate_of, distance, int(row.is_copy)])


def write_clean(
    source: str | Path, beside: Beside, dropped: Set[Any], id_column: str | None, has_names: bool | None
) -> None:
    """Write a table or a matrix without the dropped rows, in the format of the source, a part at a time.

    Parameters
    ----------
    source : str or Path
        A ``.csv``, ``.parquet`` or ``.npy`` file.
    beside : Beside
    dropped : set
        Ids of rows; numbers of rows without a column of ids.
    id_column : str or None
    has_names : bool or None
        Whether the first line of a ``.csv`` file names its columns; None finds out.
    """
    suffix = Path(source).suffix.lower()
    if suffix == ".npy":
        _clean_npy(Path(source), beside, dropped)
    elif suffix == ".parquet":
        _clean_parquet(Path(source), beside, dropped, id_column)
    else:
        named = Csv().has_names(Path(source)) if has_names is None else has_names
        _clean_csv(Path(source), beside, dropped, id_column, named)


def _clean_npy(source: Path, beside: Beside, dropped: Set[Any]) -> None:
    values = np.load(source, mmap_mode="r", allow_pickle=False)
    kept = np.setdiff1d(np.arange(len(values)), np.array(sorted(dropped), np.int64))
    shape = (len(kept), *values.shape[1:])
    header = {"descr": np.lib.format.dtype_to_descr(values.dtype), "fortran_order": False, "shape": shape}
    with beside.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(kept), _ROWS_AT_ONCE):
            file.write(np.ascontiguousarray(values[kept[start : start + _ROWS_AT_ONCE]]).tobytes())


def _clean_parquet(source: Path, beside: Beside, dropped: Set[Any], id_column: str | None) -> None:
    parquet = require("pyarrow.parquet", "parquet")
    table = parquet.ParquetFile(source)
    first = 0
    with beside.open("wb") as file, parquet.ParquetWriter(file, table.schema_arrow) as writer:
        for batch in table.iter_batches(batch_size=_ROWS_AT_ONCE):
            numbers = range(first, first + batch.num_rows)
            names = numbers if id_column is None else batch.column(id_column).to_pylist()
            kept = [row for row, name in enumerate(names) if name not in dropped]
            writer.write_batch(batch.take(np.array(kept, np.int64)))
            first += batch.num_rows


def _clean_csv(source: Path, beside: Beside, dropped: Set[Any], id_column: str | None, has_names: bool) -> None:
    with source.open(encoding="utf-8-sig", newline="") as file, beside.open("w") as clean:
        delimiter = next((each for each in DELIMITERS if each in file.readline()), ",")
        file.seek(0)
        lines = csv.reader(file, delimiter=delimiter)
        writer = csv_writer(clean, delimiter)
        titles = next(lines) if has_names else []
        if has_names:
            writer.writerow(titles)
        place = None if id_column is None else titles.index(id_column)
        numbered = enumerate(line for line in lines if line)
        writer.writerows(line for row, line in numbered if (row if place is None else line[place]) not in dropped)


def check_lines(names: Any, option: str, instead: str) -> None:
    """Raise if a name has a line break: in a list with one name a line it would become two names."""
    odd = next((name for name in names.tolist() if isinstance(name, str) and len(name.splitlines()) > 1), None)
    if odd is not None:
        raise ValueError(f"{option} has one name a line, got the name {odd!r}, which has two; {instead}")


def write_list(names: Any, beside: Beside, end: str = "\n") -> None:
    """The ids, each followed by a line break or another end."""
    with beside.open("w") as file:
        file.writelines(f"{name}{end}" for name in names.tolist())


def is_parquet(path: str | Path) -> bool:
    """Whether the name of a table ends in .parquet; otherwise it is CSV."""
    return Path(path).suffix.lower() == ".parquet"
