"""The datasets and methods of an experiment, with their settings.

Other names are known as well: of datasets, those of :func:`hashlearn.datasets.load`; of methods, those of the registry,
with default parameters. ``module:Class`` is a method of your own; the module is installed, or lies beside the
experiment's file.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hashlearn.datasets import DATASETS
from hashlearn.experiments.judge import has_real_queries
from hashlearn.hashers.base import Hasher
from hashlearn.hashers.registry import METHODS, method_named
from hashlearn.hashers.union import HasherUnion

UNION = "union"

OWN = ":"
"""The mark of your own method in its name, ``module:Class``."""

UNIT = "unit"
"""The value of ``scale`` that gives every row the length one."""

RANKINGS = ("codes", "real")
"""How results are ranked: by the Hamming distance of codes, or by real queries against codes."""


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

    @property
    def files(self) -> tuple[str, ...]:
        """The user's own files that it consists of."""
        named = (self.features, self.labels, self.queries, self.query_labels)
        return (*([self.source] if self.source else []), *(file.path for file in named if file is not None))

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
    method : name in the registry, or ``module:Class`` for a hasher of your own
    union_of : names in the registry instead, of methods that share the bits in equal parts (:class:`HasherUnion`)
    published_as : its name in the published table
    is_variant : whether its settings differ from those of the published number it is compared with as_published : start
    from the method's ``paper(dataset)`` settings ranking : "codes" by Hamming distance, or "real" by real queries
    against codes; the default depends on the method highlight : whether figures draw it strong params : parameters on
    all datasets on : dataset -> parameters on this dataset
    """

    name: str
    title: str = ""
    method: str = ""
    union_of: tuple[str, ...] = ()
    published_as: str = ""
    is_variant: bool = False
    as_published: bool = False
    ranking: str = ""
    highlight: bool = False
    params: dict[str, Any] = field(default_factory=dict)
    on: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _set_default(self, "method", UNION if self.union_of else self.name)
        _set_default(self, "title", " + ".join(hasher_class(name).__name__ for name in self.registered))
        _set_default(self, "published_as", self.title)

    @property
    def registered(self) -> tuple[str, ...]:
        """The methods of the registry that it is made of."""
        return tuple(self.union_of) or (self.method,)

    def ranks_real_queries(self, hasher: Hasher) -> bool:
        """Whether the results of this hasher are ranked by real queries."""
        return self.ranking == "real" if self.ranking else has_real_queries(hasher)

    def hasher(self, dataset: DatasetSettings, bits: int, seed: int, changes: Mapping[str, Any]) -> Hasher:
        """The hasher, not yet fitted."""
        if self.union_of:
            shares = [len(part) for part in np.array_split(range(bits), len(self.union_of))]
            classes: list[Any] = [hasher_class(name) for name in self.union_of]
            parts = [cls(share, random_state=seed) for cls, share in zip(classes, shares)]
            return HasherUnion(parts)
        cls: Any = hasher_class(self.method)
        params = {**self.params, **self.on.get(dataset.like, {}), **changes, "random_state": seed}
        return cls.paper(dataset.like, bits, **params) if self.as_published else cls(bits, **params)


@dataclass(frozen=True)
class Definitions:
    """The datasets and methods that a file describes, by name; ``folder`` is that of the file."""

    datasets: Mapping[str, DatasetSettings] = field(default_factory=dict)
    methods: Mapping[str, MethodSettings] = field(default_factory=dict)
    folder: Path | None = None

    def over(self, others: "Definitions") -> "Definitions":
        """These definitions; names that are missing here come from the others."""
        return Definitions({**others.datasets, **self.datasets}, {**others.methods, **self.methods}, self.folder)

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
        if OWN in str(name):
            let_modules_be_found(self.folder)
            return MethodSettings(str(name))
        name = str(name).lower()
        if name in self.methods:
            return self.methods[name]
        if name in METHODS:
            return MethodSettings(name)
        known = dict.fromkeys((*self.methods, *METHODS))
        raise ValueError(f"method must be one of {', '.join(known)}, got {name!r}")


def let_modules_be_found(folder: Path | None) -> None:
    """Make the modules of a folder importable, also in worker processes."""
    if folder is not None and str(folder.resolve()) not in sys.path:
        sys.path.append(str(folder.resolve()))


def hasher_class(name: str) -> type[Hasher]:
    """The class of a method: by its name in the registry, or as ``module:Class``."""
    if OWN not in name:
        return method_named(name)
    module, _, attribute = name.partition(OWN)
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"method {name!r} is not found: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Hasher)):
        raise ValueError(f"method {name!r} must be a subclass of hashlearn.Hasher, got {found!r:.60}")
    return found


def _set_default(settings: Any, name: str, value: Any) -> None:
    """Fill an empty entry of a frozen dataclass."""
    if not getattr(settings, name):
        object.__setattr__(settings, name, value)
