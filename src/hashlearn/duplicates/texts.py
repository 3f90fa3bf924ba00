"""Texts as rows, compared by their words.

**Words** are the parts between spaces, in lower case. Numbers, versions and names are words like others. The distance
of two texts is the largest of

1. the share of words that differ: the number of words that only one text has (the larger of both numbers), less half a
   word, divided by the number of words of the longer text. So a replaced word counts once, and a tenth is rounded to
   whole words;
2. half the share of their weight; a word weighs ``log((n + 1) / texts that have it)``. So "Development files for X"
   differs from "Development files for Y" by its rare words;
3. a third of the share of pairs of neighboring words that differ: the same words in another order are another text;
4. a number for the share of the different words of both that only one of them has: twice the share if both texts have
   fewer than 20 words; otherwise 0.08 for a tenth and 0.1 for a quarter, and in proportion between and beyond.

Within the distance 0.1 at most a tenth of the words differ, a fifth of their weight and three tenths of the pairs of
neighbors. Of the different words of both texts, at most a quarter is in one of them only. Texts of fewer than 20 words
have the same words. Within 0.08 at most a tenth is in one of them only, for texts of any length.

**Candidates** are pairs that share one of their rarest words. Two texts of n words of which at most k differ share one
of the k + 1 rarest of each (the prefix filter: R. Bayardo, Y. Ma and R. Srikant, Scaling up all pairs similarity
search, WWW 2007). So no pair is missed, and few pairs are compared.
"""

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.duplicates.candidates import Candidates, Described
from hashlearn.duplicates.kernels import (
    few_words_differ,
    hashes_of_texts,
    pairs_of_tokens,
    rare_words,
    shingle_vectors,
    word_distances,
)
from hashlearn.duplicates.plan import Plan
from hashlearn.duplicates.vectors import MetricRows, RowFacts, Rows
from hashlearn.rows import RowBlocks
from hashlearn.rows.blocks import Source

WIDTH = 512
_CACHED_WORDS = 1 << 20
_TEXTS_AT_ONCE = 1 << 16
_MOST = 0.9
"""Texts with more different words are found only if they share one of their rarest words."""


class TextWords(NamedTuple):
    """The words of texts as 64-bit hashes: those of text i are ``words[starts[i] : starts[i + 1]]``, in order."""

    words: NDArray[np.uint64]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Iterable[str]) -> "TextWords":
        """The words of each text; a text without a word is refused."""
        words, starts = array("Q"), array("q", [0])
        known: dict[str, int] = {}
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"texts must be strings, text {number} is {type(text).__name__}")
            for word in text.lower().split():
                if word not in known:
                    if len(known) == _CACHED_WORDS:
                        known.clear()
                    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
                    known[word] = int.from_bytes(digest, "little")
                words.append(known[word])
            if len(words) == starts[-1]:
                raise ValueError(f"texts must have words, text {number} has none")
            starts.append(len(words))
        return cls(np.array(words, np.uint64), np.array(starts, np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def joined(self, others: "TextWords") -> "TextWords":
        starts = np.concatenate([self.starts, self.starts[-1] + others.starts[1:]])
        return TextWords(np.concatenate([self.words, others.words]), starts)


class Rarity(NamedTuple):
    """How many of n texts have each word: the hashes of the words, ascending, and their counts."""

    words: NDArray[np.uint64]
    counts: NDArray[np.int64]
    n_texts: int

    @classmethod
    def of(cls, words: TextWords, at_once: int = 1 << 17) -> "Rarity":
        """Counted over blocks of texts."""
        found, counts = np.empty(0, np.uint64), np.empty(0, np.int64)
        for start in range(0, len(words), at_once):
            starts = words.starts[start : start + at_once + 1]
            some = words.words[starts[0] : starts[-1]]
            text = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
            order = np.lexsort((text, some))
            some, text = some[order], text[order]
            is_new = np.ones(len(some), np.bool_)
            is_new[1:] = (some[1:] != some[:-1]) | (text[1:] != text[:-1])
            block, in_block = np.unique(some[is_new], return_counts=True)
            both, place = np.unique(np.concatenate([found, block]), return_inverse=True)
            counts = np.bincount(place, np.concatenate([counts, in_block])).astype(np.int64)
            found = both
        return cls(found, counts, len(words))


class RareWords(NamedTuple):
    """Finds pairs of texts that may be within a distance: those that share one of their rarest words."""

    distance: float

    def __str__(self) -> str:
        return "texts that share one of their rarest words, exact"

    def describe(self, vectors: MetricRows) -> NDArray[np.uint8]:
        """Nothing: texts are compared by their words."""
        return np.empty((len(vectors), 0), np.uint8)

    def pairs(
        self, vectors: MetricRows, described: NDArray, rows: Rows, square: float, n_jobs: int
    ) -> Iterator[Candidates]:
        """Pairs of the named rows, the lower one first."""
        assert isinstance(vectors, TextRows)
        lengths = np.diff(vectors.words.starts)[rows]
        for pairs in self._pairs([self._tokens(vectors, rows)], lengths, 0):
            yield self._candidates(vectors, rows[pairs[:, 0]], vectors, rows[pairs[:, 1]])

    def across(self, known: Described, new: Described, square: float, n_jobs: int) -> Iterator[Candidates]:
        """Pairs of a known row and a new one."""
        assert isinstance(known.vectors, TextRows)
        assert isinstance(new.vectors, TextRows)
        parts = [self._tokens(each.vectors, each.rows) for each in (known, new)]  # type: ignore[arg-type]
        lengths = [np.diff(each.vectors.words.starts)[each.rows] for each in (known, new)]  # type: ignore[attr-defined]
        for pairs in self._pairs(parts, np.concatenate(lengths), len(known.rows)):
            first, second = known.rows[pairs[:, 0]], new.rows[pairs[:, 1] - len(known.rows)]
            yield self._candidates(known.vectors, first, new.vectors, second)

    def _candidates(self, left: "TextRows", first: Rows, right: "TextRows", second: Rows) -> Candidates:
        """The pairs in which few words differ."""
        is_few = np.empty(len(first), np.bool_)
        few_words_differ(*left.words, *right.words, first, second, self.distance, is_few)
        first, second = first[is_few], second[is_few]
        return Candidates(first, second, np.zeros(len(first), np.int32))

    def _tokens(self, texts: "TextRows", rows: Rows) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The tokens of all rows, and the number of tokens of each row."""
        limit = min(self.distance, _MOST)
        parts, counts = [], []
        for start in range(0, len(rows), _TEXTS_AT_ONCE):
            some = rows[start : start + _TEXTS_AT_ONCE]
            room = np.empty(int(np.diff(texts.words.starts)[some].sum()), np.uint64)
            ends = np.empty(len(some), np.int64)
            size = rare_words(*texts.words, some, texts.rarity.words, texts.rarity.counts, limit, room, ends)
            parts.append(room[:size].copy())
            counts.append(np.diff(ends, prepend=0))
        return np.concatenate(parts), np.concatenate(counts)

    def _pairs(self, parts: list, lengths: NDArray[np.int64], n_known: int) -> Iterator[NDArray[np.int64]]:
        """Places of pairs of texts that share a token, some at a time."""
        values, counts = (np.concatenate(each) for each in zip(*parts))
        text = np.repeat(np.arange(len(counts)), counts)
        number = np.unique(values, return_inverse=True)[1].astype(np.int64)
        order = np.argsort(number, kind="stable")
        texts, starts = text[order], np.concatenate([[0], np.cumsum(np.bincount(number))])
        token_starts = np.concatenate([[0], np.cumsum(counts)])
        room = np.empty((max(1 << 16, 2 * int(np.diff(starts).max(initial=0))), 2), np.int64)
        limit = min(self.distance, _MOST)
        group = member = 0
        while group < len(starts) - 1:
            size, group, member = pairs_of_tokens(
                texts, starts, number, token_starts, lengths, limit, n_known, group, member, room
            )
            yield room[:size].copy()


def plan_of_texts(distance: float) -> Plan:
    """The plan of a search for near texts."""
    return Plan(RareWords(distance), 1.0, 0.0, 0.0)


class _Shingles(Source):
    """Vectors of texts, made from their words on demand.

    Each word and pair of neighboring words (shingles: A. Broder, 1997) adds 1 or -1 to one of 512 numbers; a hash says
    which. The cosine of two such vectors is, up to chance, ``|A and B| / sqrt(|A| |B|)`` of their sets.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, words: TextWords):
        self.words = words
        self.shape = (len(words), WIDTH)

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        wanted = np.arange(*rows.indices(len(self.words))) if isinstance(rows, slice) else np.asarray(rows, np.int64)
        vectors = np.zeros((len(wanted), WIDTH), np.float32)
        shingle_vectors(*self.words, wanted, vectors)
        return vectors


class TextRows(MetricRows):
    """Texts, compared by their words.

    Parameters
    ----------
    words : TextWords
    rarity : Rarity or None
        How many texts have each word; None counts this in these texts.
    """

    def __init__(self, words: TextWords, rarity: Rarity | None = None):
        self.words = words
        self.rarity = Rarity.of(words) if rarity is None else rarity
        self.metric = "words"
        self.rows = RowBlocks(_Shingles(words), name="texts")
        if len(words) == 0:
            raise ValueError("texts must be some, got none")
        hashes = np.empty((len(words), 2), np.uint64)
        hashes_of_texts(*words, hashes)
        self.facts = RowFacts(hashes, np.ones(len(words)))
        self.scales = np.ones(len(words), np.float32)

    def distances(
        self, first: Rows, second: Rows, n_jobs: int = 1, others: "MetricRows | None" = None
    ) -> NDArray[np.float64]:
        right = self if others is None else others
        assert isinstance(right, TextRows)
        out = np.empty(len(first))
        word_distances(*self.words, *right.words, first, second, *self.rarity, out)
        return out

    def joined(self, others: "MetricRows") -> "TextRows":
        assert isinstance(others, TextRows)
        return TextRows(self.words.joined(others.words), self.rarity)

    def new(self, X: Iterable[str]) -> "TextRows":
        return TextRows(TextWords.of(X), self.rarity)
