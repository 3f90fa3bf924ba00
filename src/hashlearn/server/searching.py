"""Searches of the API: queries that wait at the same time and want the same are searched in one go."""

from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.search import SimilaritySearch
from hashlearn.server.errors import problem_of
from hashlearn.server.json_route import written

_FIELDS = {name: name for name in ("k", "rerank", "candidates", "filter", "radius")}


class Wanted(NamedTuple):
    """How to search; requests with an equal one are searched together."""

    by: str
    """"vectors" or "codes"."""
    k: int
    rerank: str | None = None
    candidates: int | None = None

    def options(self) -> dict[str, Any]:
        """Arguments for the search; what a client left out is left to the search."""
        named = {"rerank": self.rerank, "candidates": self.candidates}
        return {name: value for name, value in named.items() if value is not None}


class Cut(NamedTuple):
    """What of its neighbors a request gets."""

    radius: float | None
    payloads: bool


class Query(NamedTuple):
    """The queries of one request: vectors or codes, a row each."""

    rows: NDArray
    cut: Cut


def search_together(search: SimilaritySearch, wanted: Wanted, queries: list[Query]) -> list[Any]:
    """The answers to requests, as JSON, or the exception that a request ends with."""
    if len(queries) == 1:
        return [_answer_or_error(search, wanted, queries[0])]
    try:
        distances, ids = _found(search, wanted, np.concatenate([query.rows for query in queries]))
    except (ValueError, TypeError):  # one of them is to blame, and the others are not
        return [_answer_or_error(search, wanted, query) for query in queries]
    cuts = [query.cut for query in queries for _ in query.rows]
    answers = iter(_neighbors(search, distances, ids, cuts))
    return [written({"results": list(islice(answers, len(query.rows)))}) for query in queries]


def search_filtered(search: SimilaritySearch, wanted: Wanted, query: Query, filter: dict[str, Any]) -> bytes:
    """The answer to a request with a filter, which is searched for itself."""
    return _answer(search, wanted, query, filter=filter)


def _answer_or_error(search: SimilaritySearch, wanted: Wanted, query: Query) -> Any:
    try:
        return _answer(search, wanted, query)
    except Exception as error:
        return error


def _answer(search: SimilaritySearch, wanted: Wanted, query: Query, **options: Any) -> bytes:
    try:
        distances, ids = _found(search, wanted, query.rows, **options)
    except (ValueError, TypeError) as error:
        raise problem_of(error, _FIELDS) or error from None
    return written({"results": _neighbors(search, distances, ids, [query.cut] * len(query.rows))})


def _found(search: SimilaritySearch, wanted: Wanted, rows: NDArray, **options: Any) -> Any:
    if wanted.by == "codes":
        return search.search_codes(rows, wanted.k, **options)
    return search.search(rows, wanted.k, **wanted.options(), **options)


def _neighbors(search: SimilaritySearch, distances: NDArray, ids: NDArray, cuts: list[Cut]) -> list[dict]:
    """The neighbors of each query; payloads of all of them are looked up in one go, which takes hardly longer."""
    answers = []
    for row_distances, row_ids, cut in zip(distances.tolist(), ids.tolist(), cuts):
        n = _n_wanted(row_distances, row_ids, cut.radius)
        answers.append({"ids": row_ids[:n], "distances": row_distances[:n]})
    with_payloads = [answer for answer, cut in zip(answers, cuts) if cut.payloads]
    payloads = iter(search.payloads([id for answer in with_payloads for id in answer["ids"]]))
    for answer in with_payloads:
        answer["payloads"] = [payload or {} for payload in islice(payloads, len(answer["ids"]))]
    return answers


def _n_wanted(distances: list[float], ids: list[Any], radius: float | None) -> int:
    """How many places hold a neighbor within the radius; they come first."""
    n = len(ids)
    while n and (ids[n - 1] is None or ids[n - 1] == -1 or (radius is not None and distances[n - 1] > radius)):
        n -= 1
    return n
