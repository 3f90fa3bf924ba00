"""Routes whose bodies are read and whose answers are written by pydantic's compiled JSON code.

An endpoint is declared as FastAPI wants it, so the OpenAPI schema is complete::

    async def search(service: Served, body: SearchRequest) -> SearchResponse: ...

It is called with the service, the body, and the parts of the path. Most of the time of a small request goes into what
FastAPI does around an endpoint; this route leaves out what we do not use, and :class:`Direct` leaves out the router.
"""

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cached_property
from typing import Any

from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from hashlearn.server.errors import invalid


class JsonRoute(APIRoute):
    """JSON in, JSON out; an endpoint returns a value that JSON can say, or what :func:`written` made of it, or None."""

    @cached_property
    def body_type(self) -> type[BaseModel] | None:
        """What a request is read into."""
        parameter = inspect.signature(self.endpoint).parameters.get("body")
        return None if parameter is None else parameter.annotation

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handle(request: Request) -> Response:
            answer = await self.answer(request.app.state.service, await request.body(), request.path_params)
            return Response(answer, self.status_code or 200, media_type="application/json" if answer else None)

        return handle

    async def answer(self, service: Any, body: bytes, path_params: Mapping[str, Any]) -> bytes:
        """The body of the answer to a request; what is wrong with it is raised as a Problem."""
        if self.body_type is None:
            answer = await self.endpoint(service, **path_params)
        else:
            answer = await self.endpoint(service, parse(self.body_type, body), **path_params)
        if answer is None:
            return b""
        return answer if isinstance(answer, bytes) else written(answer)


class Direct:
    """ASGI middleware inside of :class:`~hashlearn.server.front.RequestLimits`, which answers Problems.

    A request to a path without parameters goes to its JSON route at once; the router has all others.
    """

    def __init__(self, app: ASGIApp, service: Any, routes: Iterable[BaseRoute]):
        self.app = app
        self.service = service
        self.routes = {
            (method, route.path): route
            for route in routes
            if isinstance(route, JsonRoute) and not route.param_convertors
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self.routes.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if route is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = route
        message = await receive()  # the whole body: it was put together to be counted
        answer = await route.answer(self.service, message["body"], {})
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": route.status_code or 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


def written(answer: Any) -> bytes:
    """A value as JSON. The thread that made a large value should write it: its objects are far from other cores."""
    return to_json(answer, inf_nan_mode="null")


def parse(model: type[BaseModel], body: bytes) -> Any:
    """A request of this model, or the 422 that names the field."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error) from None
