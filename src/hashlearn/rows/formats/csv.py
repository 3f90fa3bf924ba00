"""Tables of numbers as text: a row a line, between commas, semicolons or tabs; the first line may name the columns."""

import csv
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from hashlearn.rows.formats.format import listing
from hashlearn.rows.formats.problems import FileProblem, reading

DELIMITERS = ("\t", ";")
"""Looked for in the first line; without one of them it is the comma."""


class Csv:
    """All columns together, shape (n, d), float64; or one column by its name, shape (n,)."""

    def names(self, path: Path) -> list[str]:
        return []

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> NDArray:
        # The signature is what Excel writes before UTF-8.
        with reading(path, "csv"), path.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline()
            delimiter = next((each for each in DELIMITERS if each in line), ",")
            titles = _titles(line, delimiter)
            if not titles:
                file.seek(0)
            if name is None:
                return _numbers(path, file, delimiter, None)
            if name not in titles:
                raise FileProblem(path, f"no column named {name!r}; it has {listing(titles)}")
            return _numbers(path, file, delimiter, titles.index(name))[:, 0]


def _titles(line: str, delimiter: str) -> list[str]:
    """The names in the first line; none if it holds a number: a row with a mistake in it must not pass for names."""
    fields = next(csv.reader([line], delimiter=delimiter), [])
    return [] if any(_is_number(field) for field in fields) else [field.strip() for field in fields]


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _numbers(path: Path, file: TextIO, delimiter: str, column: int | None) -> NDArray[np.float64]:
    """The rows from the file's position on."""
    start = file.tell()
    while not (line := file.readline()).strip():
        if not line:
            raise FileProblem(path, "no row of numbers in it")
    file.seek(start)
    return np.loadtxt(file, delimiter=delimiter, quotechar='"', comments=None, ndmin=2, usecols=column)
