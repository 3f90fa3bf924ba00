"""What a person types, as words to be looked for.

Every word counts, and none is an operator: ``AND``, ``NOT``, ``*``, quotes and brackets are words or nothing. A word
with marks inside, such as ``libfoo-dev`` or ``node.js``, is looked for in its parts and as a whole. ``C++`` and ``C#``
are other words than ``C``. Operators must be asked for:

==================  =============================================
``"exact phrase"``  these words, one behind the other
``begin*``          words that begin like this
``+word``           only rows that have it; also ``+"a phrase"``
``-word``           only rows that do not have it
==================  =============================================
"""

import os
import re
import sqlite3
import threading
from collections import Counter
from functools import cache
from itertools import pairwise
from typing import NamedTuple
from unicodedata import normalize

TOKENIZER = "unicode61 remove_diacritics 2 categories ''L* N* Co M*''"
"""Of FTS5: words are runs of letters, digits and the vowel signs of letters, in lower case and without accents."""
_NO_SPACES_BETWEEN = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""Characters of Thai, Lao, Burmese, Khmer, Japanese and Chinese, whose texts have no spaces, and of Korean, whose words
have endings. Each is a word of its own, and a query looks for two neighbors as a phrase, too."""
_ACCENTS = re.compile(
    "[\u00ad\u0300-\u036f\u0591-\u05bd\u05bf\u05c1-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u20d0-\u20f0\u200c\u200d\u2060\ufe00-\ufe0f\ufeff]"
)
"""Of Latin, Greek and Cyrillic letters, the vowel points of Hebrew and Arabic, the line that stretches a word, the soft
hyphen, joiners and non-joiners, and the marks that choose how a sign is drawn."""
_PLAIN_LETTERS = str.maketrans(
    {"ı": "i", "ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "þ": "th", "æ": "ae", "œ": "oe"}
)
"""Letters that are typed as others where a keyboard lacks them, and that Unicode does not take apart."""
_LONGEST_PHRASE, _MOST_SIGNS = 64, 64
"""Words of a phrase; words and phrases with a sign."""
_LETTER_WITH_MARKS = re.compile(r"(?<!\w)([A-Za-z])(\+\+|#)")
"""C++, C# and names like them: without their marks, which the tokenizer drops, they would be a letter."""
_NAMES_OF_MARKS = {"++": "plusplus", "#": "sharp"}
_OPERATORS = re.compile(r'([+-]?)(?:"([^"]*)"|(\S+))')


class Term(NamedTuple):
    """A word; several that must follow one another; or how a word begins."""

    tokens: tuple[str, ...]
    is_prefix: bool = False

    @property
    def match(self) -> str:
        """As FTS5 reads it. No token has a quote in it."""
        return f'"{" ".join(self.tokens)}"{" *" if self.is_prefix else ""}'


class WordQuery(NamedTuple):
    """Terms with how often each was asked for; a row must have all terms of ``must`` and none of ``without``."""

    counts: dict[Term, int]
    must: tuple[Term, ...] = ()
    without: tuple[Term, ...] = ()


def typed(text: str) -> str:
    """A text as databases and models take it: without NUL, and with ``?`` for half a surrogate pair."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def spaced(text: str) -> str:
    """A text as the tokenizer gets it."""
    text = typed(text)
    if not text.isascii():
        text = _NO_SPACES_BETWEEN.sub(r" \g<0> ", _folded(text))
    if "++" in text or "#" in text:
        text = _LETTER_WITH_MARKS.sub(lambda found: f"{found[1]}{_NAMES_OF_MARKS[found[2]]} ", text)
    return text


def _folded(text: str) -> str:
    """The same letters however they are written: case, accents, ligatures, wide letters, and letters with a stroke."""
    return normalize("NFKC", _ACCENTS.sub("", normalize("NFKD", text))).casefold().translate(_PLAIN_LETTERS)


class _Tokenizer:
    """The tokenizer of FTS5 itself, asked through a table in memory."""

    def __init__(self) -> None:
        self.connect()
        if hasattr(os, "register_at_fork"):  # another thread may hold the lock then
            os.register_at_fork(after_in_child=self.connect)

    def connect(self) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._db.execute(f"CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='{TOKENIZER}')")
        self._db.execute("CREATE VIRTUAL TABLE tokens USING fts5vocab(texts, instance)")

    def tokens(self, texts: list[str]) -> list[tuple[str, ...]]:
        """The tokens of each text, in their order."""
        found: list[list[str]] = [[] for _ in texts]
        with self._lock:
            self._db.execute("BEGIN")
            try:
                self._db.executemany("INSERT INTO texts(rowid, text) VALUES (?, ?)", enumerate(map(spaced, texts)))
                for token, text in self._db.execute("SELECT term, doc FROM tokens ORDER BY doc, offset"):
                    found[text].append(token)
            finally:
                self._db.execute("ROLLBACK")
        return [tuple(each) for each in found]


@cache
def _tokenizer() -> _Tokenizer:
    return _Tokenizer()


def tokens_of(texts: list[str]) -> list[tuple[str, ...]]:
    """The tokens of each text, in their order."""
    return _tokenizer().tokens(texts)


def parse_words(text: str, *, operators: bool = False) -> WordQuery:
    """The terms of a text that a person has typed.

    Parameters
    ----------
    text : str
        The text.
    operators : bool
        Whether quotes, ``*``, ``+`` and ``-`` mean something.

    Returns
    -------
    WordQuery
        Without any term where the text has no letter and no digit.

    Examples
    --------
    >>> list(parse_words("Chess AND libfoo-dev*").counts)
    [Term(tokens=('chess',), ...), Term(tokens=('and',), ...), Term(tokens=('libfoo', 'dev'), ...),
     Term(tokens=('libfoo',), ...), Term(tokens=('dev',), ...)]
    >>> query = parse_words('"open source" -game libfoo*', operators=True)
    >>> list(query.counts), query.without
    ([Term(tokens=('open', 'source'), is_prefix=False), Term(tokens=('libfoo',), is_prefix=True)],
     (Term(tokens=('game',), is_prefix=False),))
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got {type(text).__name__}")
    return _with_operators(text) if operators else _plain(text)


def _plain(text: str) -> WordQuery:
    pieces = Counter(typed(text).split())
    counts: dict[Term, int] = {}
    for (_, count), tokens in zip(pieces.items(), tokens_of(list(pieces))):
        parts: list[tuple[str, ...]] = [(token,) for token in tokens]
        if len(tokens) > 2:
            parts += [pair for pair in pairwise(tokens) if all(map(_NO_SPACES_BETWEEN.match, pair))]
        for each in [tokens, *parts] if 1 < len(tokens) <= _LONGEST_PHRASE else parts:
            counts[Term(each)] = counts.get(Term(each), 0) + count
    return WordQuery(counts)


def _with_operators(text: str) -> WordQuery:
    parts = _OPERATORS.findall(typed(text))
    counts: dict[Term, int] = {}
    must, without = [], []
    for (sign, _, word), tokens in zip(parts, tokens_of([phrase or word for _, phrase, word in parts])):
        if not tokens:
            continue
        if len(tokens) > _LONGEST_PHRASE:
            raise ValueError(f"text must have phrases of at most {_LONGEST_PHRASE} words, got {len(tokens)}")
        term = Term(tokens, word.endswith("*"))
        if sign == "-":
            without.append(term)
            continue
        counts[term] = counts.get(term, 0) + 1
        if sign == "+":
            must.append(term)
    if len(must) + len(without) > _MOST_SIGNS:
        raise ValueError(f"text must have at most {_MOST_SIGNS} words with + or -, got {len(must) + len(without)}")
    return WordQuery(counts, tuple(must), tuple(without))
