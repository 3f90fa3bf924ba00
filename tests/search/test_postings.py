"""Rows of a word read from the pages of FTS5: the same as FTS5 tells through its tables."""

import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.search import postings
from hashlearn.search.postings import numbers_of, rows_with_word

WORDS = ["a", "ab", "abc", "abcd", "b", "ba", "x", "日本", "é", "a" * 40]
_texts = st.lists(st.lists(st.sampled_from(WORDS[:-1]), max_size=30).map(" ".join), max_size=40)


def table_of(changes, page_size=4050, step=1, merged=0):
    """A table of words: the texts of each change are one transaction, their rows ``step`` apart."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='unicode61 remove_diacritics 0')")
    db.execute("INSERT INTO words(words, rank) VALUES ('pgsz', ?)", (page_size,))
    row = 0
    for texts in changes:
        db.execute("BEGIN")
        for text in texts:
            row += step
            db.execute("INSERT INTO words(rowid, text) VALUES (?, ?)", (row, text))
        db.execute("COMMIT")
    if merged:
        db.execute("INSERT INTO words(words, rank) VALUES ('merge', ?)", (-merged,))
    return db


def check_same(db):
    for word in WORDS:
        held, told = postings._in_pages(db, word), postings._in_vocabulary(db, word)
        assert held is not None
        np.testing.assert_array_equal(held.rows, told.rows)
        np.testing.assert_array_equal(held.counts, told.counts)


@settings(max_examples=60, deadline=None)
@given(
    changes=st.lists(_texts, max_size=12),
    page_size=st.sampled_from([32, 50, 200, 4050]),
    step=st.sampled_from([1, 130, 1 << 40]),
    merged=st.integers(0, 6),
)
def test_pages_say_what_fts5_says(changes, page_size, step, merged):
    check_same(table_of(changes, page_size, step, merged))


@pytest.mark.parametrize("n", [1, 5, 63, 64, 200, 3000])
@pytest.mark.parametrize("page_size", [32, 4050])
def test_a_text_that_has_a_word_many_times(n, page_size):
    between = " x" * 200  # a position that takes two bytes
    check_same(table_of([["b", "a " * n + between + " a" * n, "ab " * n], ["a" * 40, "a"]], page_size))


def test_many_rows_and_merged_segments():
    rng = np.random.default_rng(0)
    changes = [[" ".join(rng.choice(WORDS, rng.integers(0, 20))) for _ in range(300)] for _ in range(40)]
    check_same(table_of(changes))


def test_words_that_are_not_committed_yet_are_found():
    db = table_of([["a"]])
    db.execute("BEGIN")
    db.execute("INSERT INTO words(rowid, text) VALUES (7, 'a b a')")
    held = rows_with_word(db, "a")
    assert (held.rows.tolist(), held.counts.tolist()) == ([1, 7], [1, 2])


def test_another_version_is_left_to_fts5(monkeypatch):
    monkeypatch.setattr(postings, "_VERSION", 3)
    db = table_of([["a", "b a a"]])
    assert postings._in_pages(db, "a") is None
    assert rows_with_word(db, "a").counts.tolist() == [1, 2]


@settings(max_examples=150, deadline=None)
@given(
    places=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8),
    page_size=st.sampled_from([32, 4050]),
)
def test_damaged_pages_give_ascending_rows_or_none(places, page_size):
    db = table_of([["a b abc", "ab x", "a a a", "x"] * 10, ["ab", "b abcd"]], page_size)
    pages = db.execute("SELECT id, block FROM words_data WHERE id > 10").fetchall()
    for place, value in places:
        number, page = pages[place % len(pages)]
        content = bytearray(page)
        content[place % len(content)] = value
        db.execute("UPDATE words_data SET block = ? WHERE id = ?", (bytes(content), number))
    for word in WORDS:
        held = postings._in_pages(db, word)
        assert held is None or np.all(np.diff(held.rows) > 0)


def test_a_page_that_is_cut_or_gone_is_not_read():
    db = table_of([["a b abc", "ab x"] * 50], page_size=50)
    (number,) = db.execute("SELECT max(id) FROM words_data").fetchone()
    db.execute("UPDATE words_data SET block = x'0000' WHERE id = ?", (number,))
    assert postings._in_pages(db, "x") is None
    db.execute("DELETE FROM words_data WHERE id = ?", (number,))
    assert postings._in_pages(db, "x") is None


def test_numbers_as_sqlite_writes_them():
    assert numbers_of(b"\x05\x81\x00\xff\x7f\x81\x80\x00").tolist() == [5, 128, 16383, 16384]
