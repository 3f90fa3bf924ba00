"""Tables of a TOML file as settings. Every entry is checked, and an error names its place."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from hashlearn.checks import check_choice, check_integer
from hashlearn.datasets import DATASETS
from hashlearn.experiments.define.settings import (
    OWN,
    RANKINGS,
    UNIT,
    ArrayFile,
    DatasetSettings,
    Definitions,
    MethodSettings,
    hasher_class,
    let_modules_be_found,
)

Entries = Mapping[str, Any]
"""A table of a TOML file."""


def read_definitions(read: Entries, path: Path) -> Definitions:
    """The ``[dataset.NAME]`` and ``[method.NAME]`` tables of a file; the files they name are relative to its folder."""
    datasets, methods = (check_kind(path.name, kind, read.get(kind, {}), dict) for kind in ("dataset", "method"))
    return Definitions(
        {name.lower(): _dataset(name.lower(), entries, path) for name, entries in datasets.items()},
        {name.lower(): _method(name.lower(), entries, path) for name, entries in methods.items()},
        path.parent,
    )


def check_kind(where: str, name: str, value: Any, *kinds: type) -> Any:
    """``value`` if it is of one of these kinds; otherwise an error that names its place."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(_IN_WORDS[kind] for kind in kinds)
        raise ValueError(f"{where}: {name} must be {wanted}, got {value!r:.60}")
    return value


def check_known(where: str, entries: Entries, known: Iterable[str]) -> None:
    """Refuse unknown entries."""
    for unknown in entries.keys() - set(known):
        raise ValueError(f"{where} has an unknown entry: {unknown} (known are {', '.join(known)})")


_IN_WORDS = {
    str: "a text",
    dict: "a table",
    list: "a list",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}
_FILES = ("features", "labels", "queries", "query_labels")


def _dataset(name: str, entries: Any, path: Path) -> DatasetSettings:
    where = f"{path.name}, dataset.{name}"
    check_kind(path.name, f"dataset.{name}", entries, dict)
    if not re.fullmatch(r"[\w.-]+", name) or name.startswith("."):
        raise ValueError(f"{path.name}: the name of a dataset must be letters, digits, - and _, got {name!r}")
    check_known(where, entries, [each.name for each in fields(DatasetSettings)][1:])
    for text in ("title", "source", "like", "published_as"):
        check_kind(where, text, entries.get(text, ""), str)
    read = {**entries, **{file: _array_file(where, file, entries[file], path) for file in _FILES if file in entries}}
    _check_scale(where, entries.get("scale", 1.0))
    for count in ("n_queries", "published_features"):
        if count in entries:
            check_integer(f"{where}: {count}", entries[count], low=1)
    _check_files(where, entries)
    if "source" in entries:
        read["source"] = _source(entries["source"], path)
    return DatasetSettings(name, **read)


def _check_files(where: str, entries: Entries) -> None:
    """Check that the files of a dataset fit together."""
    if "features" in entries and "source" in entries:
        raise ValueError(f"{where} must have source or features, not both")
    alone = [file for file in (*_FILES[1:], "n_queries") if file in entries and "features" not in entries]
    if alone:
        raise ValueError(f"{where} must say its features, since it says its {alone[0]}")
    if "queries" in entries and "n_queries" in entries:
        raise ValueError(f"{where} must have queries or n_queries, not both")
    if "query_labels" in entries and "queries" not in entries:
        raise ValueError(f"{where} must say its queries, since it says its query_labels")
    if "queries" in entries and ("labels" in entries) != ("query_labels" in entries):
        raise ValueError(f"{where} must have labels and query_labels, or neither")


def _check_scale(where: str, scale: Any) -> None:
    if scale == UNIT:
        return
    if check_kind(where, "scale", scale, int, float) <= 0:
        raise ValueError(f"{where}: scale must be above 0 or {UNIT!r}, got {scale!r}")


def _array_file(where: str, name: str, value: Any, path: Path) -> ArrayFile:
    if isinstance(check_kind(where, name, value, str, dict), str):
        return ArrayFile(str(path.parent / os.path.expanduser(value)))
    check_known(f"{where}, {name}", value, ("file", "array"))
    if "file" not in value:
        raise ValueError(f"{where}: {name} must say its file")
    file = check_kind(where, f"{name}.file", value["file"], str)
    array = check_kind(where, f"{name}.array", value.get("array", ""), str)
    return ArrayFile(str(path.parent / os.path.expanduser(file)), array or None)


def _source(source: str, path: Path) -> str:
    """A known dataset as it is; a file in relation to the folder of the experiment."""
    return source if source.lower() in DATASETS else str(path.parent / os.path.expanduser(source))


def _method(name: str, entries: Any, path: Path) -> MethodSettings:
    where = f"{path.name}, method.{name}"
    check_kind(path.name, f"method.{name}", entries, dict)
    check_known(where, entries, [each.name for each in fields(MethodSettings)][1:])
    for text in ("title", "method", "published_as"):
        check_kind(where, text, entries.get(text, ""), str)
    for flag in ("is_variant", "as_published", "highlight"):
        check_kind(where, flag, entries.get(flag, False), bool)
    if "ranking" in entries:
        check_choice(f"{where}: ranking", entries["ranking"], RANKINGS)
    on = check_kind(where, "on", entries.get("on", {}), dict)
    for each in check_kind(where, "union_of", entries.get("union_of", []), list):
        check_kind(where, "union_of", each, str)
    if "union_of" in entries and entries.keys() & {"method", "params", "on", "as_published"}:
        raise ValueError(f"{where} must have union_of, or method with its params, not both")
    if OWN in entries.get("method", ""):
        let_modules_be_found(path.parent)
    settings = MethodSettings(name, **entries)
    if settings.as_published and not hasattr(hasher_class(settings.method), "paper"):
        raise ValueError(f"{where}: {settings.method} has no published settings for as_published")
    for params in (settings.params, *on.values()):
        check_parameters(where, settings, check_kind(where, "params", params, dict))
    return settings


def check_parameters(where: str, method: MethodSettings, params: Entries) -> None:
    """Refuse parameters that the method does not have; a union has none."""
    if method.union_of and params:
        raise ValueError(f"{where}: {method.title} is a union and has no parameter {next(iter(params))!r}")
    if method.union_of:
        return
    cls: Any = hasher_class(method.method)
    known = [name for name in cls().get_params(deep=False) if name not in ("n_bits", "random_state")]
    for unknown in params.keys() - set(known):
        raise ValueError(f"{where}: {cls.__name__} has no parameter {unknown!r} (it has {', '.join(known)})")
