"""SQLite with sqlite-vec: codes in a table, and again in a ``vec0`` table of ``bit[n]`` for searching.

A ``vec0`` table finds at most 4,096 nearest codes, takes no condition on payloads and breaks ties arbitrarily. If one
of these matters, the plain table answers, which is slower and always exact. Codes whose length is not a multiple of 8
are padded. Codes with corrections are not searched here and have no ``vec0`` table.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.stores.base import Description, Hits, Place, Rows, short
from hashlearn.stores.filters import Among, Compares, Condition, Differs, Test, of_kind
from hashlearn.stores.sql import DESCRIPTION, SqlEngine, changes

MAX_K = 4096
BUSY_SECONDS = 5


class SqliteEngine(SqlEngine):
    """Codes in a file of SQLite; see :class:`hashlearn.stores.base.StoreEngine`."""

    distance = "CAST(vec_distance_hamming(vec_bit(code), vec_bit(?)) AS INTEGER)"
    among = "id IN (SELECT value FROM json_each(?))"
    code_bytes = "code"
    payload_text = "payload"
    vector_type = "<f4"

    def __init__(self, place: Place):
        super().__init__(place)
        self.search_table = f"{self.table}_vec"
        driver = _driver()
        self.errors = (driver.Error,)
        path = quote(str(Path(place.address).absolute()))
        try:
            self.connection = driver.connect(
                f"file:{path}?mode={'ro' if place.read_only else 'rwc'}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        except driver.Error as error:
            raise self.explain(error) from error
        try:
            self._prepare()
        except BaseException as error:
            self.connection.close()
            if isinstance(error, self.errors):
                raise self.explain(error) from error
            raise

    def explain(self, error: Exception) -> Exception:
        reason = short(error)
        if "locked" in reason or "busy" in reason:
            return ConnectionError(
                f"{self.place.shown} is locked by another process, after {BUSY_SECONDS} s of waiting"
            )
        if "readonly" in reason:
            return ValueError(f"{self.place.shown} cannot be written: {reason}")
        return ValueError(f"{self.place.shown}: {reason}")

    def create(self, description: Description) -> None:
        id_column = "INTEGER" if description.id_type == "int64" else "TEXT"
        vector = "" if description.n_features is None else ", vector BLOB NOT NULL"
        correction = "" if description.corrections is None else ", correction INTEGER NOT NULL"
        self.rows("PRAGMA journal_mode = WAL", [])  # stored in the file: readers do not wait for the writer
        with self._transaction():
            self.rows(f"CREATE TABLE {self.notes} (key TEXT PRIMARY KEY, value TEXT NOT NULL)", [])
            self.rows(
                f"CREATE TABLE {self.table} (row INTEGER PRIMARY KEY, id {id_column} NOT NULL UNIQUE, "
                f"code BLOB NOT NULL, payload TEXT NOT NULL{vector}{correction})",
                [],
            )
            if description.corrections is None:
                n_bits = 8 * description.n_bytes
                self.rows(f"CREATE VIRTUAL TABLE {self.search_table} USING vec0(code bit[{n_bits}])", [])
            self.keep_note(DESCRIPTION, description.to_json())
        self.description = self.described(has_notes=True)

    def upsert(self, rows: Rows) -> None:
        ids = self.ids_parameter(rows.ids)
        insert = (
            f"INSERT INTO {self.table} ({', '.join(rows.columns)}) VALUES ({', '.join('?' for _ in rows.columns)}) "
            f"ON CONFLICT (id) DO UPDATE SET {changes(rows)}"
        )
        chosen = f"FROM {self.table} WHERE {self.among}"
        with self._transaction():
            self._drop_from_vec0(chosen, ids)
            self.connection.executemany(insert, _values(rows))
            if rows.corrections is None:
                self.rows(f"INSERT INTO {self.search_table} (rowid, code) SELECT row, vec_bit(code) {chosen}", [ids])

    def delete(self, ids: NDArray[Any]) -> int:
        chosen, listed = f"FROM {self.table} WHERE {self.among}", self.ids_parameter(ids)
        with self._transaction():
            self._drop_from_vec0(chosen, listed)
            return self.connection.execute(f"DELETE {chosen}", [listed]).rowcount

    def nearest(self, codes: NDArray[np.uint8], k: int, condition: Condition | None) -> list[Hits]:
        """Ask ``vec0`` for more than k codes, to see whether all ties at the k-th place are found."""
        if condition is not None or k > MAX_K // 2:
            return super().nearest(codes, k, condition)
        wanted = min(MAX_K, 2 * k + 64)
        found = []
        for code in codes:
            hits = self._from_vec0(code, wanted, 8 * len(code))
            complete = len(hits) < wanted or hits[-1][0] > hits[k - 1][0]
            found.append(hits[:k] if complete else super().nearest(code[None], k, None)[0])
        return found

    def within(self, codes: NDArray[np.uint8], radius: int, condition: Condition | None) -> list[Hits]:
        if condition is not None:
            return super().within(codes, radius, condition)
        found = []
        for code in codes:
            hits = self._from_vec0(code, MAX_K, radius)
            found.append(hits if len(hits) < MAX_K else super().within(code[None], radius, None)[0])
        return found

    def rows(self, statement: str, parameters: list[Any]) -> list[tuple]:
        with self.lock:
            return self.connection.execute(statement, parameters).fetchall()

    def ids_parameter(self, ids: NDArray[Any]) -> str:
        return json.dumps(ids.tolist(), ensure_ascii=False)

    def test(self, test: Test) -> tuple[str, list[Any]]:
        found = "EXISTS (SELECT 1 FROM json_each(payload) WHERE key = ? AND {})"
        match test:
            case Among(field, values):
                text, parameters = _equal(values)
                return found.format(text), [field, *parameters]
            case Differs(field, value):
                text, parameters = _equal((value,))
                return "NOT " + found.format(text), [field, *parameters]
            case Compares(field, sign, str(value)):
                return found.format(f"type = 'text' AND atom {sign} ?"), [field, value]
            case Compares(field, sign, value):
                return found.format(f"type IN ('integer', 'real') AND CAST(atom AS REAL) {sign} ?"), [field, value]

    def compact(self) -> None:
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)", [])

    def close(self) -> None:
        self.connection.close()

    def _prepare(self) -> None:
        vec = require("sqlite_vec", "sqlite")
        self.connection.enable_load_extension(True)
        vec.load(self.connection)
        self.connection.enable_load_extension(False)
        names = {name for (name,) in self.rows("SELECT name FROM sqlite_master", [])}
        if self.table in names and self.notes not in names:
            raise ValueError(f"{self.place.shown} holds a table {self.table!r} that hashlearn did not make")
        self.description = self.described(self.notes in names)

    def _from_vec0(self, code: NDArray[np.uint8], k: int, radius: int) -> Hits:
        """At most k of the nearest codes within a radius; at the last distance, any of the ties."""
        return sorted(
            self.hits(
                f"SELECT near.distance, codes.id FROM (SELECT rowid, distance FROM {self.search_table} "
                "WHERE code MATCH vec_bit(?) AND k = ? AND distance <= ?) AS near "
                f"JOIN {self.table} AS codes ON codes.row = near.rowid",
                [code.tobytes(), k, radius],
            )
        )

    def _drop_from_vec0(self, chosen: str, ids: str) -> None:
        assert self.description is not None
        if self.description.corrections is None:
            self.rows(f"DELETE FROM {self.search_table} WHERE rowid IN (SELECT row {chosen})", [ids])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self.lock:
            self.rows("BEGIN IMMEDIATE", [])
            try:
                yield
            except BaseException:
                self.rows("ROLLBACK", [])
                raise
            self.rows("COMMIT", [])


def _driver() -> ModuleType:
    """Python's sqlite3 if this build can load extensions, otherwise pysqlite3."""
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3
    try:
        return require("pysqlite3.dbapi2", "sqlite")
    except ImportError:
        raise ImportError(
            "this Python's sqlite3 cannot load extensions, and pysqlite3 is not installed: pip install pysqlite3-binary"
        ) from None


def _values(rows: Rows) -> Iterator[tuple]:
    columns: list[Iterable[Any]] = [rows.ids.tolist(), (code.tobytes() for code in rows.codes), rows.payloads]
    if rows.vectors is not None:
        columns.append(vector.tobytes() for vector in rows.vectors.astype("<f4"))
    if rows.corrections is not None:
        columns.append(rows.corrections.tolist())
    return zip(*columns)


def _equal(values: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """Whether an entry of json_each is equal to one of the values, each within its kind."""
    listed = "(SELECT value FROM json_each(?))"
    booleans = ["true" if value else "false" for value in of_kind(values, "boolean")]
    text = (
        f"((type = 'text' AND atom IN {listed}) OR (type IN ('integer', 'real') AND CAST(atom AS REAL) IN {listed})"
        f" OR type IN {listed})"
    )
    return text, [json.dumps(of_kind(values, "string")), json.dumps(of_kind(values, "number")), json.dumps(booleans)]
