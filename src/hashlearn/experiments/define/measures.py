"""The measures of an experiment by their names in its file and its results, and published numbers."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Measure(NamedTuple):
    """A number of a result.

    Attributes
    ----------
    name : in files
    title : in tables
    note : what it counts
    published_as : its name in a published table
    digits : decimal places in a table and in a document is_cost : whether less is better
    """

    name: str
    title: str
    note: str
    published_as: str = ""
    digits: int = 4
    is_cost: bool = False


ALL_MEASURES = (
    Measure(
        "mAP",
        "mAP",
        "mAP: mean average precision over the whole ranking; equal distances count as if shuffled.",
    ),
    Measure(
        "mAP_stable",
        "mAP",
        "mAP: mean average precision over the whole ranking; equal distances in the order of the database, as in the "
        "paper's evaluation.",
        published_as="mAP",
    ),
    Measure(
        "pre100_stable",
        "Pre@100",
        "Pre@100: what the paper prints under this name, the mAP of the 100 queries that went best. It is not the "
        "precision among 100 results.",
        published_as="Pre@100",
    ),
    Measure(
        "precision_at_1",
        "precision@1",
        "precision@1: share of the queries whose first result has their label; equal distances count as if shuffled.",
    ),
    Measure(
        "precision_at_100",
        "precision@100",
        "precision@100: share of the first 100 results with the query's label; equal distances count as if shuffled.",
    ),
    Measure(
        "recall_at_10",
        "10@10",
        "10@10: share of a query's 10 nearest vectors that are among its first 10 results; equal distances count as if "
        "shuffled.",
    ),
    Measure(
        "recall_at_100",
        "10@100",
        "10@100: share of a query's 10 nearest vectors that are among its first 100 results; equal distances count as "
        "if shuffled.",
    ),
    Measure(
        "seconds",
        "seconds",
        "seconds: k-means, training, and encoding the data, on one thread.",
        published_as="seconds",
        digits=1,
        is_cost=True,
    ),
)
MEASURES = {measure.name: measure for measure in ALL_MEASURES}

STABLE_MEASURES = ("mAP_stable", "pre100_stable")
"""Measures that rank equal distances in the order of the database."""

DEFAULT_MEASURES = ("mAP", "precision_at_100", "recall_at_10", "recall_at_100")
"""By meaning and by neighborhood."""


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
