"""A search that is served: the methods that its routes share, and a warm-up with every kind of request."""

import gc
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import Depends, Request
from numpy.typing import NDArray

from hashlearn.features.decoder import shared_decoder
from hashlearn.search import SimilaritySearch
from hashlearn.server.arrays import has_more_values, vector_matrix
from hashlearn.server.batching import Batcher, Change, search_together, write_together
from hashlearn.server.errors import Problem, problem_of, unprocessable
from hashlearn.server.features import Features
from hashlearn.server.guard import FolderGuard
from hashlearn.server.telemetry import log_event
from hashlearn.server.watch import Watch
from hashlearn.server.workers import Workers

Result = TypeVar("Result")

_MOST_VALUES = 250_000
"""Most values in the payloads of a request, or in a filter and a subset together (each may have 100,000)."""
_FEW_NUMBERS = 10_000


class Service:
    """A search that is served; ``app.state.service`` of an application with one search.

    Parameters
    ----------
    search : SimilaritySearch
    workers : Workers
    features : Features or None
    name : str
        Its name for clients, if the server has several searches.

    Attributes
    ----------
    watch : Watch
        Measures the recall and the drift.
    searches : Batcher
        Queries that wait for a thread.
    writes : Batcher
        Changes that wait for the thread that writes.
    """

    def __init__(self, search: SimilaritySearch, workers: Workers, features: Features | None, name: str = "search"):
        self.search, self.workers, self.features, self.name = search, workers, features, name
        self.settings, self.metrics = workers.settings, workers.metrics
        self.guard = FolderGuard(search.folder)
        self.before_ready: list[Callable[[], Any]] = []
        """Further work that is done once before requests are answered."""
        self.watch = Watch(search, name, self.settings.recall_share, self.metrics)
        self.searches = Batcher(
            partial(search_together, search, self.metrics.stages),
            workers.searching,
            workers.n_searching,
            self.metrics.searched_together,
            waits=self.metrics.stages["wait"],
            may_be_short=True,
        )
        self.writes = Batcher(
            partial(write_together, search), workers.writing, 1, self.metrics.saved_together, keeps_late=True
        )

    def close(self) -> None:
        """Close the search."""
        self.watch.close()
        self.search.close()

    @property
    def ready(self) -> bool:
        """Whether the kernels are compiled and the tables are built."""
        return self.workers.ready

    @property
    def n_features(self) -> int:
        """Length of a vector."""
        return self.search.hasher.n_features_in_

    def warm(self) -> None:
        """Compile kernels and build tables."""
        self.search.warm()
        rehearse(self.search)
        if getattr(self.features, "kind", None) == "image":
            shared_decoder().start()
        for prepare in self.before_ready:
            prepare()
        gc.collect()
        gc.freeze()  # these objects stay; each later look through them would take a tenth of a second
        self.workers.ready = True

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function on one of the threads, beside other requests."""
        return await self.workers.run(work, *arguments)

    async def write(self, change: Change) -> Any:
        """Make a change; it is on disk when this returns."""
        return await self.writes.submit(None, change)

    async def vectors(self, field: str, vectors: Sequence[list[float] | str]) -> NDArray[np.float32]:
        """Vectors of a request as a matrix; many are read on a thread."""
        if sum(map(len, vectors)) <= _FEW_NUMBERS:
            return vector_matrix(field, vectors, self.n_features)
        return await self.workers.run(vector_matrix, field, vectors, self.n_features, pool=self.workers.writing)

    async def encode(self, X: NDArray) -> NDArray[np.uint8]:
        """Codes of vectors."""
        return await self.run(self.search.encode, X)

    async def vectors_of_texts(self, field: str, texts: list[str]) -> NDArray[np.float32]:
        """Vectors of texts, or a 422 with the reason why there are none."""
        if self.features is None:
            raise unprocessable(field, "cannot be encoded: this server has no features; send vectors")
        return await self.run(_encoded, field, self.features.encode_texts, texts)

    async def vectors_of_images(self, field: str, images: list[bytes]) -> NDArray[np.float32]:
        """Vectors of image files, or a 422 with the reason why there are none."""
        if self.features is None:
            raise unprocessable(field, "cannot be encoded: this server has no features; send vectors")
        encode = self.features.encode_images
        return await self.workers.run(_encoded, field, encode, images, pool=self.workers.decoding)

    def record(self, id: int | str) -> Any:
        """A row, or None if there is none."""
        try:
            return next(iter(self.search.get([id])), None)
        except (ValueError, TypeError) as error:
            if problem_of(error, {"ids": "id"}):  # no id of this search can have this form
                return None
            raise

    def record_of_path(self, text: str) -> Any:
        """The row of an id in a path, where numbers and strings look alike."""
        record = self.record(text)
        if record is None and text.isdecimal() and len(text) < 20 and str(int(text)) == text:
            record = self.record(int(text))
        return record

    def check_most(self, field: str, value: int, most: int) -> None:
        """Refuse a number above a limit of this server."""
        if value > most:
            raise unprocessable(field, f"must be at most {most}, got {value}")

    async def check_values(self, body: bytes, has_texts: bool) -> None:
        """Refuse a body with more values than vectors, payloads and filters may have: reading it blocks other requests.

        In bodies that may have long texts, commas inside strings are not counted.
        """
        most = self.settings.max_batch * (self.n_features + 8) + _MOST_VALUES
        if await self.workers.run(has_more_values, body, most, has_texts, pool=self.workers.writing):
            raise Problem(422, f"the body must have at most {most:,} values")

    def check_batch(self, field: str, items: Any) -> None:
        """Refuse an empty list, and one that is longer than this server allows."""
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
_IDS = [str(number) for number in range(_N_ROWS)]  # string ids need everything that integer ids need, and more
_PAYLOADS = [{"number": number} for number in range(_N_ROWS)]


def rehearse(search: SimilaritySearch) -> None:
    """Search, write and remove rows of a small copy in a temporary folder; the search itself is left alone.

    If no file can be written, this does nothing. The first request of each kind then takes a second longer.
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
    """For the compiler, rows from a file and rows in memory are different types, so both are searched."""
    for _ in range(2):
        search.upsert(X[:2], _IDS[1:3], _PAYLOADS[:2])
        search.remove(_IDS[1:2])
        search.get(_IDS[2:3])
