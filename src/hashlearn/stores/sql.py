"""The common part of the SQL databases: a table of codes, a table of notes, and the statements that read them.

An engine says how its database writes a distance, a list of ids and a test of a payload; values are always parameters,
written as ``?``. Table names come from the URI, where only letters, digits and _ are allowed.
"""

from collections.abc import Iterator, Sequence
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.stores.base import Block, Description, Hits, Place, Rows, code_matrix, id_array
from hashlearn.stores.filters import Condition, Test, translate

DESCRIPTION = "description"
"""Key of the note that describes the store."""


class SqlEngine:
    """Searches, look-ups and scans in SQL; a subclass adds the parts that differ."""

    errors: tuple[type[Exception], ...]
    indexes: Sequence[str] = ()
    distance: str
    """Distance of the column ``code`` to one parameter, an integer."""
    among: str
    """Whether ``id`` is in a list, one parameter."""
    code_bytes: str
    """The column ``code`` as bytes."""
    payload_text: str
    """The column ``payload`` as JSON text."""
    vector_type: str
    """Type of the floats in the bytes of the column ``vector``."""

    def __init__(self, place: Place):
        self.place = place
        self.table, self.notes = place.table, f"{place.table}_meta"
        self.lock = RLock()
        self.description: Description | None = None

    def rows(self, statement: str, parameters: list[Any]) -> list[tuple]:
        """Run one statement and fetch its rows."""
        raise NotImplementedError

    def use_index(self, kind: str) -> None:
        """Search by an index, if the database has one for codes."""
        raise NotImplementedError

    def test(self, test: Test) -> tuple[str, list[Any]]:
        """A test of a payload, never NULL, and its parameters."""
        raise NotImplementedError

    def code_parameter(self, code: NDArray[np.uint8]) -> Any:
        return code.tobytes()

    def ids_parameter(self, ids: NDArray[Any]) -> Any:
        return ids.tolist()

    def described(self, has_notes: bool) -> Description | None:
        """The description among the notes, if there are any."""
        text = self.note(DESCRIPTION) if has_notes else None
        return None if text is None else Description.from_json(text, self.place.shown)

    @property
    def correction(self) -> str:
        """The column ``correction``, or NULL if the table has none."""
        assert self.description is not None
        return "NULL" if self.description.corrections is None else "correction"

    def get(self, ids: NDArray[Any]) -> list[tuple[Any, bytes, str, int | None]]:
        columns = f"id, {self.code_bytes}, {self.payload_text}, {self.correction}"
        found = self.rows(f"SELECT {columns} FROM {self.table} WHERE {self.among}", [self.ids_parameter(ids)])
        return [(id, bytes(code), payload, correction) for id, code, payload, correction in found]

    def vectors(self, ids: NDArray[Any]) -> list[tuple[Any, NDArray[np.float32]]]:
        found = self.rows(f"SELECT id, vector FROM {self.table} WHERE {self.among}", [self.ids_parameter(ids)])
        return [(id, np.frombuffer(vector, self.vector_type).astype(np.float32)) for id, vector in found]

    def count(self, condition: Condition | None) -> int:
        where, parameters = self.where(condition)
        return self.rows(f"SELECT count(*) FROM {self.table} WHERE {where}", parameters)[0][0]

    def nearest(self, codes: NDArray[np.uint8], k: int, condition: Condition | None) -> list[Hits]:
        where, parameters = self.where(condition)
        statement = (
            f"SELECT {self.distance} AS distance, id FROM {self.table} WHERE {where} ORDER BY distance, id LIMIT ?"
        )
        return [self.hits(statement, [self.code_parameter(code), *parameters, k]) for code in codes]

    def within(self, codes: NDArray[np.uint8], radius: int, condition: Condition | None) -> list[Hits]:
        where, parameters = self.where(condition)
        statement = (
            f"SELECT distance, id FROM (SELECT {self.distance} AS distance, id FROM {self.table} WHERE {where}) AS near"
            " WHERE distance <= ? ORDER BY distance, id"
        )
        return [self.hits(statement, [self.code_parameter(code), *parameters, radius]) for code in codes]

    def blocks(self, n_rows: int, condition: Condition | None, payloads: bool) -> Iterator[Block]:
        """Pages in the order of the ids, one statement for each: no cursor stays open between them."""
        assert self.description is not None
        where, parameters = self.where(condition)
        columns = f"id, {self.code_bytes}, {self.payload_text if payloads else 'NULL'}, {self.correction}"
        select = f"SELECT {columns} FROM {self.table} WHERE {where}"
        found = self.rows(f"{select} ORDER BY id LIMIT ?", [*parameters, n_rows])
        while found:
            ids, codes, texts, corrections = zip(*found)
            yield Block(
                id_array(ids, self.description.id_type),
                code_matrix(codes, self.description.n_bytes),
                list(texts) if payloads else None,
                None if self.description.corrections is None else np.array(corrections, np.uint8),
            )
            if len(found) < n_rows:
                return
            found = self.rows(f"{select} AND id > ? ORDER BY id LIMIT ?", [*parameters, ids[-1], n_rows])

    def note(self, key: str) -> str | None:
        found = self.rows(f"SELECT value FROM {self.notes} WHERE key = ?", [key])
        return found[0][0] if found else None

    def keep_note(self, key: str, text: str) -> None:
        self.rows(
            f"INSERT INTO {self.notes} (key, value) VALUES (?, ?) "
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            [key, text],
        )

    def drop_note(self, key: str) -> None:
        self.rows(f"DELETE FROM {self.notes} WHERE key = ?", [key])

    def where(self, condition: Condition | None) -> tuple[str, list[Any]]:
        """A condition in brackets, and its parameters."""
        if condition is None:
            return "(1 = 1)", []
        text, parameters = translate(condition, self.test)
        return f"({text})", parameters

    def hits(self, statement: str, parameters: list[Any]) -> Hits:
        return [(int(distance), id) for distance, id in self.rows(statement, parameters)]


def changes(rows: Rows) -> str:
    """The SET part of an upsert: every column except the id, from the new row."""
    return ", ".join(f"{name} = excluded.{name}" for name in rows.columns[1:])
