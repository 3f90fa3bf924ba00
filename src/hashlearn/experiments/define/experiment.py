"""An experiment: methods and their settings on datasets. Each experiment is one TOML file.

::

    title = "Codes for my shop"
    datasets = ["shop"]
    methods = ["itq", "jpsh", "jpsh-long"]
    bits = [32, 64]
    runs = 5
    reference = true

    [dataset.shop]
    features = "vectors.npy"
    labels = "kinds.npy"

    [method.jpsh-long]
    title = "JPSH, 20 rounds"
    method = "jpsh"
    params = { init = "random", max_iter = 20 }

Paths are relative to the file. ``settings = "others.toml"`` takes the tables of datasets and methods of another file,
too. :mod:`hashlearn.experiments.define.settings` says what may be in these tables, :class:`RunGrid` what may be in a
grid of runs.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hashlearn.checks import check_choice, check_integer
from hashlearn.durable.files import check_regular
from hashlearn.experiments.define.measures import (
    DEFAULT_MEASURES,
    MEASURES,
    STABLE_MEASURES,
    Measure,
    Published,
    read_published,
)
from hashlearn.experiments.define.settings import DatasetSettings, Definitions, MethodSettings
from hashlearn.experiments.define.toml_settings import (
    Entries,
    check_kind,
    check_known,
    check_parameters,
    read_definitions,
)
from hashlearn.hashers.registry import METHODS

ALL_METHODS = "all"
FIGURES = ("curves", "by-bits", "weights", "sweeps", "convergence")


@dataclass(frozen=True)
class RunGrid:
    """A grid of runs: every method on every dataset at every length, ``runs`` times.

    Attributes
    ----------
    params : parameters of every method, over its own settings
    vary : at most one parameter -> the values it takes in turn
    reference : whether the float vectors' own ranking belongs to it
    figure : how it is drawn; one of FIGURES, or empty for a table
    draws : the measures of a figure "by-bits"; empty for the first two of the experiment
    """

    datasets: tuple[DatasetSettings, ...]
    methods: tuple[MethodSettings, ...]
    bits: tuple[int, ...]
    runs: int
    params: dict[str, Any] = field(default_factory=dict)
    vary: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    reference: bool = False
    figure: str = ""
    draws: tuple[Measure, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A table or figure; see :func:`read_experiment`.

    Attributes
    ----------
    title, caption : what it shows
    remarks : notes for the reader measures : the numbers its tables show; the first is the one that is logged and drawn
    published : published numbers for comparison parts : its grids of runs definitions : the datasets and methods that
    the file describes
    """

    name: str
    title: str
    caption: str
    remarks: tuple[str, ...]
    measures: tuple[Measure, ...]
    published: Published
    parts: tuple[RunGrid, ...]
    definitions: Definitions

    @property
    def needs_stable(self) -> bool:
        """Whether the experiment shows a measure that ranks equal distances in the order of the database; these
        measures are the slowest.
        """
        return any(measure.name in STABLE_MEASURES for measure in self.measures)

    @property
    def datasets(self) -> tuple[DatasetSettings, ...]:
        """All its datasets, in their order."""
        return tuple({dataset.name: dataset for part in self.parts for dataset in part.datasets}.values())

    @property
    def files(self) -> tuple[str, ...]:
        """The user's own files that it reads."""
        return tuple(path for dataset in self.datasets for path in dataset.files)

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
            changes["datasets"] = tuple(self.definitions.dataset(name) for name in datasets)
        if methods is not None:
            changes["methods"] = tuple(self.definitions.method(name) for name in methods)
        if bits is not None:
            changes["bits"] = tuple(check_integer("bits", value, low=1) for value in bits)
        if runs is not None:
            changes["runs"] = check_integer("runs", runs, low=1)
        return replace(self, parts=tuple(_checked(replace(part, **changes), self.name) for part in self.parts))


def read_experiment(path: str | Path) -> Experiment:
    """The experiment that a TOML file describes.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Experiment
        Named as the file, without its ending.

    Examples
    --------
    >>> experiment = read_experiment("shop.toml")  # doctest: +SKIP
    >>> run_experiment(experiment, "shop-results")  # doctest: +SKIP
    """
    path = Path(path)
    if path.suffix != ".toml":
        raise ValueError(f"an experiment must be a .toml file, got {str(path)!r}")
    try:
        return _experiment(path)
    except (ValueError, TypeError) as error:
        if path.name in str(error):
            raise
        raise type(error)(f"{path.name}: {error}") from None


def _experiment(path: Path) -> Experiment:
    read = _toml(path)
    check_known(path.name, read, [*_OF_A_PART, *_OF_THE_WHOLE])
    definitions = _definitions(read, path)
    shared = {key: value for key, value in read.items() if key in _OF_A_PART}
    parts = check_kind(path.name, "parts", read.get("parts", [{}]), list)
    texts = {name: check_kind(path.name, name, read.get(name, ""), str) for name in ("title", "caption", "published")}
    return Experiment(
        path.stem,
        texts["title"] or path.stem,
        texts["caption"],
        tuple(check_kind(path.name, "remarks", read.get("remarks", []), list)),
        _measures(path.name, "measures", _listed(path.name, "measures", read, DEFAULT_MEASURES)),
        read_published(path.parent / texts["published"]) if texts["published"] else {},
        tuple(_part(path.name, shared | check_kind(path.name, "parts", part, dict), definitions) for part in parts),
        definitions,
    )


_OF_A_PART = [entry.name for entry in fields(RunGrid)]
_MOST_DOTS = 1000
"""In a key: the parser takes memory by the square of them."""
_OF_THE_WHOLE = ("title", "caption", "remarks", "measures", "published", "settings", "parts", "dataset", "method")


def _toml(path: Path) -> dict[str, Any]:
    try:
        text = check_regular(path).read_text(encoding="utf-8")
        if any(line.partition("=")[0].count(".") > _MOST_DOTS for line in text.splitlines()):
            raise RecursionError
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"{path} is no TOML file: nested too deeply") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no TOML file: {error}") from None


def _definitions(read: Entries, path: Path) -> Definitions:
    own = read_definitions(read, path)
    if "settings" not in read:
        return own
    other = path.parent / check_kind(path.name, "settings", read["settings"], str)
    return own.over(read_definitions(_toml(other), other))


def _measures(where: str, entry: str, names: Sequence[Any]) -> tuple[Measure, ...]:
    return tuple(MEASURES[check_choice(f"{where}: {entry}", name, MEASURES)] for name in names)


def _part(where: str, read: Entries, definitions: Definitions) -> RunGrid:
    check_known(where, read, _OF_A_PART)
    for missing in [key for key in ("datasets", "methods", "bits", "runs") if key not in read]:
        raise ValueError(f"{where} must say its {missing}")
    vary = check_kind(where, "vary", read.get("vary", {}), dict)
    part = RunGrid(
        tuple(definitions.dataset(name) for name in _listed(where, "datasets", read)),
        tuple(definitions.method(name) for name in _method_names(where, read)),
        tuple(_listed(where, "bits", read)),
        read["runs"],
        check_kind(where, "params", read.get("params", {}), dict),
        {parameter: tuple(_listed(where, parameter, vary)) for parameter in vary},
        check_kind(where, "reference", read.get("reference", False), bool),
        check_kind(where, "figure", read.get("figure", ""), str),
        _measures(where, "draws", _listed(where, "draws", read) if "draws" in read else ()),
    )
    return _checked(part, where)


def _method_names(where: str, read: Entries) -> list:
    """The methods of a part; "all" is every method of the registry."""
    return list(METHODS) if read["methods"] == ALL_METHODS else _listed(where, "methods", read)


def _listed(where: str, name: str, read: Entries, default: Sequence[str] = ()) -> list:
    values = check_kind(where, name, read.get(name, list(default)), list)
    if not values:
        raise ValueError(f"{where}: {name} must not be empty")
    return values


def _checked(part: RunGrid, where: str) -> RunGrid:
    for bits in part.bits:
        check_integer("bits", bits, low=1)
    check_integer("runs", part.runs, low=1)
    if part.figure:
        check_choice("figure", part.figure, FIGURES)
    if len(part.vary) > 1:
        raise ValueError(f"{where} must vary one parameter at a time, got {', '.join(part.vary)}")
    if part.figure == "sweeps" and not part.vary:
        raise ValueError(f"{where} must say what to vary in its figure of sweeps")
    for method in part.methods:
        check_parameters(where, method, {**part.params, **part.vary})
    return part
