"""An experiment of the paper: which methods, with which settings, on which data. One TOML file each.

``settings.toml`` beside them has what they share: how a dataset is prepared, and the settings of every method.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from hashlearn.checks import check_choice, check_integer
from hashlearn.hashers.base import Hasher
from hashlearn.hashers.registry import method_named

EXPERIMENTS = ("table-1", "table-2", "table-3", "figure-4", "figures-5-6", "figure-7", "figure-8")
FIGURES = ("curves", "by-bits", "weights", "sweeps", "convergence")
MEASURES = ("quality", "seconds")


@dataclass(frozen=True)
class DatasetSettings:
    """A dataset as the experiments use it.

    Attributes
    ----------
    name, title : its name in a command, and in a table
    source : what :func:`hashlearn.datasets.load` knows it by
    in_paper : the paper's name for it
    scale : features are divided by it; "unit" gives every row the length one
    like : the dataset whose settings of the methods apply
    paper_features : number of features in the paper; None if it is not in the paper
    """

    name: str
    title: str
    scale: float | str = 1.0
    source: str = ""
    in_paper: str = ""
    like: str = ""
    paper_features: int | None = None

    def __post_init__(self) -> None:
        for name, default in {"source": self.name, "in_paper": self.title, "like": self.name}.items():
            object.__setattr__(self, name, getattr(self, name) or default)


@dataclass(frozen=True)
class Row:
    """A method as a table lists it.

    Attributes
    ----------
    name, title : its name in a command, and in a table (where the paper has it: the paper's)
    method : name in the registry
    against : whose numbers in the paper it is held against; by default those of its title
    as_published : start from the method's ``paper(dataset)`` settings
    params : parameters on all datasets
    on : dataset -> parameters there
    """

    name: str
    title: str
    method: str = ""
    against: str = ""
    as_published: bool = False
    params: dict[str, Any] = field(default_factory=dict)
    on: dict[str, dict[str, Any]] = field(default_factory=dict)

    def hasher(self, dataset: DatasetSettings, bits: int, seed: int, changes: dict[str, Any]) -> Hasher:
        """The hasher, not yet fitted."""
        cls: Any = method_named(self.method or self.name)
        params = {**self.params, **self.on.get(dataset.like, {}), **changes, "random_state": seed}
        return cls.paper(dataset.like, bits, **params) if self.as_published else cls(bits, **params)


@dataclass(frozen=True)
class Part:
    """A grid of runs: every method on every dataset at every length, ``runs`` times.

    Attributes
    ----------
    params : parameters of every method, over its own settings
    vary : at most one parameter -> the values it takes in turn
    reference : whether the float vectors' own ranking belongs to it
    figure : how it is drawn; one of FIGURES, or empty for a table
    """

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    bits: tuple[int, ...]
    runs: int
    params: dict[str, Any] = field(default_factory=dict)
    vary: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    reference: bool = False
    figure: str = ""


@dataclass(frozen=True)
class Experiment:
    """A table or figure; see :func:`experiment_named`.

    Attributes
    ----------
    title, caption : what it shows
    remarks : where it differs from the paper's, and why
    measure : "quality" (mAP and its kin) or "seconds" (of training)
    parts : the runs it is made of
    """

    name: str
    title: str
    caption: str
    remarks: tuple[str, ...]
    measure: str
    parts: tuple[Part, ...]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of all its datasets, in their order."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.datasets))

    def restricted(
        self,
        datasets: Sequence[str] | None = None,
        methods: Sequence[str] | None = None,
        bits: Sequence[int] | None = None,
        runs: int | None = None,
    ) -> "Experiment":
        """The same experiment with other datasets, methods, lengths or number of runs; None leaves it as it is."""
        changes: dict[str, Any] = {}
        if datasets is not None:
            changes["datasets"] = tuple(dataset_settings(name).name for name in datasets)
        if methods is not None:
            changes["methods"] = tuple(row_named(name).name for name in methods)
        if bits is not None:
            changes["bits"] = tuple(check_integer("bits", value, low=1) for value in bits)
        if runs is not None:
            changes["runs"] = check_integer("runs", runs, low=1)
        return replace(self, parts=tuple(_checked(replace(part, **changes), self.name) for part in self.parts))


def experiment_named(name: str) -> Experiment:
    """An experiment of the paper by its name, or one of your own from a TOML file of the same form."""
    if name in EXPERIMENTS:
        return _experiment(name, tomllib.loads(_shipped(name)))
    path = Path(name)
    if path.suffix != ".toml":
        raise ValueError(f"experiment must be one of {', '.join(EXPERIMENTS)}, or a .toml file, got {name!r}")
    try:
        return _experiment(path.stem, tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no TOML file: {error}") from None


def dataset_settings(name: str) -> DatasetSettings:
    """The dataset of this name."""
    known = _settings()["datasets"]
    name = str(name).lower()
    if name not in known:
        raise ValueError(f"dataset must be one of {', '.join(known)}, got {name!r}")
    return DatasetSettings(name, **known[name])


def row_named(name: str) -> Row:
    """The method with its settings, by its name in a command."""
    known = _settings()["methods"]
    name = str(name).lower()
    if name not in known:
        raise ValueError(f"method must be one of {', '.join(known)}, got {name!r}")
    return Row(name, **known[name])


@cache
def _settings() -> dict[str, Any]:
    return tomllib.loads(_shipped("settings"))


def _shipped(name: str) -> str:
    return files("hashlearn.experiments").joinpath("paper", f"{name}.toml").read_text(encoding="utf-8")


def _experiment(name: str, read: dict[str, Any]) -> Experiment:
    of_parts = {entry.name for entry in fields(Part)}
    shared = {key: value for key, value in read.items() if key in of_parts}
    unknown = set(read) - of_parts - {"title", "caption", "remarks", "measure", "parts"}
    if unknown:
        raise ValueError(f"{name} has an unknown entry: {', '.join(sorted(unknown))}")
    return Experiment(
        name,
        read.get("title", name),
        read.get("caption", ""),
        tuple(read.get("remarks", ())),
        check_choice("measure", read.get("measure", "quality"), MEASURES),
        tuple(_part(name, shared | part) for part in read.get("parts", [{}])),
    )


def _part(name: str, read: dict[str, Any]) -> Part:
    known = {entry.name for entry in fields(Part)}
    for missing in [key for key in ("datasets", "methods", "bits", "runs") if key not in read]:
        raise ValueError(f"{name} must say its {missing}")
    for unknown in set(read) - known:
        raise ValueError(f"{name} has an unknown entry: {unknown}")
    vary = {parameter: tuple(values) for parameter, values in read.get("vary", {}).items()}
    lists = {key: tuple(read[key]) for key in ("datasets", "methods", "bits")}
    return _checked(Part(**{**read, **lists, "vary": vary}), name)


def _checked(part: Part, name: str) -> Part:
    for dataset in part.datasets:
        dataset_settings(dataset)
    for method in part.methods:
        row_named(method)
    for bits in part.bits:
        check_integer("bits", bits, low=1)
    check_integer("runs", part.runs, low=1)
    if part.figure:
        check_choice("figure", part.figure, FIGURES)
    if len(part.vary) > 1:
        raise ValueError(f"{name} must vary one parameter at a time, got {', '.join(part.vary)}")
    return part
