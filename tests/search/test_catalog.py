"""A saved search that is edited, damaged, mixed, cut, locked, full or shared is refused by name, or unharmed."""

import errno
import os
import pickle
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from faults.interrupts import Interrupt, moments
from forked import ForkedPython
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from small_disk import needs_mount, run_on_small_disk

from hashlearn import LSH, SimilaritySearch
from hashlearn.search import catalog as catalog_module
from hashlearn.search import columns, rows
from hashlearn.search.catalog import Catalog, Facts
from hashlearn.search.columns import Columns
from hashlearn.search.metric_hasher import MetricHasher
from hashlearn.search.snapshot import Snapshot
from hashlearn.search.vectors import VectorFile

X = np.random.default_rng(0).standard_normal((24, 4)).astype(np.float32)
HASHER = LSH(n_bits=8, random_state=0).fit(X)
FLIPS_OF_A_FILE = 120
"""Bytes of a file that are flipped, at equal distances; ``python -m faults`` damages as often as you like."""
MOMENTS = 25
"""Instructions of a change at which it is interrupted; ``python -m faults`` takes more."""

pytestmark = pytest.mark.filterwarnings("ignore:no row of this search")


def content(search):
    """All that can be read of a search."""
    records = [
        (each.id, each.payload, each.code.tobytes(), None if each.vector is None else each.vector.tobytes())
        for each in search.get(search.ids)
    ]
    found = search.search(X[:3], 4).ids.tolist(), search.search(X[:3], 4, filter={"color": "red"}).ids.tolist()
    facets = [tuple(facet) for facet in search.facets("size")]
    return records, found, search.count({"color": "red"}), facets, search.hasher.transform(X).tobytes()


def content_of(folder):
    with closing(SimilaritySearch.open(folder)) as search:
        return content(search)


def payload(number):
    return {"color": ["red", "blue"][number % 2], "size": number} if number % 3 else None


def made(folder, keep="float32", vectors=X):
    """A search whose rows are in a code file, in the catalog, and removed; it is open."""
    search = SimilaritySearch(HASHER, keep_vectors=keep)
    search.add(vectors[:8], [f"é{n}" for n in range(8)], [payload(n) for n in range(8)]).save(folder)
    return search.upsert(vectors[8:11], ["é1", "x", "y"], [{"color": "red"}, {}, {"size": 2.5}]).remove(["é2"])


def files_of(folder):
    return {path: path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def restore(folder, files):
    for path in Path(folder).rglob("*"):
        if path.is_file() and path not in files:
            path.unlink()
    for path, data in files.items():
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A folder that is closed, the same copied while its writer had it open, and another search."""
    base = tmp_path_factory.mktemp("originals")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Catalog, "_connection", _with_small_pages(Catalog._connection))
        search = made(base / "closed")
        shutil.copytree(base / "closed", base / "open", ignore=shutil.ignore_patterns("*-shm"))
        search.close()
        made(base / "other", vectors=X[::-1]).close()
    return base


def _with_small_pages(connection):
    """So that a catalog has few bytes, and most of them count."""

    def connected(self, uri):
        made = connection(self, uri)
        made.execute("PRAGMA page_size = 512")
        return made

    return connected


@pytest.fixture
def folder(originals, tmp_path):
    shutil.copytree(originals / "closed", tmp_path / "search")
    return tmp_path / "search"


@pytest.fixture
def copied_open(originals, tmp_path):
    shutil.copytree(originals / "open", tmp_path / "search")
    return tmp_path / "search"


def outcome(folder, wanted, *, kinds=(ValueError, FileNotFoundError)):
    """ "same", or the line that refuses a folder."""
    try:
        found = content_of(folder)
    except kinds as error:
        line = str(error)
        assert "\n" not in line, line
        assert str(folder) in line
        return line
    assert found == wanted
    return "same"


def refusal(action):
    """The line of the error of the operating system that a call raises; None if it does not."""
    try:
        action()
    except OSError as error:
        return str(error)
    return None


# -- edited ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE rows SET id = 'other' WHERE row = (SELECT min(row) FROM rows)", "rows do not match their sums"),
        ("UPDATE rows SET id = id || char(10) || 'b'", "rows do not match their sums"),
        ("UPDATE rows SET id = 5", "rows do not match their sums"),
        ("UPDATE rows SET row = row + 100", "were saved"),
        ("UPDATE rows SET payload = 0", "rows do not match their sums"),
        ("UPDATE rows SET sum = sum + 1", "rows do not match their sums"),
        ("UPDATE rows SET sum = -1", "rows do not match their sums"),
        ("DELETE FROM rows WHERE id = 'x'", "8 rows"),
        ("DELETE FROM rows", "0 rows"),
        ("INSERT INTO rows VALUES (2, 'new', 0, 5)", "rows do not match their sums"),
        ("DELETE FROM payloads", "payloads are missing"),
        ("DELETE FROM payloads WHERE row = (SELECT max(row) FROM payloads)", "1 payloads are missing"),
        ("UPDATE payloads SET payload = '{}'", "a payload does not match its sum"),
        ("UPDATE payloads SET payload = ''", "a payload does not match its sum"),
        ("UPDATE payloads SET payload = x'00ff'", "damaged"),
        ("UPDATE payloads SET payload = payload || char(10)", "a payload"),
        ("DELETE FROM fresh", "lacks codes of rows that are there"),
        ("UPDATE fresh SET code = x'00'", "the code of row"),
        ("UPDATE fresh SET code = 'text'", "the code of row"),
        ("UPDATE fresh SET row = row + 7", "the code of row"),
        ("UPDATE fresh SET row = row + 1000000000000", "the code of row"),
        ("UPDATE facts SET change = change + 1", "the number of the last change"),
        ("UPDATE facts SET change = 'many'", "the number of the last change"),
        ("UPDATE facts SET text = replace(text, '\"euclidean\"', '\"cosine\"')", "do not match their checksum"),
        ("UPDATE facts SET text = '{}'", "no catalog of a similarity search"),
        ("UPDATE facts SET text = '[1'", "no JSON"),
        ("UPDATE facts SET text = x'ff00'", "no JSON"),
        ("DELETE FROM facts", "nothing was saved there"),
        ("DROP TABLE facts", "no such table"),
        ("DROP TABLE payloads", "no such table"),
        ("ALTER TABLE rows DROP COLUMN sum", "no such column"),
    ],
)
def test_a_catalog_that_was_edited_by_hand_is_refused(folder, statement, words, originals):
    wanted = content_of(originals / "closed")
    with closing(sqlite3.connect(folder / "catalog.db")) as db:
        db.execute(statement)
        db.commit()
    line = outcome(folder, wanted)
    assert words in line
    assert "catalog.db" in line


@pytest.mark.parametrize("moved", [-(10**12), 10**12])
def test_the_vector_of_a_removed_row_whose_number_was_edited_is_refused(moved, tmp_path):
    made(tmp_path / "s").remove(["x"]).close()
    with closing(sqlite3.connect(tmp_path / "s" / "catalog.db")) as db:
        edited = db.execute("UPDATE fresh SET row = row + ? WHERE row NOT IN (SELECT row FROM rows)", (moved,))
        assert edited.rowcount == 1
        db.commit()
    with pytest.raises(ValueError, match=r"a row that never was|the code of row"):
        SimilaritySearch.open(tmp_path / "s")


@pytest.mark.parametrize(
    "statement",
    [
        'INSERT INTO payloads SELECT row, \'{"color":"red","size":9}\' FROM rows WHERE payload = 0',
        "DELETE FROM buried",
        "INSERT INTO buried SELECT row, 1 FROM rows",
        "CREATE TABLE notes (text)",
    ],
)
@pytest.mark.parametrize("few", [0, 256])
def test_what_nobody_asks_for_may_be_edited(folder, statement, few, originals, monkeypatch):
    wanted = content_of(originals / "closed")
    monkeypatch.setattr(columns, "_FEW_ROWS", few)
    with closing(sqlite3.connect(folder / "catalog.db")) as db:
        db.execute(statement)
        db.commit()
    assert content_of(folder) == wanted


def test_a_newer_layout_is_named_and_kept(folder):
    with closing(sqlite3.connect(folder / "catalog.db")) as db:
        db.execute("UPDATE facts SET text = replace(text, '\"format_version\":5', '\"format_version\":6')")
        db.commit()
    before = (folder / "catalog.db").read_bytes()
    for attempt in (lambda: SimilaritySearch.open(folder), lambda: SimilaritySearch(HASHER).add(X).save(folder)):
        with pytest.raises(ValueError, match=r"catalog\.db has layout 6; this hashlearn reads up to 5: update"):
            attempt()
        assert (folder / "catalog.db").read_bytes() == before


def test_an_older_layout_is_named(folder):
    with closing(sqlite3.connect(folder / "catalog.db")) as db:
        db.execute("UPDATE facts SET text = replace(text, '\"format_version\":5', '\"format_version\":4')")
        db.commit()
    with pytest.raises(ValueError, match=r"catalog\.db has layout 4, of an earlier hashlearn; add the vectors anew"):
        SimilaritySearch.open(folder)


@pytest.mark.parametrize(
    "statement",
    ["DROP TRIGGER words_of_payload", "DROP TABLE words_of", "DROP TABLE words", "DELETE FROM words_of"],
)
def test_missing_tables_of_words_are_refused_by_the_name_of_the_file(tmp_path, statement):
    with closing(SimilaritySearch(HASHER, folder=tmp_path / "s", text_field="text")) as search:
        search.add(X[:2], payloads=[{"text": "chess"}, {"text": "go"}])
    with closing(sqlite3.connect(tmp_path / "s" / "catalog.db")) as db:
        db.execute(statement)
        db.commit()

    def ask():
        with closing(SimilaritySearch.open(tmp_path / "s")) as opened:
            opened.search(text="chess", by="words")

    with pytest.raises(ValueError, match=r"catalog\.db: the .*words are"):
        ask()


values = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=5), st.binary(max_size=5))
TARGETS = [
    ("facts", "change"),
    ("facts", "text"),
    ("rows", "row"),
    ("rows", "id"),
    ("rows", "payload"),
    ("rows", "sum"),
    ("payloads", "row"),
    ("payloads", "payload"),
    ("fresh", "row"),
    ("fresh", "code"),
    ("fresh", "vector"),
    ("buried", "row"),
    ("buried", "change"),
]


@given(target=st.sampled_from(TARGETS), value=values, which=st.integers(0, 20), delete=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_edit_is_refused_or_harmless(originals, tmp_path_factory, target, value, which, delete):
    table, column = target
    folder = tmp_path_factory.mktemp("edited") / "search"
    shutil.copytree(originals / "closed", folder)
    wanted = content_of(originals / "closed")
    with closing(sqlite3.connect(folder / "catalog.db")) as db:
        key = "key" if table == "facts" else "row"
        keys = [row for (row,) in db.execute(f"SELECT {key} FROM {table}")]
        row = keys[which % len(keys)]
        try:
            if delete:
                db.execute(f"DELETE FROM {table} WHERE {key} = ?", (row,))
            else:
                db.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (value, row))
        except (sqlite3.IntegrityError, sqlite3.OperationalError, UnicodeError):
            return
        db.commit()
    outcome(folder, wanted)


# -- damaged --------------------------------------------------------------------------------------------------------


def damaged_copies(data, n):
    """The bytes, each time with one bit of one byte flipped."""
    for number, place in enumerate(np.unique(np.linspace(0, len(data) - 1, n).astype(int)).tolist()):
        changed = bytearray(data)
        changed[place] ^= 1 << number * 5 % 8
        yield place, bytes(changed)


@pytest.mark.parametrize("name", ["closed", "open"])
def test_a_flipped_bit_is_refused_or_harmless(originals, tmp_path, name):
    wanted, folder = content_of(originals / "closed"), tmp_path / "search"
    shutil.copytree(originals / name, folder)
    good, refused = files_of(folder), {}
    for path, data in good.items():
        if name == "open" and not path.name.startswith(("catalog", "ack")):
            continue
        for _, changed in damaged_copies(data, FLIPS_OF_A_FILE):
            restore(folder, good)
            path.write_bytes(changed)
            refused[path.name.split("-")[0]] = outcome(folder, wanted) != "same" or refused.get(path.name, False)
    assert refused["acknowledged"]
    restore(folder, good)
    assert content_of(folder) == wanted


@pytest.mark.parametrize("name", ["closed", "open"])
def test_a_file_that_is_truncated_missing_or_of_another_search(originals, tmp_path, name):
    wanted, folder = content_of(originals / "closed"), tmp_path / "search"
    shutil.copytree(originals / name, folder)
    good = files_of(folder)
    others = {_kind(path, originals / "other"): data for path, data in files_of(originals / "other").items()}
    for path, data in good.items():
        kind = _kind(path, folder)
        for changed in (None, b"", data[: len(data) // 2], data[:-1], data + b"\0" * 7, others.get(kind)):
            restore(folder, good)
            path.unlink()
            if changed is not None:
                path.write_bytes(changed)
            line = outcome(folder, wanted)
            if name == "closed" and (changed in (None, b"") or (changed is others[kind] and "hasher" not in kind)):
                assert line != "same", path


def _kind(path, folder):
    """What a file is, without what was drawn for its name."""
    return "/".join(part if part.startswith("catalog") else part[:6] for part in path.relative_to(folder).parts)


def test_a_log_that_was_cut_is_refused_and_left_as_it_is(copied_open, originals):
    """SQLite takes a log that ends early for a short one: then the number of changes tells."""
    wanted, log = content_of(originals / "closed"), copied_open / "catalog.db-wal"
    good = files_of(copied_open)
    whole = good[log]
    page = struct.unpack(">I", whole[8:12])[0]
    cuts = [0, 5, *range(32, len(whole), 24 + page), len(whole) - 1]
    for cut in cuts:
        restore(copied_open, good)
        log.write_bytes(whole[:cut])
        before = {path: data for path, data in files_of(copied_open).items() if "-shm" not in path.name}
        line = outcome(copied_open, wanted)
        assert "catalog.db" in line
        after = {path: data for path, data in files_of(copied_open).items() if "-shm" not in path.name}
        assert after == before, "a later repair needs what is there"
    restore(copied_open, good)
    assert content_of(copied_open) == wanted


def test_a_folder_mixed_of_two_searches_is_refused(folder, originals):
    shutil.copy(originals / "other" / "catalog.db", folder / "catalog.db")
    with pytest.raises(ValueError, match=r"catalog\.db is of another search than .*acknowledged"):
        SimilaritySearch.open(folder)


def test_blocks_of_rows_become_smaller_where_their_texts_are_too_long_for_one_string(folder, originals, monkeypatch):
    wanted = content_of(originals / "closed")
    monkeypatch.setattr(columns, "_FEW_ROWS", 0)
    connection = Catalog._connection

    def limited(self, uri):
        made = connection(self, uri)
        made.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 900)
        return made

    long = [{"color": "red", "text": "a" * 200}] * 20
    with closing(SimilaritySearch.open(folder)) as search:
        search.add(np.tile(X, (2, 1))[:20], [f"long {n} " + "b" * 100 for n in range(20)], long)
        wanted = content(search)
    monkeypatch.setattr(Catalog, "_connection", limited)
    # the facts themselves are one string: they must fit
    assert content_of(folder) == wanted


# -- full disk ------------------------------------------------------------------------------------------------------

CHANGES = {
    "add": lambda search: search.add(X[:6], [f"new {n}" for n in range(6)], [{"text": "a" * 3000}] * 6),
    "upsert": lambda search: search.upsert(X[:6], ["é0", "é3", "x", "n1", "n2", "n3"], [{"text": "a" * 3000}] * 6),
    "remove": lambda search: search.remove(["é0", "x"]),
    "compact": lambda search: search.compact(),
    "fit": lambda search: search.fit(X[::-1] * 3),
    "code file": lambda search: search.add(np.tile(X, (3, 1)), [f"many {n}" for n in range(72)]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_catalog_that_cannot_grow_changes_nothing(folder, name, monkeypatch, originals):
    """SQLite says that the disk is full as soon as a file has so many pages."""
    monkeypatch.setattr(rows, "_LEAST_FRESH", 40)
    before = content_of(originals / "closed")
    after = None
    for spare in [*range(12), 100, 1000]:
        search = SimilaritySearch.open(folder)
        writer = search._rows._catalog._writer
        pages = writer.execute("PRAGMA page_count").fetchone()[0]
        writer.execute(f"PRAGMA max_page_count = {pages + spare}")
        line = refusal(lambda search=search: CHANGES[name](search))
        if line is not None:
            assert "No space left" in line
            assert str(folder / "catalog.db") in line
            assert content(search) == content_of(folder) == before
            writer.execute("PRAGMA max_page_count = 1000000")
            search.upsert(X[:1], ["next"]).remove(["next"])
            assert content(search) == content_of(folder) == before
            search.close()
            continue
        after = content(search)
        search.close()
        assert content_of(folder) == after
        break
    assert after is not None
    assert name == "compact" or after != before


FULL = """
import os, sys, warnings
from contextlib import closing, suppress
from pathlib import Path
from hashlearn.search import rows
from search.test_catalog import CHANGES, X, content, content_of, made
from hashlearn import SimilaritySearch
warnings.simplefilter("ignore")
disk = Path(sys.argv[1])
rows._LEAST_FRESH = 40
CHANGES["save"] = lambda search: search.save(disk / "copy")
for name, change in CHANGES.items():
    refused = 0
    for free in [*range(0, 24), *range(24, 200, 8), 400]:
        folder = disk / "search"
        os.system(f"rm -rf {disk}/*")
        made(folder, "int8").close()
        search = SimilaritySearch.open(folder)
        before = content(search)
        with open(disk / "ballast", "wb", buffering=0) as ballast, suppress(OSError):
            while True:
                ballast.write(b"b" * 4096)
        os.truncate(disk / "ballast", max(0, os.path.getsize(disk / "ballast") - free * 4096))
        try:
            change(search)
            error = None
        except OSError as problem:
            error = problem
        if error is not None:
            refused += 1
            assert "\\n" not in str(error) and str(disk) in str(error), str(error)
            assert content(search) == before, (name, free)
            assert not (disk / "copy").exists(), (name, free)
            os.unlink(disk / "ballast")
            assert content_of(folder) == before, (name, free)
            change(search)
        elif (disk / "ballast").exists():
            os.unlink(disk / "ballast")
        search.upsert(X[:1], ["next"])
        assert content_of(folder) == content(search), (name, free)
        search.close()
        if error is None:
            break
    print(name, refused, flush=True)
"""


@needs_mount
def test_a_disk_that_is_full_changes_nothing(tmp_path):
    """A real one, with 0, 4, 8, ... KiB left."""
    printed = run_on_small_disk(2, FULL, tmp_path)
    refused = {name: int(n) for name, n in (line.rsplit(" ", 1) for line in printed.splitlines())}
    assert list(refused) == [*CHANGES, "save"]
    assert all(refused[name] for name in ("add", "upsert", "compact", "fit", "code file", "save"))


def test_a_change_that_is_made_does_not_fail_for_what_comes_after_it(folder, monkeypatch):
    """The search would be compacted, and the disk is full: the change is there, and no error says otherwise."""

    def full(*_):
        raise OSError(28, "No space left on device", str(folder))

    monkeypatch.setattr(rows, "_LEAST_BURIED", 1)
    monkeypatch.setattr(rows.VectorFile, "copied", full)
    with closing(SimilaritySearch.open(folder)) as search:
        search.remove(search.ids[:8])
        assert len(search) == 1
        assert content(search) == content_of(folder)


def test_a_fit_whose_folder_cannot_be_made_has_not_happened(tmp_path):
    search = SimilaritySearch(LSH(n_bits=8, random_state=0), folder=tmp_path / "missing" / "search")
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="folder must lie in an existing folder"):
            search.fit(X)
        with pytest.raises(NotFittedError):
            search.encode(X)
    (tmp_path / "missing").mkdir()
    search.fit(X).add(X)
    assert content(search) == content_of(tmp_path / "missing" / "search")
    search.close()


def test_a_first_save_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", str(tmp_path))

    monkeypatch.setattr(rows.SearchFolder, "save_codes", full)
    search = SimilaritySearch(HASHER).add(X)
    before = content(search)
    (tmp_path / "own").mkdir()
    for folder in (tmp_path / "new", tmp_path / "own"):
        with pytest.raises(OSError, match="No space left"):
            search.save(folder)
        assert content(search) == before
        assert search.folder is None
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["own"]


# -- shared ---------------------------------------------------------------------------------------------------------

HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


def test_who_does_not_get_the_lock_changes_nothing(folder, monkeypatch):
    monkeypatch.setattr(catalog_module, "SECONDS_TO_WAIT", 0.05)
    with closing(SimilaritySearch.open(folder)) as search:
        before = content(search)
        command = [sys.executable, "-c", HOLD, str(folder / "catalog.db")]
        with ForkedPython(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout.readline() == b"held\n"
            for name, change in CHANGES.items():
                with pytest.raises(TimeoutError, match="another process changes this search; nothing was changed") as e:
                    change(search)
                assert str(folder / "catalog.db") in str(e.value), name
                assert content(search) == content_of(folder) == before
            search.save()  # all is there
            other.stdin.close()
            other.wait()
        search.remove(["x"])
        assert content(search) == content_of(folder) != before


@pytest.mark.skipif(sys.platform == "win32", reason="its locks are others")
@pytest.mark.parametrize("missing", ["locks", "shared memory"])
def test_a_file_system_without_locks_is_told_at_once(folder, missing, monkeypatch, tmp_path):
    """As some network file systems are: SQLite itself would wait for a process that is not there."""
    search = SimilaritySearch(HASHER).add(X, [f"x{n}" for n in range(24)])
    before, files = content(search), files_of(tmp_path)
    if missing == "locks":
        monkeypatch.setattr("fcntl.lockf", _no_locks)
    else:  # a part of SQLite for such file systems
        uri = catalog_module._uri
        monkeypatch.setattr(catalog_module, "_uri", lambda path, mode: uri(path, mode) + "&vfs=unix-none")
    for work in (lambda: search.save(tmp_path / "new"), lambda: SimilaritySearch.open(folder)):
        with pytest.raises(OSError, match="file system") as error:
            work()
        assert str(tmp_path) in str(error.value)
        assert "\n" not in str(error.value)
    assert content(search) == before
    assert files_of(tmp_path) == files
    assert not (tmp_path / "new").exists()
    monkeypatch.undo()
    search.save(tmp_path / "new")
    assert content_of(tmp_path / "new") == before


def _no_locks(file, operation):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


WRITE = """
import sys, warnings
sys.path.insert(0, sys.argv[1])
from search.test_catalog import X
from hashlearn import SimilaritySearch
from hashlearn.search import rows
rows._LEAST_FRESH = 15
search = SimilaritySearch.open(sys.argv[2])
print("open", flush=True)
sys.stdin.readline()
for n in range(25):
    search.add(X[n % 20 : n % 20 + 2], [f"{sys.argv[3]} {n}", f"{sys.argv[3]} gone {n}"], [{"n": n}, None])
    search.remove([f"{sys.argv[3]} gone {n}"])
    search.upsert(X[n : n + 1][:1], ["both"], [{"by": sys.argv[3]}]) if n < 20 else None
    if n % 9 == 8:
        search.compact()
"""


def test_two_processes_that_write_at_once_lose_nothing(folder):
    tests = str(Path(__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [
        ForkedPython(
            [sys.executable, "-c", WRITE, tests, str(folder), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        for name in ("left", "right")
    ]
    with closing(SimilaritySearch.open(folder)) as reader:
        before = set(reader)
        for writer in writers:
            assert writer.stdout.readline() == b"open\n"
        for writer in writers:
            writer.stdin.write(b"go\n")
            writer.stdin.close()
        while any(writer.poll() is None for writer in writers):
            reader.refresh()
            content(reader)
        assert [writer.returncode for writer in writers] == [0, 0]
        for writer in writers:
            writer.stdout.close()
        wanted = before | {"both"} | {f"{name} {n}" for name in ("left", "right") for n in range(25)}
        reader.refresh()
        assert set(reader) == wanted
        assert [record.payload for record in reader.get(["left 7", "right 24"])] == [{"n": 7}, {"n": 24}]
        assert content(reader) == content_of(folder)


def test_a_folder_whose_files_are_replaced_while_it_is_opened_is_read_again(folder, monkeypatch):
    """As if another process had saved, and was removing the old hasher file by file."""
    load_hasher, late = rows.SearchFolder.load_hasher, [True]

    def load_late(self, facts):
        if late and late.pop():
            with closing(SimilaritySearch(HASHER).add(X[:3])) as other:
                other.save(folder)
            (folder / facts.hasher).mkdir()
        return load_hasher(self, facts)

    monkeypatch.setattr(rows.SearchFolder, "load_hasher", load_late)
    assert list(SimilaritySearch.open(folder)) == [0, 1, 2]
    assert not late


@pytest.mark.parametrize("few", [0, 256])
def test_a_reader_beside_a_compaction_is_not_told_of_damage(folder, monkeypatch, few):
    monkeypatch.setattr(columns, "_FEW_ROWS", few)
    with closing(SimilaritySearch.open(folder)) as reader, closing(SimilaritySearch.open(folder)) as writer:
        for ask in (
            lambda search: search.search(X[:2], 3, filter={"color": "red"}).ids.tolist(),
            lambda search: search.search_codes(HASHER.transform(X[:2]), 3, filter={"size": {"$gt": 1}}).ids.tolist(),
            lambda search: [each.ids.tolist() for each in search.within(X[:2], 9.0, filter={"color": "blue"})],
            lambda search: search.count({"text": "b"}),
            lambda search: search.facets("text"),
            lambda search: [record.payload for record in search.get(search.ids)],
            lambda search: [record.payload for record in search.scroll().records],
        ):
            writer.compact()
            assert ask(reader) == ask(writer)


def test_a_reader_thread_beside_a_compaction_in_memory_asks_again(monkeypatch):
    search = SimilaritySearch(HASHER).add(X, payloads=[{"n": n} for n in range(24)]).remove([0])
    get, late = Snapshot.get, [True]

    def get_late(snapshot, ids):
        """A reader that is compacted away from under its first attempt."""
        if late.pop() if late else False:
            search.compact()
        return get(snapshot, ids)

    monkeypatch.setattr(Snapshot, "get", get_late)
    assert search.get([5])[0].payload == {"n": 5}
    assert not late


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.parametrize("parent_closes", [False, True])
def test_a_child_and_its_parent_go_on_with_one_search(folder, parent_closes):
    search = SimilaritySearch.open(folder)
    search.add(X[:1], ["before"])
    to_child, to_parent = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            search.add(X[:1], ["child 1"], [{"size": 70}])
            os.write(to_parent[1], b".")
            os.read(to_child[0], 1)
            search.add(X[:1], ["child 2"])
            code = int(content(search) != content_of(folder))
        finally:
            os._exit(code)
    assert os.read(to_parent[0], 1) == b"."
    search.add(X[:1], ["parent"])
    assert {"before", "child 1", "parent"} <= set(search)
    if parent_closes:  # its connections must not take the log away from under those of the child
        search.close()
    os.write(to_child[1], b".")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for end in (*to_child, *to_parent):
        os.close(end)
    if not parent_closes:
        search.refresh()
        assert content(search) == content_of(folder)
        search.close()
    with closing(SimilaritySearch.open(folder)) as again:
        assert {"before", "child 1", "child 2", "parent"} <= set(again)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_fork_waits_for_the_change_of_another_thread(folder):
    search = SimilaritySearch.open(folder)
    inside, go_on = threading.Event(), threading.Event()

    def change():
        with search.transaction():
            search.add(X[:1], ["from the thread"])
            inside.set()
            go_on.wait(0.3)

    thread = threading.Thread(target=change)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = int("from the thread" not in SimilaritySearch.open(folder))
        finally:
            os._exit(code)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert content(search) == content_of(folder)
    search.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.parametrize("name", ["change", "filter"])
def test_a_child_does_not_wait_for_a_thread_of_its_parent(folder, name, monkeypatch):
    search = SimilaritySearch.open(folder)
    inside, go_on = threading.Event(), threading.Event()
    slow, call = {
        "change": ((MetricHasher, "encode"), lambda: search.upsert(X[:1], ["from the thread"])),
        "filter": ((Columns, "_column"), lambda: search.count({"size": 3})),
    }[name]
    original, waits = getattr(*slow), [True]

    def waiting(*arguments):
        if waits and waits.pop():
            inside.set()
            go_on.wait(20)
        return original(*arguments)

    monkeypatch.setattr(*slow, waiting)
    thread = threading.Thread(target=call)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # a child that waits is killed
        code = 1
        try:
            search.upsert(X[:1], ["from the child"])
            code = int(search.count({"size": 3}) != len(search.matching({"size": 3}).nonzero()[0]))
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    go_on.set()
    thread.join()
    search.refresh()
    assert "from the child" in search
    search.close()


@pytest.mark.skipif(not hasattr(os, "fork") or os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("name", ["closed", "open", "open, with its index"])
def test_a_folder_that_cannot_be_written_is_read(originals, name, request):
    wanted = content_of(originals / "closed")
    base = Path(tempfile.mkdtemp())  # the folders of pytest can be read by their owner alone
    request.addfinalizer(lambda: shutil.rmtree(base))
    base.chmod(0o755)
    folder = base / "search"
    shutil.copytree(originals / name.split(",")[0], folder)
    if "index" in name:  # catalog.db-shm, by which a reader finds its way in the log
        with closing(SimilaritySearch.open(folder)):
            shutil.copytree(folder, base / "copy")
        folder = base / "copy"
    for path in folder.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    folder.chmod(0o555)
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            os.write(send, _as_another_user(folder, wanted).encode())
        except BaseException as error:
            os.write(send, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(send)
    with os.fdopen(receive) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    if name == "closed":
        assert said == f"read; [Errno 30] the folder cannot be written; nothing was changed: '{folder}/catalog.db'"
    else:  # a log that nobody can merge: read, or refused by name
        assert said.startswith(("read; [Errno 30] the folder cannot be written", f"ValueError: {folder}/catalog.db"))


def _as_another_user(folder, wanted):
    search = SimilaritySearch.open(folder)
    assert content(search) == wanted
    assert not search.refresh()
    search.save()
    lines = set()
    for change in CHANGES.values():
        lines.add(refusal(lambda change=change: change(search)) or "not refused")
        assert content(search) == wanted
    return "read; " + " ".join(lines)


# -- interrupted ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [None, "float32"])
@pytest.mark.parametrize("in_folder", [False, True])
@pytest.mark.parametrize("name", ["add", "upsert", "remove"])
def test_an_interrupted_change_has_happened_or_not(tmp_path, name, in_folder, kept):
    def fresh(number):
        search = SimilaritySearch(HASHER, keep_vectors=kept)
        search.add(X[:8], [*[f"é{n}" for n in range(7)], "x"], [payload(n) for n in range(8)])
        if in_folder:
            search.save(tmp_path / f"search {number}")
        return search

    before, changed = content(fresh("a")), fresh("b")
    CHANGES[name](changed)
    after = content(changed)
    counted = fresh("c")
    with Interrupt() as counting:
        CHANGES[name](counted)
    for moment in moments(counting.count, MOMENTS, seed=len(name)):
        search = fresh(moment)
        with pytest.raises(KeyboardInterrupt), Interrupt(moment):
            CHANGES[name](search)
        if in_folder:
            assert content_of(search.folder) in (before, after)
            search.refresh()
            assert content(search) == content_of(search.folder)
        found = content(search)
        assert found in (before, after)
        if found == before:
            CHANGES[name](search)
            assert content(search) == after
        search.add(X[:2], ["more", "and more"], [None, {"size": 4}])
        assert search.payloads(["more", "and more"]) == [{}, {"size": 4}]
        if in_folder:
            assert content_of(search.folder) == content(search)
        search.close()


def test_the_facts_are_those_that_were_written():
    facts = Facts("dot", "code", None, None, "lists", "a" * 16, 3, "h", "m", "str", 1, 2, 3, 4, 5)
    assert Facts.from_json(facts.to_json(), "place") == facts
    assert facts.n_places == 1


@pytest.mark.parametrize("harm", ["zeros", "shorter"])
def test_vectors_that_a_power_failure_took_are_written_again(harm, tmp_path):
    search = made(tmp_path / "s", "int8")
    search.add(X[11:14], ["p", "q", "r"])
    expected = content(search)
    search.close()
    (path,) = (tmp_path / "s").glob("vectors-*.hlv")
    held = VectorFile.open(path)
    n_synced = held.layout.size(8)  # the vectors that were saved; later ones are in the catalog too
    data = path.read_bytes()
    path.write_bytes(data[:n_synced] if harm == "shorter" else data[:n_synced] + bytes(len(data) - n_synced))
    assert content_of(tmp_path / "s") == expected
    assert path.read_bytes()[:n_synced] == data[:n_synced], "what was on the disk was not touched"
    with closing(SimilaritySearch.open(tmp_path / "s")) as opened:
        opened.compact()
        assert content(opened)[0] == expected[0]


def test_a_vector_in_the_catalog_that_was_edited_is_refused(tmp_path):
    made(tmp_path / "s").close()
    (path,) = (tmp_path / "s").glob("vectors-*.hlv")
    data, n_synced = path.read_bytes(), VectorFile.open(path).layout.size(8)
    path.write_bytes(data[:n_synced] + bytes(len(data) - n_synced))
    with closing(sqlite3.connect(tmp_path / "s" / "catalog.db")) as db, db:
        db.execute("UPDATE fresh SET vector = x'00' WHERE vector IS NOT NULL")
    with pytest.raises(ValueError, match="a vector was edited"):
        SimilaritySearch.open(tmp_path / "s")


@pytest.mark.parametrize("in_folder", [False, True])
def test_a_fit_inside_of_a_transaction_is_refused_and_changes_nothing(tmp_path, in_folder):
    search = SimilaritySearch(HASHER, folder=tmp_path / "search" if in_folder else None).fit(X).add(X)

    def fit_inside():
        with search.transaction():
            search.remove([0])
            search.fit(X)

    with pytest.raises(RuntimeError, match="fit must not be called inside of a transaction"):
        fit_inside()
    assert search.ids.tolist() == list(range(len(X)))
    search.close()


def test_a_filter_inside_of_a_transaction_in_memory_waits_for_nobody():
    search = SimilaritySearch(HASHER).add(np.repeat(X, 20, axis=0), payloads=[{"n": n} for n in range(480)])
    with search.transaction():
        search.remove([3])
        assert search.count({"n": {"$lt": 10}}) == 10, "changes are seen when the block ends"
    assert search.count({"n": {"$lt": 10}}) == 9


@pytest.mark.parametrize("in_folder", [False, True])
@pytest.mark.parametrize("name", ["compact", "filter in a transaction"])
def test_a_change_and_a_filter_of_another_thread_do_not_wait_for_each_other(tmp_path, monkeypatch, name, in_folder):
    search = SimilaritySearch(HASHER, folder=tmp_path / "search" if in_folder else None)
    search.add(X, payloads=[{"n": n} for n in range(len(X))]).remove([0])
    payloads, inside, waits = Catalog.payloads, threading.Event(), [True]

    def slow_payloads(catalog, rows, sums):
        if waits and waits.pop():
            inside.set()
            time.sleep(0.3)  # the other thread begins its change
        return payloads(catalog, rows, sums)

    def count_in_transaction():
        with search.transaction():
            search.count({"n": 4})

    monkeypatch.setattr(Catalog, "payloads", slow_payloads)
    change = search.compact if name == "compact" else count_in_transaction
    threads = [threading.Thread(target=lambda: search.count({"n": 3}), daemon=True)]
    threads.append(threading.Thread(target=lambda: inside.wait() and change(), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert search.count({"n": {"$gte": 0}}) == len(X) - 1
    search.close()


@pytest.mark.parametrize("in_folder", [False, True])
def test_who_looks_up_rows_does_not_wait_for_a_save(tmp_path, monkeypatch, in_folder):
    search = SimilaritySearch(HASHER, folder=tmp_path / "search" if in_folder else None)
    search.add(X, payloads=[{"n": n} for n in range(len(X))])
    put_payloads, found = Catalog.put_payloads, []

    def slow_put_payloads(catalog, pairs):
        reader = threading.Thread(target=lambda: found.append(search.get([3])[0].payload), daemon=True)
        reader.start()
        reader.join(30)
        assert not reader.is_alive()
        return put_payloads(catalog, pairs)

    monkeypatch.setattr(Catalog, "put_payloads", slow_put_payloads)
    search.save(tmp_path / "copy")
    assert found == [{"n": 3}]
    search.close()


def test_a_save_beside_a_compaction_of_another_process_begins_again(folder, tmp_path, monkeypatch):
    search, other = SimilaritySearch.open(folder), SimilaritySearch.open(folder)
    put_payloads, compacts = Catalog.put_payloads, [True]

    def put_beside_a_compaction(catalog, pairs):
        if compacts and compacts.pop():
            other.compact()
        return put_payloads(catalog, pairs)

    monkeypatch.setattr(catalog_module, "_FEW_PAYLOADS", 4)
    monkeypatch.setattr(Catalog, "put_payloads", put_beside_a_compaction)
    search.save(tmp_path / "copy")
    assert content_of(tmp_path / "copy") == content(other)
    assert sorted(path.suffix for path in (tmp_path / "copy").glob("codes-*")) == [".hli"]
    search.close()
    other.close()


def test_a_column_of_numbers_that_all_differ_is_compared_as_each_number_is():
    values = [0, 1.5, -2, 10**18, 1e300, 1e-9, *range(2, 300)]
    search = SimilaritySearch(HASHER).add(np.resize(X, (len(values), 4)), payloads=[{"n": n} for n in values])
    for bound in (0, 1.5, 2, 1e18, 150):
        assert search.count({"n": {"$gt": bound}}) == sum(value > bound for value in values)
        assert search.count({"n": bound}) == sum(value == bound for value in values)
    assert {facet.value for facet in search.facets("n")} == set(values)


def test_who_looks_up_rows_does_not_wait_for_who_reads_all_of_them(folder):
    with closing(SimilaritySearch.open(folder)) as search, ThreadPoolExecutor(1) as other:
        expected = search.payloads(search.ids[:3])
        blocks = search._rows._catalog.payload_blocks(0, len(search))
        next(blocks)
        try:
            assert other.submit(search.payloads, search.ids[:3]).result(timeout=60) == expected
        finally:
            blocks.close()
        shutil.move(folder, folder.parent / "elsewhere")
        assert search.count({"color": "red"}) == SimilaritySearch.open(folder.parent / "elsewhere").count(
            {"color": "red"}
        )


def test_a_search_that_follows_sees_the_changes_of_others_at_its_next_call(tmp_path):
    writer = made(tmp_path / "s")
    with (
        closing(SimilaritySearch.open(tmp_path / "s", follow=True)) as reader,
        closing(SimilaritySearch.open(tmp_path / "s")) as other,
    ):
        writer.add(X[11:13], ["new", "newer"], [{"color": "green"}, None])
        assert reader.search(X[11:12], 1).ids.tolist() == [["new"]]
        assert (len(reader), len(other)) == (len(writer), len(writer) - 2)
        writer.remove(["new"])
        assert "new" not in reader
        writer.compact()
        assert content(reader) == content(writer)
        with reader.transaction():
            reader.remove(["newer"])
            assert "newer" in reader
        assert "newer" not in reader
    with pytest.raises(TypeError, match="follow must be True or False, got 1"):
        SimilaritySearch.open(tmp_path / "s", follow=1)
    writer.close()


def test_a_search_that_follows_still_does_so_where_it_was_sent(tmp_path):
    with closing(made(tmp_path / "s")) as writer:
        followed = SimilaritySearch.open(tmp_path / "s", follow=True)
        with closing(followed), closing(pickle.loads(pickle.dumps(followed))) as sent:
            writer.remove(["x"])
            assert len(sent) == len(writer)
