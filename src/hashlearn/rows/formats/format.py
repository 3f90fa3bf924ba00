"""The contract of a file format."""

import re
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hashlearn.rows.formats.problems import FileProblem

USUAL_NAMES = ("X", "features", "vectors", "embeddings", "data", "train", "traindata", "embedding", "vector")
"""Usual names of an array of vectors: one of them is taken if a file holds several arrays and no name is given."""

ID_NAMES = ("id", "ids", "index", "unnamed: 0")
"""Names, in lower case, of a column of integers that says which row this is and is no number of a vector."""

_NAME_OF_DIGITS = re.compile(r"\s*0[0-9]+\s*$|.*_")
"""Python reads 007 and 1_2 as numbers."""


class Format(Protocol):
    """A format of files with arrays in them. Every error about a file is a FileProblem."""

    def names(self, path: Path) -> list[str]:
        """The names of the arrays in the file; an empty list if a file is a single array or table."""

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> Any:
        """An array of the file, memory-mapped where the format allows.

        Parameters
        ----------
        path : Path
        name : str or None
            Which array, or which column of a table. None takes the only array, or the one with a usual name.
        max_bytes : int or None
            See :func:`~hashlearn.rows.formats.limits.check_expansion`; formats without compression cannot grow.
        """

    def describe(self, path: Path) -> dict[str, str]:
        """How the file is read: titles, each with a line of text."""
        names = self.names(path)
        return {"arrays": listing(names)} if names else {}


def choose(path: Path, names: list[str], name: str | None) -> str:
    """The name of the array to read: the given one, or without a name the only one or one with a usual name."""
    if name is not None:
        if name not in names:
            raise FileProblem(path, f"no array named {name!r}; it has {listing(names)}")
        return name
    if not names:
        raise FileProblem(path, "it holds no arrays")
    usual = [usual for usual in USUAL_NAMES if usual in names]
    if len(names) > 1 and not usual:
        raise FileProblem(path, f"name one of its arrays with array=: {listing(names)}")
    return names[0] if len(names) == 1 else usual[0]


def check_no_name(path: Path, name: str | None) -> None:
    """Refuse a name where the format holds a single array."""
    if name is not None:
        raise FileProblem(path, f"it holds a single array, without names; array must be None, got {name!r}")


def values_of_texts(texts: list[str]) -> NDArray:
    """The values of a column: int64 or float64 where all of them are numbers, otherwise objects that are strings.

    A column with a value such as 007 or 1_2 holds names: as numbers, different names could be equal.
    """
    if any(map(_NAME_OF_DIGITS.match, texts)):
        return objects_of(texts)
    for dtype in (np.int64, np.float64):
        try:
            return np.array(texts, dtype)
        except (ValueError, OverflowError):
            continue
    return objects_of(texts)


def is_number(field: str) -> bool:
    """Whether a text is a number."""
    try:
        float(field)
    except ValueError:
        return False
    return True


def objects_of(values: list[Any]) -> NDArray:
    """Strings or other values as an array of objects."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def listing(names: list[str]) -> str:
    """The first of the names, as an error shows them."""
    return ", ".join(names[:20]) or "none"
