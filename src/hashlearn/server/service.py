"""What the routes share: the search, the threads that work for them, and whether it is ready."""

import asyncio
import gc
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import Depends, Request
from numpy.typing import NDArray

from hashlearn.search import SimilaritySearch
from hashlearn.server.batching import Change, Together, search_together, take_over, write_together
from hashlearn.server.errors import Problem, problem_of, unprocessable
from hashlearn.server.features import Features
from hashlearn.server.settings import Settings
from hashlearn.server.telemetry import Metrics, log_event

Result = TypeVar("Result")


class Service:
    """A search that is being served; ``app.state.service`` of the application.

    Attributes
    ----------
    search : SimilaritySearch
    settings : Settings
    features : Features or None
    metrics : Metrics
    ready : bool
        Whether the kernels are compiled and the tables are built.
    searches : Together
        Queries that wait for a thread.
    writes : Together
        Changes that wait for the thread that writes.
    """

    def __init__(self, search: SimilaritySearch, settings: Settings, features: Features | None):
        self.search = search
        self.settings = settings
        self.features = features
        self.metrics = Metrics()
        self.ready = False
        self.pool = ThreadPoolExecutor(settings.n_threads, thread_name_prefix="hashlearn")
        self.writing = ThreadPoolExecutor(1, thread_name_prefix="hashlearn-writing")
        # One thread reads requests and writes answers. A core of its own for it, and what waits is searched together.
        n_searching = max(1, settings.n_threads - 1)
        self.searches = Together(
            partial(search_together, search), self.pool, n_searching, self.metrics.searched_together
        )
        self.writes = Together(partial(write_together, search), self.writing, 1, self.metrics.saved_together)

    @property
    def n_features(self) -> int:
        """Length of a vector."""
        return self.search.hasher.n_features_in_

    async def start(self) -> None:
        """Warm up; requests that come before this is done are told to come again."""
        if not self.ready:
            await self.run(self.warm)
        log_event("ready", rows=len(self.search))

    def warm(self) -> None:
        """Compile kernels and build tables."""
        self.search.warm()
        rehearse(self.search)
        gc.collect()
        gc.freeze()  # what is there now stays; looking through it again takes a tenth of a second
        self.ready = True

    async def follow(self) -> None:
        """Take over what other processes save, again and again, if the settings say so."""
        loop = asyncio.get_running_loop()
        while self.settings.refresh_seconds is not None:
            await asyncio.sleep(self.settings.refresh_seconds)
            await loop.run_in_executor(self.writing, take_over, self.search)

    async def stop(self) -> None:
        """Let the threads end what they do."""
        self.ready = False
        for pool in (self.writing, self.pool):
            await asyncio.to_thread(pool.shutdown)

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function that computes on one of the threads, beside other requests."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, work, *arguments)

    async def write(self, change: Change) -> Any:
        """Make a change; it is on disk when this returns."""
        return await self.writes.do(None, change)

    async def encode(self, X: NDArray) -> NDArray[np.uint8]:
        """Codes of vectors."""
        return await self.run(self.search.encode, X)

    async def vectors_of_texts(self, field: str, texts: list[str]) -> NDArray[np.float32]:
        """Vectors of texts, or the 422 that says why there are none."""
        if self.features is None:
            raise unprocessable(field, "cannot be encoded: this server has no features; send vectors")
        return await self.run(_encoded, field, self.features.encode_texts, texts)

    async def vectors_of_images(self, field: str, images: list[bytes]) -> NDArray[np.float32]:
        """Vectors of image files, or the 422 that says why there are none."""
        if self.features is None:
            raise unprocessable(field, "cannot be encoded: this server has no features; send vectors")
        return await self.run(_encoded, field, self.features.encode_images, images)

    def record(self, id: int | str) -> Any:
        """A row, or None if there is none."""
        try:
            return next(iter(self.search.get([id])), None)
        except (ValueError, TypeError) as error:
            if problem_of(error, {"ids": "id"}):  # no id of this search can be like this one
                return None
            raise

    def record_of_path(self, text: str) -> Any:
        """The row of an id that stands in a path, where a number looks like a string."""
        record = self.record(text)
        if record is None and text.isdecimal() and str(int(text)) == text:
            record = self.record(int(text))
        return record

    def check_ready(self) -> None:
        if not self.ready:
            raise Problem(503, "the server is warming up", headers={"Retry-After": "1"})

    def check_most(self, field: str, value: int, most: int) -> None:
        """A number is within a limit of this server."""
        if value > most:
            raise unprocessable(field, f"must be at most {most}, got {value}")

    def check_batch(self, field: str, items: Any) -> None:
        """A list is neither empty nor longer than this server allows."""
        if not len(items):
            raise unprocessable(field, "must not be empty")
        if len(items) > self.settings.max_batch:
            raise unprocessable(field, f"must have at most {self.settings.max_batch} entries, got {len(items)}")


def _encoded(field: str, encode: Callable[[list], NDArray], items: list) -> NDArray[np.float32]:
    try:
        return np.asarray(encode(items), np.float32)
    except ValueError as error:
        raise unprocessable(field, f"cannot be encoded: {str(error).splitlines()[0]}") from None


def _service(request: Request) -> Service:
    return request.app.state.service


Served = Annotated[Service, Depends(_service)]
"""The service, as an argument of an endpoint."""


_N_ROWS = 4
_IDS = [str(number) for number in range(_N_ROWS)]  # strings need all that numbers need, and more
_PAYLOADS = [{"number": number} for number in range(_N_ROWS)]


def rehearse(search: SimilaritySearch) -> None:
    """Search, write and remove rows of a small copy in a temporary folder; the search itself is left alone.

    Where no file can be written this does nothing, and the first request of a kind takes a second longer.
    """
    small = SimilaritySearch(search.hasher, metric=search.metric, query=search.query, keep_vectors=search.keep_vectors)
    X = np.random.default_rng(0).standard_normal((_N_ROWS, search.hasher.n_features_in_)).astype(np.float32)
    try:
        with tempfile.TemporaryDirectory() as folder:
            small.add(X, _IDS, _PAYLOADS).save(folder)
            opened = SimilaritySearch.open(folder)
            _read(opened, X)
            _write(opened, X)
            opened.close()
            small.close()
    except OSError as error:
        log_event("not rehearsed", reason=type(error).__name__)


def _read(search: SimilaritySearch, X: np.ndarray) -> None:
    search.get(_IDS[:1])
    orders = ["codes", "asymmetric", *(["vectors"] if search.keep_vectors else [])]
    for order in orders:
        search.search(X, 2, rerank=order)
        search.search(X, 2, rerank=order, filter={"number": {"$gt": 0}})
    if search.query == "code":
        search.search_codes(search.encode(X), 2)


def _write(search: SimilaritySearch, X: np.ndarray) -> None:
    """Rows that come from a file, and rows that were written before, are of different types to a compiler."""
    for _ in range(2):
        search.upsert(X[:2], _IDS[1:3], _PAYLOADS[:2])
        search.remove(_IDS[1:2])
        search.get(_IDS[2:3])
