"""The tables of words in a catalog.

==============  ======================================================================================================
table           a row of it
==============  ======================================================================================================
``words``       the words of the text of a row, under the row's number: an FTS5 table without content
``words_of``    one: the row that the words begin at, ``first``
==============  ======================================================================================================

A text is a field of the payload, which the facts of the catalog name. A trigger writes its words when the payload is
written: in the same transaction, by whatever statement. Words of rows that are gone stay until the search is compacted,
like their payloads.
"""

import sqlite3

from hashlearn.search.word_query import TOKENIZER

_TABLES = (
    f"CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='{TOKENIZER}')",
    "CREATE TABLE words_of (first INTEGER NOT NULL)",
)


def check_text_field(field: object) -> str:
    """A name that a payload field with texts may have."""
    if not isinstance(field, str) or not field or '"' in field or "\0" in field:
        raise ValueError(f"text_field must be the name of a payload field, without quotes, got {field!r:.60}")
    return field


def make_words(db: sqlite3.Connection, field: str, first: int) -> None:
    """Keep the words of a payload field from now on, and those of the payloads there; rows begin at ``first``."""
    for statement in _TABLES:
        db.execute(statement)
    db.execute("INSERT INTO words_of VALUES (?)", (first,))
    path = _quoted(f'$."{field}"')
    db.execute(
        f"INSERT INTO words(rowid, text) SELECT row, spaced(json_extract(payload, {path})) FROM payloads "
        f"WHERE json_type(payload, {path}) = 'text'"
    )
    db.execute(
        f"CREATE TRIGGER words_of_payload AFTER INSERT ON payloads WHEN json_type(new.payload, {path}) = 'text' "
        f"BEGIN INSERT INTO words(rowid, text) VALUES (new.row, spaced(json_extract(new.payload, {path}))); END"
    )


def clear_words(db: sqlite3.Connection, first: int) -> None:
    """Forget all words; the next ones are of rows from ``first`` on."""
    db.execute("INSERT INTO words(words) VALUES ('delete-all')")
    db.execute("UPDATE words_of SET first = ?", (first,))


def drop_words(db: sqlite3.Connection) -> None:
    """Keep no words any more."""
    for what in ("TRIGGER words_of_payload", "TABLE words", "TABLE words_of"):
        db.execute(f"DROP {what}")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
