"""Parquet files as a read-only store, searched by DuckDB.

:func:`~hashlearn.stores.export.to_parquet` writes such files. Files made elsewhere work, too, if they have a column
``id`` of integers or strings and a column ``code`` of bytes, all of one length. A column ``payload`` of JSON is
optional. Codes with corrections need the metadata that ``to_parquet`` writes.
"""

from glob import glob
from typing import Any, NoReturn

from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.stores.base import Description, Place, Rows, short
from hashlearn.stores.duckdb import DuckEngine

METADATA_KEY = b"hashlearn"
"""The key of the description in the metadata of a file."""


class ParquetEngine(DuckEngine):
    """Codes in parquet files; see :class:`hashlearn.stores.base.StoreEngine`."""

    distance = "CAST(bit_count(xor(CAST(code AS BIT), CAST(CAST(? AS BLOB) AS BIT))) AS INTEGER)"
    code_bytes = "code"

    def __init__(self, place: Place):
        self.paths = sorted(glob(place.address))
        if not self.paths:
            raise ValueError(f"{place.shown} names no file")
        super().__init__(place)

    def connected(self, duckdb: Any, config: dict[str, Any]) -> Any:
        return duckdb.connect(":memory:", config=config)

    def read_description(self) -> None:
        descriptions = {self._description_in(path) for path in self.paths}
        if len(descriptions) > 1:
            raise ValueError(f"{self.place.shown} names files of different codes")
        description = descriptions.pop()
        self.describe(description)
        columns = {name for name, *_ in self.rows("DESCRIBE SELECT * FROM read_parquet(?)", [self.paths])}
        payload = "payload" if "payload" in columns else "'{}'"
        vector = ", vector" if "vector" in columns else ""
        correction = "" if description.corrections is None else ", correction"
        files = ", ".join("'" + path.replace("'", "''") + "'" for path in self.paths)  # a view takes no parameters
        self.rows(
            f"CREATE VIEW {self.table} AS SELECT id, code, CAST({payload} AS JSON) AS payload{vector}{correction} "
            f"FROM read_parquet([{files}])",
            [],
        )

    def create(self, description: Description) -> None:
        self._refuse()

    def upsert(self, rows: Rows) -> None:
        self._refuse()

    def delete(self, ids: NDArray[Any]) -> int:
        self._refuse()

    def note(self, key: str) -> str | None:
        return None

    def keep_note(self, key: str, text: str) -> None:
        self._refuse()

    def drop_note(self, key: str) -> None:
        self._refuse()

    def compact(self) -> None:
        """Does nothing: the files are read-only."""

    def _refuse(self) -> NoReturn:
        raise ValueError(f"{self.place.shown} cannot be written: parquet files are only read")

    def _description_in(self, path: str) -> Description:
        """The description in the metadata of the file, or otherwise from its columns."""
        parquet = require("pyarrow.parquet", "duckdb")
        try:
            schema = parquet.read_schema(path)
        except (OSError, self.arrow.ArrowException) as error:
            raise ValueError(f"{path} is no parquet file that can be read: {short(error)}") from error
        told = (schema.metadata or {}).get(METADATA_KEY)
        has_corrections = "correction" in schema.names
        if told is not None:
            description = Description.from_json(told.decode(), path)
            if description.corrections is not None and not has_corrections:
                raise ValueError(f"{path} must have the column correction, as its metadata say")
            return description
        if has_corrections:
            raise ValueError(
                f"{path} has a column correction, and no metadata that say its scale and offset; write the file with "
                "hashlearn.stores.to_parquet"
            )
        if not {"id", "code"} <= set(schema.names):
            raise ValueError(f"{path} must have the columns id and code, got {', '.join(schema.names)[:80]}")
        widths = "SELECT min(octet_length(code)), max(octet_length(code)) FROM read_parquet(?)"
        low, high = self.rows(widths, [[path]])[0]
        if low is None or low != high:
            raise ValueError(f"{path} must have codes of one length, got {low} to {high} bytes")
        is_integer = self.arrow.types.is_integer(schema.field("id").type)
        return Description(8 * low, "int64" if is_integer else "str", None, None)
