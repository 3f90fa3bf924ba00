"""JSON lines: each line is an object with a vector in one field. Other fields are ids, texts and payloads."""

import json
from collections.abc import Iterator
from itertools import islice
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.rows.formats.format import Format, choose, listing, objects_of
from hashlearn.rows.formats.problems import FileProblem, reading

BLOCK_ROWS = 1024
"""Rows that are held as Python objects at a time."""


class Jsonl(Format):
    """The vectors of a field, shape (n, d), float32; or the values of another field, shape (n,), with None for a line
    that does not have the field."""

    def names(self, path: Path) -> list[str]:
        return []

    def read(self, path: Path, name: str | None, max_bytes: int | None) -> NDArray:
        with reading(path, "JSON lines"):
            first = _first(path)
            vectors = [field for field, value in first.items() if _is_vector(value)]
            if name is None:
                if not vectors:
                    raise FileProblem(path, f"no field with a list of numbers; it has {listing(list(first))}")
                name = choose(path, vectors, None)
            return _matrix(path, name, len(first[name])) if name in vectors else _values(path, name, list(first))

    def describe(self, path: Path) -> dict[str, str]:
        with reading(path, "JSON lines"):
            return {"fields": listing([f"{name} ({_kind(value)})" for name, value in _first(path).items()])}


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every object with the number of its line, from 1."""
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except ValueError as problem:
                raise ValueError(f"line {number}: {getattr(problem, 'msg', problem)}") from None
            if not isinstance(value, dict):
                raise FileProblem(path, f"line {number} must be an object of JSON")
            yield number, value


def _first(path: Path) -> dict[str, Any]:
    found = next(_objects(path), None)
    if found is None:
        raise FileProblem(path, "no object in it")
    return found[1]


def _matrix(path: Path, name: str, width: int) -> NDArray[np.float32]:
    blocks, rows = [], _objects(path)
    while block := list(islice(rows, BLOCK_ROWS)):
        for number, row in block:
            if name not in row:
                raise FileProblem(path, f"line {number} has no field {name!r}")
            value = row[name]
            if not _is_vector(value) or len(value) != width:
                raise FileProblem(path, f"line {number} must have a list of {width} numbers in {name!r}")
        blocks.append(np.array([row[name] for _, row in block], np.float32))
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _values(path: Path, name: str, known: list[str]) -> NDArray:
    values, is_known = [], False
    for _, row in _objects(path):
        values.append(row.get(name))
        is_known |= name in row
    if not is_known:
        raise FileProblem(path, f"no field named {name!r}; it has {listing(known)}")
    kinds = {type(value) for value in values}
    if kinds <= {int} or kinds <= {int, float}:
        return np.array(values)
    return objects_of(values)


def _is_vector(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(_is_number(each) for each in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Number) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    if _is_vector(value):
        return f"vector of {len(value)}"
    return {str: "text", dict: "object", list: "list", type(None): "null"}.get(type(value), type(value).__name__)
