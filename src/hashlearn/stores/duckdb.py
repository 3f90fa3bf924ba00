"""DuckDB: a table with a BIT column, compared by ``bit_count(xor())``.

While one process writes to a file, no other process may read it. Several processes may read a file that nobody writes
(``?mode=ro``).
"""

from collections import defaultdict
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.stores.base import Description, Place, Rows, short
from hashlearn.stores.filters import Among, Compares, Differs, Test, of_kind
from hashlearn.stores.sql import DESCRIPTION, SqlEngine, changes

MANY_VALUES = 100
_NUMBERS = "('UBIGINT', 'BIGINT', 'DOUBLE', 'HUGEINT', 'UHUGEINT')"

_OFFLINE = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
"""DuckDB must not download extensions, as it would for a file of another database."""
_MAGIC = b"DUCK"
"""Bytes 8 to 11 of a file of DuckDB."""

_locks: defaultdict[str, Any] = defaultdict(RLock)
"""One lock for every file: without it, two statements that insert the same new id at the same time would both insert
it."""


class DuckEngine(SqlEngine):
    """Codes in a file of DuckDB; see :class:`hashlearn.stores.base.StoreEngine`."""

    distance = "CAST(bit_count(xor(code, CAST(CAST(? AS BLOB) AS BIT))) AS INTEGER)"
    code_bytes = "CAST(code AS BLOB)"
    payload_text = "CAST(payload AS VARCHAR)"
    vector_type = "<f4"

    def __init__(self, place: Place):
        super().__init__(place)
        self.lock = _locks[str(Path(place.address).absolute())]
        duckdb = require("duckdb", "duckdb")
        self.arrow = require("pyarrow", "duckdb")
        self.errors = (duckdb.Error,)
        try:
            self.connection = self.connected(duckdb, _OFFLINE)
        except duckdb.Error as error:
            raise self.explain(error) from error
        try:
            self.read_description()
        except BaseException:
            self.connection.close()
            raise

    def connected(self, duckdb: Any, config: dict[str, Any]) -> Any:
        path = Path(self.place.address).absolute()
        self._check_file(path)
        return duckdb.connect(path, read_only=self.place.read_only, config=config)

    def read_description(self) -> None:
        """Read the description of the store, if there is one."""
        names = {name for (name,) in self.rows("SELECT table_name FROM duckdb_tables()", [])}
        if self.table in names and self.notes not in names:
            raise ValueError(f"{self.place.shown} holds a table {self.table!r} that hashlearn did not make")
        self.describe(self.described(self.notes in names))

    def describe(self, description: Description | None) -> None:
        self.description = description
        if description is not None:
            id_column = "BIGINT" if description.id_type == "int64" else "VARCHAR"
            self.among = f"id IN (SELECT unnest(CAST(? AS {id_column}[])))"

    def explain(self, error: Exception) -> Exception:
        reason = short(error)
        if "Could not set lock" in reason:
            return ConnectionError(f"{self.place.shown} is open in another process, and DuckDB allows one at a time")
        if "read-only" in reason:
            return ValueError(f"{self.place.shown} cannot be written: {reason}")
        return ValueError(f"{self.place.shown}: {reason}")

    def create(self, description: Description) -> None:
        id_column = "BIGINT" if description.id_type == "int64" else "VARCHAR"
        vector = "" if description.n_features is None else ", vector BLOB NOT NULL"
        correction = "" if description.corrections is None else ", correction UTINYINT NOT NULL"
        with self.lock, self.connection.cursor() as cursor:
            cursor.begin()
            cursor.execute(f"CREATE TABLE {self.notes} (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL)")
            cursor.execute(
                f"CREATE TABLE {self.table} (id {id_column} PRIMARY KEY, code BIT NOT NULL, "
                f"payload JSON NOT NULL{vector}{correction})"
            )
            cursor.execute(f"INSERT INTO {self.notes} VALUES (?, ?)", [DESCRIPTION, description.to_json()])
            cursor.commit()
        self.describe(description)

    def upsert(self, rows: Rows) -> None:
        with self.lock, self.connection.cursor() as cursor:
            cursor.register("incoming", self._table_of(rows))
            cursor.execute(
                f"INSERT INTO {self.table} SELECT * REPLACE (CAST(code AS BIT) AS code) FROM incoming "
                f"ON CONFLICT (id) DO UPDATE SET {changes(rows)}"
            )

    def delete(self, ids: NDArray[Any]) -> int:
        return self.rows(f"DELETE FROM {self.table} WHERE {self.among}", [ids.tolist()])[0][0]

    def rows(self, statement: str, parameters: list[Any]) -> list[tuple]:
        with self.lock, self.connection.cursor() as cursor:
            return cursor.execute(statement, parameters).fetchall()

    def test(self, test: Test) -> tuple[str, list[Any]]:
        number = f"json_type(payload, ?) IN {_NUMBERS} AND TRY_CAST(json_extract_string(payload, ?) AS DOUBLE)"
        string = "json_type(payload, ?) = 'VARCHAR' AND json_extract_string(payload, ?)"
        match test:
            case Among(field, values):
                return self._equal(_pointer(field), values)
            case Differs(field, value):
                text, parameters = self._equal(_pointer(field), (value,))
                return f"NOT ({text})", parameters
            case Compares(field, sign, value):
                kind = string if isinstance(value, str) else number
                return f"coalesce({kind} {sign} ?, false)", [_pointer(field), _pointer(field), value]

    def compact(self) -> None:
        self.rows("FORCE CHECKPOINT", [])  # waits for other writers

    def close(self) -> None:
        self.connection.close()

    def _check_file(self, path: Path) -> None:
        """Refuse a file of another kind, which DuckDB would try to open with an extension."""
        if not path.is_file():
            return
        try:
            with path.open("rb") as file:
                begin = file.read(16)
        except OSError as error:
            raise ValueError(f"{self.place.shown} cannot be read: {short(error)}") from error
        if begin[8:12] != _MAGIC:
            hint = "; take sqlite://" if begin == b"SQLite format 3\0" else ""
            raise ValueError(f"{self.place.shown} is no file of DuckDB{hint}")

    def _equal(self, pointer: str, values: tuple[Any, ...]) -> tuple[str, list[Any]]:
        """Whether the value at a pointer is equal to one of the values, each within its kind."""
        found = "json_extract_string(payload, ?)"
        booleans = ["true" if value else "false" for value in of_kind(values, "boolean")]
        of_strings, strings = _among(found, pointer, "VARCHAR", of_kind(values, "string"))
        of_booleans, booleans = _among(found, pointer, "VARCHAR", booleans)
        of_numbers, numbers = _among(f"TRY_CAST({found} AS DOUBLE)", pointer, "DOUBLE", of_kind(values, "number"))
        text = (
            f"coalesce(CASE json_type(payload, ?) WHEN 'VARCHAR' THEN {of_strings} "
            f"WHEN 'BOOLEAN' THEN {of_booleans} ELSE {of_numbers} END, false)"
        )
        return text, [pointer, *strings, *booleans, *numbers]

    def _table_of(self, rows: Rows) -> Any:
        pa = self.arrow
        arrays = {
            "id": pa.array(rows.ids.tolist()),
            "code": _blobs(pa, rows.codes),
            "payload": pa.array(rows.payloads),
        }
        if rows.vectors is not None:
            arrays["vector"] = _blobs(pa, rows.vectors.astype("<f4").view(np.uint8))
        if rows.corrections is not None:
            arrays["correction"] = pa.array(rows.corrections)
        return pa.table(arrays)


def _among(found: str, pointer: str, kind: str, values: list[Any]) -> tuple[str, list[Any]]:
    """Whether the value at a pointer is in a list. A long list is a hash join; a statement may have few of these."""
    if len(values) > MANY_VALUES:
        return f"{found} IN (SELECT unnest(CAST(? AS {kind}[])))", [pointer, values]
    return f"list_contains(CAST(? AS {kind}[]), {found})", [values, pointer]


def _blobs(pa: Any, matrix: NDArray[np.uint8]) -> Any:
    """Each row of a matrix as bytes."""
    n, width = matrix.shape
    buffers = [None, pa.py_buffer(np.ascontiguousarray(matrix))]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), n, buffers).cast(pa.binary())


def _pointer(field: str) -> str:
    """A key of the payload as a JSON pointer, which allows any key."""
    return "/" + field.replace("~", "~0").replace("/", "~1")
