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
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.search.kernels.postings import DAMAGED, read_rows

_VERSION = 4
_LIST_OF_SEGMENTS = 10
_PAGES_OF_SEGMENT = 1 << 37
_LEAST_BYTES = 3  # of a row: a difference, a length and a position


_RANGES = """
    WITH segments(number, first, last) AS (VALUES {})
    SELECT
        number,
        max(first, ifnull(
            (SELECT pgno >> 1 FROM words_idx WHERE segid = number AND term <= ? ORDER BY term DESC LIMIT 1), 0)),
        ifnull((SELECT pgno >> 1 FROM words_idx WHERE segid = number AND term > ? ORDER BY term LIMIT 1), last)
    FROM segments
"""
"""The number of each segment, and the first and the last of its pages that can have the rows of a word."""


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
    (listed,) = db.execute("SELECT block FROM words_data WHERE id = ?", (_LIST_OF_SEGMENTS,)).fetchone()
    segments = _segments(listed)
    if not segments:
        return _NOTHING
    pages: list[bytes] = []
    is_first: list[bool] = []
    ranges = _RANGES.format(", ".join(["(?, ?, ?)"] * len(segments)))
    find = "SELECT block FROM words_data WHERE id BETWEEN ? AND ? ORDER BY id"
    for number, begin, end in db.execute(ranges, (*chain.from_iterable(segments), letters, letters)).fetchall():
        if end < begin:  # FTS5 has moved these pages to another segment
            continue
        start = number * _PAGES_OF_SEGMENT
        found = [page for (page,) in db.execute(find, (start + begin, start + end))]
        if len(found) != end - begin + 1:
            return None
        pages += found
        is_first += [True] + [False] * (len(found) - 1)
    text = np.frombuffer(b"".join(pages), np.uint8)
    rows, counts = np.empty(len(text) // _LEAST_BYTES, np.int64), np.empty(len(text) // _LEAST_BYTES, np.float32)
    ends = np.cumsum([0, *map(len, pages)])[1:]
    n = read_rows(text, ends, np.array(is_first, bool), np.frombuffer(letters, np.uint8), rows, counts)
    if n == DAMAGED:
        return None
    rows, counts = rows[:n].copy(), counts[:n].copy()
    if np.any(rows[1:] < rows[:-1]):  # a row is in one segment
        order = np.argsort(rows, kind="stable")  # few runs that ascend
        rows, counts = rows[order], counts[order]
    return Held(rows, counts)


@lru_cache(8)
def _segments(listed: bytes) -> list[tuple[int, int, int]]:
    """The number of each segment, its first and its last page. One whose words are all in another segment has none."""
    numbers = iter(numbers_of(listed[4:]).tolist())
    n_levels, _, _ = next(numbers), next(numbers), next(numbers)
    segments = []
    for _ in range(n_levels):
        _, n_segments = next(numbers), next(numbers)
        segments += [(next(numbers), next(numbers), next(numbers)) for _ in range(n_segments)]
    return [segment for segment in segments if segment[2]]


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
