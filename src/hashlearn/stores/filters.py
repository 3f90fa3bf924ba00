"""Conditions on payloads, in one form for all stores.

A filter is a dict, as in document databases::

    {"color": "red"}                              the field is equal to
    {"year": {"$gte": 2020, "$lt": 2024}}         $ne $gt $gte $lt $lte $in
    {"$or": [{"color": "red"}, {"size": 3}]}      $and $or; several entries of a dict must all hold

A filter becomes a tree of the four classes below. :func:`matches` defines its meaning, and every engine translates it
into its own language, with values as bound parameters. Fields are keys of the payload itself, not of dicts inside it.
Numbers are compared in double precision, strings by their code points. A date is a string in ISO 8601, as in payloads.
A number, a string and a boolean are never equal to one another, and a field that is missing or of another kind fails
every test except ``$ne``.

A filter may nest ``$and`` and ``$or`` 32 deep, make 500 tests and name 100,000 values: a huge filter that a program
made in a loop must not block a service for minutes.
"""

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from hashlearn.rows.forms import rows_of_table
from hashlearn.rows.inputs import date_text, is_plain

RANGES = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
MAX_DEPTH = 32
MAX_TESTS = 500
MAX_VALUES = 100_000
_BLOCK = 1024
"""Values that are read or written in one go, while no other thread can run."""


@dataclass(frozen=True)
class Among:
    """The field is equal to one of the values."""

    field: str
    values: tuple[Any, ...]

    @cached_property
    def keys(self) -> frozenset[tuple[str, Any]]:
        """The values, each with its kind: in Python True is equal to 1."""
        return frozenset((kind_of(value), value) for value in self.values)


class Differs(NamedTuple):
    """The field is missing, or not equal to the value."""

    field: str
    value: Any


class Compares(NamedTuple):
    """The field has the kind of the value, and compares with it as the sign says: > >= < <=."""

    field: str
    sign: str
    value: float | str


class Joined(NamedTuple):
    """All of the parts hold, or one of them: the word is "and" or "or". There is at least one part."""

    word: str
    parts: tuple[Any, ...]


Test = Among | Differs | Compares
Condition = Test | Joined


def parse_filter(filter: Any) -> Condition | None:
    """The condition of a filter; None for None and for an empty dict, which every row meets.

    >>> parse_filter({"year": {"$gte": 2020}, "color": {"$in": ["red", "blue"]}})
    Joined(word='and', parts=(Compares(field='year', sign='>=', value=2020.0),
    Among(field='color', values=('red', 'blue'))))
    """
    if filter is None:
        return None
    condition = _join("and", _parse_entries(filter, MAX_DEPTH))
    _check_size(condition)
    return condition


def matches(condition: Condition | None, payload: Mapping[str, Any]) -> bool:
    """Whether a payload meets a condition; every store must give the same answer.

    >>> matches(parse_filter({"year": {"$lt": 2024}}), {"year": 2020})
    True
    >>> matches(parse_filter({"year": {"$lt": 2024}}), {"year": "2020"})
    False
    """
    match condition:
        case None:
            return True
        case Joined("and", parts):
            return all(matches(part, payload) for part in parts)
        case Joined(_, parts):
            return any(matches(part, payload) for part in parts)
        case Among(field, _):
            return _key(payload.get(field)) in condition.keys
        case Differs(field, value):
            return _key(payload.get(field)) != _key(value)
        case Compares(field, sign, value):
            return _compares(payload.get(field), sign, value)


def name_of(condition: Condition) -> str:
    """A text that no other condition has."""
    match condition:
        case Joined(word, parts):
            return f"{word}({','.join(map(name_of, parts))})"
        case Among(field=field, values=values):
            return repr(field) + "".join(map(repr, _blocks(values)))
    return repr(condition)


def kind_of(value: Any) -> str:
    """Kind of a value in JSON: "boolean", "number", "string" or "other"."""
    if isinstance(value, (bool, np.bool_)):
        return "boolean"
    if isinstance(value, (int, float, np.integer, np.floating)):
        return "number"
    return "string" if isinstance(value, str) else "other"


def of_kind(values: tuple[Any, ...], kind: str) -> list[Any]:
    """The values of one kind."""
    return [value for value in values if kind_of(value) == kind]


def translate(condition: Condition, test: Callable[[Test], tuple[str, list[Any]]]) -> tuple[str, list[Any]]:
    """A condition in the language of a database, and its parameters; ``test`` translates a single test."""
    if not isinstance(condition, Joined):
        return test(condition)
    word, parts = condition
    if len(parts) > 2:  # in halves: databases limit the depth of an expression, Milvus Lite to 100
        middle = len(parts) // 2
        parts = Joined(word, parts[:middle]), Joined(word, parts[middle:])
    texts, parameters = [], []
    for part in parts:
        text, more = translate(part, test)
        texts.append(f"({text})")
        parameters += more
    return f" {word} ".join(texts), parameters


def _parse_entries(filter: Any, depth: int) -> list[Condition]:
    """The conditions of a dict, all of which must hold; ``depth`` is the number of levels that may still follow."""
    if not isinstance(filter, Mapping):
        raise TypeError(f"filter must be a dict such as {{'year': {{'$gte': 2020}}}}, got {_short(filter)}")
    if depth < 0:
        raise ValueError(f"filter must nest $and and $or at most {MAX_DEPTH} deep")
    parts: list[Condition] = []
    for field, wanted in filter.items():
        if field in ("$and", "$or"):
            parts += _parse_alternatives(field, wanted, depth)
        else:
            parts += _parse_field(field, wanted)
    return parts


def _parse_alternatives(word: str, filters: Any, depth: int) -> list[Condition]:
    if not isinstance(filters, (list, tuple)) or not filters:
        raise ValueError(f"filter must have a list of filters after {word}, got {_short(filters)}")
    _check_number(len(filters), MAX_TESTS, "tests")
    parts = [_join("and", _parse_entries(filter, depth - 1)) for filter in filters]
    if None in parts:
        raise ValueError(f"filter must have no empty filter after {word}")
    joined = _join(word[1:], [part for part in parts if part is not None])
    return [] if joined is None else [joined]


def _parse_field(field: Any, wanted: Any) -> list[Condition]:
    if not isinstance(field, str) or not field or field.startswith("$") or not is_plain(field):
        raise ValueError(f"filter must have names of fields, $and or $or as its keys, got {_short(field)}")
    if not isinstance(wanted, Mapping):
        return [Among(field, (_value(field, wanted),))]
    if not wanted:
        raise ValueError(f"filter must have a value or a test such as {{'$gte': 1}} for {field!r:.60}, got {{}}")
    return [_parse_test(field, operator, value) for operator, value in wanted.items()]


def _parse_test(field: str, operator: Any, value: Any) -> Condition:
    if operator == "$ne":
        return Differs(field, _value(field, value))
    if operator == "$in":
        value = _listed(value)
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"filter must have a list after $in for {field!r:.60}, got {_short(value)}")
        _check_number(len(value), MAX_VALUES, "values")
        return Among(field, tuple(chain.from_iterable(_values(field, block) for block in _blocks(value))))
    if operator in RANGES:
        bound = _value(field, value)
        if isinstance(bound, bool):
            raise ValueError(f"filter must compare {field!r:.60} with a number or a string, got {value!r}")
        return Compares(field, RANGES[operator], bound)
    raise ValueError(f"filter must test {field!r:.60} by one of $ne, $in, {', '.join(RANGES)}, got {_short(operator)}")


def _listed(values: Any) -> Any:
    """An array or a column as a list; everything else as it is."""
    if isinstance(values, np.ndarray):
        return values.tolist()
    column = rows_of_table(values)
    return values if column is None else column


def _blocks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (values[start : start + _BLOCK] for start in range(0, len(values), _BLOCK))


def _values(field: str, values: Sequence[Any]) -> Sequence[Any]:
    """Values as :func:`_value` makes them; those of one kind at once."""
    kinds = set(map(type, values))
    if kinds == {str} and is_plain("".join(values)):
        return values
    if kinds <= {int, float}:
        with suppress(OverflowError):
            numbers = list(map(float, values))
            if all(map(isfinite, numbers)):
                return numbers
    return [_value(field, value) for value in values]


def _value(field: str, value: Any) -> Any:
    kind = kind_of(value)
    if kind == "boolean":
        return bool(value)
    if kind == "number" and np.isfinite(_double(value)):
        return _double(value)
    if kind == "string" and is_plain(value):
        return str(value)
    if (text := date_text(value)) is not None:
        return text
    raise ValueError(
        f"filter must compare {field!r:.60} with a string, a date, a number of double precision or a boolean, "
        f"got {_short(value)}"
    )


def _double(value: Any) -> float:
    """A number in double precision; one that is too large is infinite."""
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _check_size(condition: Condition | None) -> None:
    """Refuse a filter with too many tests or values."""
    n_tests = n_values = 0
    waiting = [] if condition is None else [condition]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Joined):
            waiting += each.parts
        else:
            n_tests += 1
            n_values += len(each.values) if isinstance(each, Among) else 1
    _check_number(n_tests, MAX_TESTS, "tests")
    _check_number(n_values, MAX_VALUES, "values")


def _check_number(n: int, most: int, what: str) -> None:
    if n > most:
        raise ValueError(f"filter must have at most {most:,} {what}, got {n:,}")


def _short(value: Any) -> str:
    """The beginning of a value, which may be very long or deep."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    return f"{reprlib.repr(value):.60}"


def _join(word: str, parts: list[Condition]) -> Condition | None:
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))


def _key(value: Any) -> tuple[str, Any]:
    """A key that is equal for equal values; values that no filter allows have one common key."""
    kind = kind_of(value)
    if kind == "number":
        return kind, float(value)
    return kind, None if kind == "other" else value


def _compares(found: Any, sign: str, value: Any) -> bool:
    kind = kind_of(value)
    if kind_of(found) != kind:
        return False
    left = float(found) if kind == "number" else found
    return {">": left > value, ">=": left >= value, "<": left < value, "<=": left <= value}[sign]
