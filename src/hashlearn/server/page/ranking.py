"""Results of a query: in the order of ``SimilaritySearch.search``, and in the order of the codes alone."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import hamming_distances
from hashlearn.codes.results import Neighbors
from hashlearn.server.page.collection import Collection, Item
from hashlearn.server.page.queries import PageQuery

FIRST, DEPTH = 24, 240
"""The first results come from a search for 24 neighbors; where more are shown, a search for 240 gives the others."""
MOST_EXACT = 50_000
"""Largest collection in which a query is compared with all vectors before a page is shown."""
N_TRUE = 10


class LookedAt(NamedTuple):
    """The rows that a search is restricted to: arguments of ``SimilaritySearch.search``."""

    filter: dict[str, Any] | None = None
    subset: NDArray[np.bool_] | None = None


EVERYTHING = LookedAt()


class RankedItem(NamedTuple):
    """One result.

    Attributes
    ----------
    item : Item
    rank : int, from 1
    distance : float
        The distance that results are ordered by.
    hamming : int
        The number of bits that differ between its code and the query's, or the first result's if the query has no code.
    tied : bool
        Whether another result has the same distance. Such results are in the order in which they were added.
    """

    item: Item
    rank: int
    distance: float
    hamming: int
    tied: bool

    @property
    def shown(self) -> str:
        """The distance as text."""
        return f"{int(self.distance)}" if self.distance == int(self.distance) else f"{self.distance:.4g}"


def neighbors(
    collection: Collection, query: PageQuery, among: LookedAt = EVERYTHING, k: int = DEPTH
) -> list[tuple[Any, float]]:
    """Ids and distances of the nearest items in the order of ``search()``, without the items of the query."""
    first = _nearest(collection, query, among, min(k, FIRST))
    if len(first) < FIRST or k <= FIRST:
        return first
    known = {key for key, _ in first}
    rest = _nearest(collection, query, among, k)
    return (first + [pair for pair in rest if pair[0] not in known])[:k]


def _nearest(collection: Collection, query: PageQuery, among: LookedAt, k: int) -> list[tuple[Any, float]]:
    search = collection.search
    wanted = min(k + len(query.items), len(search))
    if not wanted or (among.subset is not None and not among.subset.any()):
        return []
    if query.words and search.text_field is not None:
        found = search.search(
            query.vector, wanted, text=query.words, by=query.by, diversity=query.diversity, **among._asdict()
        )
    elif len(query.items) > 1:
        like, unlike = _likes(query)
        options = {"unlike": unlike or None, "diversity": query.diversity, **among._asdict()}
        found = search.search(None, wanted, like=like, **options)
    elif query.vector is not None:
        found = search.search(query.vector, wanted, diversity=query.diversity, **among._asdict())
    else:
        distances, ids = search.search_codes(code_of(query)[None], wanted, **among._asdict())
        found = Neighbors(distances[0], ids[0])
    return _without_query(query, found.distances, found.ids)[:k]


def true_ids(collection: Collection, query: PageQuery, among: LookedAt = EVERYTHING) -> list[Any]:
    """Ids of the ten nearest items; all kept vectors are compared.

    Empty if no vectors are kept, if results should differ, and for a text that is also compared by its words.
    """
    search = collection.search
    if (
        query.vector is None
        or query.diversity
        or not collection.keeps_vectors
        or (query.words and search.text_field is not None)
    ):
        return []
    wanted = min(N_TRUE + len(query.items), len(search))
    distances, ids = search.search(
        query.vector[None], wanted, candidates=len(search), rerank="vectors", **among._asdict()
    )
    return [key for key, _ in _without_query(query, distances[0], ids[0])[:N_TRUE]]


def by_codes(collection: Collection, query: PageQuery, k: int) -> list[tuple[Any, float]]:
    """Ids and Hamming distances of the nearest codes, even if the search itself compares real queries with codes."""
    wanted = min(k + len(query.items), len(collection))
    if not wanted:
        return []
    if collection.search.query == "code":
        distances, ids = collection.search.search_codes(code_of(query)[None], wanted)
        return _without_query(query, distances[0], ids[0])[:k]
    hamming = hamming_distances(code_of(query)[None], collection.codes(), collection.n_bits)[0]
    order = np.argsort(hamming, kind="stable")[:wanted]
    return _without_query(query, hamming[order], collection.ids[order])[:k]


def results(
    collection: Collection, query: PageQuery, pairs: list[tuple[Any, float]], first: int = 0
) -> list[RankedItem]:
    """Ids and distances as results; ``first`` is the rank before the first of them."""
    items = {item.id: item for item in collection.items([key for key, _ in pairs])}
    pairs = [pair for pair in pairs if pair[0] in items]
    if not pairs:
        return []
    codes = np.stack([items[key].code for key, _ in pairs])
    own = codes[:1] if query.code is None else query.code[None]
    hamming = hamming_distances(own, codes, collection.n_bits)[0]
    distances = np.array([distance for _, distance in pairs])
    tied = (distances[:, None] == distances[None]).sum(axis=1) > 1
    return [
        RankedItem(items[key], first + place + 1, distance, int(hamming[place]), bool(tied[place]))
        for place, (key, distance) in enumerate(pairs)
    ]


def nearnesses(pairs: list[tuple[Any, float]]) -> list[float]:
    """How near each of the results is, from 1 for the nearest to 0 for the farthest."""
    distances = [distance for _, distance in pairs]
    least, most = min(distances, default=0.0), max(distances, default=0.0)
    return [(most - distance) / (most - least) if most > least else 1.0 for distance in distances]


def code_of(query: PageQuery) -> NDArray[np.uint8]:
    """The code of a query, or a ValueError where it has none."""
    if query.code is None:
        raise ValueError("these words have no code: the collection has no encoder of texts")
    return query.code


def _likes(query: PageQuery) -> tuple[list[Any], list[Any]]:
    ids = [item.id for item in query.items]
    n_liked = len(ids) - query.n_avoided
    return ids[:n_liked], ids[n_liked:]


def _without_query(query: PageQuery, distances: NDArray, ids: NDArray) -> list[tuple[Any, float]]:
    own = {item.id for item in query.items} | {None, -1}
    return [(key, float(distance)) for key, distance in zip(ids.tolist(), distances) if key not in own]
