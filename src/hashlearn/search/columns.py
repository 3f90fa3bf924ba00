"""Payload fields as columns, which filters and facets read instead of JSON.

A field becomes a column when a filter first names it. A column has a number for every place, -1 where the row has no
such field, and a list of the different values that the numbers stand for. Rows are only appended, and so are the
numbers: after a write, the next use of a column makes it longer.
"""

import heapq
import json
import operator
import sys
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.deadline import check_deadline
from hashlearn.search.catalog import Catalog
from hashlearn.search.ids import Growing, Ids
from hashlearn.search.kernels.texts import code_spans, digests_of_texts, field_spans, list_spans
from hashlearn.search.words import Words
from hashlearn.stores.filters import Among, Compares, Condition, Differs, Joined, Test, kind_of, name_of, of_kind

_FEW_ROWS = 256
"""Rows up to which Python reads the payloads."""
_MASKS_KEPT = 8
_COLUMNS_KEPT = 256
"""Most columns that are kept. A client may name any field, and a column of a million rows takes 4 MB."""
_ABSENT_KEPT, _LONGEST_ABSENT = 1000, 1000
_SORTED_AT_A_TIME = 8192
"""Strings: no other thread of Python works while a list is sorted."""
_MISSING = -1
_EXACT = 2.0**53
"""Below this, different integers are different as float64."""
_COMPARISONS: dict[str, Any] = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}

Mask = NDArray[np.bool_]
Block = tuple[NDArray[np.int64], Ids]


class Facet(NamedTuple):
    """A value of a field, and how many rows have it."""

    value: Any
    count: int  # type: ignore[assignment]


class Histogram(NamedTuple):
    """Numbers of rows, and the edges of the bins that they are in, one more."""

    counts: NDArray[np.int64]
    edges: NDArray[np.float64]


class Column:
    """One field of the payloads.

    Attributes
    ----------
    codes : Growing, int32
        By place: the number of its value, or -1.
    values : list
        What the numbers stand for. Two of them may be equal, such as 1 and 1.0.
    """

    def __init__(self) -> None:
        self.codes = Growing(np.empty(0, np.int32))
        self.values: list[Any] = []
        self._numbers = Growing(np.empty(0, np.float64))
        """The values as numbers; NaN where they are none."""
        self._number_of: dict[Any, int] = {}
        """Strings and booleans, by kind and value."""
        self._sorted = np.empty(0, np.int64)
        self._n_sorted = 0
        """Values among which :attr:`_sorted` has all strings."""

    def numbers_of(self, values: list[Any]) -> NDArray[np.int32]:
        """The numbers of values; those that are new get the next ones."""
        if set(map(type, values)) <= {int, float}:
            return self._numbers_of_numbers(values)
        found = np.empty(len(values), np.int32)
        new: list[Any] = []
        for i, value in enumerate(values):
            kind = kind_of(value)
            key = (kind, value) if kind in ("string", "boolean") else None
            number = None if key is None else self._number_of.get(key)
            if number is None:
                number = len(self.values) + len(new)
                new.append(value)
                if key is not None:
                    self._number_of[key] = number
            found[i] = number
        self.values.extend(new)
        numeric = (float(value) if kind_of(value) == "number" else np.nan for value in new)
        self._numbers = self._numbers.appended(np.fromiter(numeric, np.float64, len(new)))
        return found

    def _numbers_of_numbers(self, values: list[Any]) -> NDArray[np.int32]:
        """As :meth:`numbers_of`, fast: numbers are compared by their values, and so each gets the next one."""
        first = len(self.values)
        self._numbers = self._numbers.appended(np.array(values, np.float64))
        self.values.extend(values)
        return np.arange(first, first + len(values), dtype=np.int32)

    def append(self, codes: NDArray[np.int32]) -> None:
        self.codes = self.codes.appended(codes)

    def taken(self, places: NDArray[np.int64]) -> "Column":
        """The same values for some of the places."""
        other = Column()
        other.values, other._numbers, other._number_of = self.values, self._numbers, self._number_of
        other.codes = Growing(self.codes.values[places])
        return other

    def meeting(self, test: Test, n: int) -> Mask:
        """Which of the first n rows meet a test."""
        # One more entry, for the rows without the field: -1 is the last one.
        table = np.zeros(len(self.values) + 1, bool)
        if isinstance(test, Among):
            table[:-1] = self._equal_to(test.values)
        elif isinstance(test, Differs):
            table[:-1] = ~self._equal_to((test.value,))
            table[-1] = True
        else:
            table[:-1] = self._on_the_side(test)
        return table[self.codes.values[:n]]

    def counts(self, chosen: Mask, limit: int | None = None) -> list[Facet]:
        """How many of the chosen rows have each string, number or boolean, the most frequent first."""
        codes = self.codes.values[: len(chosen)][chosen]
        n_rows = np.bincount(codes[codes >= 0], minlength=len(self.values))
        used = np.flatnonzero(n_rows)
        n_rows = n_rows[used]
        exact = np.abs(self._numbers.values[used]) < _EXACT  # equal numbers, of which there may be very many
        _, first, same = np.unique(self._numbers.values[used[exact]], return_index=True, return_inverse=True)
        used = np.concatenate([used[exact][first], used[~exact]])
        n_rows = np.concatenate([np.bincount(same, n_rows[exact], len(first)).astype(np.int64), n_rows[~exact]])
        if limit is not None and len(used) > limit:
            least = np.partition(n_rows, -limit)[-limit]
            kept = n_rows > least
            kept[np.isin(used, self._first_of(used[n_rows == least], limit))] = True
            used, n_rows = used[kept], n_rows[kept]
        together: dict[tuple[str, Any], Facet] = {}
        for number, count in zip(used.tolist(), n_rows.tolist()):
            value = self.values[number]
            kind = kind_of(value)
            if kind != "other":
                before = together.get((kind, value))
                together[kind, value] = (
                    Facet(value, count) if before is None else Facet(before.value, before.count + count)
                )
        if limit is None:
            return sorted(together.values(), key=_by_frequency)
        return heapq.nsmallest(limit, together.values(), key=_by_frequency)

    def _first_of(self, numbers: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        """Of the numbers of values: those of the first n strings, of the first n numbers, and of all other values.

        Python would compare all of them one by one.
        """
        strings = self._strings_in_order()
        numeric = self._numbers.values[numbers]
        is_number, is_string = ~np.isnan(numeric), np.isin(numbers, strings)
        if np.count_nonzero(is_number) > n:  # large integers may be equal as float64, and all of them stay
            is_number &= numeric <= np.partition(numeric[is_number], n - 1)[n - 1]
        first = strings[np.isin(strings, numbers)][:n]
        return np.concatenate([first, numbers[is_number | (np.isnan(numeric) & ~is_string)]])

    def histogram(self, chosen: Mask, n_bins: int) -> Histogram:
        """How many of the chosen rows have a number within each of equally wide bins."""
        codes = self.codes.values[: len(chosen)][chosen]
        numbers = self._numbers.values[codes[codes >= 0]]
        return Histogram(*np.histogram(numbers[~np.isnan(numbers)], n_bins))

    def _equal_to(self, wanted: tuple[Any, ...]) -> Mask:
        numbers = of_kind(wanted, "number")
        mask = np.isin(self._numbers.values, numbers) if numbers else np.zeros(len(self.values), bool)
        for value in wanted:
            number = self._number_of.get((kind_of(value), value)) if kind_of(value) != "number" else None
            if number is not None and number < len(mask):
                mask[number] = True
        return mask

    def _on_the_side(self, test: Compares) -> Mask:
        bound = test.value
        if kind_of(bound) == "number":
            return _COMPARISONS[test.sign](self._numbers.values, bound)
        order, at = self._strings_in_order(), self.values.__getitem__
        side = bisect_left if test.sign in ("<", ">=") else bisect_right
        first = side(order, bound, key=at)
        mask = np.zeros(len(self.values), bool)
        mask[order[:first] if test.sign in ("<", "<=") else order[first:]] = True
        return mask

    def _strings_in_order(self) -> NDArray[np.int64]:
        """The numbers of all strings, by their order; new ones are sorted in, some at a time."""
        at = self.values.__getitem__
        while self._n_sorted < len(self.values):
            check_deadline()
            end = min(self._n_sorted + _SORTED_AT_A_TIME, len(self.values))
            new = [number for number in range(self._n_sorted, end) if isinstance(self.values[number], str)]
            new.sort(key=at)
            places = [bisect_right(self._sorted, at(number), key=at) for number in new]
            self._sorted = np.insert(self._sorted, places, new)
            self._n_sorted = end
        return self._sorted


def _by_frequency(facet: Facet) -> tuple[int, str, Any]:
    return -facet.count, kind_of(facet.value), facet.value


@dataclass(eq=False)
class Columns:
    """The columns of a search, made when they are first asked for, from any thread.

    Parameters
    ----------
    catalog : Catalog
    first_row : int
        The row at place 0.
    """

    catalog: Catalog
    first_row: int
    _columns: dict[str, Column] = field(default_factory=dict, init=False)
    """The one that was used last stands last."""
    _absent: dict[str, int] = field(default_factory=dict, init=False)
    """For a field that was asked for: the number of places, from the first, that were read and lack it."""
    _masks: dict[str, tuple[int, Mask]] = field(default_factory=dict, init=False)

    @cached_property
    def words(self) -> Words:
        return Words(self.catalog, self.first_row)

    def mask(self, condition: Condition, sums: NDArray[np.uint32]) -> Mask:
        """Which places meet a condition, of rows whose payloads have these sums; removed rows may be among them.

        It is remembered: filters come again.
        """
        name, n = name_of(condition), len(sums)
        kept = self._masks.get(name)
        if kept is not None and kept[0] == n:
            return kept[1]
        with self.catalog.filling:
            mask = self._mask(condition, sums)
        if len(self._masks) >= _MASKS_KEPT:
            self._masks = {}
        self._masks[name] = n, mask
        return mask

    def taken(self, catalog: Catalog, first_row: int, places: NDArray[np.int64]) -> "Columns":
        """The columns of some places, ascending, which become 0, 1, 2, ..."""
        other = Columns(catalog, first_row)
        with self.catalog.filling:
            for field, column in self._columns.items():
                if len(places) and len(column.codes.values) > places[-1]:
                    other._columns[field] = column.taken(places)
        return other

    def counts(self, field: str, chosen: Mask, sums: NDArray[np.uint32], limit: int | None = None) -> list[Facet]:
        """How many of the chosen places have each value of a field, the most frequent first."""
        with self.catalog.filling:
            column = self._column(field, sums)
            self._warn_if_unknown(field, column, sums)
            return column.counts(chosen, limit)

    def histogram(self, field: str, chosen: Mask, sums: NDArray[np.uint32], n_bins: int) -> Histogram:
        """How many of the chosen places have a number of a field within each bin."""
        with self.catalog.filling:
            return self._column(field, sums).histogram(chosen, n_bins)

    def _column(self, field: str, sums: NDArray[np.uint32]) -> Column:
        """The column of a field, with all places that have these sums."""
        column = self._columns.get(field)
        if column is None:
            column = Column()
            column.append(np.full(self._absent.get(field, 0), _MISSING, np.int32))
        n, n_before = len(sums), len(column.codes.values)
        if n > n_before:
            if n - n_before <= _FEW_ROWS:
                self._read_few(column, field, n_before, sums)
            else:
                self._read_many(column, field, n_before, sums)
        self._keep(field, column)
        return column

    def _keep(self, field: str, column: Column) -> None:
        self._columns.pop(field, None)
        self._absent.pop(field, None)
        if column.values:
            self._columns[field] = column
            if len(self._columns) > _COLUMNS_KEPT:
                del self._columns[next(iter(self._columns))]
        elif len(field) <= _LONGEST_ABSENT:
            self._absent[field] = len(column.codes.values)
            if len(self._absent) > _ABSENT_KEPT:
                del self._absent[next(iter(self._absent))]

    def _warn_if_unknown(self, field: str, column: Column, sums: NDArray[np.uint32]) -> None:
        if not column.values and len(sums):
            warnings.warn(f"no row of this search has ever had a field {field!r}", UserWarning, _level_of_caller())

    def _mask(self, condition: Condition, sums: NDArray[np.uint32]) -> Mask:
        if isinstance(condition, Joined):
            join = np.logical_and if condition.word == "and" else np.logical_or
            first, *others = condition.parts
            mask = self._mask(first, sums)
            for part in others:
                check_deadline()
                mask = join(mask, self._mask(part, sums))
            return mask
        column = self._column(condition.field, sums)
        if not isinstance(condition, Differs):  # every row differs from a value that it does not have
            self._warn_if_unknown(condition.field, column, sums)
        return column.meeting(condition, len(sums))

    def _read_few(self, column: Column, field: str, first: int, sums: NDArray[np.uint32]) -> None:
        rows = range(self.first_row + first, self.first_row + len(sums))
        texts = self.catalog.payloads(rows, sums[first:].tolist())
        codes = np.full(len(rows), _MISSING, np.int32)
        payloads = [json.loads(text) if text else {} for text in texts]
        having = [i for i, payload in enumerate(payloads) if field in payload]
        codes[having] = column.numbers_of([payloads[i][field] for i in having])
        column.append(codes)

    def _read_many(self, column: Column, field: str, first: int, sums: NDArray[np.uint32]) -> None:
        key = np.frombuffer(json.dumps(field, ensure_ascii=False).encode(), np.uint8)
        codes = np.full(len(sums) - first, _MISSING, np.int32)
        n_read = 0
        blocks = self.catalog.payload_blocks(self.first_row + first, self.first_row + len(sums))
        # A catalog in memory has one lock, which the thread of an open transaction holds.
        for rows, payloads in blocks if self.catalog.path is None else _read_ahead(blocks):
            if n_read:
                check_deadline()
            places = rows - self.first_row
            self.catalog.check_texts(payloads, sums[places])
            # A row whose sum is 0 has no payload, whatever the catalog has under its number.
            codes[places - first] = np.where(sums[places] != 0, _numbered(column, payloads, key), _MISSING)
            n_read += int(np.count_nonzero(sums[places]))
        self.catalog.check_count(n_read, int(np.count_nonzero(sums[first:])))
        column.append(codes)


def _read_ahead(blocks: Generator[Block, None, None]) -> Iterator[Block]:
    """The same blocks; another thread makes the next one meanwhile, and it alone runs the generator."""
    with ThreadPoolExecutor(1) as reader:
        try:
            following = reader.submit(next, blocks, None)
            while (block := following.result()) is not None:
                following = reader.submit(next, blocks, None)
                yield block
        finally:
            reader.submit(blocks.close)


def _level_of_caller() -> int:
    """How many calls above the function that warns the first one outside of the package is."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("hashlearn."):
        level, frame = level + 1, frame.f_back
    return level


def _numbered(column: Column, payloads: Ids, key: NDArray[np.uint8]) -> NDArray[np.int32]:
    """The number of the value that each payload has in a field."""
    n = len(payloads)
    first, last = np.empty(n, np.int64), np.empty(n, np.int64)
    field_spans(payloads.text, payloads.starts, payloads.ends, key, first, last)
    digests = np.empty(n, np.uint64)
    digests_of_texts(payloads.text, first, last, digests)
    slots = np.full(1 << (2 * n).bit_length(), -1, np.int32)
    codes, examples = np.empty(n, np.int32), np.empty(n, np.int64)
    n_values = code_spans(payloads.text, first, last, digests, slots, codes, examples)
    if not n_values:
        return codes
    examples = examples[:n_values]
    listed = np.empty(int((last[examples] - first[examples]).sum()) + n_values, np.uint8)
    list_spans(payloads.text, first[examples], last[examples], listed)
    values = json.loads(b"[" + listed[:-1].tobytes() + b"]")
    numbers = np.append(column.numbers_of(values), np.int32(_MISSING))
    return numbers[codes]
