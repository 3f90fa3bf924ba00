"""What the routes share: the search, the threads that work for them, and whether it is ready."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import Depends, Request

from hashlearn.search import SimilaritySearch
from hashlearn.server.errors import Problem
from hashlearn.server.features import Features
from hashlearn.server.logs import log_event
from hashlearn.server.metrics import Metrics
from hashlearn.server.settings import Settings

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
    """

    def __init__(self, search: SimilaritySearch, settings: Settings, features: Features | None):
        self.search = search
        self.settings = settings
        self.features = features
        self.metrics = Metrics()
        self.ready = False
        self.pool = ThreadPoolExecutor(settings.n_threads, thread_name_prefix="hashlearn")

    async def start(self) -> None:
        """Warm up; requests that come before this is done are told to come again."""
        await self.run(warm, self.search)
        self.ready = True
        log_event("ready", rows=len(self.search))

    async def stop(self) -> None:
        """End what runs."""
        self.ready = False
        await asyncio.to_thread(self.pool.shutdown)

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function that computes on one of the threads, beside other requests."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, work, *arguments)

    def check_ready(self) -> None:
        if not self.ready:
            raise Problem(503, "the server is warming up", headers={"Retry-After": "1"})


def warm(search: SimilaritySearch) -> None:
    """Compile the kernels and build the tables that the first query would wait for."""
    if len(search):
        search.search(np.zeros((1, search.hasher.n_features_in_), np.float32), 1)


def _service(request: Request) -> Service:
    return request.app.state.service


Served = Annotated[Service, Depends(_service)]
"""The service, as an argument of an endpoint."""
