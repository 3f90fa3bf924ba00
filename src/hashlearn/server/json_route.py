"""Routes that read bodies and write answers with pydantic's compiled JSON code.

An endpoint is declared in FastAPI's way, so the OpenAPI schema is complete::

    async def search(service: Served, body: SearchRequest) -> SearchResponse: ...

It is called with the service, the body, and the parts of the path. For a small request, FastAPI's work around an
endpoint takes most of the time. This route leaves out the steps that we do not use, and :class:`Direct` leaves out the
router.
"""

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cached_property, partial
from typing import Annotated, Any
from zlib import crc32

from fastapi import Depends, Path
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from hashlearn.server.errors import Problem, invalid, written
from hashlearn.server.once import is_write, write_key
from hashlearn.server.searches import Searches

SEARCH_NAME = "search_name"
_LONG_BODY = 64 * 1024
"""Bytes from which on a body is long: reading it takes milliseconds, during which no other request is served."""
_NO_JSON = (b"NaN", b"Inf")


class JsonRoute(APIRoute):
    """JSON in, JSON out. An endpoint returns a JSON value, the result of :func:`written`, or None."""

    @cached_property
    def body_type(self) -> type[BaseModel] | None:
        """The parts of a request."""
        parameter = inspect.signature(self.endpoint).parameters.get("body")
        return None if parameter is None else parameter.annotation

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handle(request: Request) -> Response:
            key = write_key(request.scope) if self.writes else None
            answer = await self.answer(request.app.state.searches, await request.body(), request.path_params, key)
            return Response(answer, self.status_code or 200, media_type="application/json" if answer else None)

        return handle

    async def answer(
        self, searches: Searches, body: bytes, path_params: Mapping[str, Any], key: bytes | None = None
    ) -> bytes:
        """The body of the answer to a request; errors are raised as a Problem. A write with a key is made once."""
        arguments = dict(path_params)
        name = arguments.pop(SEARCH_NAME, None)
        if self.of_server:
            return written(await self.endpoint(searches))
        if name is None and searches.only is not None:
            return await self._made_once(searches.only, body, arguments, key)
        async with searches.using(name) as service:
            return await self._made_once(service, body, arguments, key)

    @cached_property
    def of_server(self) -> bool:
        """Whether the endpoint is about the server and not about one search: it gets all searches."""
        return "searches" in inspect.signature(self.endpoint).parameters

    @cached_property
    def writes(self) -> bool:
        """Whether the endpoint may change something."""
        return any(is_write(method, self.path) for method in self.methods or ())

    async def _made_once(self, service: Any, body: bytes, arguments: dict[str, Any], key: bytes | None) -> bytes:
        if key is None:
            return await self._answer_of(service, body, arguments)
        digest = await service.workers.run(crc32, body, pool=service.workers.writing)
        request = (service.name, self.endpoint, tuple(arguments.items()), len(body), digest)
        return await service.workers.answered.once(key, request, partial(self._answer_of, service, body, arguments))

    async def _answer_of(self, service: Any, body: bytes, arguments: dict[str, Any]) -> bytes:
        if self.body_type is None:
            answer = await self.endpoint(service, **arguments)
        else:
            if len(body) > _LONG_BODY:
                await service.check_values(body, has_texts="filter" not in self.body_type.model_fields)
                request = await service.workers.turns.take(parse, self.body_type, body)
            else:
                service.workers.turns.n_others += 1
                request = parse(self.body_type, body)
            answer = await self.endpoint(service, request, **arguments)
        if answer is None:
            return b""
        return answer if isinstance(answer, bytes) else written(answer)


def named_routes(routes: Iterable[BaseRoute], *, in_schema: bool) -> list[JsonRoute]:
    """The same routes with the name of a search: ``/v1/search`` becomes ``/v1/{search_name}/search``."""
    return [
        JsonRoute(
            f"/v1/{{{SEARCH_NAME}}}{route.path.removeprefix('/v1')}",
            route.endpoint,
            methods=route.methods,
            response_model=route.response_model,
            status_code=route.status_code,
            responses=route.responses,
            tags=route.tags,
            name=f"named_{route.name}",
            dependencies=[Depends(_search_name)],
            include_in_schema=in_schema,
        )
        for route in routes
        if isinstance(route, JsonRoute) and not route.of_server
    ]


def _search_name(search_name: Annotated[str, Path(description="The name of a search; see /v1/searches.")]) -> None:
    """Adds a part of the path, which :meth:`JsonRoute.answer` reads, to the schema."""


class Direct:
    """ASGI middleware inside of :class:`~hashlearn.server.front.RequestLimits`, which answers Problems.

    A request to a path without parameters goes directly to its JSON route; the router gets all others. The router
    treats HEAD as GET; the body is left out when the answer is written.
    """

    def __init__(self, app: ASGIApp, searches: Searches, routes: Iterable[BaseRoute]):
        self.app = app
        self.searches = searches
        self.routes = {
            (method, route.path): route
            for route in routes
            if isinstance(route, JsonRoute) and not route.param_convertors
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self.routes.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if route is None:
            routed = {**scope, "method": "GET"} if scope.get("method") == "HEAD" else scope
            await self.app(routed, receive, send)
            return
        scope["route"] = route
        message = await receive()  # the whole body: it was put together to be counted
        key = write_key(scope) if route.writes else None
        answer = await route.answer(self.searches, message["body"], {}, key)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": route.status_code or 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


def parse(model: type[BaseModel], body: bytes) -> Any:
    """The body as this model, or a 422 that names the field."""
    try:
        request = model.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error) from None
    if any(word in body for word in _NO_JSON) and not _is_json(body):
        raise Problem(422, "the body must be JSON, which has no NaN and no Infinity: send null")
    return request


def _is_json(body: bytes) -> bool:
    """Whether NaN and Infinity, which the model accepts in a payload or a filter, occur in strings only."""
    try:
        from_json(body, allow_inf_nan=False)
    except ValueError:
        return False
    return True
