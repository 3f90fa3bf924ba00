"""What an experiment's file says of data and methods: its tables ``[dataset.NAME]`` and ``[method.NAME]``.

A name that no table describes is looked up elsewhere: a dataset among those of :func:`hashlearn.datasets.load`, a
method in the registry, with its default parameters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from hashlearn.checks import check_choice, check_integer
from hashlearn.datasets import DATASETS
from hashlearn.experiments.real_queries import has_real_queries
from hashlearn.hashers.base import Hasher
from hashlearn.hashers.registry import METHODS, method_named

UNIT = "unit"
"""The ``scale`` that gives every row the length one."""

Entries = Mapping[str, Any]
"""A table of a TOML file."""


class ArrayFile(NamedTuple):
    """An array in a file; ``array`` is its name where the file holds several."""

    path: str
    array: str | None = None


@dataclass(frozen=True)
class DatasetSettings:
    """A dataset as an experiment uses it.

    The vectors come from ``source``, or from ``features`` and the files beside it.

    Attributes
    ----------
    name, title : its name in a command, and in a table
    source : a dataset that :func:`hashlearn.datasets.load` knows, or a file that holds vectors, labels and queries
    features, labels : files of your own, a row each; without labels only neighbors are judged
    queries, query_labels : the same of the queries
    n_queries : queries drawn from the rows of ``features`` where no file has them; a tenth, at most 1,000, if None
    scale : features are divided by it; "unit" gives every row the length one
    like : the dataset whose settings of the methods apply
    published_as : its name in the published table
    published_features : number of features in the publication; None if it has no numbers for these data
    """

    name: str
    title: str = ""
    source: str = ""
    features: ArrayFile | None = None
    labels: ArrayFile | None = None
    queries: ArrayFile | None = None
    query_labels: ArrayFile | None = None
    n_queries: int | None = None
    scale: float | str = 1.0
    like: str = ""
    published_as: str = ""
    published_features: int | None = None

    def __post_init__(self) -> None:
        _set_default(self, "title", self.name)
        _set_default(self, "published_as", self.title)
        _set_default(self, "like", self.name)
        if self.features is None:
            _set_default(self, "source", self.name)


@dataclass(frozen=True)
class MethodSettings:
    """A method as a table lists it.

    Attributes
    ----------
    name, title : its name in a command, and in a table
    method : name in the registry
    published_as : its name in the published table
    is_variant : whether its settings are other than those of the number it is held against
    as_published : start from the method's ``paper(dataset)`` settings
    ranking : "codes" by Hamming distance, or "real" by real queries against codes; by default what the method is for
    highlight : whether figures draw it strong
    params : parameters on all datasets
    on : dataset -> parameters there
    """

    name: str
    title: str = ""
    method: str = ""
    published_as: str = ""
    is_variant: bool = False
    as_published: bool = False
    ranking: str = ""
    highlight: bool = False
    params: dict[str, Any] = field(default_factory=dict)
    on: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _set_default(self, "method", self.name)
        _set_default(self, "title", method_named(self.method).__name__)
        _set_default(self, "published_as", self.title)

    def ranks_real_queries(self, hasher: Hasher) -> bool:
        """Whether the results of this hasher are ranked by real queries."""
        return self.ranking == "real" if self.ranking else has_real_queries(hasher)

    def hasher(self, dataset: DatasetSettings, bits: int, seed: int, changes: Entries) -> Hasher:
        """The hasher, not yet fitted."""
        cls: Any = method_named(self.method)
        params = {**self.params, **self.on.get(dataset.like, {}), **changes, "random_state": seed}
        return cls.paper(dataset.like, bits, **params) if self.as_published else cls(bits, **params)


@dataclass(frozen=True)
class Definitions:
    """The datasets and methods that a file describes, by name."""

    datasets: Mapping[str, DatasetSettings] = field(default_factory=dict)
    methods: Mapping[str, MethodSettings] = field(default_factory=dict)

    @classmethod
    def of(cls, read: Entries, path: Path) -> "Definitions":
        """Those of a file at ``path``; the files they name are relative to its folder."""
        datasets, methods = (check_kind(path.name, kind, read.get(kind, {}), dict) for kind in ("dataset", "method"))
        return cls(
            {name.lower(): _dataset(name.lower(), entries, path) for name, entries in datasets.items()},
            {name.lower(): _method(name.lower(), entries, path) for name, entries in methods.items()},
        )

    def over(self, others: "Definitions") -> "Definitions":
        """These and, where a name is not among them, the others."""
        return Definitions({**others.datasets, **self.datasets}, {**others.methods, **self.methods})

    def dataset(self, name: str) -> DatasetSettings:
        """The dataset of this name."""
        name = str(name).lower()
        if name in self.datasets:
            return self.datasets[name]
        if name in DATASETS:
            return DatasetSettings(name)
        known = dict.fromkeys((*self.datasets, *DATASETS))
        raise ValueError(f"dataset must be one of {', '.join(known)}, got {name!r}")

    def method(self, name: str) -> MethodSettings:
        """The method of this name."""
        name = str(name).lower()
        if name in self.methods:
            return self.methods[name]
        if name in METHODS:
            return MethodSettings(name)
        known = dict.fromkeys((*self.methods, *METHODS))
        raise ValueError(f"method must be one of {', '.join(known)}, got {name!r}")


def check_kind(where: str, name: str, value: Any, *kinds: type) -> Any:
    """``value`` if it is of one of these kinds, or an error that says where it stands."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(_IN_WORDS[kind] for kind in kinds)
        raise ValueError(f"{where}: {name} must be {wanted}, got {value!r:.60}")
    return value


def check_known(where: str, entries: Entries, known: Any) -> None:
    """Refuse entries that have no meaning."""
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
    """Which files belong together."""
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
        return ArrayFile(str(path.parent / Path(value).expanduser()))
    check_known(f"{where}, {name}", value, ("file", "array"))
    if "file" not in value:
        raise ValueError(f"{where}: {name} must say its file")
    file = check_kind(where, f"{name}.file", value["file"], str)
    array = check_kind(where, f"{name}.array", value.get("array", ""), str)
    return ArrayFile(str(path.parent / Path(file).expanduser()), array or None)


def _source(source: str, path: Path) -> str:
    """A known dataset as it is; a file in relation to the folder of the experiment."""
    return source if source.lower() in DATASETS else str(path.parent / Path(source).expanduser())


def _method(name: str, entries: Any, path: Path) -> MethodSettings:
    where = f"{path.name}, method.{name}"
    check_kind(path.name, f"method.{name}", entries, dict)
    check_known(where, entries, [each.name for each in fields(MethodSettings)][1:])
    for text in ("title", "method", "published_as"):
        check_kind(where, text, entries.get(text, ""), str)
    for flag in ("is_variant", "as_published", "highlight"):
        check_kind(where, flag, entries.get(flag, False), bool)
    if "ranking" in entries:
        check_choice(f"{where}: ranking", entries["ranking"], ("codes", "real"))
    on = check_kind(where, "on", entries.get("on", {}), dict)
    settings = MethodSettings(name, **entries)
    for params in (settings.params, *on.values()):
        check_parameters(where, settings, check_kind(where, "params", params, dict))
    return settings


def check_parameters(where: str, method: MethodSettings, params: Entries) -> None:
    """Refuse parameters that the method does not have."""
    cls: Any = method_named(method.method)
    known = [name for name in cls().get_params(deep=False) if name not in ("n_bits", "random_state")]
    for unknown in params.keys() - set(known):
        raise ValueError(f"{where}: {cls.__name__} has no parameter {unknown!r} (it has {', '.join(known)})")


def _set_default(settings: Any, name: str, value: Any) -> None:
    """Fill an empty entry of a frozen dataclass."""
    if not getattr(settings, name):
        object.__setattr__(settings, name, value)
