"""The catalog of a search: a SQLite database with the ids, the payloads and the facts of its rows.

==============  ======================================================================================================
table           a row of it
==============  ======================================================================================================
``facts``       one: the number of the last ``change``, and ``text``, JSON (:class:`Facts`)
``rows``        a row of the search that is there: its number ``row``, its ``id`` (an integer or a text), ``payload``,
                the sum of its payload or 0 where it has none, and ``sum``, a checksum of the three other columns
``payloads``    the ``payload`` of a row, JSON without spaces; also of rows that are gone, until the search is compacted
``fresh``       a row whose code is in no code file yet: the ``code``, its correction where it has one, and the CRC-32
                of these bytes and of the number of the row (8 bytes, little-endian, behind them); ``vector``, the
                record of the vector file where the file may not be on the disk yet, or NULL
``buried``      a row that is gone, and the number of the ``change`` that removed it
==============  ======================================================================================================

:mod:`hashlearn.search.word_tables` has the tables of words, which are there if texts are searched.

A change is one transaction: it is on the disk when it is committed, or it is not there.
:mod:`hashlearn.search.kernels.texts` says how the sums are computed: ``payload`` is the upper half of the digest of the
payload, with its lowest bit set.

The write-ahead log of SQLite ends where a frame does not match its checksum. So that a damaged log is not taken for a
short one, the number of the last change is also written, after it is committed, to a file of its own
(:meth:`hashlearn.search.folder.SearchFolder.acknowledge`): a catalog that has fewer changes is refused.
"""

import ctypes
import errno
import hashlib
import os
import sqlite3
import struct
import threading
import weakref
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from hashlearn.deadline import current_deadline, remaining_seconds
from hashlearn.durable.files import canonical_json, json_digest, parsed_json
from hashlearn.search.ids import Ids
from hashlearn.search.kernels.texts import numbers_in, row_sums
from hashlearn.search.word_query import spaced
from hashlearn.search.word_tables import clear_words, drop_words, make_words
from hashlearn.stores.base import IdType

FORMAT, VERSION = "hashlearn similarity search", 5

SECONDS_TO_WAIT = 30.0
"""For another process that changes the same search."""

_NEEDED = "a search needs a file system with locks and shared memory"

_TABLES = (
    "CREATE TABLE IF NOT EXISTS facts (key INTEGER PRIMARY KEY, change INTEGER NOT NULL, text TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS rows "
    "(row INTEGER PRIMARY KEY, id NOT NULL, payload INTEGER NOT NULL, sum INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS payloads (row INTEGER PRIMARY KEY, payload TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS fresh (row INTEGER PRIMARY KEY, code BLOB NOT NULL, vector BLOB)",
    "CREATE TABLE IF NOT EXISTS buried (row INTEGER PRIMARY KEY, change INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS buried_by_change ON buried (change)",
)
_CONTENT = ("rows", "payloads", "fresh", "buried")
_BLOCK = 1 << 16  # rows read in one piece
_FEW = 500  # parameters of a statement
_FEW_PAYLOADS = 1 << 14  # read while others wait
_NEWLINE = 10
_ROW = struct.Struct("<q")
_CRC = struct.Struct("<I")


_CATALOGS: "weakref.WeakSet[Catalog]" = weakref.WeakSet()


def _each(action: str) -> Callable[[], None]:
    def act() -> None:
        for catalog in list(_CATALOGS):
            getattr(catalog, action)()

    return act


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_each("before_fork"), after_in_parent=_each("after_fork"), after_in_child=_each("in_child")
    )


class Facts(NamedTuple):
    """What is known of a search beside its rows.

    Attributes
    ----------
    metric, query : str
    lengths : [float, float] or None
        The least and the largest length of the training rows in a sample.
    keep_vectors : str or None
        How vectors are kept.
    index_kind : {"auto", "flat", "lists"}
        When the search has lists.
    search : str
        A random name, drawn when the folder was written: no other folder has it.
    change : int
        Number of the last change.
    hasher, model : str
        The folder of the hasher, and its digest.
    id_type : "int64", "str" or None
        None while there has been no row.
    first_row, next_row : int
        Rows have numbers from the first to below the next. A number is never given twice.
    next_id : int
        The id that the next row gets if none is given.
    n_rows, sum : int
        How many rows there are, and the sum of their sums.
    codes : dict or None
        ``file`` and ``fingerprint`` of the code file, and the number of places it covers.
    vectors : dict or None
        ``file`` of the vectors, and its ``id``.
    n_clipped : int
        Values of kept vectors that were out of range.
    tuning : dict or None
    text_field : str or None
        The payload field whose words are kept.
    lists : dict or None
        ``file`` and ``fingerprint`` of the file of lists, the number of places it covers, for how many rows they were
        made, and the limit beyond which rows are in no list.
    """

    metric: str
    query: str
    lengths: Any
    keep_vectors: str | None
    index_kind: str = "auto"
    search: str = ""
    change: int = 0
    hasher: str = ""
    model: str = ""
    id_type: IdType | None = None
    first_row: int = 0
    next_row: int = 0
    next_id: int = 0
    n_rows: int = 0
    sum: int = 0
    codes: dict[str, Any] | None = None
    vectors: dict[str, Any] | None = None
    n_clipped: int = 0
    tuning: dict[str, Any] | None = None
    text_field: str | None = None
    lists: dict[str, Any] | None = None

    @property
    def n_places(self) -> int:
        return self.next_row - self.first_row

    @property
    def files(self) -> set[str]:
        """The names of the files and folders that count."""
        parts = self.codes, self.vectors, self.lists
        return {self.hasher, *(part["file"] for part in parts if part is not None)}

    def to_json(self) -> str:
        said = canonical_json({"format": FORMAT, "format_version": VERSION, **self._asdict()})
        return f'{said[:-1]},"sha256":"{hashlib.sha256(said.encode()).hexdigest()}"}}'

    @classmethod
    def from_json(cls, text: str, place: Any) -> "Facts":
        """The facts in a text, or one line why there are none."""
        try:
            said = parsed_json(text)
            if said["format"] != FORMAT:
                raise KeyError
            found = said["format_version"]
            if found > VERSION:
                raise ValueError(f"{place} has layout {found}; this hashlearn reads up to {VERSION}: update hashlearn")
            if found < VERSION:
                raise ValueError(f"{place} has layout {found}, of an earlier hashlearn; add the vectors anew")
            if said.pop("sha256") != json_digest(said):
                raise ValueError(f"{place}: the facts do not match their checksum; it was edited or damaged")
            return cls(**{name: said[name] for name in cls._fields})
        except (KeyError, TypeError, AttributeError):
            raise ValueError(f"{place}: no catalog of a similarity search; it was edited or damaged") from None
        except ValueError as error:
            if str(error).startswith(str(place)):
                raise
            raise ValueError(f"{place}: the facts are no JSON; it was edited or damaged") from None


class OutdatedError(ValueError):
    """Payloads are not where a snapshot expects them: it is of before a compaction, or the catalog was edited."""


class LoadedRows(NamedTuple):
    """Rows of a catalog that are there, ascending; ``total`` is the total of their sums."""

    rows: NDArray[np.int64]
    ids: Ids
    payload_sums: NDArray[np.uint32]
    total: int


@contextmanager
def _one_state(connection: sqlite3.Connection, *, of_file: bool) -> Iterator[None]:
    """Several statements see the same; in memory they do anyway."""
    if not of_file or connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


class Catalog:
    """A catalog in a file, or in memory. Make one with :meth:`in_memory` or :meth:`open`, or a new one by its path.

    Any thread may read. There is one connection for writing: the caller makes sure that one thread at a time writes.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False):
        self.path, self.read_only = path, read_only
        self._inode: tuple[int, int] | None = None
        self._is_closed = self._must_connect = False
        self._changer = 0
        """The thread that makes or made the last change."""
        self._writer: Any = None
        self._reader: Any = None
        self._scanner: Any = None
        """For what takes long: those who look up a few rows do not wait for it."""
        self._make_locks()
        self._connect()
        _CATALOGS.add(self)

    def _make_locks(self) -> None:
        self._reading, self._connecting = threading.RLock(), threading.RLock()
        self._scanning = self._reading if self.path is None or self.read_only else threading.RLock()
        # In memory there is one connection, and one lock: who reads must not see what is not committed, and who fills
        # a column while another thread changes the search would otherwise wait for the lock that the other one has.
        self._changing = self._reading if self.path is None else threading.RLock()
        self.filling = self._reading if self.path is None else threading.RLock()
        """Held by the thread that makes columns longer."""

    @classmethod
    def in_memory(cls) -> Self:
        catalog = cls(None)
        catalog.make_tables()
        return catalog

    @classmethod
    def open(cls, path: Path) -> Self:
        """A catalog that is there; for reading alone where the folder cannot be written."""
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        return cls(path, read_only=not writable)

    # -- connections ------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        with self.naming_errors():
            self._patience = SECONDS_TO_WAIT
            if self.path is None or self.read_only:
                one = self._connection(":memory:") if self.path is None else self._read_only_connection()
                self._writer = self._reader = self._scanner = one
                return
            self._writer = self._connection(_uri(self.path, "rwc" if self._inode is None else "rw"))
            mode = self._writer.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                self._close()
                if not self.path.stat().st_size:  # it was made by this connection
                    self.path.unlink()
                raise OSError(errno.ENOLCK, _NEEDED, str(self.path.parent))
            self._writer.execute("PRAGMA synchronous = FULL")
            if self._inode is None:
                status = os.stat(self.path)
                self._inode = status.st_dev, status.st_ino
            self._reader, self._scanner = (self._connection(_uri(self.path, "rw")) for _ in range(2))

    def _read_only_connection(self) -> sqlite3.Connection:
        assert self.path is not None
        try:
            connection = self._connection(_uri(self.path, "ro"))
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            return connection
        except sqlite3.OperationalError:  # SQLite cannot make a log in a read-only folder
            return self._connection(_uri(self.path, "ro") + "&immutable=1")

    def _connection(self, uri: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, timeout=SECONDS_TO_WAIT
        )
        connection.execute("PRAGMA cache_size = -16000")
        connection.create_function("spaced", 1, spaced, deterministic=True)  # the trigger of the words calls it
        return connection

    def _connect_again(self) -> None:
        """After a fork: have connections of this process."""
        if self._must_connect:
            with self._connecting:
                if self._must_connect and not self._is_closed:
                    self.refuse_if_gone()
                    self._connect()
                    self._must_connect = False

    def before_fork(self) -> None:
        """Wait for changes and reads of other threads, and close the connections to a file.

        In a child that has inherited open connections, SQLite takes locks of the parent for its own: when the parent
        closes the file, what the child writes later is lost.
        """
        for lock in (self._changing, self._reading, self._scanning):
            lock.acquire(timeout=SECONDS_TO_WAIT)
        if self.path is not None and not self.is_changing and not self._must_connect:
            self._must_connect = True
            self._close()

    @property
    def is_changing(self) -> bool:
        """Whether a change is under way."""
        return not self._is_closed and not self._must_connect and self._writer.in_transaction

    @property
    def is_own_change(self) -> bool:
        """Whether this thread makes the change that is under way."""
        return self._changer == threading.get_ident() and self.is_changing

    def after_fork(self) -> None:
        for lock in (self._scanning, self._reading, self._changing):
            with suppress(RuntimeError):  # not had in time
                lock.release()

    def in_child(self) -> None:
        self._make_locks()
        if self.path is not None and not self._must_connect:
            for connection in {self._writer, self._reader, self._scanner}:
                # SQLite must not close in a child what the parent has opened: let them live as long as the process.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
            self._must_connect = True

    def make_tables(self) -> None:
        """Have the tables, if they are not there."""
        with self.naming_errors():
            if self._has("facts"):
                return
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                for statement in _TABLES:
                    self._writer.execute(statement)
                self._writer.execute("COMMIT")
            except BaseException:
                self.roll_back()
                raise

    def close(self) -> None:
        """Let go of the file; the catalog cannot be used any more."""
        self._is_closed = True
        if not self._must_connect:
            self._close()

    def _close(self) -> None:
        for connection in (self._scanner, self._reader, self._writer):
            if connection is not None:
                with suppress(sqlite3.Error):
                    connection.close()

    def __del__(self) -> None:
        if hasattr(self, "_reader"):
            self.close()

    @contextmanager
    def naming_errors(self) -> Iterator[None]:
        """Turn errors of SQLite into errors that name the file."""
        name = "the catalog in memory" if self.path is None else str(self.path)
        try:
            yield
        except sqlite3.OperationalError as error:
            text = _first_line(error)
            if "locked" in text or "busy" in text:
                raise TimeoutError(
                    errno.ETIMEDOUT, "another process changes this search; nothing was changed, try again", name
                ) from error
            # The file -shm cannot grow. What the module itself raises, such as of text that is no UTF-8, has no name.
            if "full" in text or getattr(error, "sqlite_errorname", "") == "SQLITE_IOERR_SHMSIZE":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name) from error
            if "readonly" in text or "read-only" in text:
                raise OSError(errno.EROFS, "the folder cannot be written; nothing was changed", name) from error
            if "unable to open" in text:
                raise OSError(errno.EIO, f"SQLite says: {text}; {_NEEDED}", name) from error
            if "disk I/O" in text or "locking protocol" in text:
                raise OSError(errno.EIO, f"SQLite says: {text}", name) from error
            raise ValueError(f"{name}: SQLite says: {text}; it was edited or damaged") from error
        except UnicodeDecodeError as error:  # what SQLite says repeats bytes of the file
            raise ValueError(f"{name}: SQLite says: malformed database schema; it was edited or damaged") from error
        except sqlite3.ProgrammingError as error:
            raise ValueError(f"{name} was closed: open the search again") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{name}: SQLite says: {_first_line(error)}; it was edited or damaged") from error

    # -- changes ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a change: nobody else changes the catalog until it is committed or given up."""
        if self.read_only:
            raise OSError(errno.EROFS, "the folder cannot be written; nothing was changed", str(self.path))
        try:
            self._changing.acquire()
            self._changer = threading.get_ident()
            with self.naming_errors():
                self.refuse_if_gone()
                self._connect_again()
                self._wait_at_most(SECONDS_TO_WAIT if current_deadline.get() is None else remaining_seconds())
                self._writer.execute("BEGIN IMMEDIATE")
                self.refuse_if_gone()
        except BaseException:
            self.roll_back()
            raise

    def _wait_at_most(self, seconds: float) -> None:
        """How long the connection that writes waits for other processes."""
        seconds = min(SECONDS_TO_WAIT, seconds)
        if seconds != self._patience:
            self._writer.execute(f"PRAGMA busy_timeout = {1000 * seconds:.0f}")
            self._patience = seconds

    def remove_if_empty(self) -> bool:
        """Remove the file if nothing was ever saved in it; returns whether it was removed."""
        assert self.path is not None
        try:
            self.begin()
            is_empty = not self._has("facts") or self.known_facts() is None
            for ending in ("-shm", "-wal", "") if is_empty else ():  # the last one ends the lock for others
                self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
            return is_empty
        finally:
            self.roll_back()

    def _has(self, *names: str) -> bool:
        """Are there tables or triggers of these names?"""
        query = f"SELECT count(*) FROM sqlite_master WHERE name IN ({','.join('?' * len(names))})"
        with self._seen() as db:
            return bool(db.execute(query, names).fetchone()[0] == len(names))

    @property
    def has_words(self) -> bool:
        """Are the words of a payload field kept?"""
        return self._has("words", "words_of", "words_of_payload")

    def refuse_if_gone(self) -> None:
        """Raise where the file has been removed or replaced since it was opened: a change would be lost with it."""
        if self.path is None or self._inode is None:
            return
        try:
            status = os.lstat(self.path)
            is_there = (status.st_dev, status.st_ino) == self._inode
        except FileNotFoundError:
            is_there = False
        if not is_there:
            raise FileNotFoundError(
                errno.ENOENT,
                "removed or replaced since it was opened; nothing was changed: save the search to another folder",
                str(self.path),
            )

    def commit(self, facts: Facts | None = None) -> None:
        """Make the change that was begun, with these facts; a catalog in memory has none."""
        with self.naming_errors():
            if facts is not None:
                self._writer.execute("INSERT OR REPLACE INTO facts VALUES (0, ?, ?)", (facts.change, facts.to_json()))
            self._writer.execute("COMMIT")
        self._release()

    def roll_back(self) -> None:
        """End a change as if it had not begun."""
        with suppress(sqlite3.Error):
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        self._release()

    def _release(self) -> None:
        with suppress(RuntimeError):  # not held: the change was not begun
            self._changing.release()

    def savepoint(self) -> None:
        """A state inside of a change, to which :meth:`back` goes back."""
        with self.naming_errors():
            self._writer.execute("SAVEPOINT step")

    def back(self) -> None:
        with suppress(sqlite3.Error):
            self._writer.execute("ROLLBACK TO step")

    def put_rows(self, rows: NDArray[np.int64], ids: Ids, sums: NDArray[np.uint32]) -> int:
        """Write rows and the sums of their payloads; returns the total of the sums of the rows."""
        checks = checks_of(rows, ids, sums)
        with self.naming_errors():
            values = zip(rows.tolist(), ids.all().tolist(), sums.tolist(), checks.tolist())
            self._writer.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", values)
        return int(checks.sum())

    def put_payloads(self, pairs: Iterable[tuple[int, str]]) -> None:
        """Write the payloads of rows, as JSON texts."""
        with self.naming_errors():
            self._writer.executemany("INSERT OR REPLACE INTO payloads VALUES (?, ?)", pairs)

    def put_codes(self, rows: NDArray[np.int64], codes: NDArray[np.uint8], vectors: Iterable[bytes | None]) -> None:
        """Write the codes of rows that are in no code file, and the records of vectors that may not be on the disk."""
        with self.naming_errors():
            values = (
                (row, _checked_code(row, code), vector) for row, code, vector in zip(rows.tolist(), codes, vectors)
            )
            self._writer.executemany("INSERT INTO fresh VALUES (?, ?, ?)", values)

    def load_vectors(self) -> list[tuple[int, bytes]]:
        """Rows whose vectors are in the catalog, and the records of these."""
        with self._seen() as db:
            return db.execute("SELECT row, vector FROM fresh WHERE vector IS NOT NULL").fetchall()

    def drop_codes(self) -> None:
        """Forget the codes that a code file has."""
        with self.naming_errors():
            self._writer.execute("DELETE FROM fresh")

    def bury(self, rows: NDArray[np.int64], change: int) -> int:
        """Remove rows; returns the total of their sums."""
        listed = rows.tolist()
        total = 0
        with self.naming_errors():
            for start in range(0, len(listed), _FEW):
                part = listed[start : start + _FEW]
                marks = ",".join("?" * len(part))
                found = self._writer.execute(f"SELECT count(*), total(sum) FROM rows WHERE row IN ({marks})", part)
                n, sums = found.fetchone()
                if n != len(part):
                    raise ValueError(f"{self.path}: rows that are removed are not there; it was edited or damaged")
                total += int(sums)
                self._writer.execute(f"DELETE FROM rows WHERE row IN ({marks})", part)
            self._writer.executemany("INSERT INTO buried VALUES (?, ?)", ((row, change) for row in listed))
        return total

    def clear(self, first: int) -> None:
        """Remove everything but the facts; the next rows begin at ``first``."""
        with self.naming_errors():
            for table in _CONTENT:
                self._writer.execute(f"DELETE FROM {table}")
            if self.has_words:
                clear_words(self._writer, first)

    def keep_words(self, field: str | None, first: int) -> None:
        """Keep the words of a payload field, of rows from ``first`` on; None keeps none."""
        with self.naming_errors():
            if self.has_words:
                drop_words(self._writer)
            if field is not None:
                make_words(self._writer, field, first)

    def renumber(self, rows: NDArray[np.int64], first: int) -> None:
        """Give the payloads of rows the numbers from ``first`` on, above all there are, and drop everything else."""
        with self.naming_errors():
            if self.has_words:
                clear_words(self._writer, first)
            copy = "INSERT INTO payloads SELECT ?, payload FROM payloads WHERE row = ?"
            self._writer.executemany(copy, zip(range(first, first + len(rows)), rows.tolist()))
            self._writer.execute("DELETE FROM payloads WHERE row < ?", (first,))
            for table in ("rows", "fresh", "buried"):
                self._writer.execute(f"DELETE FROM {table}")

    # -- reading ----------------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """See one state in several statements."""
        with self._reading, self.naming_errors():
            self._connect_again()
            with _one_state(self._reader, of_file=self.path is not None):
                yield self._reader

    @contextmanager
    def scanning(self) -> Iterator[sqlite3.Connection]:
        """The same for what takes long."""
        with self._scanning, self.naming_errors():
            self._connect_again()
            with _one_state(self._scanner, of_file=self.path is not None):
                yield self._scanner

    @contextmanager
    def _seen(self) -> Iterator[sqlite3.Connection]:
        """The state that is committed; for the thread that makes a change, the state inside of this change.

        No other thread may use the connection that writes: SQLite would wait for the change, with the lock of the
        interpreter that the change needs.
        """
        if self.path is not None and self.is_own_change:
            with self.naming_errors():
                yield self._writer
            return
        with self._reading, self.naming_errors():
            self._connect_again()
            yield self._reader

    def last_change(self) -> int:
        """The number of the last change; -1 where there is none."""
        with self._seen() as db:
            found = db.execute("SELECT change FROM facts").fetchone()
        if found is not None and not isinstance(found[0], int):
            raise ValueError(f"{self.path}: the number of the last change was edited or damaged")
        return -1 if found is None else found[0]

    def facts(self) -> Facts:
        with self._seen() as db:
            found = db.execute("SELECT change, text FROM facts").fetchone()
        if found is None:
            raise ValueError(f"{self.path}: nothing was saved there")
        facts = Facts.from_json(found[1], self.path)
        if facts.change != found[0]:
            raise ValueError(f"{self.path}: the number of the last change was edited or damaged")
        return facts

    def known_facts(self) -> Facts | None:
        """The facts; None where nothing was saved yet."""
        return None if self.last_change() < 0 else self.facts()

    def load_rows(self, first: int, last: int, id_type: IdType | None) -> LoadedRows:
        """The rows with numbers from ``first`` to below ``last``, once they are seen to match their sums."""
        texts = (
            "SELECT count(*), group_concat(id, '\n'), group_concat(payload), group_concat(sum) "
            "FROM rows WHERE row >= ? AND row < ?"
        )
        with self._seen() as db:
            parts = [
                (self._rows_of(db, "rows", start, end, part[0]), *part[1:])
                for start, end, part in _blocks(db, texts, first, last)
                if part[0]
            ]
        try:
            rows = np.concatenate([np.empty(0, np.int64), *(part[0] for part in parts)])
            n = len(rows)
            payload_sums, sums = (_numbers([part[at] for part in parts], n) for at in (2, 3))
            lines = "\n".join(str(part[1]) for part in parts)
            is_text = id_type == "str"
            ids = Ids.of_lines(lines.encode(), n) if is_text else Ids.of(_numbers([lines.replace("\n", ",")], n))
            if len(ids) != n or (n and (checks_of(rows, ids, payload_sums.astype(np.uint32)) != sums).any()):
                raise ValueError
        except (ValueError, OverflowError, UnicodeError, IndexError):
            raise ValueError(f"{self.path}: rows do not match their sums; the catalog was edited or damaged") from None
        return LoadedRows(rows, ids, payload_sums.astype(np.uint32), int(sums.sum()))

    def buried_since(self, change: int) -> NDArray[np.int64]:
        """Rows that changes behind this one have removed."""
        with self._seen() as db:
            found = db.execute("SELECT row FROM buried WHERE change > ?", (change,)).fetchall()
        return np.array([row for (row,) in found], np.int64)

    def load_codes(self, first: int, n_bytes: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """The rows from ``first`` on that are in no code file, and their codes, each of ``n_bytes``."""
        with self._seen() as db:
            found = db.execute("SELECT row, code FROM fresh WHERE row >= ? ORDER BY row", (first,)).fetchall()
        codes = np.empty((len(found), n_bytes), np.uint8)
        for i, (row, content) in enumerate(found):
            if (
                not isinstance(content, bytes)
                or len(content) != n_bytes + 4
                or _checked_code(row, content[:-4]) != content
            ):
                raise ValueError(f"{self.path}: the code of row {row} was edited or damaged")
            codes[i] = np.frombuffer(content, np.uint8, n_bytes)
        return np.array([row for row, _ in found], np.int64), codes

    def payloads(self, rows: Sequence[int], sums: Sequence[int]) -> list[str]:
        """The payloads of rows as JSON texts, "" for a row without one; OutdatedError where one is not there."""
        wanted = sorted({row for row, total in zip(rows, sums) if total})
        found: dict[int, str] = {}
        with self.reading() as db:
            for start in range(0, len(wanted), _FEW):
                part = wanted[start : start + _FEW]
                marks = ",".join("?" * len(part))
                found.update(db.execute(f"SELECT row, payload FROM payloads WHERE row IN ({marks})", part))
        self.check_count(len(found), len(wanted))
        texts = [found[row] if total else "" for row, total in zip(rows, sums)]
        there = [(str(text), total) for text, total in zip(texts, sums) if total]
        if there:
            lines = self._lines("\n".join(text for text, _ in there), len(there))
            self.check_texts(lines, np.array([total for _, total in there], np.uint32))
        return texts

    def payload_blocks(self, first: int, last: int) -> Generator[tuple[NDArray[np.int64], Ids], None, None]:
        """Blocks of rows with payloads, numbers from ``first`` to below ``last``, and their texts.

        Between two, others can read.
        """
        texts = "SELECT count(*), group_concat(payload, '\n') FROM payloads WHERE row >= ? AND row < ?"
        for low in range(first, last, _FEW_PAYLOADS):
            with self.scanning() as db:
                found = [
                    (self._rows_of(db, "payloads", start, end, n), self._lines(lines, n))
                    for start, end, (n, lines) in _blocks(db, texts, low, min(low + _FEW_PAYLOADS, last))
                    if n
                ]
            yield from found

    def _rows_of(self, db: sqlite3.Connection, table: str, first: int, last: int, n: int) -> NDArray[np.int64]:
        """The numbers of the n rows that a table has from ``first`` to below ``last``, ascending."""
        if n == last - first:
            return np.arange(first, last)
        found = db.execute(f"SELECT group_concat(row) FROM {table} WHERE row >= ? AND row < ?", (first, last))
        try:
            return _numbers([str(found.fetchone()[0])], n)
        except ValueError:
            raise ValueError(f"{self.path}: the numbers of rows were edited or damaged") from None

    def _lines(self, lines: str | None, n: int) -> Ids:
        """The n texts of payloads with a line feed between them."""
        try:
            return Ids.of_lines((lines or "").encode(), n)
        except ValueError:
            raise ValueError(
                f"{self.path}: a payload is no text of one line; the catalog was edited or damaged"
            ) from None

    def check_texts(self, texts: Ids, sums: NDArray[np.uint32]) -> None:
        """Raise where a payload is not the one that its row had; a row that is gone has the sum 0."""
        if ((sums_of(texts) != sums) & (sums != 0)).any():
            raise ValueError(f"{self.path}: a payload does not match its sum; the catalog was edited or damaged")

    def check_count(self, n_read: int, n_wanted: int) -> None:
        """Raise where payloads of rows that are there were not found."""
        if n_read != n_wanted:
            raise OutdatedError(f"{self.path}: {n_wanted - n_read} payloads are missing; it was edited or damaged")


def _blocks(db: sqlite3.Connection, query: str, first: int, last: int) -> Iterator[tuple[int, int, Any]]:
    """First row and end of blocks of rows, and what a query says of each.

    Blocks are smaller where a text would be longer than SQLite allows.
    """
    size = _BLOCK
    while first < last:
        end = min(first + size, last)
        try:
            found = db.execute(query, (first, end)).fetchone()
        except sqlite3.DataError:
            if size == 1:
                raise
            size //= 2
            continue
        yield first, end, found
        first = end


def payload_sums(texts: list[str]) -> NDArray[np.uint32]:
    """The sums of payloads: 0 for an empty text, otherwise never 0."""
    if not any(texts):
        return np.zeros(len(texts), np.uint32)
    return sums_of(Ids.of_lines("\n".join(texts).encode(), len(texts)))


def sums_of(texts: Ids) -> NDArray[np.uint32]:
    """As :func:`payload_sums`, of texts in one array."""
    sums = (texts.digests() >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
    sums[texts.ends == texts.starts] = 0
    return sums


def checks_of(rows: NDArray[np.int64], ids: Ids, sums: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The sums of rows: checksums of their numbers, their ids and the sums of their payloads."""
    found = np.empty(len(rows), np.int64)
    row_sums(rows, ids.digests(), sums, found)
    return found


def _checked_code(row: int, code: Any) -> bytes:
    content = bytes(code)
    return content + _CRC.pack(zlib.crc32(content + _ROW.pack(row)))


def _numbers(texts: list[str], n: int) -> NDArray[np.int64]:
    """Integers, each as a text."""
    numbers: NDArray[np.int64] = numbers_in(",".join(texts)) if n else np.empty(0, np.int64)
    if len(numbers) != n:
        raise ValueError("not as many numbers as rows")
    return numbers


def _first_line(error: sqlite3.Error) -> str:
    return (str(error).splitlines() or [""])[0][:200]


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(str(path))}?mode={mode}"
