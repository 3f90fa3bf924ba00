"""Description, liveness, readiness and metrics of the server, and the documentation of its API."""

import hashlib
from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from html import escape
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from hashlearn.html import inline, render
from hashlearn.server.errors import error_response
from hashlearn.server.json_route import JsonRoute
from hashlearn.server.models import ERRORS, Info, InfoLimits, ModelList, SearchList
from hashlearn.server.searches import Searches
from hashlearn.server.service import Served

_DEPTH = 3


@cache
def _docs_headers() -> dict[str, str]:
    """Content policy of the API page: its own style, no scripts, no other hosts, no frames."""
    style = b64encode(hashlib.sha256(inline("style.css").encode()).digest()).decode()
    return {
        "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }


def api_page(schema: dict[str, Any]) -> str:
    """A page with every endpoint of an OpenAPI schema and the fields of its request and answer."""
    info = schema["info"]
    parts = [f"<h1>{escape(info['title'])}: HTTP API</h1><p>{escape(info['description'])} "]
    parts.append('The same as a schema for programs: <a href="openapi.json">openapi.json</a>.</p>')
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2>")
            parts.append(f"<p>{escape(operation.get('description', ''))}</p>")
            parts += _tables(schema, operation)
    return render("server/api.html", body="".join(parts))


def _tables(schema: dict[str, Any], operation: dict[str, Any]) -> Iterator[str]:
    answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    for title, part in (("Request", operation.get("requestBody")), ("Answer", answers[0] if answers else None)):
        body = (part or {}).get("content", {}).get("application/json", {}).get("schema", {})
        rows = list(_rows(schema, body, "", _DEPTH))
        if rows:
            head = "<tr><th>field</th><th>type</th><th>meaning</th></tr>"
            table = f"<table>{head}{''.join(rows)}</table>"
            yield f'<h3>{title}</h3><div class="scroll" tabindex="0" role="group">{table}</div>'


def _rows(schema: dict[str, Any], part: dict[str, Any], before: str, depth: int) -> Iterator[str]:
    """A row for each field, followed by the fields inside it."""
    part = _followed(schema, part)
    required = part.get("required", [])
    for name, field in part.get("properties", {}).items():
        meaning = escape(str(field.get("description", "")))
        if name in required:
            meaning = f"required. {meaning}"
        elif field.get("default") is not None:
            meaning = f"{meaning} Default: <code>{escape(str(field['default']))}</code>"
        yield f"<tr><td><code>{escape(before + name)}</code></td><td>{escape(_type(field))}</td><td>{meaning}</td></tr>"
        if depth:
            inner = field.get("items", field)
            mark = "[]." if "items" in field else "."
            yield from _rows(schema, inner, f"{before}{name}{mark}", depth - 1)


def _followed(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """A part of the schema; for a reference, the part that it refers to."""
    if "$ref" not in part:
        return part
    return schema["components"]["schemas"][part["$ref"].rpartition("/")[2]]


def _type(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(each) for each in field["anyOf"] if each.get("type") != "null"))
    if "enum" in field:
        return " or ".join(f'"{value}"' for value in field["enum"])
    if "const" in field:
        return f'"{field["const"]}"'
    if "items" in field:
        return f"list of {_type(field['items'])}"
    return str(field.get("type", "object"))


def _all_searches(request: Request) -> Searches:
    return request.app.state.searches


AllSearches = Annotated[Searches, Depends(_all_searches)]
"""All searches, as an argument of an endpoint."""

info_router = APIRouter(route_class=JsonRoute, responses=ERRORS, tags=["info"])
server_router = APIRouter(route_class=JsonRoute, responses=ERRORS, tags=["info"])
router = APIRouter()


@info_router.get("/v1/info", response_model=Info)
async def info(service: Served) -> Any:
    """The rows, the codes and the limits."""
    search, settings = service.search, service.settings
    return {
        "rows": len(search),
        "n_bits": search.n_bits,
        "n_features": service.n_features,
        "method": type(search.hasher).__name__,
        "metric": search.metric,
        "query": search.query,
        "keep_vectors": search.keep_vectors,
        "features": service.features is not None,
        "recall": None if service.watch.recall is None else service.watch.recall._asdict(),
        "drift": None if service.watch.drift is None else _drift(service.watch.drift),
        "lists": None if (sizes := search.list_sizes) is None else _lists(sizes),
        "clipped_share": search.clipped_share,
        "limits": {name: getattr(settings, name) for name in InfoLimits.model_fields},
    }


@server_router.get("/v1/searches", response_model=SearchList)
async def list_searches(searches: AllSearches) -> Any:
    """The searches of this server, by name."""
    return {"searches": searches.listed()}


@server_router.get("/v1/models", response_model=ModelList)
async def list_models(searches: AllSearches) -> Any:
    """The same for clients of OpenAI's API; ``method`` and the rest are known of searches that are open."""
    known = {service.name: _model(service) for service in searches.open_services()}
    return {"object": "list", "data": [{**_MODEL, "id": name, **known.get(name, {})} for name in searches.names]}


def _lists(sizes: Any) -> dict[str, Any]:
    return {"lists": len(sizes), "mean_rows": float(sizes.mean()), "largest_rows": int(sizes.max())}


def _drift(report: Any) -> dict[str, Any]:
    return {**report._asdict(), "is_large": report.is_large}


_MODEL = {"object": "model", "created": 0, "owned_by": "hashlearn"}


def _model(service: Any) -> dict[str, Any]:
    search = service.search
    return {
        "method": type(search.hasher).__name__,
        "n_bits": search.n_bits,
        "n_features": service.n_features,
        "metric": search.metric,
    }


@router.get("/healthz", tags=["health"])
async def healthz() -> dict[str, str]:
    """The process is alive."""
    return {"status": "alive"}


@router.get("/readyz", tags=["health"], responses=ERRORS)
async def readyz(request: Request) -> Response:
    """The search is warm: the first query is as fast as the next."""
    if not request.app.state.workers.ready:
        return error_response(503, "the server is warming up", headers={"Retry-After": "1"})
    return JSONResponse({"status": "ready"})


@router.get("/metrics", tags=["health"], response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Counts and times in the format of Prometheus."""
    searches: Searches = request.app.state.searches
    counted = searches.workers.metrics
    counted.rows.set(sum(len(service.search) for service in searches.open_services()))
    for service in searches.open_services():
        counted.tell_storage(service.name, service.search)
    return Response(counted.text(), media_type=CONTENT_TYPE_LATEST)


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """The endpoints, as a page."""
    return HTMLResponse(api_page(request.app.openapi()), headers=_docs_headers())
