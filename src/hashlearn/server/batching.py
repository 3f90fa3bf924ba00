"""Requests that wait at the same time are worked on together: one search for many queries, one save for many writes.

Waiting requests are in a queue that only the event loop touches. A thread takes all requests of one kind from it. It
is started when the event loop has read all requests that have arrived. No request waits for one that may still
arrive. If the last searches were short, the event loop searches itself, without a thread.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor
from itertools import islice
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from prometheus_client import Histogram

from hashlearn.codes.results import Neighbors
from hashlearn.deadline import DeadlineExceeded, HasEnd, LastOf, check_deadline, current_deadline, until
from hashlearn.index.partitioned import ProbedNeighbors
from hashlearn.search import SimilaritySearch
from hashlearn.server.errors import SOON, Problem, problem_of, written
from hashlearn.server.telemetry import LOGGER, log_event
from hashlearn.server.workers import expire_current

Work = Callable[[Hashable, list[Any]], Sequence[Any]]
"""Takes a kind and the items of this kind, and returns a result for each. A result that is an exception is raised."""

_MOST = 256  # items of one call; the requests behind them must not wait long
_QUIET_ROUNDS = 3
"""A thread is started after this many rounds of the event loop without a new item. The loop reads requests in one round
and hands them over in the next one. The third is for clients that got an answer in the first and ask again."""
_SHORT_WORK = 0.0005
"""Longest work in seconds that the event loop does itself. Passing work to a thread and back takes a fifth of this."""
_FADES = 0.9


class Waiting:
    """A piece of work: its input, the future of its result, and its deadline.

    ``late`` gets the result or the exception if the request was given up while a thread worked on it.
    """

    __slots__ = ("deadline", "done", "item", "late", "since")

    def __init__(self, item: Any, done: asyncio.Future, deadline: HasEnd | None):
        self.item, self.done, self.deadline = item, done, deadline
        self.since = time.perf_counter()
        self.late: asyncio.Future | None = None


class Batcher:
    """Works on all waiting items of one kind together.

    Parameters
    ----------
    work : Work
        Runs on a thread.
    pool : Executor
    n_threads : int
        The number of calls of ``work`` that may run at the same time.
    sizes : Histogram
        Gets the number of items of each call.
    waits : Histogram or None
        Gets the time that the first item of each call waited for a thread.
    keeps_late : bool
        Whether a result is still the answer if it comes after the deadline of its request, as for a write.
    may_be_short : bool
        Whether the event loop itself does the work if the last calls took less than half a millisecond.
    """

    def __init__(
        self,
        work: Work,
        pool: Executor,
        n_threads: int,
        sizes: Histogram,
        *,
        waits: Histogram | None = None,
        keeps_late: bool = False,
        may_be_short: bool = False,
    ):
        self.work = work
        self.pool = pool
        self.n_threads = n_threads
        self.sizes = sizes
        self.waits, self.keeps_late = waits, keeps_late
        self.n_running = 0
        self.waiting: dict[Hashable, list[Waiting]] = {}
        self.n_arrived = 0
        self.listening = False
        self.may_be_short, self.seconds_of_item = may_be_short, inf

    async def submit(self, kind: Hashable, item: Any) -> Any:
        """Wait for the turn of an item, and return its result."""
        loop = asyncio.get_running_loop()
        waiting = Waiting(item, loop.create_future(), current_deadline.get())
        self.waiting.setdefault(kind, []).append(waiting)
        self.n_arrived += 1
        self._listen()
        try:
            return await waiting.done
        except asyncio.CancelledError:
            if self._withdrawn(kind, waiting):
                raise
            expire_current()
            if waiting.done.cancelled():
                waiting.late = waiting.late or loop.create_future()
                result = await waiting.late
            else:  # it came just now
                result = waiting.done.exception() or waiting.done.result()
            if not self.keeps_late:
                raise
            if isinstance(result, Exception):
                raise result from None
            return result

    def _withdrawn(self, kind: Hashable, waiting: Waiting) -> bool:
        """Take an item back that no thread works on."""
        queue = self.waiting.get(kind, [])
        if not any(each is waiting for each in queue):
            return False
        self.waiting[kind] = [each for each in queue if each is not waiting]
        if not self.waiting[kind]:
            del self.waiting[kind]
        return True

    def _listen(self) -> None:
        """Start threads for the waiting items as soon as no more items arrive."""
        if self.waiting and self.n_running < self.n_threads and not self.listening:
            self.listening = True
            asyncio.get_running_loop().call_soon(self._heard, self.n_arrived, self.n_arrived, _QUIET_ROUNDS)

    def _heard(self, n_at_first: int, n_before: int, n_rounds: int) -> None:
        """Runs in every round of the event loop, until some rounds brought no new item or a call is full."""
        n_rounds = n_rounds - 1 if self.n_arrived == n_before else _QUIET_ROUNDS
        if n_rounds and self.n_arrived - n_at_first < _MOST:
            asyncio.get_running_loop().call_soon(self._heard, n_at_first, self.n_arrived, n_rounds)
            return
        self.listening = False
        while self.waiting and self.n_running < self.n_threads:
            self._start()

    def _start(self) -> None:
        kind = next(iter(self.waiting))
        queue = self.waiting.pop(kind)
        share = -(-len(queue) // (self.n_threads - self.n_running))
        n_taken = min(share, _MOST)
        batch, rest = queue[:n_taken], queue[n_taken:]
        if rest:
            self.waiting[kind] = rest  # behind the other kinds, which have waited meanwhile
        self.n_running += 1
        self.sizes.observe(len(batch))
        if self.may_be_short and len(batch) * self.seconds_of_item < _SHORT_WORK:
            self._deliver(batch, self._results(kind, batch))
        else:
            self.pool.submit(self._run, asyncio.get_running_loop(), kind, batch)

    def _run(self, loop: asyncio.AbstractEventLoop, kind: Hashable, batch: list[Waiting]) -> None:
        """On a thread."""
        loop.call_soon_threadsafe(self._deliver, batch, self._results(kind, batch))

    def _results(self, kind: Hashable, batch: list[Waiting]) -> Sequence[Any]:
        start = time.perf_counter()
        if self.waits is not None:
            self.waits.observe(start - batch[0].since)  # that of the one who waited longest
        deadlines = [waiting.deadline for waiting in batch if waiting.deadline is not None]
        try:
            with until(LastOf(deadlines) if len(deadlines) == len(batch) else None):
                results = self.work(kind, [waiting.item for waiting in batch])
        except Exception as error:
            results = [error] * len(batch)
        seconds = (time.perf_counter() - start) / len(batch)
        self.seconds_of_item = max(seconds, _FADES * self.seconds_of_item) if self.seconds_of_item < inf else seconds
        return results

    def _deliver(self, batch: list[Waiting], results: Sequence[Any]) -> None:
        self.n_running -= 1
        for waiting, result in zip(batch, results):
            if waiting.done.done():  # its request was given up
                waiting.late = waiting.late or asyncio.get_running_loop().create_future()
                if not waiting.late.done():
                    waiting.late.set_result(result)
            elif isinstance(result, Exception):
                waiting.done.set_exception(result)
            else:
                waiting.done.set_result(result)
        self._listen()


_CODES_AT_A_TIME = 1 << 28
_CANDIDATES_AT_A_TIME = 1 << 18
_CANDIDATES_PER_NEIGHBOR = 4
_NEIGHBORS_AT_FIRST = 1024
_BYTES_AT_A_TIME = 4 * 1024 * 1024
_FIELDS = {
    name: name
    for name in (
        *("k", "rerank", "candidates", "recall", "filter", "subset", "radius"),
        *("text", "by", "weights", "like", "unlike", "diversity"),
    )
}


class Wanted(NamedTuple):
    """How to search. Requests with equal settings are searched together."""

    by: str
    """"vectors" or "codes"."""
    k: int
    rerank: str | None = None
    candidates: int | None = None
    recall: float | None = None

    def options(self) -> dict[str, Any]:
        """Arguments for the search, without those that the client left out."""
        named = {"rerank": self.rerank, "candidates": self.candidates, "recall": self.recall}
        return {name: value for name, value in named.items() if value is not None}


class Cut(NamedTuple):
    """The part of its neighbors that a request gets."""

    radius: float | None
    payloads: bool


class QueryBatch(NamedTuple):
    """The queries of one request: a matrix with a vector or a code in each row."""

    rows: NDArray
    cut: Cut


def search_together(
    search: SimilaritySearch, stages: Mapping[str, Histogram], wanted: Wanted, queries: list[QueryBatch]
) -> list[Any]:
    """The answer to each request as JSON, or the exception that it ends with. ``stages`` gets the times."""
    start = time.perf_counter()
    try:
        neighbors = _found(search, wanted, np.concatenate([query.rows for query in queries]))
    except (ValueError, TypeError):  # one of them is to blame, and the others are not
        return [_answer_or_error(search, wanted, query) for query in queries]
    found = time.perf_counter()
    cuts = [query.cut for query in queries for _ in query.rows]
    results = iter(_results(search, neighbors, cuts))
    answers = [_joined(list(islice(results, len(query.rows)))) for query in queries]
    stages["search"].observe(found - start)
    stages["write"].observe(time.perf_counter() - found)
    return answers


def search_alone(
    search: SimilaritySearch, wanted: Wanted, query: QueryBatch, among: dict[str, Any], most_bytes: int
) -> bytes:
    """The answer to a request that is searched alone: with a filter or a subset, or for many neighbors."""
    answer = _answer(search, wanted, query, most_bytes, **among)
    if len(answer) > most_bytes:
        raise _too_long(most_bytes)
    return answer


def search_asked(
    search: SimilaritySearch, wanted: Wanted, vectors: NDArray | None, asked: dict[str, Any], cut: Cut, most_bytes: int
) -> bytes:
    """The answer to a text, with what its words and its meaning have given to each neighbor; to rows to be like; or to
    vectors whose neighbors should differ from each other."""
    try:
        found: Any = search.search(vectors, wanted.k, **wanted.options(), **asked)
    except (ValueError, TypeError) as error:
        raise problem_of(error, _FIELDS) or error from None
    ids = np.atleast_2d(found.ids)
    results = _neighbors(search, np.atleast_2d(found.distances), ids, [cut] * len(ids))
    if "text" in asked:
        n = len(results[0]["ids"])
        results[0]["parts"] = {name: part[0, :n].tolist() for name, part in found.parts.items()}
    answer = _joined(list(map(written, results)))
    if len(answer) > most_bytes:
        raise _too_long(most_bytes)
    return answer


def _answer_or_error(search: SimilaritySearch, wanted: Wanted, query: QueryBatch) -> Any:
    try:
        return _answer(search, wanted, query)
    except Exception as error:
        return error


def _answer(
    search: SimilaritySearch, wanted: Wanted, query: QueryBatch, most_bytes: int | None = None, **options: Any
) -> bytes:
    try:
        found = _found(search, wanted, query.rows, **options)
    except (ValueError, TypeError) as error:
        raise problem_of(error, _FIELDS) or error from None
    return _joined(_results(search, found, [query.cut] * len(query.rows), most_bytes))


def _found(search: SimilaritySearch, wanted: Wanted, rows: NDArray, **options: Any) -> Neighbors:
    """The neighbors. Many queries are searched in parts; the deadline is checked between two parts."""
    n_candidates = wanted.candidates or _CANDIDATES_PER_NEIGHBOR * wanted.k
    if wanted.recall == 1:
        n_candidates = max(1, len(search))
    step = max(1, min(_CODES_AT_A_TIME // max(1, len(search)), _CANDIDATES_AT_A_TIME // n_candidates))
    parts: list[Neighbors] = []
    for start in range(0, len(rows), step):
        check_deadline()
        part = rows[start : start + step]
        if wanted.by == "codes":
            parts.append(search.search_codes(part, wanted.k, **options))
        else:
            parts.append(search.search(part, wanted.k, **wanted.options(), **options))
    if len(parts) == 1:
        return parts[0]
    distances, ids = (np.concatenate(arrays) for arrays in zip(*parts))
    probed = [part for part in parts if isinstance(part, ProbedNeighbors)]
    if len(probed) < len(parts):  # rows were added meanwhile, or removed
        return Neighbors(distances, ids)
    return ProbedNeighbors.of(distances, ids, np.concatenate([part.probed for part in probed]), probed[0].recall)


def _results(search: SimilaritySearch, found: Neighbors, cuts: list[Cut], most_bytes: int | None = None) -> list[bytes]:
    """The neighbors of each query as JSON; payloads are looked up for many of them at a time."""
    results: list[bytes] = []
    distances, ids = found
    told = _told(found)
    n_bytes, step = 0, max(1, _NEIGHBORS_AT_FIRST // max(1, ids.shape[1]))
    start = 0
    while start < len(ids):
        check_deadline()
        part = slice(start, start + step)
        answers = _neighbors(search, distances[part], ids[part], cuts[part])
        made = [written(answer | said) for answer, said in zip(answers, told[part])]
        results += made
        n_bytes += sum(map(len, made))
        if most_bytes is not None and n_bytes > most_bytes:
            raise _too_long(most_bytes)
        start += step
        step = max(1, min(4 * step, _BYTES_AT_A_TIME * start // max(1, n_bytes)))
    return results


def _told(found: Neighbors) -> list[dict[str, Any]]:
    """For each query: the expected recall of its neighbors, and the number of lists that were searched."""
    if not isinstance(found, ProbedNeighbors):
        return [{}] * len(found.ids)
    return [{"recall": found.recall, "probed": n_lists} for n_lists in found.probed.tolist()]


def _joined(results: list[bytes]) -> bytes:
    return b'{"results":[' + b",".join(results) + b"]}"


def _too_long(most_bytes: int) -> Problem:
    return Problem(422, f"k times the queries is too much: the answer would have more than {most_bytes:,} bytes", "k")


def _neighbors(search: SimilaritySearch, distances: NDArray, ids: NDArray, cuts: list[Cut]) -> list[dict]:
    """The neighbors of each query. One look-up reads the payloads of all of them."""
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
    """The number of neighbors within the radius; they come first."""
    n = len(ids)
    while n and (ids[n - 1] is None or ids[n - 1] == -1 or (radius is not None and distances[n - 1] > radius)):
        n -= 1
    return n


Change = Callable[[], Any]
"""Changes the search, and returns the answer for the client."""

_WRITTEN_FIELDS = {"ids": "points.id", "payloads": "points.payload", "X": "points.vector"}


def write_together(search: SimilaritySearch, kind: Hashable, changes: list[Change]) -> list[Any]:
    """Make changes in one transaction: a result for each, or the exception that its request ends with.

    A refused request changes nothing. If the transaction fails, no request changes anything.
    """
    if search.store is not None:  # every change is in the database when it returns
        return [_result_or_error(change) for change in changes]
    results: list[Any] = []
    try:
        with search.transaction():
            results = [_result_or_error(change) for change in changes]
    except Exception as error:
        refused = _not_saved(error)
        return [result if isinstance(result, Exception) else refused for result in results] or [refused] * len(changes)
    return results


def take_over(search: SimilaritySearch) -> None:
    """Read the changes of other processes."""
    try:
        if (search.folder is not None or search.store is not None) and search.refresh():
            log_event("refreshed", rows=len(search))
    except (OSError, ValueError) as error:
        LOGGER.error("what another process saved could not be read", exc_info=error)


def _result_or_error(change: Change) -> Any:
    try:
        return change()
    except (ValueError, TypeError) as error:
        return problem_of(error, _WRITTEN_FIELDS) or error
    except DeadlineExceeded as error:
        return error
    except (OSError, sqlite3.Error, MemoryError) as error:
        return _not_saved(error)
    except Exception as error:
        return error


def _not_saved(error: BaseException) -> Problem:
    LOGGER.error("a write could not be saved", exc_info=error)
    return Problem(503, "the write could not be saved; nothing was changed", headers=SOON)
