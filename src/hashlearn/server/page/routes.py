"""The addresses of the page."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from fastapi import APIRouter, FastAPI, Query, Request
from pydantic import BaseModel, Field
from starlette.datastructures import UploadFile
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from hashlearn.explore import SIDE
from hashlearn.html import STATIC, address
from hashlearn.server.errors import Problem
from hashlearn.server.models import ERRORS
from hashlearn.server.page.export import exported
from hashlearn.server.page.forms import posted_form
from hashlearn.server.page.queries import posted_picture, posted_vector, typed_query
from hashlearn.server.page.scope import LEAST, MOST, VALUE
from hashlearn.server.page.views import VIEWS, Views
from hashlearn.server.service import Served

HEADERS = {
    # Nothing is loaded from another host, and nothing written into a page runs.
    "Content-Security-Policy": (
        "default-src 'none'; img-src 'self' blob:; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": a browser would then send forms with the origin "null", which the server refuses.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
PICTURE_HEADERS = {"Cache-Control": "private, max-age=3600", "X-Content-Type-Options": "nosniff"}
SETTINGS = ("k", "layout", "show", "cluster", "area", "words")
MOST_POINTS = 100_000

router = APIRouter(include_in_schema=False)
api = APIRouter(tags=["map"], responses=ERRORS)


def add_routes(app: FastAPI, views: Views) -> None:
    """Serve the page at ``/``, its files below ``/static``, and the rest below ``/page``."""
    app.state.page = views
    app.include_router(router)
    app.include_router(api)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")


@router.get("/")
async def explore(request: Request, service: Served) -> Response:
    return await _shown(request, service, _views(request).explore)


@router.get("/page/more")
async def more(request: Request, service: Served) -> Response:
    return await _shown(request, service, _views(request).more)


@router.get("/page/trust")
async def trust(request: Request, service: Served) -> Response:
    return await _shown(request, service, _views(request).trust)


@router.get("/page/inside")
async def inside(request: Request, service: Served) -> Response:
    return await _shown(request, service, _views(request).inside)


@router.get("/page/quality")
async def quality(request: Request, service: Served) -> Response:
    return await _shown(request, service, _views(request).quality)


@router.get("/page/compare")
async def compare(request: Request, service: Served) -> Response:
    return await _shown(request, service, _views(request).compare)


@router.get("/page/random")
async def random_item(request: Request, service: Served) -> Response:
    """Go to the neighbors of a random item."""
    view = request.query_params.get("view")
    ids = await service.run(_views(request).collection.random_ids, 1)
    kept = {**_settings(request.query_params), "with": request.query_params.getlist("with") or None}
    return RedirectResponse(address(view if view in VIEWS else "/", kept, id=ids[0] if ids else None), 303)


@router.post("/page/query")
async def post_query(request: Request, service: Served) -> Response:
    """Receive a picture or a vector, and go to its results."""
    views = _views(request)
    async with posted_form(request, service, most_files=1, most_fields=200) as form:
        view = str(form.get("view", "/"))
        view = view if view in VIEWS else "/"
        image = form.get("image")
        try:
            if isinstance(image, UploadFile) and image.size:
                content = await image.read()
                posted = await service.run(posted_picture, content, image.filename or "", views.features)
            else:
                n_features = views.collection.search.hasher.n_features_in_
                posted = await service.run(posted_vector, str(form.get("vector", "")), n_features)
        except ValueError as error:
            return _html(await service.run(views.problem, str(error), view), 422)
        return RedirectResponse(address(view, _settings(form), query=views.posted.keep(posted)), 303)


@router.get("/page/export")
async def export(request: Request, service: Served) -> Response:
    """The items of an address as a file."""
    views, parameters = _views(request), request.query_params

    def made() -> Response:
        return _file(views, views.chosen_ids(parameters), parameters.get("format", "csv"), "")

    return await _refused(service, request, made)


@router.post("/page/export")
async def export_basket(request: Request, service: Served) -> Response:
    """The items of a basket, as a file."""
    views = _views(request)
    async with posted_form(request, service, most_files=0, most_fields=8) as form:
        named, form_name = str(form.get("ids", "")), str(form.get("format", "csv"))
        tag = str(form.get("tag", "")).strip()[:200]

    def made() -> Response:
        try:
            ids = json.loads(named)
        except (ValueError, RecursionError):
            ids = None
        if not isinstance(ids, list) or not all(isinstance(each, str) for each in ids):
            raise ValueError("ids must be a JSON list of strings")
        return _file(views, [views.collection.id_of(each) for each in ids], form_name, tag)

    return await _refused(service, request, made)


@router.get("/page/thumbnail")
async def item_picture(request: Request, service: Served) -> Response:
    """The picture of an item; with ``size=large``, up to the size of a screen."""
    parameters = request.query_params
    return await service.run(_thumbnail, _views(request), parameters)


@router.get("/page/posted")
async def posted_picture_of(request: Request) -> Response:
    """A posted picture."""
    posted = _views(request).posted.find(request.query_params.get("query", ""))
    return Response(status_code=404) if posted is None or posted.picture is None else _picture(posted.picture)


@router.get("/page/correlation.png")
async def correlation(request: Request) -> Response:
    job = _views(request).quality_job()
    if not job.done or job.error:
        return Response(status_code=404)
    return Response(job.result.correlation_png, media_type="image/png", headers=HEADERS)


@router.get("/page/progress")
async def progress(request: Request) -> Response:
    """The progress of the work that a page waits for."""
    job = _views(request).progress_of(request.query_params.get("job", ""))
    if job is None:
        return JSONResponse({"done": True}, headers=HEADERS)
    task, finished, total = job.progress
    return JSONResponse({"done": job.done, "task": task, "finished": finished, "total": total}, headers=HEADERS)


@router.get("/page/map.bin")
async def map_points(request: Request, service: Served) -> Response:
    """The map as numbers: x of all items, y of all items (uint16, little-endian), then all clusters (uint8)."""
    made = await service.run(_views(request).map)
    if made is None:
        return Response(status_code=404)
    content = b"".join(made.points[:, axis].astype("<u2").tobytes() for axis in (0, 1)) + made.labels.tobytes()
    # A page names the version of its map, so that the browser can keep the map.
    kept = {"Cache-Control": "private, max-age=3600"} if request.query_params.get("of") == str(made.checksum) else {}
    return Response(content, media_type="application/octet-stream", headers={**HEADERS, **kept})


@router.get("/page/mask")
async def mask(request: Request, service: Served) -> Response:
    """A bit for each item, in the order of the ids: whether the item belongs to the address."""

    def found() -> Response:
        bits = np.packbits(_views(request).mask(request.query_params))
        return Response(bits.tobytes(), media_type="application/octet-stream", headers=HEADERS)

    return await _refused(service, request, found)


@router.get("/page/place")
async def place(request: Request, service: Served) -> Response:
    """The item at a position in the order of the ids: the point under the pointer on the map."""
    views, text = _views(request), request.query_params.get("place", "")

    def found() -> dict[str, Any]:
        try:
            (item,) = views.collection.items([_id_at(views, text)])
        except ValueError:  # no such position, or the item was removed
            return {}
        said = ", ".join(f"{name}: {value}" for name, value in item.fields[:3])
        return {
            "id": str(item.id),
            "name": item.name,
            "text": item.text,
            "has_picture": bool(item.picture),
            "said": said,
        }

    return JSONResponse(await service.run(found), headers=HEADERS)


class ClusterOfMap(BaseModel):
    """Rows that are alike."""

    name: str = Field(description="its most telling words or payload values")
    size: int = Field(description="how many rows it has")
    x: int
    y: int


class MapResponse(BaseModel):
    """Some rows of the map, in the order of their ids."""

    rows: int = Field(description="rows of the whole map")
    side: int = Field(description="x and y are from 0 to this")
    clusters: list[ClusterOfMap]
    ids: list[int | str]
    x: list[int]
    y: list[int]
    cluster: list[int] = Field(description="the place of each row's cluster in `clusters`")
    next: int | None = Field(description="`start` of the next rows; null at the end")


@api.get("/v1/map", response_model=MapResponse)
async def map_of_rows(
    request: Request,
    service: Served,
    start: int = Query(0, ge=0, description="the first row, in the order of the ids"),
    limit: int = Query(10_000, ge=1, le=MOST_POINTS, description="how many rows"),
) -> Any:
    """Points of the rows in the plane; similar rows are near each other. 409 until the map is computed and kept."""
    views = _views(request)
    if not len(views.collection) or views.collection.search.store is not None:
        raise Problem(404, "there is no map: the search has no rows in memory")
    made = await service.run(views.map)
    if made is None:
        job = views.map_job()
        if not job.done:
            raise Problem(409, "the map is being computed; ask again in some seconds", headers={"Retry-After": "5"})
        raise Problem(404, job.error or "there is no map")
    part = slice(start, start + limit)
    return {
        "rows": len(made),
        "side": SIDE,
        "clusters": [{"name": c.name, "size": c.size, "x": c.center[0], "y": c.center[1]} for c in made.clusters],
        "ids": views.collection.ids[part].tolist(),
        "x": made.points[part, 0].tolist(),
        "y": made.points[part, 1].tolist(),
        "cluster": made.labels[part].tolist(),
        "next": start + limit if start + limit < len(made) else None,
    }


async def _shown(request: Request, service: Any, view: Callable[[Any], str]) -> Response:
    """The page of a view for an address, or a page that names the error in the address."""
    views, parameters = _views(request), request.query_params
    typed = typed_query(parameters, views.collection, views.takes)
    if typed is not None:
        kept = {**_settings(parameters), "with": parameters.getlist("with") or None}
        return RedirectResponse(address(request.url.path, typed, kept), 303)
    return await _refused(service, request, lambda: _html(view(parameters)))


async def _refused(service: Any, request: Request, made: Callable[[], Response]) -> Response:
    """The answer of a function, or a page that names the error in the address."""
    try:
        return await service.run(made)
    except (ValueError, ImportError) as error:
        message = str(error).strip().partition("\n")[0]
        return _html(await service.run(_views(request).problem, message, request.url.path), 422)


def _settings(parameters: Any) -> dict[str, Any]:
    """The parts of an address or a form that are not the query."""
    return {
        name: [str(text) for text in parameters.getlist(name)]
        for name in parameters
        if (name in SETTINGS or name.startswith((VALUE, LEAST, MOST))) and any(map(str, parameters.getlist(name)))
    }


def _html(content: str, status: int = 200) -> Response:
    return HTMLResponse(content, status, HEADERS)


def _file(views: Views, ids: list[Any], form: str, tag: str) -> Response:
    made = exported(views.collection, ids, form, tag)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{made.name}"'}
    return Response(made.content, media_type=made.kind, headers=headers)


def _thumbnail(views: Views, parameters: Any) -> Response:
    pictures = views.collection.pictures
    if pictures is None:
        return Response(status_code=404)
    try:
        by_place = "place" in parameters
        key = _id_at(views, parameters["place"]) if by_place else views.collection.id_of(parameters.get("id", ""))
    except ValueError:
        return Response(status_code=404)
    content = pictures.large(key) if parameters.get("size") == "large" else pictures.thumbnail(key)
    return Response(status_code=404) if content is None else _picture(content)


def _id_at(views: Views, text: str) -> Any:
    """The id at a position in the order of the ids, or a ValueError."""
    ids = views.collection.ids
    if not text.isdecimal() or len(text) > 18 or int(text) >= len(ids):
        raise ValueError(f"place must be below {len(ids)}, got {text[:40]!r}")
    return ids[int(text) : int(text) + 1].tolist()[0]


def _picture(content: bytes) -> Response:
    kind = "image/png" if content.startswith(b"\x89PNG") else "image/jpeg"
    return Response(content, media_type=kind, headers=PICTURE_HEADERS)


def _views(request: Request) -> Views:
    return request.app.state.page
