"""The application: its routes, what stands before them, and its start and end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from hashlearn.search import SimilaritySearch
from hashlearn.server.errors import add_error_handlers
from hashlearn.server.features import Features
from hashlearn.server.routes import health
from hashlearn.server.service import Service
from hashlearn.server.settings import Settings
from hashlearn.version import __version__


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
    app = FastAPI(
        title="hashlearn",
        version=__version__,
        description="Vectors in, codes and neighbors out.",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.service = Service(search, settings or Settings(), features)
    add_error_handlers(app)
    for routes in (health,):
        app.include_router(routes.router)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Warm up beside the first requests, so that /healthz answers meanwhile; at the end, finish what runs."""
    service: Service = app.state.service
    warming = asyncio.create_task(service.start())
    yield
    await warming
    await service.stop()
