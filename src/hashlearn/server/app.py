"""The application: its routes, what stands before them, and its start and end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from hashlearn.search import SimilaritySearch
from hashlearn.server.errors import add_error_handlers
from hashlearn.server.features import Features
from hashlearn.server.front import Auth, RequestLimits
from hashlearn.server.json_route import Direct
from hashlearn.server.routes import about, codes, points
from hashlearn.server.routes import search as search_routes
from hashlearn.server.service import Service
from hashlearn.server.settings import Settings
from hashlearn.server.telemetry import Telemetry
from hashlearn.version import __version__


class Application(FastAPI):
    """FastAPI behind our own middleware.

    What FastAPI puts around the middleware that it is told of takes time in every request.
    """

    front: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.front(scope, receive, send)


def create_app(search: SimilaritySearch, settings: Settings | None = None, features: Features | None = None) -> FastAPI:
    """An application that serves a search over HTTP.

    Parameters
    ----------
    search : SimilaritySearch
    settings : Settings or None
        None: no keys, and the limits that :class:`Settings` has by default.
    features : Features or None
        Makes vectors of images and texts. None: clients send vectors, ids and codes only.

    Returns
    -------
    FastAPI
        ``app.state.service`` is its :class:`~hashlearn.server.service.Service`.
    """
    app = Application(
        title="hashlearn",
        version=__version__,
        description="Vectors in, codes and neighbors out.",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
    )
    service = app.state.service = Service(search, settings or Settings(), features)
    add_error_handlers(app)
    routers = (search_routes.router, codes.router, points.router, about.info_router, about.router)
    for router in routers:  # the first ones are found soonest
        app.router.routes.extend(router.routes)
    limited = RequestLimits(Direct(super(Application, app).__call__, service, app.router.routes), service)
    app.front = Telemetry(Auth(limited, service.settings), service.metrics)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Warm up beside the first requests, so that /healthz answers meanwhile; at the end, finish what runs."""
    service: Service = app.state.service
    warming = asyncio.create_task(service.start())
    following = asyncio.create_task(service.follow())
    yield
    following.cancel()
    await warming
    await service.stop()
