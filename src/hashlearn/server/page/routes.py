"""The addresses of the page."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.datastructures import UploadFile
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from hashlearn.server.page.queries import address, posted_picture, posted_vector, typed_query
from hashlearn.server.page.views import VIEWS, Page
from hashlearn.server.service import Served

STATIC = Path(__file__).parents[1] / "static"
HEADERS = {
    # Nothing is loaded from another host, and nothing written into a page runs.
    "Content-Security-Policy": (
        "default-src 'none'; img-src 'self' blob:; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
PICTURE_HEADERS = {"Cache-Control": "private, max-age=3600", "X-Content-Type-Options": "nosniff"}

router = APIRouter(include_in_schema=False)


def add_routes(app: FastAPI, page: Page) -> None:
    """Serve the page at ``/``, its files below ``/static``, and the rest below ``/page``."""
    app.state.page = page
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")


@router.get("/")
async def search(request: Request, service: Served) -> Response:
    return await _shown(request, service, _page(request).search)


@router.get("/page/inside")
async def inside(request: Request, service: Served) -> Response:
    return await _shown(request, service, _page(request).inside)


@router.get("/page/quality")
async def quality(request: Request, service: Served) -> Response:
    return await _shown(request, service, _page(request).quality)


@router.get("/page/compare")
async def compare(request: Request, service: Served) -> Response:
    chosen = request.query_params.getlist("with")
    return await _shown(request, service, lambda parameters: _page(request).compare(parameters, chosen))


@router.get("/page/random")
async def random_item(request: Request, service: Served) -> Response:
    """Go to the neighbors of some item."""
    view = request.query_params.get("view")
    ids = await service.run(_page(request).collection.random_ids, 1)
    kept = _settings(request)
    return RedirectResponse(address(view if view in VIEWS else "/", id=ids[0] if ids else None, **kept), 303)


@router.post("/page/query")
async def post_query(request: Request, service: Served) -> Response:
    """Take a picture or a vector, and go to its results."""
    page = _page(request)
    async with request.form(max_files=1, max_fields=8, max_part_size=1 << 20) as form:
        view = str(form.get("view", "/"))
        view = view if view in VIEWS else "/"
        kept = {name: str(form[name]) for name in ("k", "rank") if form.get(name)}
        image = form.get("image")
        try:
            if isinstance(image, UploadFile) and image.size:
                content = await image.read()
                posted = await service.run(posted_picture, content, image.filename or "", page.features)
            else:
                n_features = page.collection.search.hasher.n_features_in_
                posted = await service.run(posted_vector, str(form.get("vector", "")), n_features)
        except ValueError as error:
            return _html(await service.run(page.problem, str(error), view), 422)
    return RedirectResponse(address(view, query=page.posted.keep(posted), **kept), 303)


@router.get("/page/thumbnail")
async def item_picture(request: Request, service: Served) -> Response:
    """The picture of an item that was indexed."""
    return await service.run(_thumbnail, _page(request), request.query_params.get("id", ""))


@router.get("/page/posted")
async def posted_picture_of(request: Request) -> Response:
    """The picture that somebody searched for."""
    posted = _page(request).posted.find(request.query_params.get("query", ""))
    return Response(status_code=404) if posted is None or posted.picture is None else _picture(posted.picture)


@router.get("/page/correlation.png")
async def correlation(request: Request) -> Response:
    job = _page(request).quality_job()
    if not job.done or job.error:
        return Response(status_code=404)
    return Response(job.result.correlation_png, media_type="image/png", headers=HEADERS)


@router.get("/page/progress")
async def progress(request: Request) -> Response:
    """How far the work is that a page waits for."""
    job = _page(request).progress_of(request.query_params.get("job", ""))
    if job is None:
        return JSONResponse({"done": True}, headers=HEADERS)
    task, finished, total = job.progress
    return JSONResponse({"done": job.done, "task": task, "finished": finished, "total": total}, headers=HEADERS)


async def _shown(request: Request, service: Any, view: Callable[[Any], str]) -> Response:
    """What a view makes of the address, or a page that says what is wrong with it."""
    typed = typed_query(request.query_params)
    if typed is not None:
        return RedirectResponse(address(request.url.path, **typed, **_settings(request)), 303)
    try:
        return _html(await service.run(view, request.query_params))
    except ValueError as error:
        message = str(error).strip().partition("\n")[0]
        return _html(await service.run(_page(request).problem, message, request.url.path), 422)


def _settings(request: Request) -> dict[str, Any]:
    """What an address says beside the query."""
    settings: dict[str, Any] = {name: request.query_params.get(name) for name in ("k", "rank", "radius")}
    return {**settings, "with": request.query_params.getlist("with") or None}


def _html(content: str, status: int = 200) -> Response:
    return HTMLResponse(content, status, HEADERS)


def _thumbnail(page: Page, text: str) -> Response:
    pictures = page.collection.pictures
    try:
        content = None if pictures is None else pictures.thumbnail(page.collection.id_of(text))
    except ValueError:
        content = None
    return Response(status_code=404) if content is None else _picture(content)


def _picture(content: bytes) -> Response:
    kind = "image/png" if content.startswith(b"\x89PNG") else "image/jpeg"
    return Response(content, media_type=kind, headers=PICTURE_HEADERS)


def _page(request: Request) -> Page:
    return request.app.state.page
