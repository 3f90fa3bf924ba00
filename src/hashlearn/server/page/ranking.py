"""Results of a query, ordered in one of three ways, with what is worth knowing about each."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import hamming_distances
from hashlearn.server.page.collection import Collection, Item
from hashlearn.server.page.queries import Query

MOST_EXACT = 50_000
"""Vectors that are compared with a query one by one, at most."""

METHODS = {"codes": "codes", "asymmetric": "real query", "vectors": "vectors"}
"""Ways of ranking -> what they are called on the page."""


class Result(NamedTuple):
    """One result.

    Attributes
    ----------
    item : Item
    rank : int, from 1
    distance : float
        That it is ordered by.
    hamming : int
        Bits in which its code differs from the query's.
    tied : bool
        Whether another result has the same distance: the order among them is by id.
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


def methods_for(collection: Collection, query: Query) -> dict[str, str]:
    """The ways in which the results of a query can be ordered."""
    methods = {"codes": METHODS["codes"]}
    if query.vector is not None and hasattr(collection.search.hasher, "decision_function"):
        methods["asymmetric"] = METHODS["asymmetric"]
    if query.vector is not None and collection.keeps_vectors:
        methods["vectors"] = METHODS["vectors"]
    return methods


def ranked(collection: Collection, query: Query, method: str, k: int) -> list[Result]:
    """The k nearest items of a query, itself left out."""
    wanted = min(k + (query.item is not None), len(collection))
    if wanted == 0:
        return []
    distances, ids = _search(collection, query, method, wanted)
    pairs = [(key, float(distance)) for key, distance in zip(ids.tolist(), distances) if _is_there(key)]
    if query.item is not None:
        pairs = [pair for pair in pairs if pair[0] != query.item.id]
    return _results(collection, query, pairs[:k])


def _search(collection: Collection, query: Query, method: str, k: int) -> tuple[NDArray, NDArray]:
    search = collection.search
    if method == "codes" or query.vector is None:
        distances, ids = _by_codes(collection, query, k)
    elif method == "asymmetric":
        distances, ids = search.search(query.vector[None], k, rerank="asymmetric", candidates=max(k, 4 * k))
    else:
        n_compared = max(k, min(len(search), MOST_EXACT))
        distances, ids = search.search(query.vector[None], k, rerank="vectors", candidates=n_compared)
    return distances[0], ids[0]


def _by_codes(collection: Collection, query: Query, k: int) -> tuple[NDArray, NDArray]:
    """The nearest codes by Hamming distance, also where the search compares real queries with codes."""
    if collection.search.query == "code":
        return collection.search.search_codes(query.code[None], k)
    distances = hamming_distances(query.code[None], collection.codes(), collection.n_bits)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), collection.search.ids[order]


def _is_there(key: Any) -> bool:
    return key is not None and key != -1


def _results(collection: Collection, query: Query, pairs: list[tuple[Any, float]]) -> list[Result]:
    items = {item.id: item for item in collection.items([key for key, _ in pairs])}
    pairs = [pair for pair in pairs if pair[0] in items]
    if not pairs:
        return []
    codes = np.stack([items[key].code for key, _ in pairs])
    hamming = hamming_distances(query.code[None], codes, collection.n_bits)[0]
    distances = np.array([distance for _, distance in pairs])
    tied = (distances[:, None] == distances[None]).sum(axis=1) > 1
    return [
        Result(items[key], rank + 1, distance, int(hamming[rank]), bool(tied[rank]))
        for rank, (key, distance) in enumerate(pairs)
    ]


def recall(results: list[Result], truth: list[Result]) -> float:
    """The part of the true results that is among the results."""
    if not truth:
        return 0.0
    found = {result.item.id for result in results}
    return sum(result.item.id in found for result in truth) / len(truth)
