"""Views of a search for notebooks: the map as a drawing, and the neighbors of a query as a list."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hashlearn.explore.clusters import TEXT_FIELD
from hashlearn.html import render

if TYPE_CHECKING:
    from hashlearn.search import SimilaritySearch


class Neighbor(NamedTuple):
    """A neighbor: its text, its other fields, and its nearness, from 1 for the first neighbor to 0."""

    id: Any
    text: str
    fields: list[tuple[str, str]]
    distance: str
    nearness: float
    picture: str | None


class ShownNeighbors:
    """The neighbors of a query, which a notebook displays as a list with texts, fields and bars of nearness.

    Attributes
    ----------
    title : str
    rows : list of Neighbor
    """

    def __init__(self, title: str, rows: list[Neighbor]):
        self.title, self.rows = title, rows

    def __repr__(self) -> str:
        lines = [f"{row.distance:>10}  {row.id}  {row.text[:60]}".rstrip() for row in self.rows]
        return "\n".join([self.title, *lines])

    def _repr_html_(self) -> str:
        return render("notebook/neighbors.html", title=self.title, rows=self.rows)


def shown_neighbors(
    search: "SimilaritySearch", query: Any, k: int, picture: Callable[[Any], str] | None, **options: Any
) -> ShownNeighbors:
    """The neighbors of a vector or of a row with an id, ready to be shown."""
    title = "Nearest to the vector"
    own = None
    if isinstance(query, (str, int, np.integer)):
        records = search.get(np.array([query], object if isinstance(query, str) else np.int64))
        if not records:
            raise ValueError(f"query must be a vector or the id of a row, got {query!r:.60}, which is no id here")
        if records[0].vector is None:
            raise ValueError("query must be a vector: the search keeps no vectors of its rows")
        own, query = records[0].id, records[0].vector
        title = f"Nearest to {own}"
    found = search.search(query, k + (own is not None), include=["payload"], **options)
    payloads: Any = getattr(found, "payloads", None)
    together = list(zip(found.ids.tolist(), found.distances.tolist(), payloads))
    together = [each for each in together if each[0] not in (own, None, -1)][:k]
    last = together[-1][1] if together else 0.0
    first = together[0][1] if together else 0.0
    rows = [
        Neighbor(
            id,
            str((payload or {}).get(TEXT_FIELD, "")),
            [
                (str(name), str(value)[:80])
                for name, value in (payload or {}).items()
                if name != TEXT_FIELD and value != id
            ],
            f"{distance:.4g}",
            1.0 if last == first else (last - distance) / (last - first),
            None if picture is None else picture(id),
        )
        for id, distance, payload in together
    ]
    return ShownNeighbors(title, rows)
