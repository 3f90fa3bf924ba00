"""Texts as rows: their words decide what a duplicate is.

**Words** are what stands between spaces, in lower case. Numbers, versions and names are words like others. The distance
of two texts is the largest of

1. the share of words that differ: words that one has and the other has not, whichever are more, without half a word,
   divided by the number of words of the longer text. So a replaced word counts once, and a tenth is rounded to whole
   words;
2. half the share of their weight, a word weighing ``log((n + 1) / texts that have it)``. So "Development files for X"
   differs from "Development files for Y" by what is rare in it;
3. of texts of fewer than 20 words, the share of the different words of both that only one of them has.

Within the distance 0.1 at most a tenth of the words differ, and a fifth of their weight. Texts of fewer than 10 words
must have the same words.

**Candidates** are pairs whose sets of words and pairs of neighboring words (shingles: A. Broder, 1997) are alike: each
shingle adds 1 or -1 to one of 512 numbers, a hash says which, and the cosine of such vectors is, up to chance,
``|A and B| / sqrt(|A| |B|)``. These vectors are made when they are needed: only the hashes of the words are kept.
"""

import hashlib
from array import array
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.duplicates.kernels import hashes_of_texts, shingle_vectors, word_distances
from hashlearn.duplicates.vectors import Facts, Rows, Vectors
from hashlearn.rows import RowBlocks
from hashlearn.rows.blocks import Source

WIDTH = 512
_CACHED_WORDS = 1 << 20


class Words(NamedTuple):
    """The words of texts as 64-bit hashes: those of text i are ``words[starts[i] : starts[i + 1]]``, in order."""

    words: NDArray[np.uint64]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Words":
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

    def joined(self, others: "Words") -> "Words":
        starts = np.concatenate([self.starts, self.starts[-1] + others.starts[1:]])
        return Words(np.concatenate([self.words, others.words]), starts)


class Rarity(NamedTuple):
    """In how many of n texts each word is: the hashes of the words, ascending, and their counts."""

    words: NDArray[np.uint64]
    counts: NDArray[np.int64]
    n_texts: int

    @classmethod
    def of(cls, words: Words, at_once: int = 1 << 17) -> "Rarity":
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


class _Shingles(Source):
    """The vectors of texts, made from their words when they are asked for."""

    dtype = np.dtype(np.float32)

    def __init__(self, words: Words):
        self.words = words
        self.shape = (len(words), WIDTH)

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        wanted = np.arange(*rows.indices(len(self.words))) if isinstance(rows, slice) else np.asarray(rows, np.int64)
        vectors = np.zeros((len(wanted), WIDTH), np.float32)
        shingle_vectors(*self.words, wanted, vectors)
        return vectors


class TextRows(Vectors):
    """Texts, compared by their words.

    Parameters
    ----------
    words : Words
    rarity : Rarity or None
        How rare the words are; None counts it in these texts.
    """

    def __init__(self, words: Words, rarity: Rarity | None = None):
        self.words = words
        self.rarity = Rarity.of(words) if rarity is None else rarity
        self.metric = "words"
        self.rows = RowBlocks(_Shingles(words), name="texts")
        if len(words) == 0:
            raise ValueError("texts must be some, got none")
        hashes = np.empty((len(words), 2), np.uint64)
        hashes_of_texts(*words, hashes)
        self.facts = Facts(hashes, np.ones(len(words)))
        self.scales = np.ones(len(words), np.float32)

    def distances(
        self, first: Rows, second: Rows, n_jobs: int = 1, others: "Vectors | None" = None
    ) -> NDArray[np.float64]:
        right = self if others is None else others
        assert isinstance(right, TextRows)
        out = np.empty(len(first))
        word_distances(*self.words, *right.words, first, second, *self.rarity, out)
        return out

    def squares(self, first: Rows, second: Rows, distances: NDArray[np.float64]) -> NDArray[np.float64]:
        out = np.empty(len(first))
        for start in range(0, len(first), 4096):
            part = slice(start, start + 4096)
            steps = self.take(first[part]) - self.take(second[part])
            out[part] = np.einsum("ij,ij->i", steps, steps)
        return out

    def joined(self, others: "Vectors") -> "TextRows":
        assert isinstance(others, TextRows)
        return TextRows(self.words.joined(others.words), self.rarity)

    def new(self, X: Iterable[str]) -> "TextRows":
        return TextRows(Words.of(X), self.rarity)
