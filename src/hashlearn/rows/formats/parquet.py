"""Parquet: one column of lists, or one numeric column per dimension, and other columns.

The file is decoded a batch of rows at a time into the array that is returned. If the writer has stored checksums of the
pages, they are compared.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hashlearn.extras import require
from hashlearn.rows.formats.arrow_table import ArrowTable
from hashlearn.rows.formats.problems import reading

BATCH_ROWS = 1 << 10
"""Rows that are decoded at a time."""


@contextmanager
def opened_parquet(path: Path, max_bytes: int | None) -> Iterator[ArrowTable]:
    """The table of a file.

    Groups and columns of the footer are not read: if they are damaged, pyarrow crashes the process.
    """
    parquet = require("pyarrow.parquet", "parquet")
    with reading(path, "parquet"), parquet.ParquetFile(path, page_checksum_verification=True) as file:
        types = {field.name: field.type for field in file.schema_arrow}
        yield ArrowTable(
            path,
            types,
            file.metadata.num_rows,
            lambda columns: file.iter_batches(batch_size=BATCH_ROWS, columns=columns),
            max_bytes,
        )
