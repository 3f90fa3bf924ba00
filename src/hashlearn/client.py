"""A search that another process serves, with the interface of :class:`~hashlearn.SimilaritySearch` (extra ``client``).

::

    from hashlearn import Client

    with Client("http://localhost:8000", key="...") as search:
        search.upsert(X, ids, payloads)
        distances, ids = search.search(queries, k=10, filter={"year": {"$gte": 2020}})

A repeated call does no harm: each write has a key, and the server makes it once. So the client repeats a call that got
no answer, or whose answer says that nothing was written.
"""

import asyncio
import json
import random
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_choice
from hashlearn.codes.results import NO_DISTANCE, NO_ID, Neighbors
from hashlearn.extras import require
from hashlearn.rows.inputs import as_matrix, as_payloads, as_vectors, date_text, held_ids, payload_of, plain_rows
from hashlearn.search.columns import Facet
from hashlearn.search.results import NeighborsWithRows, Page, Record

_AGAIN = frozenset({429, 502, 503, 504})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_PAGE = 1000
_INCLUDED = ("payload", "vector")


class ServiceError(RuntimeError):
    """An error of the server that is not about the arguments.

    Attributes
    ----------
    status : int
        The status of its answer; 0 if there was no answer.
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


class ClientCall(NamedTuple):
    """A request, and the function that reads its answer.

    A write has a key: the server makes it once, however often it arrives. ``again`` is sent where a repeated request
    is refused: a server that was started in between does not know that it has made the first one.
    """

    method: str
    path: str
    body: dict[str, Any] | None
    read: Callable[[Any], Any]
    again: dict[str, Any] | None = None
    key: str | None = None


class ServedInfo(NamedTuple):
    """The facts of a served search."""

    rows: int
    n_bits: int
    n_features: int
    metric: str
    query: str
    keep_vectors: str | None
    max_batch: int


class ClientQuestion(NamedTuple):
    """What is looked for: vectors, texts, or rows to be like; and the options that only some of them take."""

    X: NDArray | None
    texts: list[str] | None
    like: list[Any] | None
    was_one: bool
    options: dict[str, Any]

    @classmethod
    def of(cls, X: Any, text: Any, like: Any, options: dict[str, Any]) -> Self:
        """The question of a call of ``search``."""
        given = [name for name, value in (("X", X), ("text", text), ("like", like)) if value is not None]
        if len(given) != 1:
            raise ValueError(f"one of X, text and like must be given, got {' and '.join(given) or 'none'}")
        if text is not None:
            return cls(None, [text] if isinstance(text, str) else list(text), None, isinstance(text, str), options)
        if like is not None:
            return cls(None, None, _one_or_more_ids(like, "like"), True, options)
        queries, was_one = as_vectors(X)
        return cls(as_matrix(queries), None, None, was_one, options)

    def queries(self, most: int) -> Iterator[dict[str, Any]]:
        """The queries of each request."""
        if self.X is not None:
            for start in range(0, len(self.X), most):
                yield {"vectors": [_base64(row) for row in self.X[start : start + most]]}
        elif self.texts is not None:
            yield from ({"text": text} for text in self.texts)
        else:
            yield {"like": self.like}


class _Requests:
    """The common part of both clients: makes requests and reads answers."""

    def __init__(
        self, url: str, key: str | None = None, *, name: str | None = None, timeout: float = 30.0, retries: int = 3
    ):
        self._prefix = "/v1" if name is None else f"/v1/{name}"
        self._retries = retries
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._options: dict[str, Any] = {"base_url": url, "headers": headers, "timeout": timeout}
        self._httpx: Any = require("httpx", "client")
        self._known: ServedInfo | None = None

    def _info(self) -> ClientCall:
        return ClientCall("GET", "/info", None, _read_info)

    def _searches(self, asked: "ClientQuestion", options: dict[str, Any], most: int) -> Iterator[ClientCall]:
        given = {name: value for name, value in (asked.options | options).items() if value is not None}
        for query in asked.queries(most):
            yield ClientCall("POST", "/search", query | given, lambda answer: answer["results"])

    def _upserts(self, X: Any, ids: Any, payloads: Any, most: int) -> Iterator[ClientCall]:
        rows, listed = as_matrix(X), held_ids(ids).tolist()
        if len(rows) != len(listed):
            raise ValueError(f"ids must be as many as the {len(rows)} rows of X, got {len(listed)}")
        known = [payload_of(payload) for payload in as_payloads(payloads, len(rows), "rows of X")]
        for start in range(0, len(rows), most):
            part = slice(start, start + most)
            points = [
                {"id": id, "vector": _base64(row), **({"payload": payload} if payload else {})}
                for id, row, payload in zip(listed[part], rows[part], known[part])
            ]
            yield ClientCall("PUT", "/points", {"points": points}, lambda answer: answer["written"], key=uuid4().hex)

    def _removals(self, ids: ArrayLike, most: int) -> Iterator[ClientCall]:
        listed = _listed_ids(ids)
        for start in range(0, len(listed), most):
            body = {"ids": listed[start : start + most]}
            first, key = {**body, "must_exist": True}, uuid4().hex
            yield ClientCall("POST", "/points/delete", first, _nothing, body, key)

    def _get(self, ids: ArrayLike, vectors: bool, most: int) -> Iterator[ClientCall]:
        listed = _listed_ids(ids)
        for start in range(0, len(listed), most):
            body = {"ids": listed[start : start + most], "vectors": vectors}
            yield ClientCall("POST", "/points/get", body, _read_records)

    def _count(self, filter: dict | None) -> ClientCall:
        return ClientCall("POST", "/points/count", {"filter": filter}, lambda answer: answer["count"])

    def _facets(self, field: str, filter: dict | None, limit: int | None) -> ClientCall:
        body = {"field": field, "filter": filter, **({} if limit is None else {"limit": limit})}
        return ClientCall("POST", "/points/facets", body, _read_facets)

    def _scroll(self, filter: dict | None, limit: int, after: str | None) -> ClientCall:
        body = {"filter": filter, "limit": limit, "after": after, "vectors": True}
        return ClientCall("POST", "/points/scroll", body, _read_page)

    def _pause(self, attempt: int, answer: Any) -> float:
        """Seconds until the next attempt: the server's number, or about twice as long each time."""
        wanted = answer.headers.get("Retry-After", "") if answer is not None else ""
        if wanted.isdecimal():
            return min(float(wanted), _LONGEST_PAUSE)
        return min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE) * random.uniform(0.5, 1)


class Client(_Requests):
    """A search on a server, with the methods of a search in this process.

    Parameters
    ----------
    url : str
        The address of ``hashlearn serve``, such as ``http://localhost:8000``.
    key : str or None
        The key of the server.
    name : str or None
        The name of the search, if the server has several.
    timeout : float
        The longest time of a request, in seconds.
    retries : int
        How often a request is repeated if it did not arrive, or if the server could not take it.

    Examples
    --------
    >>> client = Client("http://localhost:8000", key="secret")  # doctest: +SKIP
    >>> client.search(X[:1], k=2).ids  # doctest: +SKIP
    array([[17, 4]])
    """

    def __init__(
        self, url: str, key: str | None = None, *, name: str | None = None, timeout: float = 30.0, retries: int = 3
    ):
        super().__init__(url, key, name=name, timeout=timeout, retries=retries)
        self._http = self._httpx.Client(**self._options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def info(self) -> ServedInfo:
        """The facts of the search, requested again.

        Returns
        -------
        ServedInfo
            Rows, bits, metric and limits.
        """
        self._known = self._do(self._info())
        return self._known

    def __len__(self) -> int:
        return self.info().rows

    def __contains__(self, id: Any) -> bool:
        try:
            return bool(self.get([id]))
        except (ValueError, TypeError):  # no id of this search can be like this one
            return False

    @property
    def metric(self) -> str:
        return self._facts.metric

    @property
    def query(self) -> str:
        return self._facts.query

    @property
    def n_bits(self) -> int:
        return self._facts.n_bits

    @property
    def keep_vectors(self) -> str | None:
        return self._facts.keep_vectors

    @property
    def ids(self) -> NDArray[Any]:
        """All ids, ascending."""
        ids = [record.id for record in self]
        return np.array(ids, np.int64 if not ids or isinstance(ids[0], int) else object)[np.argsort(ids, kind="stable")]

    def __iter__(self) -> Iterator[Record]:
        """All rows, in the order in which they were added."""
        after: str | None = None
        while True:
            page = self.scroll(limit=min(_PAGE, self._facts.max_batch), after=after)
            yield from page.records
            after = page.after
            if after is None:
                return

    def search(
        self,
        X: Any = None,
        k: int = 10,
        *,
        text: str | Sequence[str] | None = None,
        by: str | None = None,
        weights: Mapping[str, float] | None = None,
        operators: bool = False,
        like: Any = None,
        unlike: Any = None,
        diversity: float = 0.0,
        recall: float | None = None,
        candidates: int | None = None,
        rerank: str | None = None,
        filter: dict | None = None,
        subset: ArrayLike | None = None,
        include: Sequence[str] = (),
    ) -> Neighbors:
        """The k nearest of each query; see :meth:`hashlearn.SimilaritySearch.search`.

        Parameters
        ----------
        X : array of shape (n_queries, n_features), or one vector of shape (n_features,), or None
            Queries.
        k : int
            At least 1.
        text : str, list of str, or None
            In place of X: what a person types. Each text is a request of its own.
        by : {"words", "meaning", "both"} or None
            What a text is compared by.
        weights : dict or None
            Of "words" and "meaning" in "both".
        operators : bool
            Whether quotes, ``*``, ``+`` and ``-`` in a text mean something.
        like, unlike : lists of ids, or None
            In place of X: rows to be like, and rows to avoid.
        diversity : float
            From 0 to 1: how much results should differ from each other.
        recall : float or None
            The wanted share of the true neighbors; 1.0 compares all vectors.
        candidates : int or None
            The number of codes that are reranked.
        rerank : {"codes", "asymmetric", "vectors"} or None
            The order of the result.
        filter : dict or None
            A condition on the payloads.
        subset : list of ids or None
            Look only among these rows.
        include : list of "payload" and "vector"
            Further parts of the result for each neighbor.

        Returns
        -------
        distances, ids : arrays of shape (n_queries, k), or (k,) for one vector
            Nearest first. The result has the attributes ``recall``, ``probed`` and ``parts`` if the server gives them.
        """
        asked = ClientQuestion.of(X, text, like, _asking(by, weights, operators, unlike, diversity))
        wanted = [check_choice("include", name, _INCLUDED) for name in _listed(include)]
        options = _search_options(recall, candidates, rerank, filter, subset, wanted)
        calls = self._searches(asked, options | {"k": k}, self._facts.max_batch)
        found = _as_neighbors([result for call in calls for result in self._do(call)], k)
        if "vector" in wanted:
            ids = found.ids[_is_there(found.ids)].tolist()
            vectors = {record.id: record.vector for record in self.get(list(dict.fromkeys(ids)))}
            found.vectors = _vectors_of(found.ids, vectors, self._facts.n_features)
        return found.first if asked.was_one else found

    def upsert(self, X: Any, ids: Any, payloads: Any = None, *, column: str | None = None) -> Self:
        """Write rows; a row with a known id replaces the old row. Each request to the server is atomic.

        Parameters
        ----------
        X : array of shape (n, n_features), frame, tensor, ...
            The vectors.
        ids : list or array of n integers >= 0, or of n strings
            Each only once.
        payloads : list of n dicts, frame, or None
            The other fields of the rows.
        column : str or None
            The column of a table that holds the vectors, if the table has several columns.

        Returns
        -------
        Client
            This object.
        """
        for call in self._upserts(plain_rows(X, column), ids, payloads, self._facts.max_batch):
            self._do(call)
        return self

    def remove(self, ids: ArrayLike) -> Self:
        """Remove rows. An unknown id is a ValueError; then no row of the same request is removed.

        Parameters
        ----------
        ids : list or array of integers or of strings
            Each only once.

        Returns
        -------
        Client
            This object.
        """
        for call in self._removals(ids, self._facts.max_batch):
            self._do(call)
        return self

    def get(self, ids: ArrayLike) -> list[Record]:
        """Read rows back; unknown ids are left out.

        Parameters
        ----------
        ids : list or array of integers or of strings
            Of the kind that the search has.

        Returns
        -------
        list of Record
            In the order of the ids.
        """
        return [record for call in self._get(ids, True, self._facts.max_batch) for record in self._do(call)]

    def payloads(self, ids: ArrayLike) -> list[dict[str, Any] | None]:
        """The payloads of rows, in the order of the ids; None for an unknown id.

        Parameters
        ----------
        ids : list or array of integers or of strings
            Of the kind that the search has.

        Returns
        -------
        list of dict or None
            In the order of the ids; None for an unknown id.
        """
        calls = self._get(ids, False, self._facts.max_batch)
        found = {record.id: record.payload for call in calls for record in self._do(call)}
        return [found.get(id) for id in _listed_ids(ids)]

    def count(self, filter: dict | None = None) -> int:
        """The number of rows, or of rows that meet a filter.

        Parameters
        ----------
        filter : dict or None
            A condition on the payloads.

        Returns
        -------
        int
            Number of rows.
        """
        return self._do(self._count(filter))

    def facets(self, field: str, filter: dict | None = None, limit: int | None = None) -> list[Facet]:
        """The values of a payload field, each with its number of rows, the most frequent first.

        Parameters
        ----------
        field : str
            A key of the payloads.
        filter : dict or None
            Count only rows that meet it.
        limit : int or None
            The number of values; None for the default of the server.

        Returns
        -------
        list of Facet
            ``value`` and ``count``, the most frequent first.
        """
        return self._do(self._facets(field, filter, limit))

    def scroll(self, filter: dict | None = None, limit: int = 100, after: str | None = None) -> Page:
        """Rows in the order in which they were added, a page at a time.

        Parameters
        ----------
        filter : dict or None
            List only rows that meet it.
        limit : int
            Rows of a page.
        after : str or None
            The ``after`` of the page before; None begins with the first row.

        Returns
        -------
        Page
            ``records``, and ``after`` for the next page; ``after`` is None on the last page.
        """
        return self._do(self._scroll(filter, limit, after))

    @property
    def _facts(self) -> ServedInfo:
        return self._known or self.info()

    def _do(self, call: ClientCall) -> Any:
        for attempt in range(self._retries + 1):
            answer, failure = None, None
            try:
                answer = self._http.request(call.method, self._prefix + call.path, **_written(call))
            except self._httpx.TransportError as error:
                failure = error
            following = _following(call, answer, attempt)
            if attempt == self._retries or following is None:
                return _read(call, answer, failure)
            time.sleep(self._pause(attempt, answer))
            call = following
        raise AssertionError("the loop returns")


class AsyncClient(_Requests):
    """As :class:`Client`, for asynchronous programs: its methods are coroutines.

    Parameters
    ----------
    url, key, name, timeout, retries
        As in :class:`Client`.

    Examples
    --------
    >>> async def ask(queries):
    ...     async with AsyncClient("http://localhost:8000", key="secret") as client:
    ...         return await client.search(queries, k=10)
    """

    def __init__(
        self, url: str, key: str | None = None, *, name: str | None = None, timeout: float = 30.0, retries: int = 3
    ):
        super().__init__(url, key, name=name, timeout=timeout, retries=retries)
        self._http = self._httpx.AsyncClient(**self._options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def info(self) -> ServedInfo:
        """As :meth:`Client.info`."""
        self._known = await self._do(self._info())
        return self._known

    async def search(
        self,
        X: Any = None,
        k: int = 10,
        *,
        text: str | Sequence[str] | None = None,
        by: str | None = None,
        weights: Mapping[str, float] | None = None,
        operators: bool = False,
        like: Any = None,
        unlike: Any = None,
        diversity: float = 0.0,
        recall: float | None = None,
        candidates: int | None = None,
        rerank: str | None = None,
        filter: dict | None = None,
        subset: ArrayLike | None = None,
        include: Sequence[str] = (),
    ) -> Neighbors:
        """As :meth:`Client.search`."""
        asked = ClientQuestion.of(X, text, like, _asking(by, weights, operators, unlike, diversity))
        wanted = [check_choice("include", name, _INCLUDED) for name in _listed(include)]
        options = _search_options(recall, candidates, rerank, filter, subset, wanted)
        facts = await self._facts()
        calls = self._searches(asked, options | {"k": k}, facts.max_batch)
        found = _as_neighbors([result for call in calls for result in await self._do(call)], k)
        if "vector" in wanted:
            ids = found.ids[_is_there(found.ids)].tolist()
            vectors = {record.id: record.vector for record in await self.get(list(dict.fromkeys(ids)))}
            found.vectors = _vectors_of(found.ids, vectors, facts.n_features)
        return found.first if asked.was_one else found

    async def upsert(self, X: Any, ids: Any, payloads: Any = None, *, column: str | None = None) -> Self:
        """As :meth:`Client.upsert`."""
        facts = await self._facts()
        for call in self._upserts(plain_rows(X, column), ids, payloads, facts.max_batch):
            await self._do(call)
        return self

    async def remove(self, ids: ArrayLike) -> Self:
        """As :meth:`Client.remove`."""
        facts = await self._facts()
        for call in self._removals(ids, facts.max_batch):
            await self._do(call)
        return self

    async def get(self, ids: ArrayLike) -> list[Record]:
        """As :meth:`Client.get`."""
        facts = await self._facts()
        return [record for call in self._get(ids, True, facts.max_batch) for record in await self._do(call)]

    async def count(self, filter: dict | None = None) -> int:
        """As :meth:`Client.count`."""
        return await self._do(self._count(filter))

    async def facets(self, field: str, filter: dict | None = None, limit: int | None = None) -> list[Facet]:
        """As :meth:`Client.facets`."""
        return await self._do(self._facets(field, filter, limit))

    async def scroll(self, filter: dict | None = None, limit: int = 100, after: str | None = None) -> Page:
        """As :meth:`Client.scroll`."""
        return await self._do(self._scroll(filter, limit, after))

    async def _facts(self) -> ServedInfo:
        return self._known or await self.info()

    async def _do(self, call: ClientCall) -> Any:
        for attempt in range(self._retries + 1):
            answer, failure = None, None
            try:
                answer = await self._http.request(call.method, self._prefix + call.path, **_written(call))
            except self._httpx.TransportError as error:
                failure = error
            following = _following(call, answer, attempt)
            if attempt == self._retries or following is None:
                return _read(call, answer, failure)
            await asyncio.sleep(self._pause(attempt, answer))
            call = following
        raise AssertionError("the loop returns")


def _written(call: ClientCall) -> dict[str, Any]:
    """The body of a request as JSON; numbers may be NumPy's, and dates are written as in payloads."""
    if call.body is None:
        return {}
    text = json.dumps(call.body, ensure_ascii=False, separators=(",", ":"), default=_plain)
    key = {} if call.key is None else {"Idempotency-Key": call.key}
    return {"content": text.encode(), "headers": {"Content-Type": "application/json", **key}}


def _plain(value: Any) -> Any:
    if (text := date_text(value)) is not None:
        return text
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"arguments must be what JSON can say, got {type(value).__name__}")


def _following(call: ClientCall, answer: Any, attempt: int) -> ClientCall | None:
    """The call to make after this one; None if its answer is the last."""
    if answer is None or answer.status_code in _AGAIN:
        return call
    if attempt and call.again is not None and answer.status_code == 422:
        return call._replace(body=call.again, again=None, key=None)
    return None


def _read(call: ClientCall, answer: Any, failure: Exception | None) -> Any:
    """The content of an answer; an answer with an error is raised."""
    if answer is None:
        raise ServiceError(0, f"the server cannot be reached: {failure}") from None
    if answer.status_code < 300:
        return call.read(answer.json() if answer.content else None)
    try:
        message = str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = f"the server answered with status {answer.status_code}"
    if answer.status_code in (413, 422):
        raise ValueError(message)
    if answer.status_code in (401, 403):
        raise PermissionError(message)
    raise ServiceError(answer.status_code, message)


def _read_info(answer: Any) -> ServedInfo:
    known = {name: answer[name] for name in ServedInfo._fields if name != "max_batch"}
    return ServedInfo(max_batch=answer["limits"]["max_batch"], **known)


def _read_records(answer: Any) -> list[Record]:
    return [
        Record(
            point["id"],
            np.frombuffer(b64decode(point["code"]), np.uint8),
            point["payload"],
            None if point["vector"] is None else np.frombuffer(b64decode(point["vector"]), "<f4").astype(np.float32),
        )
        for point in answer["points"]
    ]


def _read_page(answer: Any) -> Page:
    return Page(_read_records(answer), answer["after"])


def _read_facets(answer: Any) -> list[Facet]:
    return [Facet(facet["value"], facet["count"]) for facet in answer["facets"]]


def _listed(include: Sequence[str] | str) -> list[str]:
    return [include] if isinstance(include, str) else list(include)


def _nothing(answer: Any) -> None:
    """The result of an answer without content."""


def _asking(
    by: str | None, weights: Mapping[str, float] | None, operators: bool, unlike: Any, diversity: float
) -> dict[str, Any]:
    avoided = None if unlike is None else _one_or_more_ids(unlike, "unlike")
    known = {"by": by, "weights": weights and dict(weights), "unlike": avoided}
    return {**known, "operators": operators or None, "diversity": diversity or None}


def _search_options(
    recall: float | None,
    candidates: int | None,
    rerank: str | None,
    filter: dict | None,
    subset: ArrayLike | None,
    include: list[str],
) -> dict[str, Any]:
    order = "codes" if rerank is False else rerank
    among = None if subset is None else _listed_ids(subset, "subset")
    known = {"recall": recall, "candidates": candidates, "rerank": order, "filter": filter, "subset": among}
    return {**known, "payloads": "payload" in include}


def _as_neighbors(results: list[dict[str, Any]], k: int) -> NeighborsWithRows:
    """Results of single queries as arrays. Empty places are filled as in the library."""
    ids = [id for result in results for id in result["ids"]]
    distances = [distance for result in results for distance in result["distances"]]
    is_real = not distances or any(isinstance(distance, float) for distance in distances)
    has_texts = bool(ids) and isinstance(ids[0], str)
    shape = (len(results), k)
    empty: Any = np.full(shape, np.inf, np.float32) if is_real else np.full(shape, NO_DISTANCE, np.int32)
    no_ids: Any = np.full(shape, None, object) if has_texts else np.full(shape, NO_ID, np.int64)
    found = NeighborsWithRows(empty, no_ids)
    for row, result in enumerate(results):
        n = len(result["ids"])
        found.distances[row, :n], found.ids[row, :n] = result["distances"], result["ids"]
    if results and "payloads" in results[0]:
        found.payloads = [result["payloads"] + [None] * (k - len(result["payloads"])) for result in results]
    if results and "parts" in results[0]:
        found.parts = {name: np.zeros(shape, np.float32) for name in results[0]["parts"]}
        for row, result in enumerate(results):
            for name, part in result["parts"].items():
                found.parts[name][row, : len(part)] = part
    if results and all("recall" in result for result in results):
        found.recall = results[0]["recall"]
        found.probed = np.array([result["probed"] for result in results])
    return found


def _vectors_of(ids: NDArray[Any], vectors: dict[Any, Any], n_features: int) -> NDArray[np.float32] | None:
    if vectors and next(iter(vectors.values())) is None:
        return None
    found = np.full((*ids.shape, n_features), np.nan, np.float32)
    for place in zip(*np.nonzero(_is_there(ids))):
        if ids[place] in vectors:
            found[place] = vectors[ids[place]]
    return found


def _is_there(ids: NDArray[Any]) -> NDArray[np.bool_]:
    return ids != None if ids.dtype == object else ids != NO_ID  # noqa: E711


def _listed_ids(ids: Any, name: str = "ids") -> list[Any]:
    return held_ids(ids, name).tolist()


def _one_or_more_ids(ids: Any, name: str) -> list[Any]:
    return _listed_ids([ids] if isinstance(ids, (str, int)) else ids, name)


def _base64(row: NDArray[np.float32]) -> str:
    return b64encode(np.ascontiguousarray(row, "<f4").tobytes()).decode()
