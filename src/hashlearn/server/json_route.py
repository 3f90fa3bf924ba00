"""Routes whose bodies are read and whose answers are written by pydantic's compiled JSON code.

An endpoint is declared as FastAPI wants it, so the OpenAPI schema is complete::

    async def search(service: Served, body: SearchRequest) -> SearchResponse: ...

It is called with the service, the body, and the parts of the path. Most of the time of a small request goes into what
FastAPI does around an endpoint; this route leaves out what we do not use.
"""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from hashlearn.server.errors import invalid


class JsonRoute(APIRoute):
    """JSON in, JSON out; an endpoint returns a value that JSON can say, or None for an empty answer."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        endpoint = self.endpoint
        status = self.status_code or 200
        body_type = _body_type(endpoint)
        if body_type is None:

            async def handle(request: Request) -> Response:
                answer = await endpoint(request.app.state.service, **request.path_params)
                return _response(answer, status)
        else:

            async def handle(request: Request) -> Response:
                body = parse(body_type, await request.body())
                answer = await endpoint(request.app.state.service, body, **request.path_params)
                return _response(answer, status)

        return handle


def parse(model: type[BaseModel], body: bytes) -> Any:
    """A request of this model, or the 422 that names the field."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error) from None


def _body_type(endpoint: Callable) -> type[BaseModel] | None:
    parameter = inspect.signature(endpoint).parameters.get("body")
    return None if parameter is None else parameter.annotation


def _response(answer: Any, status: int) -> Response:
    if answer is None:
        return Response(status_code=204)
    return Response(to_json(answer, inf_nan_mode="null"), status, media_type="application/json")
