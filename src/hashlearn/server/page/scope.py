"""The items that a view shows: by payload values, ranges, words, a cluster, or an area of the map, from an address."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.explore import SIDE, CollectionMap

VALUE, LEAST, MOST = "f.", "min.", "max."
"""Prefixes of parameters: a value, the least number and the largest number of a field."""
GRID = 1000
"""Areas are given on a grid of this many steps a side."""
_MOST_CORNERS = 200
_MOST_VALUES = 100
_LONGEST_WORDS = 200


class Scope(NamedTuple):
    """Some of the items.

    Attributes
    ----------
    values : field -> texts of values; an item must have one of them
    ranges : field -> (least, largest); None for no limit
    cluster : int or None
        From 0.
    area : corners of a polygon on the map; empty for no area
    words : str
        Words that the name or the text of an item must have.
    """

    values: dict[str, list[str]]
    ranges: dict[str, tuple[float | None, float | None]]
    cluster: int | None = None
    area: tuple[tuple[int, int], ...] = ()
    words: str = ""

    def __bool__(self) -> bool:
        return bool(self.values or self.ranges or self.area or self.words) or self.cluster is not None

    @property
    def uses_map(self) -> bool:
        return self.cluster is not None or bool(self.area)

    @property
    def parameters(self) -> dict[str, Any]:
        """Its parameters in an address."""
        said: dict[str, Any] = {f"{VALUE}{field}": values for field, values in self.values.items()}
        for field, (least, most) in self.ranges.items():
            said[f"{LEAST}{field}"] = None if least is None else f"{least:g}"
            said[f"{MOST}{field}"] = None if most is None else f"{most:g}"
        said["cluster"] = self.cluster
        said["area"] = ",".join(f"{x},{y}" for x, y in self.area) or None
        said["words"] = self.words or None
        return {name: value for name, value in said.items() if value is not None}

    def filter(self, but: str | None = None) -> dict[str, Any] | None:
        """The condition on payloads, without the field ``but``."""
        parts: list[dict[str, Any]] = [
            {field: {"$in": [value for text in texts for value in _meanings(text)]}}
            for field, texts in self.values.items()
            if field != but
        ]
        for field, (least, most) in self.ranges.items():
            limits = {sign: limit for sign, limit in (("$gte", least), ("$lte", most)) if limit is not None}
            if field != but:
                parts.append({field: limits})
        return {"$and": parts} if parts else None

    def subset(self, made: CollectionMap | None) -> NDArray[np.bool_] | None:
        """A mask of the items in the cluster and the area, in the order of the ids; None for all items."""
        if not self.uses_map:
            return None
        if made is None:
            raise ValueError("the map is not ready yet; clusters and areas can be chosen when it is")
        chosen = np.ones(len(made), bool)
        if self.cluster is not None:
            if self.cluster >= len(made.clusters):
                raise ValueError(f"cluster must be below {len(made.clusters)}, got {self.cluster}")
            chosen &= made.labels == self.cluster
        if self.area:
            chosen &= made.inside([(x * (SIDE + 1) / GRID, y * (SIDE + 1) / GRID) for x, y in self.area])
        return chosen

    def chips(self, made: CollectionMap | None) -> list[tuple[str, "Scope"]]:
        """Each condition in words, with the scope without this condition."""
        found: list[tuple[str, Scope]] = []
        for field, texts in self.values.items():
            for text in texts:
                rest = {**self.values, field: [other for other in texts if other != text]}
                left = {name: values for name, values in rest.items() if values}
                found.append((f"{field}: {text}", self._replace(values=left)))
        for field, (least, most) in self.ranges.items():
            said = f"{field}: {'' if least is None else f'{least:g}'} to {'' if most is None else f'{most:g}'}"
            found.append((said, self._replace(ranges={f: r for f, r in self.ranges.items() if f != field})))
        if self.words:
            found.append((f"words: {self.words}", self._replace(words="")))
        if self.cluster is not None:
            name = f"Cluster {self.cluster + 1}"
            if made is not None and self.cluster < len(made.clusters):
                name = made.clusters[self.cluster].name
            found.append((name, self._replace(cluster=None)))
        if self.area:
            found.append(("an area of the map", self._replace(area=())))
        return found


def scope_of(parameters: Any) -> Scope:
    """The scope of an address; a ValueError of one line if it is not valid.

    Parameters
    ----------
    parameters : QueryParams, or a dict with a list of texts for each name
    """
    values: dict[str, list[str]] = {}
    limits: dict[str, list[float | None]] = {}
    for name in parameters:
        texts = [text for text in _all(parameters, name) if text.strip()][:_MOST_VALUES]
        if not texts:
            continue
        if name.startswith(VALUE):
            values[name.removeprefix(VALUE)] = list(dict.fromkeys(texts))
        for place, start in enumerate((LEAST, MOST)):
            if name.startswith(start):
                limits.setdefault(name.removeprefix(start), [None, None])[place] = _number(name, texts[0])
    ranges = {field: (least, most) for field, (least, most) in limits.items()}
    words = " ".join(_all(parameters, "words")).strip()[:_LONGEST_WORDS]
    return Scope(values, ranges, _cluster(_all(parameters, "cluster")), _area(_all(parameters, "area")), words)


def _all(parameters: Any, name: str) -> Sequence[str]:
    return parameters.getlist(name) if hasattr(parameters, "getlist") else _listed(parameters, name)


def _listed(parameters: Mapping[str, Any], name: str) -> list[str]:
    given = parameters.get(name, [])
    return given if isinstance(given, list) else [given]


def _cluster(texts: Sequence[str]) -> int | None:
    if not texts or not texts[0].strip():
        return None
    if not texts[0].isdecimal() or len(texts[0]) > 6:
        raise ValueError(f"cluster must be a number from 0, got {texts[0][:40]!r}")
    return int(texts[0])


def _area(texts: Sequence[str]) -> tuple[tuple[int, int], ...]:
    if not texts or not texts[0].strip():
        return ()
    parts = texts[0].split(",")
    if len(parts) % 2 or not 6 <= len(parts) <= 2 * _MOST_CORNERS or not all(part.isdecimal() for part in parts):
        raise ValueError(f"area must be 3 to {_MOST_CORNERS} corners x,y of whole numbers, got {texts[0][:40]!r}")
    numbers = [min(int(part[:6]), GRID) for part in parts]
    return tuple(zip(numbers[::2], numbers[1::2]))


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(f"{name} must be a number, got {text[:40]!r}")
    return number


def _meanings(text: str) -> list[Any]:
    """The payload values that a text in an address may mean: the text, a number, a boolean."""
    found: list[Any] = [text]
    if text in ("True", "False"):
        found.append(text == "True")
    try:
        number = float(text)
    except ValueError:
        return found
    return [*found, number] if np.isfinite(number) else found
