"""A task: one method, one dataset, one length, one seed. Its full description is its key in the results."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from hashlearn.experiments.define.experiment import Experiment, RunGrid
from hashlearn.experiments.define.settings import DatasetSettings, MethodSettings
from hashlearn.hashers.base import Hasher
from hashlearn.hashers.jpsh import solver_settings
from hashlearn.hashers.union import HasherUnion

REFERENCE = "float vectors"
"""Title of the Euclidean ranking of the vectors themselves, which a table shows beside the codes."""

REFERENCE_METHOD = "float"
NOT_CONFIGURATION = ("n_bits", "random_state")


class Variation(NamedTuple):
    """The parameter that a part varies, and one of its values."""

    parameter: str
    value: Any


@dataclass(frozen=True)
class Task:
    """A point of an experiment's grid.

    Attributes
    ----------
    dataset : DatasetSettings
    method : MethodSettings, or None for the float vectors themselves
    bits : None for the float vectors
    run : number of the repetition, which is the seed
    changes : parameters over the method's own settings
    variation : what is varied, if something is
    """

    dataset: DatasetSettings
    method: MethodSettings | None
    bits: int | None
    run: int
    changes: dict[str, Any]
    variation: Variation | None = None

    @property
    def title(self) -> str:
        """The method, and the value of the parameter that is varied."""
        if self.method is None:
            return REFERENCE
        if self.variation is None:
            return self.method.title
        return f"{self.method.title} {self.variation.parameter}={_shown(self.variation.value)}"

    def __str__(self) -> str:
        length = "" if self.bits is None else f" at {self.bits} bits"
        return f"{self.title}{length} on {self.dataset.title}"

    def hasher(self) -> Hasher:
        """The hasher to fit."""
        assert self.method is not None
        assert self.bits is not None
        return self.method.hasher(self.dataset, self.bits, self.run, self.changes)

    @cached_property
    def config(self) -> dict[str, Any]:
        """Everything that decides the result, except the data: method, all parameters, bits, seed, preprocessing."""
        config = {"dataset": self.dataset.name, "scale": self.dataset.scale, "bits": self.bits, "seed": self.run}
        if self.method is None:
            return plain({**config, "method": REFERENCE_METHOD, "params": {}})
        params = configuration(self.hasher())
        ranking = {"ranking": self.method.ranking} if self.method.ranking else {}
        return plain({**config, "method": self.method.method, "params": params, **ranking})

    @cached_property
    def key(self) -> str:
        """The short name of the configuration."""
        return key_of(self.config)


def configuration(hasher: Hasher) -> dict[str, Any]:
    """All parameters of a hasher but its length and its seed; of a union, those of its parts.

    All entries of ``solver`` are listed beside the other parameters. So a key does not depend on which entries were
    left out.
    """
    if isinstance(hasher, HasherUnion):
        return {
            "union": [
                {"method": type(part).__name__.lower(), "bits": part.n_bits, "params": configuration(part)}
                for part in hasher.hashers
            ]
        }
    params = hasher.get_params(deep=False)
    if "solver" in params:
        del params["solver"]
        params |= solver_settings(hasher)._asdict()
    return {name: value for name, value in params.items() if name not in NOT_CONFIGURATION}


def tasks_of(experiment: Experiment) -> list[Task]:
    """All tasks of an experiment: first every method and length once, then the repetitions."""
    found = {task.key: task for part in experiment.parts for task in tasks_of_part(part)}
    return sorted(found.values(), key=lambda task: task.run)


def tasks_of_part(part: RunGrid) -> Iterator[Task]:
    """The tasks of a part of an experiment."""
    if part.reference:
        yield from (Task(dataset, None, None, 0, {}) for dataset in part.datasets)
    for dataset in part.datasets:
        for run in range(part.runs):
            for bits in part.bits:
                for method in part.methods:
                    for variation in variations(part):
                        changes = dict([variation]) if variation else {}
                        yield Task(dataset, method, bits, run, {**part.params, **changes}, variation)


def variations(part: RunGrid) -> list[Variation | None]:
    """The values of the parameter that a part varies; one None where it varies nothing."""
    found = [Variation(parameter, value) for parameter, values in part.vary.items() for value in values]
    return [*found] or [None]


def key_of(config: dict[str, Any], digest: str = "") -> str:
    """A short name of a configuration, and of the data it was run on if their digest is given."""
    text = json.dumps([plain(config), digest], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def plain(value: Any) -> Any:
    """The value as JSON stores it; 10.0 and 10 are the same configuration."""
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"parameters of an experiment must be numbers, words or lists of them, got {type(value).__name__}")


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
