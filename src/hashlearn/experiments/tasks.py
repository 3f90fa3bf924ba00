"""A task: one method, one dataset, one length, one seed. What it is fully described by is its key in the results."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hashlearn.experiments.experiment import DatasetSettings, Experiment, Part, Row, dataset_settings, row_named
from hashlearn.hashers.base import Hasher

REFERENCE = Row("float", "float vectors")
"""The Euclidean ranking of the vectors themselves, which every table shows beside the codes."""

NOT_CONFIGURATION = ("n_bits", "random_state")


@dataclass(frozen=True)
class Task:
    """A point of an experiment's grid.

    Attributes
    ----------
    bits : None for the float vectors
    run : number of the repetition, which is the seed
    changes : parameters over the method's own settings
    at : value of the parameter that is varied, or None
    """

    dataset: DatasetSettings
    row: Row
    bits: int | None
    run: int
    changes: dict[str, Any]
    at: Any = None

    def hasher(self) -> Hasher:
        """The hasher to fit."""
        assert self.bits is not None
        return self.row.hasher(self.dataset, self.bits, self.run, self.changes)

    @cached_property
    def config(self) -> dict[str, Any]:
        """Everything that decides the result, except the data: method, all parameters, bits, seed, preprocessing."""
        config = {"dataset": self.dataset.name, "scale": self.dataset.scale, "bits": self.bits, "seed": self.run}
        if self.bits is None:
            return plain({**config, "method": REFERENCE.name, "params": {}})
        hasher = self.hasher()
        params = {name: value for name, value in hasher.get_params(deep=False).items() if name not in NOT_CONFIGURATION}
        return plain({**config, "method": self.row.method or self.row.name, "params": params})


def tasks_of(experiment: Experiment) -> list[Task]:
    """All tasks of an experiment: first every method and length once, then the repetitions."""
    found = {key_of(task.config): task for part in experiment.parts for task in tasks_of_part(part)}
    return sorted(found.values(), key=lambda task: task.run)


def tasks_of_part(part: Part) -> Iterator[Task]:
    """The tasks of a part of an experiment."""
    settings = [dataset_settings(name) for name in part.datasets]
    if part.reference:
        yield from (Task(dataset, REFERENCE, None, 0, {}) for dataset in settings)
    parameter, values = next(iter(part.vary.items()), ("", (None,)))
    for dataset in settings:
        for run in range(part.runs):
            for bits in part.bits:
                for method in part.methods:
                    for value in values:
                        changes = {**part.params, parameter: value} if parameter else part.params
                        yield Task(dataset, row_named(method), bits, run, changes, value)


def key_of(config: dict[str, Any], digest: str = "") -> str:
    """A short name of a configuration, and of the data it was run on if their digest is given."""
    text = json.dumps([plain(config), digest], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def plain(value: Any) -> Any:
    """The value as JSON keeps it; 10.0 and 10 are one configuration."""
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"parameters of an experiment must be numbers, words or lists of them, got {type(value).__name__}")
