"""Which rows fit the words of a query best. :mod:`hashlearn.search.word_tables` says where the words are.

Rows are ranked by BM25 (S. Robertson and H. Zaragoza, The Probabilistic Relevance Framework, 2009)::

    score(row) = sum_t count_t idf(t) f (K1 + 1) / (f + K1 (1 - B + B length / mean length))
    idf(t)     = log(1 + (n - n_t + 1/2) / (n_t + 1/2))

with f the occurrences of term t in the text, n the number of texts and n_t the number of those that have t. SQLite's
own function is slow for frequent words: it looks up every row that has one. Here FTS5 says which rows have a word, and
the scores are computed from arrays, which are kept for the words that were asked for last.
"""

import sqlite3
from collections import OrderedDict
from heapq import nlargest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.deadline import check_deadline
from hashlearn.search.catalog import Catalog, OutdatedError
from hashlearn.search.kernels.texts import add_to_found, add_weights, numbers_in
from hashlearn.search.word_query import Term, WordQuery

K1, B = 1.2, 0.75
MOST_TERMS = 64
"""Of a longer query, the terms that tell most: those with the largest ``count_t idf(t)``."""
_MOST_LOOKED_UP = 2000
"""Of a query that is longer still, its most frequent terms only."""
_MOST_KEPT = 1 << 23
"""Pairs of a row and a word that are kept in memory, 8 bytes each."""
_SIZE_OF_POSTING = 64
"""What keeping a word takes beside its rows, in pairs."""
_ROUNDING = 1 + 1e-5
"""Sums of float32 are this exact, as a factor."""
Mask = NDArray[np.bool_] | None


class Ranked(NamedTuple):
    """Places and their scores, the best first, ties by the lower place."""

    places: NDArray[np.int64]
    scores: NDArray[np.float32]


NOTHING = Ranked(np.empty(0, np.int64), np.empty(0, np.float32))


class Posting(NamedTuple):
    """The places that have a term, ascending, and what the term adds to their scores."""

    places: NDArray[np.int32]
    weights: NDArray[np.float32]
    largest: float


class _Texts(NamedTuple):
    """What is known of the texts at the first ``n_places`` places, and the postings read since."""

    n_places: int
    lengths: NDArray[np.float32]
    n_texts: int
    mean_length: float
    postings: "OrderedDict[Term, Posting]"


_NO_POSTING = Posting(np.empty(0, np.int32), np.empty(0, np.float32), 0.0)
_NO_TEXTS = _Texts(0, np.empty(0, np.float32), 0, 1.0, OrderedDict())


class Words:
    """The words of the rows from ``first_row`` on. Any thread may ask."""

    def __init__(self, catalog: Catalog, first_row: int):
        self._catalog, self._first_row = catalog, first_row
        self._texts = _NO_TEXTS
        self._n_kept = 0

    def best(self, query: WordQuery, n: int, n_places: int, mask: Mask = None) -> Ranked:
        """The n places that fit a query best; fewer where fewer have a term of it.

        Parameters
        ----------
        query : WordQuery
            See :func:`~hashlearn.search.word_query.parse_words`.
        n : int
            How many.
        n_places : int
            Only the first ones are looked at.
        mask : boolean array of shape (n_places,), or None
            Only these are looked at.
        """
        if not query.counts:
            return NOTHING
        with self._catalog.scanning() as db:  # one thread at a time
            self._check_rows(db)
            self._read_texts(db, n_places)
            counts = query.counts if len(query.counts) <= MOST_TERMS else self._telling(db, query.counts)
            weighted = [(self._posting(db, term), count) for term, count in counts.items()]
            must = [self._posting(db, term) for term in query.must]
            without = [self._posting(db, term) for term in query.without]
        for postings, wanted in ((must, True), (without, False)):
            for posting in postings:
                has = np.zeros(n_places, bool)
                has[posting.places[posting.places < n_places]] = True
                has = has if wanted else ~has
                mask = has if mask is None else mask & has
        return best_places(weighted, n, n_places, mask)

    def _check_rows(self, db: sqlite3.Connection) -> None:
        """Raise where the rows have other numbers since a compaction."""
        found = db.execute("SELECT first FROM words_of").fetchone()
        if found is None or found[0] != self._first_row:
            raise OutdatedError(f"{self._catalog.path}: the words are of other rows; it was edited or damaged")

    def _read_texts(self, db: sqlite3.Connection, n_places: int) -> None:
        known = self._texts
        if n_places <= known.n_places:
            return
        start = self._first_row + known.n_places
        query = "SELECT id, sz FROM words_docsize WHERE id >= ? AND id < ?"
        found = db.execute(query, (start, self._first_row + n_places)).fetchall()
        lengths = np.zeros(n_places, np.float32)
        lengths[: known.n_places] = known.lengths
        rows = np.fromiter((row for row, _ in found), np.int64, len(found))
        lengths[rows - self._first_row] = _numbers(b"".join(size for _, size in found))
        n_texts = int(np.count_nonzero(lengths))
        self._n_kept = 0
        self._texts = _Texts(n_places, lengths, n_texts, float(lengths.sum()) / max(1, n_texts), OrderedDict())

    def _posting(self, db: sqlite3.Connection, term: Term) -> Posting:
        postings = self._texts.postings
        known = postings.get(term)
        if known is not None:
            postings.move_to_end(term)
            return known
        check_deadline()
        posting = self._read_posting(db, term)
        if len(posting.places):  # there is no limit to words that no row has
            postings[term] = posting
            self._n_kept += _SIZE_OF_POSTING + len(posting.places)
        while self._n_kept > _MOST_KEPT and len(postings) > 1:
            _, oldest = postings.popitem(last=False)
            self._n_kept -= _SIZE_OF_POSTING + len(oldest.places)
        return posting

    def _read_posting(self, db: sqlite3.Connection, term: Term) -> Posting:
        if len(term.tokens) == 1 and not term.is_prefix:
            db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.words_at USING fts5vocab(main, words, instance)")
            found = db.execute("SELECT group_concat(doc) FROM temp.words_at WHERE term = ?", term.tokens)
        else:  # FTS5 tells here that a row has the term, not how often
            found = db.execute("SELECT group_concat(rowid) FROM words WHERE words MATCH ?", (term.match,))
        listed = found.fetchone()[0]
        if listed is None:
            return _NO_POSTING
        texts = self._texts
        all_places = numbers_in(str(listed)) - self._first_row
        all_places = all_places[(all_places >= 0) & (all_places < texts.n_places)]
        if not len(all_places):
            return _NO_POSTING
        starts = np.flatnonzero(np.diff(all_places, prepend=-1))
        places = all_places[starts].astype(np.int32)
        often = np.diff(starts, append=len(all_places)).astype(np.float32)
        norms = K1 * (1 - B + B * texts.lengths[places] / texts.mean_length)
        weights = (_idf(texts.n_texts, len(places)) * (K1 + 1)) * often / (often + norms)
        return Posting(places, weights.astype(np.float32), float(weights.max()))

    def _telling(self, db: sqlite3.Connection, counts: dict[Term, int]) -> dict[Term, int]:
        """The terms of a long query that tell most."""
        db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.words_in USING fts5vocab(main, words, row)")
        worth: dict[Term, float] = {}
        for term, count in nlargest(_MOST_LOOKED_UP, counts.items(), key=lambda item: item[1]):
            check_deadline()
            found = db.execute(
                f"SELECT doc FROM temp.words_in WHERE term IN ({', '.join('?' * len(term.tokens))})", term.tokens
            ).fetchall()
            if len(found) == len(set(term.tokens)):  # a phrase has at most the rows of its rarest word
                worth[term] = count * _idf(self._texts.n_texts, min(n for (n,) in found))
        return {term: counts[term] for term in sorted(worth, key=lambda term: -worth[term])[:MOST_TERMS]}


def _idf(n: int, n_with: int) -> float:
    return float(np.log1p((n - n_with + 0.5) / (n_with + 0.5)))


def _numbers(content: bytes) -> NDArray[np.int64]:
    """Numbers as SQLite writes them: 7 bits a byte, the highest ones first; only the last byte is below 128."""
    parts = np.frombuffer(content, np.uint8).astype(np.int64)
    ends = np.flatnonzero(parts < 128)
    n_bytes = np.diff(ends, prepend=-1)
    numbers = parts[ends]
    for more in range(1, int(n_bytes.max(initial=1))):
        longer = n_bytes > more
        numbers[longer] += (parts[ends[longer] - more] & 127) << (7 * more)
    return numbers


def best_places(asked: list[tuple[Posting, int]], n: int, n_places: int, mask: Mask) -> Ranked:
    """The n places with the largest sums of weights.

    Terms that can add most come first. When n places have more than all terms left can add together, no other place can
    be among the best, and the terms left are looked up for the places at hand only (MaxScore: H. Turtle and J. Flood,
    Query evaluation, 1995). Of these, the ones that can no longer be among the best are dropped before each term.
    """
    ordered = sorted((each for each in asked if len(each[0].places)), key=lambda each: -each[0].largest * each[1])
    most = np.cumsum([0.0, *(posting.largest * count for posting, count in ordered)])
    scores = np.zeros(n_places, np.float32)
    listed = np.empty(min(n_places, sum(len(posting.places) for posting, _ in ordered)), np.int32)
    looked_at = np.empty(0, bool) if mask is None else mask
    n_found = n_summed = 0
    for i, (posting, count) in enumerate(ordered):
        left = _ROUNDING * (most[-1] - most[i])
        if n_found >= n and most[i] > left and _nth_best(scores[listed[:n_found]], n) > left:
            break
        n_found = add_weights(posting.places, posting.weights, np.float32(count), looked_at, scores, listed, n_found)
        n_summed += 1
    found = listed[:n_found]
    for i, (posting, count) in enumerate(ordered[n_summed:], start=n_summed):
        totals = scores[found]
        found = found[totals >= _nth_best(totals, n) - _ROUNDING * (most[-1] - most[i])]
        add_to_found(posting.places, posting.weights, np.float32(count), found, scores)
    totals = scores[found]
    if len(found) > n:
        kept = totals >= _nth_best(totals, n)
        found, totals = found[kept], totals[kept]
    order = np.lexsort((found, -totals))[:n]
    return Ranked(found[order].astype(np.int64), totals[order])


def _nth_best(scores: NDArray[np.float32], n: int) -> float:
    return float(np.partition(scores, len(scores) - n)[len(scores) - n])
