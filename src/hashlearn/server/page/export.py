"""Items as a file: ids, a table as CSV, or parquet."""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hashlearn.extras import require
from hashlearn.server.page.collection import Collection

FORMATS = ("csv", "ids", "parquet")
ITEMS_AT_A_TIME = 10_000
MOST_ITEMS = 1_000_000
_FORMULA = re.compile(r"[\t\r]|\s*[=+@\uff1d\uff0b\uff20-](?![\d.]*$)")
"""Characters at the beginning of a formula. Only a number may begin with one of them."""


class Exported(NamedTuple):
    """A file for a client."""

    content: bytes
    kind: str
    name: str


def exported(collection: Collection, ids: Sequence[Any], form: str, tag: str = "") -> Exported:
    """A file of items with their payloads. ``tag``, if given, is written to a column of its own."""
    if form not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {form[:40]!r}")
    if len(ids) > MOST_ITEMS:
        raise ValueError(
            f"at most {MOST_ITEMS:,} items are exported at once, got {len(ids):,}: choose fewer by a filter"
        )
    if form == "ids":
        return Exported("".join(f"{key}\n" for key in ids).encode(), "text/plain; charset=utf-8", "items.txt")
    rows = list(_rows(collection, ids, tag))
    columns = list(dict.fromkeys(name for row in rows for name in row)) or ["id"]
    if form == "csv":
        return Exported(_csv(rows, columns), "text/csv; charset=utf-8", "items.csv")
    return Exported(_parquet(rows, columns), "application/vnd.apache.parquet", "items.parquet")


def _rows(collection: Collection, ids: Sequence[Any], tag: str) -> Iterator[dict[str, Any]]:
    for start in range(0, len(ids), ITEMS_AT_A_TIME):
        part = ids[start : start + ITEMS_AT_A_TIME]
        for key, payload in zip(part, collection.search.payloads(list(part))):
            if payload is not None:
                added = {"id": key, **({"tag": tag} if tag else {})}
                yield added | payload | added


def _csv(rows: list[dict[str, Any]], columns: list[str]) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(map(_cell, columns))
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return file.getvalue().encode()


def _parquet(rows: list[dict[str, Any]], columns: list[str]) -> bytes:
    arrow = require("pyarrow", "parquet")
    written = [[row.get(name) for row in rows] for name in columns]
    try:
        table = arrow.table(dict(zip(columns, written)))
    except (arrow.ArrowInvalid, arrow.ArrowTypeError):  # a field with values of different kinds
        texts = [[None if value is None else str(_plain(value)) for value in column] for column in written]
        table = arrow.table(dict(zip(columns, texts)))
    file = io.BytesIO()
    require("pyarrow.parquet", "parquet").write_table(table, file)
    return file.getvalue()


def _cell(value: Any) -> Any:
    """A value in a table of texts. Spreadsheets run texts that begin like a formula, so these get a leading quote."""
    plain = _plain(value)
    return f"'{plain}" if isinstance(plain, str) and _FORMULA.match(plain) else plain


def _plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value
