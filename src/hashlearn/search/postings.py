"""Which rows have a word, and how often: read from the pages of FTS5, many times faster than through its tables.

FTS5 keeps words in segments, and a segment in pages (``fts5_index.c`` in the source of SQLite describes them):

* ``words_data`` has a page a row. Its number is that of the segment, times 2^37, plus that of the page. Row 10 lists
  the segments; each knows its first and its last page.
* ``words_idx`` says on which page of a segment a word can begin.
* A page has 4 bytes, then words and their rows, then the places of the words. A word is written as the letters that it
  does not share with the word before it. Its rows follow: each number as the difference from the one before, twice the
  length of the row's positions, and the positions. What does not fit goes on on the next page, whose first number of a
  row is whole. An occurrence is one number of the positions.

Version 4 of this format is read here. FTS5 itself is asked for what is written in another one.
"""

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.search.kernels.postings import DAMAGED, read_rows

_VERSION = 4
_LIST_OF_SEGMENTS = 10
_PAGES_OF_SEGMENT = 1 << 37
_LEAST_BYTES = 3  # of a row: a difference, a length and a position


class Held(NamedTuple):
    """The rows that have a word, ascending, and how often each has it."""

    rows: NDArray[np.int64]
    counts: NDArray[np.float32]


_NOTHING = Held(np.empty(0, np.int64), np.empty(0, np.float32))


def rows_with_word(db: sqlite3.Connection, word: str) -> Held:
    """The rows that have a word."""
    # At a savepoint, FTS5 writes the words to the pages that this connection has in memory.
    db.execute("SAVEPOINT pages")
    db.execute("RELEASE pages")
    held = _in_pages(db, word)
    return _in_vocabulary(db, word) if held is None else held


def _in_vocabulary(db: sqlite3.Connection, word: str) -> Held:
    """As FTS5 tells it."""
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.words_at USING fts5vocab(main, words, instance)")
    (listed,) = db.execute("SELECT group_concat(doc) FROM temp.words_at WHERE term = ?", (word,)).fetchone()
    if listed is None:
        return _NOTHING
    rows, counts = np.unique(np.fromstring(str(listed), np.int64, sep=","), return_counts=True)
    return Held(rows, counts.astype(np.float32))


def rows_that_match(db: sqlite3.Connection, query: str) -> Held:
    """The rows that match a query in FTS5's language. It does not tell how often: each counts once."""
    (listed,) = db.execute("SELECT group_concat(rowid) FROM words WHERE words MATCH ?", (query,)).fetchone()
    if listed is None:
        return _NOTHING
    rows = np.unique(np.fromstring(str(listed), np.int64, sep=","))
    return Held(rows, np.ones(len(rows), np.float32))


def _in_pages(db: sqlite3.Connection, word: str) -> Held | None:
    """None where the pages are not as expected."""
    if db.execute("SELECT v FROM words_config WHERE k = 'version'").fetchone() != (_VERSION,):
        return None
    letters = b"0" + word.encode()  # the index of whole words has the name 0
    parts = [_NOTHING]
    for number, first, last in _segments(db):
        held = _in_segment(db, letters, number, first, last)
        if held is None:
            return None
        if len(held.rows):
            parts.append(held)
    if len(parts) < 3:
        return parts[-1]
    rows, counts = (np.concatenate(each) for each in zip(*parts))
    order = np.argsort(rows, kind="stable")
    return Held(rows[order], counts[order])


def _segments(db: sqlite3.Connection) -> Iterator[tuple[int, int, int]]:
    """The number of each segment, its first and its last page. One whose words are all in another segment has none."""
    (block,) = db.execute("SELECT block FROM words_data WHERE id = ?", (_LIST_OF_SEGMENTS,)).fetchone()
    numbers = iter(numbers_of(block[4:]).tolist())
    n_levels, _, _ = next(numbers), next(numbers), next(numbers)
    for _ in range(n_levels):
        _, n_segments = next(numbers), next(numbers)
        for _ in range(n_segments):
            number, first, last = next(numbers), next(numbers), next(numbers)
            if last:
                yield number, first, last


def _in_segment(db: sqlite3.Connection, letters: bytes, number: int, first: int, last: int) -> Held | None:
    find = "SELECT pgno >> 1 FROM words_idx WHERE segid = ? AND term"
    before = db.execute(f"{find} <= ? ORDER BY term DESC LIMIT 1", (number, letters)).fetchone()
    behind = db.execute(f"{find} > ? ORDER BY term LIMIT 1", (number, letters)).fetchone()
    begin = first if before is None else max(first, before[0])
    end = last if behind is None else behind[0]
    if end < begin:  # FTS5 has moved these pages to another segment
        return _NOTHING
    find = "SELECT block FROM words_data WHERE id BETWEEN ? AND ? ORDER BY id"
    start = number * _PAGES_OF_SEGMENT
    pages = [page for (page,) in db.execute(find, (start + begin, start + end))]
    if len(pages) != end - begin + 1:
        return None
    text = np.frombuffer(b"".join(pages), np.uint8)
    rows, counts = np.empty(len(text) // _LEAST_BYTES, np.int64), np.empty(len(text) // _LEAST_BYTES, np.float32)
    n = read_rows(text, np.cumsum(list(map(len, pages))), np.frombuffer(letters, np.uint8), rows, counts)
    return None if n == DAMAGED else Held(rows[:n].copy(), counts[:n].copy())


def numbers_of(content: bytes) -> NDArray[np.int64]:
    """Numbers as SQLite writes them: 7 bits a byte, the highest ones first; only the last byte is below 128."""
    parts = np.frombuffer(content, np.uint8).astype(np.int64)
    ends = np.flatnonzero(parts < 128)
    n_bytes = np.diff(ends, prepend=-1)
    numbers = parts[ends]
    for more in range(1, int(n_bytes.max(initial=1))):
        longer = n_bytes > more
        numbers[longer] += (parts[ends[longer] - more] & 127) << (7 * more)
    return numbers
