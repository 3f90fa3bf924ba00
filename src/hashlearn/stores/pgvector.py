"""PostgreSQL with pgvector: a table with a column ``bit(n)``, compared by ``<~>``.

jsonb keeps numbers as decimals: a float of 2^53 and more may come back as the integer that PostgreSQL writes for it.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.stores.base import Description, Hits, Place, Rows, short
from hashlearn.stores.filters import Among, Compares, Condition, Differs, Test
from hashlearn.stores.sql import DESCRIPTION, SqlEngine, changes

CANDIDATES = 1000
"""Codes that a search by HNSW looks at: the most that pgvector allows."""

_COPY_BEGINS = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_ENDS = b"\xff\xff"


class PostgresEngine(SqlEngine):
    """Codes in a table of PostgreSQL; see :class:`hashlearn.stores.base.StoreEngine`."""

    among = "id = ANY(?)"
    code_bytes = "substring(bit_send(code) FROM 5)"  # after the number of bits
    payload_text = "payload::text"
    vector_type = ">f4"
    indexes: Sequence[str] = ("hnsw",)

    def __init__(self, place: Place):
        super().__init__(place)
        self.psycopg = require("psycopg", "pgvector")
        self.errors = (self.psycopg.Error,)
        self.by_index = False
        try:
            self.connection = self.psycopg.connect(place.address, autocommit=True)
        except self.psycopg.Error as error:
            raise ConnectionError(f"cannot connect to PostgreSQL at {place.shown}: {short(error)}") from error
        try:
            self._describe()
        except BaseException:
            self.connection.close()
            raise

    def explain(self, error: Exception) -> Exception:
        problems = self.psycopg.errors
        if isinstance(error, (problems.ReadOnlySqlTransaction, problems.InsufficientPrivilege)):
            return ValueError(f"{self.place.shown} cannot be written: {short(error)}")
        if isinstance(error, (self.psycopg.OperationalError, self.psycopg.InterfaceError)):
            return ConnectionError(f"{self.place.shown} cannot be reached any more: {short(error)}")
        return ValueError(f"{self.place.shown}: {short(error)}")

    def create(self, description: Description) -> None:
        id_column = "bigint" if description.id_type == "int64" else 'text COLLATE "C"'
        vector = "" if description.n_features is None else ", vector bytea NOT NULL"
        correction = "" if description.corrections is None else ", correction smallint NOT NULL"
        with self.lock, self.connection.transaction():
            self.rows("SELECT pg_advisory_xact_lock(hashtext('hashlearn'))", [])  # others may make it now, too
            self._describe()
            if self.description is not None:
                return
            self._require_pgvector()
            self.rows(f"CREATE TABLE {self.notes} (key text PRIMARY KEY, value text NOT NULL)", [])
            self.rows(
                f"CREATE TABLE {self.table} (id {id_column} PRIMARY KEY, code bit({description.n_bits}) NOT NULL, "
                f"payload jsonb NOT NULL{vector}{correction})",
                [],
            )
            self.keep_note(DESCRIPTION, description.to_json())
        self._describe()

    def use_index(self, kind: str) -> None:
        self.rows(f"CREATE INDEX IF NOT EXISTS {self.table}_hnsw ON {self.table} USING hnsw (code bit_hamming_ops)", [])
        self.by_index = True

    def upsert(self, rows: Rows) -> None:
        """Copy the rows to a temporary table, then merge them in one statement."""
        with self.lock, self.connection.transaction():
            incoming = f"{self.table}_incoming"
            self.rows(f"CREATE TEMPORARY TABLE {incoming} (LIKE {self.table}) ON COMMIT DROP", [])
            copying = f"COPY {incoming} FROM STDIN (FORMAT BINARY)"
            with self.connection.cursor() as cursor, cursor.copy(copying) as copy:
                copy.write(_COPY_BEGINS)
                for row in self._copied(rows):
                    copy.write(row)
                copy.write(_COPY_ENDS)
            # in the order of the ids: otherwise two writers of the same ids could deadlock
            merging = f"INSERT INTO {self.table} SELECT * FROM {incoming} ORDER BY id"
            self.rows(f"{merging} ON CONFLICT (id) DO UPDATE SET {changes(rows)}", [])

    def delete(self, ids: NDArray[Any]) -> int:
        with self.lock, self.connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {self.table} WHERE id = ANY(%s)", [ids.tolist()])
            return cursor.rowcount

    def nearest(self, codes: NDArray[np.uint8], k: int, condition: Condition | None) -> list[Hits]:
        """Search by the index if one was requested; otherwise the cast in ``distance`` keeps PostgreSQL from using
        it."""
        if not self.by_index:
            return super().nearest(codes, k, condition)
        where, parameters = self.where(condition)
        code = f"?::bit({self._n_bits()})"
        statement = f"SELECT {self.distance}, id FROM {self.table} WHERE {where} ORDER BY code <~> {code} LIMIT ?"
        found = []
        with self.lock, self.connection.transaction():
            self.rows(f"SET LOCAL hnsw.ef_search = {CANDIDATES}", [])
            self.rows("SET LOCAL hnsw.iterative_scan = 'strict_order'", [])
            self.rows("SET LOCAL enable_seqscan = off", [])
            for each in codes:
                query = self.code_parameter(each)
                found.append(sorted(self.hits(statement, [query, *parameters, query, k])))
        return found

    def rows(self, statement: str, parameters: list[Any]) -> list[tuple]:
        with self.lock, self.connection.cursor() as cursor:
            cursor.execute(statement.replace("?", "%s"), parameters)
            return cursor.fetchall() if cursor.description else []

    def code_parameter(self, code: NDArray[np.uint8]) -> str:
        return (np.unpackbits(code, count=self._n_bits()) + ord("0")).tobytes().decode()

    def test(self, test: Test) -> tuple[str, list[Any]]:
        equal = "coalesce(payload -> ?::text = ANY(?::jsonb[]), false)"
        match test:
            case Among(field, values):
                return equal, [field, [json.dumps(value) for value in values]]
            case Differs(field, value):
                return f"NOT {equal}", [field, [json.dumps(value)]]
            case Compares(field, sign, str(value)):
                found = f'(payload ->> ?::text) COLLATE "C" {sign} ?::text'
                return _where_typed("string", found), [field, field, value]
            case Compares(field, sign, value):
                found = f"(payload ->> ?::text)::float8 {sign} ?::float8"
                return _where_typed("number", found), [field, field, value]

    def compact(self) -> None:
        self.rows(f"VACUUM (ANALYZE) {self.table}", [])

    def close(self) -> None:
        self.connection.close()

    def _n_bits(self) -> int:
        assert self.description is not None
        return self.description.n_bits

    def _describe(self) -> None:
        """Read the description of the store, if there is one."""
        names = "SELECT to_regclass(?) IS NOT NULL, to_regclass(?) IS NOT NULL"
        has_notes, has_codes = self.rows(names, [self.notes, self.table])[0]
        if has_codes and not has_notes:
            raise ValueError(f"{self.place.shown} holds a table {self.table!r} that hashlearn did not make")
        self.description = self.described(has_notes)
        if self.description is not None:
            self.distance = f"(code <~> ?::bit({self._n_bits()}))::int"

    def _require_pgvector(self) -> None:
        """Create the extension pgvector if it is missing; this needs the right to create extensions."""
        if self.rows("SELECT 1 FROM pg_extension WHERE extname = 'vector'", []):
            return
        try:
            self.rows("CREATE EXTENSION IF NOT EXISTS vector", [])
        except self.psycopg.Error as error:
            raise ValueError(f"{self.place.shown} needs the extension pgvector: {short(error)}") from error

    def _copied(self, rows: Rows) -> Iterator[bytes]:
        """Rows in PostgreSQL's binary format: the number of fields, then each with its length."""
        n_bits = self._n_bits()
        code_head = struct.pack(">ii", 4 + rows.codes.shape[1], n_bits)
        n_fields = struct.pack(">h", len(rows.columns))
        vectors = None if rows.vectors is None else rows.vectors.astype(">f4")
        for number, (id, code, payload) in enumerate(zip(rows.ids.tolist(), rows.codes, rows.payloads)):
            key = struct.pack(">q", id) if isinstance(id, int) else id.encode()
            fields = [n_fields, _field(key), code_head, code.tobytes(), _field(b"\x01" + payload.encode())]
            if vectors is not None:
                fields.append(_field(vectors[number].tobytes()))
            if rows.corrections is not None:
                fields.append(_field(struct.pack(">h", rows.corrections[number])))
            yield b"".join(fields)


def _field(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _where_typed(kind: str, test: str) -> str:
    """A test that is evaluated only for values of one kind: CASE guarantees the order, AND does not."""
    return f"CASE WHEN jsonb_typeof(payload -> ?::text) = '{kind}' THEN {test} ELSE false END"
