"""Tables as text: each line is a row, with commas, semicolons or tabs between its values. The first line may name the
columns.

The names may be numbers: ``pandas.DataFrame(X).to_csv()`` writes 0, 1, 2 and so on.
"""

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from hashlearn.rows.formats.format import ID_NAMES, Format, choose, is_number, listing, values_of_texts
from hashlearn.rows.formats.problems import FileProblem, reading

DELIMITERS = ("\t", ";")
"""Delimiters that are looked for in the first line; the default is the comma."""

LONGEST_FIELD = 16 * 1024 * 1024
"""Characters; Python's own limit, 131,072, is less than a long article."""
MANY_COLUMNS = 8
"""From this number of columns on, a first line 0, 1, 2 and so on names the columns, even if all values are integers."""

_MISSING = ("", "na", "n/a", "#n/a", "nan", "null", "none", "?", "-")
_WRITTEN_NUMBER = re.compile(r"[$€£]?[+-]?\d{1,3}([.,' ]\d{3})*([.,]\d+)?\s*[%$€£]?")
"""A number as people write it: 1,234.5 or 12 % or 0,5."""
_PARTS_OF_ARRAYS = re.compile(r"(?:np\.|numpy\.)?(?:float|int|uint)\d+\(([^()]*)\)")
_BRACKETS = re.compile(r"(?:(?:np\.)?array|tensor)?\(?\s*[\[({](.*?)[\])}]\s*(?:,\s*dtype=[\w.]+\s*)?\)?", re.DOTALL)
_FEWEST_BETWEEN_SPACES = 8
"""A field with this many numbers between spaces, without brackets, is a vector and not a text."""


class CsvLayout(NamedTuple):
    """How a file is to be read.

    Attributes
    ----------
    delimiter : str
    titles : list of str
        The names of the columns; empty where the first line is a row.
    numbers : list of int
        The columns that hold numbers in the first row; an empty field counts as a number.
    first_row : list of str
    """

    delimiter: str
    titles: list[str]
    numbers: list[int]
    first_row: list[str]


@dataclass(frozen=True)
class Csv(Format):
    """All columns of numbers together, shape (n, d), float64; or one column by its name, shape (n,).

    A column of vectors between brackets, which pandas writes for a column of lists, is a matrix, float32. Without a
    name it is taken before columns of numbers. The only column of a table needs no name.

    A first column without a name holds the labels of the rows, as pandas writes them, and is not a feature; nor is a
    first column of integers with one of the names ID_NAMES.

    Parameters
    ----------
    header : bool or None
        Whether the first line names the columns; None finds out.
    """

    header: bool | None = None

    def names(self, path: Path) -> list[str]:
        return []

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> NDArray:
        with reading(path, "csv"), opened_table(path) as file:
            layout = self._layout(path, file, name)
            vectors = [title for title, field in zip(layout.titles, layout.first_row) if _is_vector(field)]
            if name is None and vectors:
                name = choose(path, vectors, None)
            if name is None and len(layout.titles) == 1 and not layout.numbers:
                name = layout.titles[0]
            if name is not None:
                values = _column(path, file, layout, name)
                return _matrix(path, name, values) if name in vectors else values
            _check_numbers(path, layout)
            everything = len(layout.numbers) == len(layout.first_row)
            columns = None if everything else layout.numbers
            return np.loadtxt(file, delimiter=layout.delimiter, quotechar='"', comments=None, ndmin=2, usecols=columns)

    def has_names(self, path: Path) -> bool:
        """Whether the first line names the columns."""
        with reading(path, "csv"), opened_table(path) as file:
            return bool(self._layout(path, file).titles)

    def describe(self, path: Path) -> dict[str, str]:
        with reading(path, "csv"), opened_table(path) as file:
            layout = self._layout(path, file)
        if not layout.titles:
            return {"header": "none: the first line is a row; --header yes says that it names the columns"}
        said = f"the first line names the columns: {listing(layout.titles)}; --header no says that it is a row"
        vectors = [title for title, field in zip(layout.titles, layout.first_row) if _is_vector(field)]
        if vectors:
            return {"header": said, "vectors": f"in brackets: {listing(vectors)}"}
        left_out = [title or "(no name)" for place, title in enumerate(layout.titles) if place not in layout.numbers]
        return {"header": said} | ({"left out": f"no numbers of a vector: {listing(left_out)}"} if left_out else {})

    def _layout(self, path: Path, file: TextIO, name: str | None = None) -> CsvLayout:
        """How to read the file, whose first line has this name; the file is then at its first row."""
        line = file.readline()
        while line and not line.strip():
            line = file.readline()
        delimiter = next((each for each in DELIMITERS if each in line), ",")
        titles = [field.strip() for field in next(csv.reader([line], delimiter=delimiter), [])]
        second = _first_row(file, delimiter)
        has_names = name in titles or _are_names(titles, second) if self.header is None else self.header
        if not has_names or (self.header is None and any(map(_is_vector, titles))):
            file.seek(0)
            first = _first_row(file, delimiter)
            if not first:
                raise FileProblem(path, "no row of numbers in it")
            if any(map(_is_vector, first)):
                raise FileProblem(path, "the first line must name the columns where a column has vectors in brackets")
            return CsvLayout(delimiter, [], list(range(len(first))), first)
        if not second:
            raise FileProblem(path, "no row of numbers in it")
        if len(second) != len(titles):
            raise FileProblem(path, f"the first line names {len(titles)} columns, the first row has {len(second)}")
        has_labels = titles[0] == "" or (titles[0].lower() in ID_NAMES and _is_integer(second[0]))
        numbers = [
            place
            for place in range(1 if has_labels and len(titles) > 1 else 0, len(second))
            if second[place].strip().lower() in _MISSING or is_number(second[place])
        ]
        return CsvLayout(delimiter, titles, numbers, second)


def opened_table(path: Path) -> TextIO:
    """A file for :mod:`csv`, whose fields may be long: a text of a megabyte, a vector of thousands of numbers."""
    csv.field_size_limit(max(LONGEST_FIELD, csv.field_size_limit()))  # one setting for the process: it is never lowered
    return path.open(encoding="utf-8-sig", newline="")  # Excel writes a signature before UTF-8


def _first_row(file: TextIO, delimiter: str) -> list[str]:
    """The fields of the first line that is not empty; an empty list if there is none."""
    place = file.tell()
    while line := file.readline():
        if line.strip():
            file.seek(place)
            fields = next(csv.reader(file, delimiter=delimiter), [])  # a field between quotes may have several lines
            file.seek(place)
            return fields
        place = file.tell()
    return []


def _are_names(fields: list[str], row: list[str]) -> bool:
    """Whether a first line names the columns of the row below it.

    It does if no field is a number, or if its numbers are 0, 1, 2 and so on, which is unlikely for a row. Any other
    line with a number is a row, so that a row with a mistake is not taken for names.
    """
    if not any(fields):
        return False
    counted = [field for field in fields if is_number(field)]
    if not counted:
        return True
    if counted != [str(place) for place in range(len(counted))]:
        return False
    if len(counted) >= MANY_COLUMNS or len(counted) < len(fields):
        return True
    return any(is_number(field) and not _is_integer(field) for field in row)


def _column(path: Path, file: TextIO, layout: CsvLayout, name: str) -> NDArray:
    if name not in layout.titles:
        raise FileProblem(path, f"no column named {name!r}; it has {listing(layout.titles)}")
    place = layout.titles.index(name)
    texts = []
    for fields in csv.reader(file, delimiter=layout.delimiter):
        if len(fields) == len(layout.titles):
            texts.append(fields[place])
        elif fields:
            raise FileProblem(path, f"a row has {len(fields)} columns, the first line names {len(layout.titles)}")
    return values_of_texts(texts)


def _check_numbers(path: Path, layout: CsvLayout) -> None:
    """Refuse a table that has no numbers, or numbers that only people can read."""
    if not layout.numbers and any(is_number(field.replace(",", ".", 1)) for field in layout.first_row):
        hint = "; write decimal points instead of decimal commas"
        raise FileProblem(path, f"no column of numbers; it has {listing(layout.titles)}{hint}")
    for place, field in enumerate(layout.first_row if layout.titles else []):
        if place not in layout.numbers and not is_number(field) and _WRITTEN_NUMBER.fullmatch(field.strip()):
            hint = "write numbers as 1234.5, without separators of thousands and signs of currency or percent"
            raise FileProblem(path, f"column {layout.titles[place]!r} has {field!r}; {hint}")
    if not layout.numbers:
        raise FileProblem(path, f"no column of numbers; it has {listing(layout.titles)}")


def _is_vector(field: str) -> bool:
    """Whether a field is a vector: numbers in brackets, as Python, numpy and databases write them, or many numbers."""
    numbers = _numbers_in(field)
    if _BRACKETS.fullmatch(field.strip()):
        return not numbers or is_number(numbers[0])
    return len(numbers) >= _FEWEST_BETWEEN_SPACES and "," not in field and all(map(is_number, numbers))


def _numbers_in(field: str) -> list[str]:
    """The numbers of a vector, as texts."""
    field = _PARTS_OF_ARRAYS.sub(r"\1", field.strip())
    inside = _BRACKETS.fullmatch(field)
    return (inside[1] if inside else field).replace(",", " ").split()


def _matrix(path: Path, name: str, fields: NDArray) -> NDArray[np.float32]:
    width = len(_numbers_in(fields[0]))
    if not width:
        raise FileProblem(path, f"row 0 has no numbers in {name!r}")
    vectors = np.empty((len(fields), width), np.float32)
    for row, field in enumerate(fields):
        numbers = _numbers_in(field) if _is_vector(field) else []
        if "..." in numbers:
            raise FileProblem(path, f"{name!r} has ... in place of lost numbers; save it as .npy or .parquet")
        if len(numbers) != width:
            raise FileProblem(path, f"row {row} must have a list of {width} numbers in {name!r}")
        vectors[row] = numbers
    return vectors


def _is_integer(field: str) -> bool:
    return field.strip().lstrip("+-").isdecimal()
