"""The numbers the paper prints in its tables 1, 2 and 3."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from hashlearn.checks import check_choice

TABLES = ("table-1", "table-2", "table-3")


class Entry(NamedTuple):
    """The place of a number in a table, in the paper's own words."""

    dataset: str
    metric: str
    bits: int
    method: str


@cache
def published(table: str) -> dict[Entry, float]:
    """All numbers of "table-1", "table-2" or "table-3".

    >>> published("table-2")[Entry("MNIST", "mAP", 16, "JPSH")]
    0.5561
    """
    check_choice("table", table, TABLES)
    text = files("hashlearn.experiments").joinpath("paper", "tables", f"{table}.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {Entry(row["dataset"], row["metric"], int(row["bits"]), row["method"]): float(row["value"]) for row in rows}
