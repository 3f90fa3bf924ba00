"""Numbers that others have published, to hold ours against: a CSV file of dataset, metric, bits, method and value."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

COLUMNS = ("dataset", "metric", "bits", "method", "value")


class PublishedPlace(NamedTuple):
    """The place of a number in a published table, in the publication's own words."""

    dataset: str
    metric: str
    bits: int
    method: str


Published = Mapping[PublishedPlace, float]


def read_published(path: str | Path) -> Published:
    """All numbers of a CSV file with the columns dataset, metric, bits, method and value."""
    path = Path(path)
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        found = tuple(rows.fieldnames or ())
        if found != COLUMNS:
            raise ValueError(f"{path} must have the columns {', '.join(COLUMNS)}, got {', '.join(found)}")
        return dict(_number(path, rows.line_num, row) for row in rows)


def _number(path: Path, line: int, row: dict[str, str]) -> tuple[PublishedPlace, float]:
    try:
        return PublishedPlace(row["dataset"], row["metric"], int(row["bits"]), row["method"]), float(row["value"])
    except (TypeError, ValueError):
        raise ValueError(f"{path} line {line} must have a number of bits and a value, got {row}") from None
