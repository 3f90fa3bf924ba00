"""Vectors as plain text: each line is a word and its vector, as in GloVe, word2vec and fastText, or numbers alone."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.rows.formats.format import Format, is_number, listing, objects_of
from hashlearn.rows.formats.problems import FileProblem, reading

WORD = "word"
"""The name of the column of words."""

BLOCK_LINES = 4096
"""Lines that are parsed at a time."""
_LOOKED_AT = 100
"""Number of lines that decide whether a word comes first. One line is not enough: its word may be a number."""


class TextLayout(NamedTuple):
    """How to read a file: the length of a vector, whether a word comes first, the number of lines before the first row,
    and the number of words according to the file."""

    width: int
    has_words: bool
    n_skipped: int
    n_words: int | None = None


class WordVectors(Format):
    """The vectors, shape (n, d), float32; or the words, shape (n,), objects that are strings, by the name "word".

    A file with one word a line, such as a list of ids, has no vectors: its words need no name.

    word2vec and fastText write the number of words and dimensions in the first line, which is left out. A word may
    contain spaces: the vector is the last numbers of a line.
    """

    def names(self, path: Path) -> list[str]:
        return []

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> NDArray:
        with reading(path, "text"):
            layout = _layout(path)
            if name is None and layout.width:
                return _vectors(path, layout)
            name = WORD if name is None else name
            known = [WORD] if layout.has_words else []
            if name not in known:
                raise FileProblem(path, f"no column named {name!r}; it has {listing(known)}")
            return objects_of([word for _, word, _ in _parts(path, layout)])

    def describe(self, path: Path) -> dict[str, str]:
        with reading(path, "text"):
            layout = _layout(path)
        if not layout.has_words:
            return {"columns": f"{layout.width} numbers a line"}
        head = "; the first line says how many" if layout.n_skipped else ""
        return {"columns": f"{WORD}, then {layout.width} numbers{head}"}


def _layout(path: Path) -> TextLayout:
    with path.open(encoding="utf-8-sig") as file:
        lines = [line.split() for line in islice(file, _LOOKED_AT)]
    if not lines or not lines[0]:
        raise FileProblem(path, "no vectors in its first line")
    first, second = lines[0], lines[1] if len(lines) > 1 else []
    if len(first) == 2 and all(field.isdecimal() for field in first) and len(second) > int(first[1]) >= 1:
        return TextLayout(int(first[1]), True, 1, int(first[0]))
    n_numbers = sum(is_number(field) for field in first)
    if n_numbers == 0 and len(first) == 1 and len(second) <= 1:
        return TextLayout(0, True, 0)
    if n_numbers == len(first) > 1 and any(
        len(line) == len(first) and not is_number(line[0]) and all(map(is_number, line[1:])) for line in lines
    ):
        return TextLayout(n_numbers - 1, True, 0)
    if n_numbers == len(first):
        return TextLayout(len(first), False, 0)
    if n_numbers == 0 or not all(is_number(field) for field in first[-n_numbers:]):
        raise FileProblem(path, "its first line must be a word and the numbers of its vector, or numbers alone")
    return TextLayout(n_numbers, True, 0)


def _parts(path: Path, layout: TextLayout) -> Iterator[tuple[int, str, str]]:
    """The number of every line, from 1, with its word and the text of its numbers."""
    n_read = 0
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            if number <= layout.n_skipped or not line.strip():
                continue
            fields = line.rstrip().rsplit(None, layout.width) if layout.width else [line.strip()]
            if len(fields) != layout.width + layout.has_words:
                wanted = f"{'a word and ' if layout.has_words else ''}{layout.width} numbers"
                raise FileProblem(path, f"line {number} must have {wanted}")
            n_read += 1
            yield number, fields[0], " ".join(fields[layout.has_words :])
    if layout.n_words is not None and n_read != layout.n_words:
        raise FileProblem(path, f"its first line says {layout.n_words} words, and it has {n_read}")


def _vectors(path: Path, layout: TextLayout) -> NDArray[np.float32]:
    blocks, parts = [], _parts(path, layout)
    while block := list(islice(parts, BLOCK_LINES)):
        texts = [numbers for _, _, numbers in block]
        blocks.append(np.loadtxt(texts, np.float32, comments=None, ndmin=2).reshape(len(texts), layout.width))
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
