"""The fields of payloads as filters: values with their counts, or a histogram of numbers."""

from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from hashlearn.server.page.charts import small_histogram
from hashlearn.server.page.collection import TEXT_FIELD, Collection
from hashlearn.server.page.scope import Scope

MOST_FIELDS = 8
LISTED = 10
"""The number of values that have a check box. Other values can be typed."""
OFFERED = 200
_LOOKED_AT = 300
_FEW_VALUES = 12
_N_BINS = 24
_MOST_WHOLE = 240
"""Whole numbers in a range up to this one get a bar each: bins with unequal numbers of values would mislead."""
_NEARLY_ALL = 0.9
_MOST_CLOSER_LOOKS = 2
_MOST_DISTINCT = 0.5
_FILTERS_KEPT = 64


class ShownValue(NamedTuple):
    """A value that can be chosen."""

    text: str
    count: int  # type: ignore[assignment]
    is_chosen: bool


class FieldFilter(NamedTuple):
    """A field of the payloads as a filter.

    Attributes
    ----------
    field : str
    values : list of ShownValue
        The most frequent values, and the chosen ones; numbers in ascending order.
    others : list of str
        Further values, for the text box.
    histogram : Markup or None
        The histogram of a field with many different numbers.
    limits : (least, largest) that are chosen
    """

    field: str
    values: list[ShownValue]
    others: list[str]
    histogram: Markup | None
    limits: tuple[float | None, float | None]


class Fields:
    """The payload fields that are useful as filters; found once, and again after items were added or removed."""

    def __init__(self, collection: Collection):
        self._collection = collection
        self._known: tuple[Any, list[str]] | None = None
        self._all: list[str] = []
        self._filters: dict[str, tuple[Any, list[FieldFilter]]] = {}
        self._numeric: set[str] = set()
        """Fields with many different numbers; these have a histogram."""
        self._whole: set[str] = set()
        """The numeric fields with whole numbers only."""

    def names(self) -> list[str]:
        """Fields in which several items have the same value, in the order of the payloads."""
        moment = self._collection.search.moment
        if self._known is None or moment is None or self._known[0] is not moment:
            self._known = moment, self._looked_for()
        return self._known[1]

    def all_names(self) -> list[str]:
        """All fields that were seen, except the text, in the order of the payloads."""
        self.names()
        return self._all

    def filters(self, scope: Scope, subset: NDArray[np.bool_] | None = None) -> list[FieldFilter]:
        """The filters, kept for reuse. They count items that the other filters and the choice on the map leave."""
        names, moment, key = self.names(), self._collection.search.moment, repr(scope.parameters)
        kept = self._filters.get(key)
        if kept is not None and moment is not None and kept[0] is moment:
            return kept[1]
        found = [self._filter(field, scope, subset) for field in names]
        if len(self._filters) >= _FILTERS_KEPT:
            self._filters = {}
        self._filters[key] = moment, found
        return found

    def _looked_for(self) -> list[str]:
        collection = self._collection
        if collection.search.store is not None:  # a database can only count by its own means
            return []
        payloads = collection.search.payloads(collection.random_ids(_LOOKED_AT, random_state=0))
        seen: dict[str, list[Any]] = {}
        for payload in payloads:
            for field, value in (payload or {}).items():
                seen.setdefault(field, []).append(value)
        self._all = [field for field in seen if field != TEXT_FIELD]
        self._numeric = {
            field for field, values in seen.items() if all(map(_is_number, values)) and len(set(values)) > _FEW_VALUES
        }
        self._whole = {field for field in self._numeric if all(float(value).is_integer() for value in seen[field])}
        return [field for field in self._all if _is_worth(seen[field])][:MOST_FIELDS]

    def _filter(self, field: str, scope: Scope, subset: NDArray[np.bool_] | None) -> FieldFilter:
        search, condition = self._collection.search, scope.filter(but=field)
        limits = scope.ranges.get(field, (None, None))
        if field in self._numeric:
            return FieldFilter(field, [], [], self._histogram(field, condition, subset, limits), limits)
        counts = search.facets(field, condition, OFFERED, subset=subset)
        chosen, known = set(scope.values.get(field, [])), {str(facet.value) for facet in counts}
        if chosen - known:  # chosen values are shown even if they are rare
            own = scope._replace(ranges={}, values={field: sorted(chosen)}).filter()
            both = own if condition is None else {"$and": [condition, own]}
            counts += [facet for facet in search.facets(field, both, subset=subset) if str(facet.value) not in known]
        texts = [(str(facet.value), facet.count) for facet in counts]
        texts += [(text, 0) for text in sorted(chosen - {text for text, _ in texts})]
        listed = [
            ShownValue(text, count, text in chosen)
            for place, (text, count) in enumerate(texts)
            if place < LISTED or text in chosen
        ]
        if all(_is_number(facet.value) for facet in counts):
            numbers = {str(facet.value): float(facet.value) for facet in counts}
            listed.sort(key=lambda value: numbers.get(value.text, np.inf))
        return FieldFilter(field, listed, [text for text, _ in texts[LISTED:OFFERED]], None, limits)

    def _histogram(
        self,
        field: str,
        condition: dict[str, Any] | None,
        subset: NDArray[np.bool_] | None,
        limits: tuple[float | None, float | None],
    ) -> Markup:
        """A histogram of a field. If nearly all numbers are in the first bar, it shows these; one bar has the rest."""
        counts, edges = self._bars(field, condition, subset)
        n_above = 0
        for _ in range(_MOST_CLOSER_LOOKS):
            if counts[0] < _NEARLY_ALL * counts.sum() or not edges[0] < edges[1] < edges[-1]:
                break
            n_above += int(counts[1:].sum())
            near: dict[str, Any] = {field: {"$lte": float(edges[1])}}
            below = near if condition is None else {"$and": [condition, near]}
            counts, edges = self._bars(field, below, subset)
        return small_histogram(counts.tolist(), edges.tolist(), limits, n_above)

    def _bars(
        self, field: str, condition: dict[str, Any] | None, subset: NDArray[np.bool_] | None
    ) -> tuple[NDArray, NDArray]:
        """Counts and edges of bins. For whole numbers, each bin has the same number of different values."""
        search = self._collection.search
        counts, edges = search.histogram(field, _N_BINS, condition, subset=subset)
        width = int(edges[-1] - edges[0])
        if field not in self._whole or not 1 <= width <= _MOST_WHOLE:
            return counts, edges
        halves = search.histogram(field, 2 * width, condition, subset=subset).counts
        each = np.append(halves[::2], halves[-1])  # bins half a number wide: every second bin would be empty
        step = -(-len(each) // _N_BINS)
        starts = np.arange(0, len(each), step)
        return np.add.reduceat(each, starts), np.append(edges[0] + starts, edges[-1])


def _is_worth(values: list[Any]) -> bool:
    if not all(isinstance(value, (str, int, float, bool)) for value in values):
        return False
    if all(_is_number(value) for value in values):
        return len(set(values)) > 1
    return 1 < len(set(values)) <= max(2, _MOST_DISTINCT * len(values))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
