"""The application: its routes, the middleware before them, its start and its end."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from hashlearn.search import SimilaritySearch
from hashlearn.server.errors import Problem, add_error_handlers
from hashlearn.server.features import Features
from hashlearn.server.front import Auth, Hosts, RequestLimits
from hashlearn.server.json_route import Direct, named_routes
from hashlearn.server.routes import about, codes, points, snapshots
from hashlearn.server.routes import search as search_routes
from hashlearn.server.searches import Searches
from hashlearn.server.service import Service
from hashlearn.server.settings import Settings
from hashlearn.server.telemetry import Telemetry, log_event
from hashlearn.server.workers import Workers
from hashlearn.version import __version__


class Application(FastAPI):
    """FastAPI behind our own middleware.

    Middleware that is added by FastAPI's own method is wrapped by it, and the wrapper takes time in every request.
    """

    front: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.front(scope, receive, send)


def create_app(
    search: SimilaritySearch | Sequence[str | Path],
    settings: Settings | None = None,
    features: Features | None = None,
    name: str = "search",
) -> FastAPI:
    """An application that serves searches over HTTP.

    Parameters
    ----------
    search : SimilaritySearch, or list of paths
        A search, or the folders of several searches. Each folder is opened at the first request for its search, which
        has the name of the folder.
    settings : Settings or None
        None: no keys, and the default limits of :class:`Settings`.
    features : Features or None
        Makes vectors of images and texts. None: clients send only vectors, ids and codes. Must be None for several
        searches: they have encoders in their folders.
    name : str
        The name of a single search.

    Returns
    -------
    FastAPI
        ``app.state.service`` is the :class:`~hashlearn.server.service.Service` of a single search, or None.
    """
    app = Application(
        title="hashlearn",
        version=__version__,
        description="Vectors in, codes and neighbors out.",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
    )
    workers = app.state.workers = Workers(settings or Settings())
    if not isinstance(search, Sequence):
        searches = Searches.of_one(Service(search, workers, features, name))
    elif features is None:
        searches = Searches(workers, search)
    else:
        raise ValueError("features are for a single search; several have the encoders in their folders")
    app.state.searches, app.state.service = searches, searches.only
    add_error_handlers(app)
    routers = (search_routes.router, codes.router, points.router, snapshots.router, about.info_router)
    of_search = [route for router in routers for route in router.routes]
    if searches.only is not None:
        app.router.routes.extend(of_search)  # the first ones are found soonest
    app.router.routes.extend(about.server_router.routes)
    app.router.routes.extend(about.router.routes)
    app.router.routes.extend(named_routes(of_search, in_schema=searches.only is None))
    limited = RequestLimits(Direct(super(Application, app).__call__, searches, app.router.routes), workers)
    app.front = Telemetry(Hosts(Auth(limited, workers.settings), workers.settings), workers.metrics)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Warm up in the background, so that /healthz answers at once. At the end, finish the running requests."""
    searches: Searches = app.state.searches
    warming = asyncio.create_task(_warm(searches))
    following = asyncio.create_task(searches.follow())
    yield
    following.cancel()
    await warming
    await searches.workers.stop()


async def _warm(searches: Searches) -> None:
    """Until this is done, requests are answered 503."""
    workers = searches.workers
    if not workers.ready:
        if searches.only is not None:
            await workers.run(searches.only.warm)
        else:
            await _warm_one_of(searches)
        workers.ready = True
    log_event("ready", rows=None if searches.only is None else len(searches.only.search))


async def _warm_one_of(searches: Searches) -> None:
    """The first search that can be opened. The kernels that are compiled for it also serve the other searches."""
    for name in searches.names:
        with suppress(Problem):
            async with searches.using(name) as service:
                await searches.workers.run(service.warm)
                return
